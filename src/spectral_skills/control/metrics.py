"""How well robots tracked, from records alone.

World positions of the 14 tracked links on the robot, p, and on the reference, p^; link
0 is the pelvis:

    global   mean over links of |p_j - p^_j|
    local    mean over links of |(p_j - p_0) - (p^_j - p^_0)|
    root     |p_0 - p^_0|

MPJPE-L, MPJPE-G and root drift are means over the frames of successful episodes, in mm,
without the start, at which a robot is placed. An episode fails at the first frame that
breaks a rule of `tracking/terminations.evaluation` or at which the simulation broke.

These rules do not ask where a robot is: one that stands while its reference walks away
succeeds. An episode is *followed* if it succeeds, at least 80 % of the reference's path
is gone (`control/following.py`) and its MPJPE-G is under 0.5 m.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.following import (
    NEAR_M,
    PATH_M,
    joint_correlation,
    path_gone,
)
from spectral_skills.control.rollout import FALL_M, Rollout
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics, LinkPoses, LinkStates
from spectral_skills.robot import g1
from spectral_skills.tracking import terminations
from spectral_skills.tracking.observations import (
    Body,
    TrackingState,
    relative_reference,
)
from spectral_skills.tracking.terminations import TerminationConfig

CAUSES: tuple[str, ...] = (*terminations.CAUSES, "broken")
"""Reasons why an episode fails: a rule, or a simulation that is no longer finite."""
SUNK_M, SUNK_FRAMES = 0.25, FPS // 2
"""A robot whose pelvis is so far below the reference's for so many frames has fallen,
by the paper's rule."""
CURVE_FRAMES = 8 * FPS + 1
"""Number of frames of the root error curve: 8 s and the start."""
GONE_SHARE = 0.8
"""Least share of the path gone of an episode that is followed."""
TRAVEL_M = 2.0
"""Least distance from start to end of a reference that travels."""
_TORSO = g1.TRACKED_LINKS.index("torso_link")
_AT_ONCE = 1 << 17
"""Number of frames whose links are computed at once."""


class FrameErrors(NamedTuple):
    """Errors of every frame of every episode, (T + 1, n)."""

    local_mm: Tensor
    global_mm: Tensor
    root_mm: Tensor
    causes: Tensor
    """(T + 1, n, causes) whether each rule is broken."""
    fallen: Tensor
    """Whether the torso is below `FALL_M` while the reference's pelvis is not."""
    sunk: Tensor
    """Whether the pelvis is far below the reference's."""
    low: Tensor
    """Whether the torso is below `FALL_M`, wherever the reference is."""


