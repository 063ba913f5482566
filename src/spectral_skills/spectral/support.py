"""How far a motion is from the corpus: the number of windows that move like it, and
the distance of its skills to the nearest skill."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model
from spectral_skills.workers import one_torch_thread

WINDOW = FPS
"""Length of a window in frames: one second."""
SPACING = WINDOW // 2
"""Frames between windows; this gives about the paper's 1,697,723 in 47 M frames."""

_SHOULDERS = (
    *("left_shoulder_pitch", "left_shoulder_roll"),
    *("right_shoulder_pitch", "right_shoulder_roll"),
)
TOLERANCES = {
    "forward_speed": 0.25,  # m/s
    "yaw_rate": math.radians(15.0),  # rad/s
    "root_height": 0.08,  # m
    **dict.fromkeys(_SHOULDERS, 0.35),  # rad
    "left_apex": 0.05,  # m
    "right_apex": 0.05,  # m
}
"""Largest difference of a window that moves like a base. These are our choice, since
the paper gives no numbers."""

ATTRIBUTES: tuple[str, ...] = tuple(TOLERANCES)
"""Means over the window of forward speed along the heading, yaw rate, root height and
shoulder angles; the range of each ankle's height within it."""
WITHOUT_APEX = ATTRIBUTES[:-2]
"""What the paper compares, except for one sequence where it adds the apex."""
CHANGE_SHARE = 0.8
"""Share of the executed change that a supporting window must show."""

_CPU_FRAMES = 16_384
"""Frames described at once on a CPU, so that the working set stays in the cache."""
_GPU_FRAMES = 1 << 20


@dataclass(frozen=True)
class Descriptors:
    """Descriptions of one-second windows of a corpus."""

    values: np.ndarray
    """(n, 9) float32, columns as in ATTRIBUTES."""
    clips: np.ndarray
    """(n,) index of each window's clip in the corpus."""
    starts: np.ndarray
    """(n,) first frame, counted from the start of the clip."""


def describe(corpus: Corpus, device: torch.device | str = "cpu") -> Descriptors:
    """Describe the windows that begin every SPACING frames of every clip."""
    frames = _CPU_FRAMES if torch.device(device).type == "cpu" else _GPU_FRAMES

    def part(shard: Corpus) -> np.ndarray:
        clips, starts = _windows(shard.lengths)
        if not len(clips):
            return np.empty((0, len(ATTRIBUTES)), np.float32)
        rows = np.concatenate([shard.qpos(i) for i in range(len(shard))])
        first = np.cumsum(shard.lengths) - shard.lengths
        at = torch.from_numpy(first[clips] + starts).to(device)
        return _describe(torch.from_numpy(rows).to(device), at).cpu().numpy()

    # Torch's threads would wait for each other after every small operation; on a busy
    # machine that takes several times as long as one thread.
    with one_torch_thread():
        parts = [part(shard) for shard in corpus.shards(frames)]
    clips, starts = _windows(corpus.lengths)
    values = np.concatenate((np.empty((0, len(ATTRIBUTES)), np.float32), *parts))
    return Descriptors(values, clips, starts)