def errors(rollout: Rollout, rules: TerminationConfig | None = None) -> FrameErrors:
    if rollout.reference is None:
        raise ValueError("this rollout followed no reference: there is no error")
    rollout, rules = rollout.tensors(), rules or terminations.evaluation()
    kinematics = Kinematics(g1.TRACKED_LINKS, rollout.robot.device)
    at_once = max(1, _AT_ONCE // rollout.count)
    reference: Tensor = rollout.reference
    pairs = zip(rollout.robot.split(at_once), reference.split(at_once), strict=True)
    parts = [_compare(kinematics, robot, wanted, rules) for robot, wanted in pairs]
    return FrameErrors(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _compare(
    kinematics: Kinematics, robot: Tensor, wanted: Tensor, rules: TerminationConfig
) -> FrameErrors:
    """Errors of rows (k, n, 36)."""
    shape = robot.shape[:2]
    robot, wanted = robot.flatten(0, 1), wanted.flatten(0, 1)
    found, reference = kinematics(robot), kinematics(wanted)
    difference = found.position - reference.position
    root = difference[:, :1]
    broken = ~torch.isfinite(robot).all(dim=-1, keepdim=True)
    failed = _failures(found, reference, robot[:, 7:], rules)
    low = (found.position[:, _TORSO, 2] < FALL_M) | broken[:, 0]
    stands = reference.position[:, 0, 2] >= FALL_M
    return FrameErrors(
        local_mm=1000 * (difference - root).norm(dim=-1).mean(-1).view(shape),
        global_mm=1000 * difference.norm(dim=-1).mean(-1).view(shape),
        root_mm=1000 * root[:, 0].norm(dim=-1).view(shape),
        causes=torch.cat((failed & ~broken, broken), dim=-1).view(*shape, -1),
        fallen=((low & stands) | broken[:, 0]).view(shape),
        sunk=(root[:, 0, 2] < -SUNK_M).view(shape),
        low=low.view(shape),
    )


def _failures(
    found: LinkPoses, reference: LinkPoses, joints: Tensor, rules: TerminationConfig
) -> Tensor:
    """The rules of training environments, with other thresholds."""

    def states(poses: LinkPoses) -> LinkStates:
        still = torch.zeros_like(poses.position)
        return LinkStates(poses.position, poses.quaternion, still, still)

    robot, wanted = states(found), states(reference)
    position, quaternion = relative_reference(robot, wanted)
    # The rules read poses alone, and no reference counts as low.
    nothing, low = torch.zeros_like(joints), torch.zeros(len(joints), dtype=torch.bool)
    poses = robot, wanted, position, quaternion, joints
    state = TrackingState._make((*poses, *(nothing,) * 7, low.to(joints.device)))
    return terminations.failures(state, rules)


@dataclass(frozen=True)
class Episodes:
    """Measures of n episodes, (n,) each; those of several records can be joined."""

    names: tuple[str, ...]
    frames: np.ndarray
    """Number of frames that count, without the start."""
    failed_at: np.ndarray
    """First failing frame from the start on; 0: none, the episode succeeded."""
    cause: np.ndarray
    """Index into CAUSES, -1 where nothing failed."""
    local_mm: np.ndarray
    """Mean over the frames before the failure; not a number if there is none."""
    global_mm: np.ndarray
    root_mm: np.ndarray
    acceleration: np.ndarray
    """Root mean square of joint accelerations over the same frames, rad/s^2."""
    reference_acceleration: np.ndarray
    """The same of the reference: what the motion itself asks for."""
    jerk: np.ndarray
    """Root mean square of the change of joint accelerations, rad/s^3."""
    reference_jerk: np.ndarray
    action_rate: np.ndarray
    """Root mean square of the change of joint targets between steps, over the same
    frames, rad; not a number where actions were not recorded."""
    path_m: np.ndarray
    """Length of the reference's path; less than `PATH_M`: it goes nowhere."""
    path_share: np.ndarray
    """Share of that path gone before the failure."""
    joint_correlation: np.ndarray
    """Mean correlation over time of the joints that move in the reference, before the
    failure; not a number where none does."""
    final_mm: np.ndarray
    """Root error at the last frame."""
    travel_m: np.ndarray
    """Horizontal distance from the reference's start to its end."""
    along_mm: np.ndarray
    """Root error at the end along the travel; negative: the robot ends short."""
    across_mm: np.ndarray
    """Root error at the end across the travel, without sign."""
    fell_at: np.ndarray
    """First frame of a fall; 0: none."""
    sank_at: np.ndarray
    """First frame of a fall by the paper's rule, relative to the reference; 0: none."""
    low_at: np.ndarray
    """First frame with the torso below `FALL_M`; 0: none."""
    broken: np.ndarray
    """Number of frames at which the simulation was broken and has no error."""
    upright_local_mm: np.ndarray
    """Mean over the frames before the fall."""
    upright_global_mm: np.ndarray
    afloat_local_mm: np.ndarray
    """Mean over the frames before the fall by the paper's rule."""
    afloat_global_mm: np.ndarray
    whole_local_mm: np.ndarray
    """Mean over all frames that are not broken, whatever happened."""
    whole_global_mm: np.ndarray
    curve_mm: np.ndarray
    """(n, 401) root error over the first 8 s, not a number past the end."""

    @property
    def success(self) -> np.ndarray:
        return self.failed_at == 0

    @property
    def followed(self) -> np.ndarray:
        """(n,) whether the robot did its motion and went where it goes."""
        near = (self.path_share >= GONE_SHARE) & (self.global_mm < 1000 * NEAR_M)
        return self.success & near

    @property
    def goes(self) -> np.ndarray:
        """(n,) whether the reference goes anywhere."""
        return self.path_m >= PATH_M

    @property
    def survived(self) -> np.ndarray:
        """(n,) number of frames before the failure."""
        return np.where(self.failed_at == 0, self.frames, self.failed_at - 1)

    @property
    def afloat(self) -> np.ndarray:
        """(n,) number of frames before the fall by the paper's rule."""
        return np.where(self.sank_at == 0, self.frames, self.sank_at - 1)

    @property
    def progress(self) -> np.ndarray:
        """(n,) share of its frames that each episode survived."""
        return self.survived / self.frames

    def select(self, chosen: Sequence[int] | np.ndarray) -> "Episodes":
        """Some episodes, in the given order or by a mask."""
        index = np.asarray(chosen)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(int)
        arrays = {f.name: getattr(self, f.name)[index] for f in fields(self)[1:]}
        return Episodes(tuple(self.names[i] for i in index), **arrays)

    @classmethod
    def join(cls, parts: Sequence["Episodes"]) -> "Episodes":
        arrays = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)[1:]
        }
        return cls(tuple(name for part in parts for name in part.names), **arrays)


def episodes(rollout: Rollout, rules: TerminationConfig | None = None) -> Episodes:
    """Judge and measure every episode of a record."""
    if rollout.reference is None or int(rollout.lengths.min()) < 2:
        raise ValueError("an episode is at least two frames of a reference")
    rollout = rollout.tensors()
    measured = errors(rollout, rules)
    robot, reference, lengths = rollout.robot, rollout.reference, rollout.lengths
    number = torch.arange(rollout.steps + 1, device=robot.device)[:, None]
    counted = (number > 0) & (number < lengths)
    failed = measured.causes.any(dim=-1) & counted
    failed_at, fell_at = first(failed), first(measured.fallen & counted)
    broken = measured.causes[..., CAUSES.index("broken")] & counted
    sank_at = first(lasting(measured.sunk & counted, SUNK_FRAMES) | broken)
    cause = measured.causes.gather(
        0, failed_at[None, :, None].expand(1, -1, len(CAUSES))
    )[0]
    cause = torch.where(failed_at > 0, cause.int().argmax(dim=-1), -1)

    def before(event: Tensor) -> Tensor:
        return counted & ((event == 0) | (number < event))

    lasted = before(failed_at)
    means = {}
    for prefix, chosen in (
        ("", lasted),
        ("upright_", before(fell_at)),
        ("afloat_", before(sank_at)),
        ("whole_", counted & ~broken),
    ):
        means[f"{prefix}local_mm"] = mean_over(measured.local_mm, chosen)
        means[f"{prefix}global_mm"] = mean_over(measured.global_mm, chosen)
    everyone, last = torch.arange(rollout.count, device=robot.device), lengths - 1
    survived = torch.where(failed_at > 0, failed_at - 1, last)
    path_m, path_share = path_gone(robot, reference, last, survived, rollout.fps)
    end, begin = reference[last, everyone, :2], reference[0, :, :2]
    way = end - begin
    travel = way.norm(dim=-1)
    x, y = (way / travel.clamp_min(1e-9)[:, None]).unbind(-1)
    off_x, off_y = (robot[last, everyone, :2] - end).unbind(-1)
    curve = torch.where(number < lengths, measured.root_mm, torch.nan)[:CURVE_FRAMES]
    curve = torch.nn.functional.pad(
        curve, (0, 0, 0, CURVE_FRAMES - len(curve)), value=torch.nan
    )
    columns = means | {
        "frames": last,
        "failed_at": failed_at,
        "cause": cause,
        "root_mm": mean_over(measured.root_mm, lasted),
        "acceleration": rms_change(robot, rollout.fps, lasted, 2),
        "reference_acceleration": rms_change(reference, rollout.fps, lasted, 2),
        "jerk": rms_change(robot, rollout.fps, lasted, 3),
        "reference_jerk": rms_change(reference, rollout.fps, lasted, 3),
        "action_rate": mean_over(square_action_rate(rollout), lasted).sqrt(),
        "path_m": path_m,
        "path_share": path_share,
        "joint_correlation": joint_correlation(robot, reference, lasted),
        "final_mm": measured.root_mm[last, everyone],
        "travel_m": travel,
        "along_mm": 1000 * (off_x * x + off_y * y),
        "across_mm": 1000 * (off_y * x - off_x * y).abs(),
        "fell_at": fell_at,
        "sank_at": sank_at,
        "low_at": first(measured.low & counted),
        "broken": broken.sum(dim=0),
        "curve_mm": curve.T,
    }
    return Episodes(
        names=rollout.names, **{name: t.cpu().numpy() for name, t in columns.items()}
    )


def first(happened: Tensor) -> Tensor:
    """(n,) first frame at which something happened (T + 1, n); 0, the start, where
    nothing counts: at none."""
    return happened.int().argmax(dim=0)


def lasting(happened: Tensor, frames: int) -> Tensor:
    """Frames (T + 1, n) at which something that lasts so many frames begins."""
    total = torch.nn.functional.pad(happened.cumsum(dim=0), (0, 0, 1, 0))
    begins = torch.zeros_like(happened)
    if len(happened) >= frames:
        begins[: len(total) - frames] = total[frames:] - total[:-frames] == frames
    return begins


def rms_change(rows: Tensor, fps: float, chosen: Tensor, order: int) -> Tensor:
    """(n,) root mean square of a derivative of joint angles, of order 2 (accelerations)
    or 3 (jerk), over the chosen frames of rows (T + 1, n, 36). That of a frame is of it
    and as many before it; frames without so many before them count as still."""
    change = rows[..., 7:].diff(n=order, dim=0) * fps**order
    still = (0, 0, len(rows) - len(change), 0)
    square = torch.nn.functional.pad(change.square().mean(dim=-1), still)
    return mean_over(square, chosen).sqrt()