def _windows(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Clip and first frame of every window in clips of these lengths."""
    counts = np.maximum(lengths - WINDOW + SPACING, 0) // SPACING
    clips = np.repeat(np.arange(len(lengths)), counts)
    first = np.cumsum(counts) - counts
    return clips, (np.arange(len(clips)) - first[clips]) * SPACING


def describe_run(qpos: np.ndarray, steps: slice = slice(None)) -> np.ndarray:
    """(9,) mean over all windows within some steps of a run's (T, 36) qpos."""
    rows = torch.as_tensor(np.asarray(qpos)[steps], dtype=torch.float32)
    if rows.shape[1:] != (g1.QPOS_SIZE,) or len(rows) < WINDOW:
        raise ValueError(
            f"the steps to describe have shape {tuple(rows.shape)}; one window needs "
            f"({WINDOW}, {g1.QPOS_SIZE})"
        )
    return _describe(rows, torch.arange(len(rows) - WINDOW + 1)).mean(dim=0).numpy()


def _describe(rows: Tensor, starts: Tensor) -> Tensor:
    """(n, 9) descriptors of the windows that begin at some of the rows (T, 36)."""
    columns = rows.T.contiguous()
    yaw, (x, y) = rotation.yaw(columns[3:7].T), columns[:2].diff()
    turn = yaw.diff()
    turn = turn - 2 * np.pi * (turn / (2 * np.pi)).round()
    # The heading halfway, so that the speed along a circle is the full speed.
    ahead = yaw[:-1] + 0.5 * turn
    forward = ahead.cos() * x + ahead.sin() * y
    # A window has one change less than it has frames.
    rates = torch.stack((forward, turn)).unfold(-1, WINDOW - 1, 1)[:, starts]
    joints = [7 + g1.joint_index(name) for name in _SHOULDERS]
    levels = columns[[2, *joints]].unfold(-1, WINDOW, 1)[:, starts]
    apex = _ankle_heights(columns).unfold(-1, WINDOW, 1)[:, starts]
    return torch.cat(
        (FPS * rates.mean(-1), levels.mean(-1), apex.amax(-1) - apex.amin(-1))
    ).T


class _Link(NamedTuple):
    """A link of both legs, which differ only in their offsets (3, 2), in metres, and in
    their joints, columns of a row."""

    offset: np.ndarray
    fixed_axis: int
    fixed_angle: float
    axis: int
    joints: list[int]


@cache
def _leg() -> list[_Link]:
    """Links from hip to ankle, each rotated about axes of its frame."""
    model, links = build_model(meshes=False, floor=False), []
    ankle = g1.joint_index("left_ankle_roll")
    for left in range(ankle + 1):
        joints = [left, int(g1.MIRROR_JOINTS[left])]
        # Bodies begin with the world and the pelvis, joints with the root's.
        bodies, axes = np.array(joints) + 2, model.jnt_axis[np.array(joints) + 1]
        (w, *vector), other = model.body_quat[bodies]
        axis, fixed = int(axes[0].argmax()), int(np.abs(vector).argmax())
        assert np.array_equal(axes, np.eye(3)[[axis, axis]])
        assert np.array_equal(other, (w, *vector)) and np.count_nonzero(vector) <= 1
        angle = 2.0 * float(np.arctan2(vector[fixed], w))
        columns = [7 + joint for joint in joints]
        links.append(_Link(model.body_pos[bodies].T, fixed, angle, axis, columns))
    return links


def _ankle_heights(columns: Tensor) -> Tensor:
    """(2, T) heights of the ankle roll links of rows given as columns (36, T).

    Forward kinematics of one coordinate, which only needs the direction of up in the
    frame of each link. Three times as fast as `Kinematics`.
    """
    w, x, y, z = columns[3:7]
    zero = torch.zeros_like(w)
    up = rotation.rotate_planes((w, -x, -y, -z), (zero, zero, zero + 1))
    up, height = [u.expand(2, -1) for u in up], columns[2]
    *carriers, ankle = _leg()
    for link in carriers:
        height = height + _rise(up, link)
        if link.fixed_angle:
            cosine, sine = np.cos(link.fixed_angle), np.sin(link.fixed_angle)
            _turn(up, link.fixed_axis, cosine, sine)
        # Double for the reason given in `Kinematics`.
        q = columns[link.joints].double()
        _turn(up, link.axis, q.cos().to(columns), q.sin().to(columns))
    return height + _rise(up, ankle)


def _rise(up: list[Tensor], link: _Link) -> Tensor:
    x, y, z = torch.as_tensor(link.offset[:, :, None]).to(up[0])
    return up[0] * x + up[1] * y + up[2] * z


def _turn(up: list[Tensor], axis: int, cosine, sine) -> None:
    """Express a direction in a frame rotated about one of its axes, in place."""
    j, k = (axis + 1) % 3, (axis + 2) % 3
    up[j], up[k] = cosine * up[j] + sine * up[k], cosine * up[k] - sine * up[j]


def support(
    corpus: Descriptors,
    base: np.ndarray,
    run: np.ndarray,
    steered: Sequence[str],
    attributes: Sequence[str] = WITHOUT_APEX,
) -> int:
    """Windows that move like the base and have changed like the executed run.

    Attributes that are not steered must be within tolerance of the base; each steered
    one must differ from it by at least 80 % of the run's change.
    """
    unknown = [name for name in (*steered, *attributes) if name not in ATTRIBUTES]
    if unknown:
        raise ValueError(
            f"no attribute {unknown[0]!r}; there are {', '.join(ATTRIBUTES)}"
        )
    supporting = np.ones(len(corpus.values), bool)
    for i, name in enumerate(ATTRIBUTES):
        change, executed = corpus.values[:, i] - base[i], run[i] - base[i]
        if name in steered:
            supporting &= change * np.sign(executed) >= CHANGE_SHARE * abs(executed)
        elif name in attributes:
            supporting &= np.abs(change) <= TOLERANCES[name]
    return int(supporting.sum())


_QUERIES, _TILE = 1024, 16_384
"""Numbers of queries and of skills of the bank in one matrix product."""


def nearest(
    bank: Tensor,
    queries: Tensor,
    bank_clips: Tensor | None = None,
    query_clips: Tensor | None = None,
) -> Tensor:
    """(q,) float64 distance of each query (q, d) to the nearest of the bank (n, d).

    With clips (n,) and (q,), to the nearest skill of another clip. Products in float32
    find the nearest skill up to rounding; its distance is exact.
    """
    for name, skills in (("bank", bank), ("queries", queries)):
        if not len(skills) or skills.shape[1:] != bank.shape[1:]:
            raise ValueError(
                f"{name} of shape {tuple(skills.shape)}, bank {tuple(bank.shape)}: "
                "both must hold skills of one size"
            )
        if not skills.isfinite().all():
            raise ValueError(f"{name}: not all skills are finite")
    # Centred, because smaller norms have smaller rounding errors.
    centre = bank.double().mean(dim=0)
    b = (bank.double() - centre).float()
    norms = b.square().sum(dim=1)
    found = []
    for i in range(0, len(queries), _QUERIES):
        query = queries[i : i + _QUERIES].double()
        q = (query - centre).float()
        best = torch.full((len(q),), torch.inf, device=q.device)
        where = torch.zeros(len(q), dtype=torch.long, device=q.device)
        for start in range(0, len(b), _TILE):
            tile = slice(start, start + _TILE)
            square = torch.addmm(norms[tile], q, b[tile].T, alpha=-2)
            if bank_clips is not None and query_clips is not None:
                own = query_clips[i : i + _QUERIES, None] == bank_clips[tile]
                square = square.masked_fill(own, torch.inf)
            low, index = square.min(dim=1)
            where = torch.where(low < best, index + start, where)
            best = torch.minimum(low, best)
        if best.isinf().any():
            raise ValueError("all skills of the bank are of one clip; add another clip")
        found.append((query - bank[where].double()).norm(dim=1))
    return torch.cat(found)


@dataclass(frozen=True)
class Spread:
    """Distances from corpus skills to the nearest skill of another clip."""

    median: float
    p90: float
    p99: float
    n: int
    """Number of skills measured."""


def leave_one_clip_out(
    bank: Tensor, bank_clips: Tensor, count: int = 20_000, seed: int = 0
) -> Spread:
    """Distances between clips, of `count` random skills to all others."""
    random = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(bank), generator=random)[:count].to(bank.device)
    distances = nearest(bank, bank[chosen], bank_clips, bank_clips[chosen])
    quantiles = np.quantile(distances.cpu().numpy(), (0.5, 0.9, 0.99))
    return Spread(*quantiles.tolist(), n=len(chosen))