def square_action_rate(rollout: Rollout) -> Tensor:
    """(T + 1, n) mean square of the change of joint targets at the step that led to
    each frame; the first step, which has none before it, counts as still."""
    if rollout.actions is None:
        return torch.full_like(rollout.robot[..., 0], torch.nan)
    body = Body(rollout.actions.device, rollout.reach)
    change = body.targets(rollout.actions).diff(dim=0).square().mean(dim=-1)
    return torch.nn.functional.pad(change, (0, 0, 2, 0))


def mean_over(values: Tensor, chosen: Tensor) -> Tensor:
    """(n,) mean of the chosen frames of values (T + 1, n); nan where none is."""
    total = torch.where(chosen, values, 0.0).sum(dim=0, dtype=torch.float64)
    return total / chosen.sum(dim=0)


class Measure(NamedTuple):
    """One number about n episodes."""

    name: str
    value: float
    unit: str
    n: int


def summary(episodes: Episodes) -> list[Measure]:
    """The paper's numbers, and how many episodes are followed beside its success; those
    without any episode behind them are omitted."""
    good, bad = episodes.select(episodes.success), episodes.select(~episodes.success)
    total, n = len(episodes.names), len(good.names)
    if total == 0:
        return []
    found = [
        Measure("success_rate", n / total, "", total),
        Measure("followed", float(episodes.followed.mean()), "", total),
    ]
    if len(gone := episodes.path_share[episodes.goes]):
        found.append(Measure("path_share", float(gone.mean()), "", len(gone)))
    if n:
        local, world, drift = (
            float(np.average(values, weights=good.frames))
            for values in (good.local_mm, good.global_mm, good.root_mm)
        )
        found += [
            Measure("mpjpe_local_mm", local, "mm", n),
            Measure("mpjpe_global_mm", world, "mm", n),
            Measure("root_drift_mm", drift, "mm", n),
            Measure("root_and_local_mm", float(np.hypot(drift, local)), "mm", n),
            Measure("final_error_mm", float(np.median(good.final_mm)), "mm", n),
            *(_alike(good) + steadiness(good) + _slope(good) + _travel(good)),
        ]
    share = float((episodes.sank_at == 0).mean())
    found.append(Measure("fall_free_relative_share", share, "", total))
    if len(bad.names):
        progress = float(bad.progress.mean())
        found.append(Measure("progress_of_failed", progress, "", len(bad.names)))
    return found


def _alike(good: Episodes) -> list[Measure]:
    """Mean correlation of joints over successful episodes in which any moves."""
    alike = good.joint_correlation[np.isfinite(good.joint_correlation)]
    if not len(alike):
        return []
    return [Measure("joint_correlation", float(alike.mean()), "", len(alike))]


def steadiness(good: Episodes) -> list[Measure]:
    """How much joints accelerate and jerk and targets move in successful episodes."""
    found = []
    for name, values, unit in (
        ("joint_acceleration", good.acceleration, "rad/s^2"),
        ("reference_acceleration", good.reference_acceleration, "rad/s^2"),
        ("joint_jerk", good.jerk, "rad/s^3"),
        ("reference_jerk", good.reference_jerk, "rad/s^3"),
        ("action_rate", good.action_rate, "rad"),
    ):
        if len(values) and np.isfinite(values).all():
            square = np.average(np.square(values), weights=good.frames)
            found.append(Measure(name, float(np.sqrt(square)), unit, len(values)))
    return found


def _slope(good: Episodes) -> list[Measure]:
    """Slope of the mean root error of all episodes that last 8 s."""
    long = good.curve_mm[np.isfinite(good.curve_mm).all(axis=1)]
    if not len(long):
        return []
    seconds = np.arange(CURVE_FRAMES) / FPS
    slope = float(np.polyfit(seconds, long.mean(axis=0, dtype=np.float64), 1)[0])
    return [Measure("drift_slope_mm_s", slope, "mm/s", len(long))]


def _travel(good: Episodes) -> list[Measure]:
    """Where robots that travelled end, along and across their way."""
    far = good.select(good.travel_m >= TRAVEL_M)
    if not (n := len(far.names)):
        return []
    share = far.along_mm / (1000 * far.travel_m)
    return [
        Measure("along_mm", float(np.median(far.along_mm)), "mm", n),
        Measure("along_share_of_travel", float(np.median(share)), "", n),
        Measure("across_mm", float(np.median(far.across_mm)), "mm", n),
        Measure("short_share", float(np.mean(far.along_mm < 0)), "", n),
    ]
