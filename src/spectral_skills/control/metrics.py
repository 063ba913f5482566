"""How far robots are from their references, frame by frame.

World positions of the 14 tracked links on the robot, p, and on the reference, p^; link
0 is the pelvis:

    global   mean over links of |p_j - p^_j|
    local    mean over links of |(p_j - p_0) - (p^_j - p^_0)|
    root     |p_0 - p^_0|
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.rollout import Rollout
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
"""Why an episode fails: a rule, or a simulation that is no longer finite."""
FALL_M = 0.4
"""A robot has fallen whose torso is lower while the reference's pelvis is not."""
SUNK_M = 0.25
"""A pelvis so far below its reference's has sunk; for half a second, the robot fell."""
_TORSO = g1.TRACKED_LINKS.index("torso_link")
_AT_ONCE = 1 << 17
"""Frames whose links are computed at once."""


@dataclass(frozen=True)
class Errors:
    """Of every frame of every episode, (T + 1, n)."""

    local_mm: Tensor
    global_mm: Tensor
    root_mm: Tensor
    causes: Tensor
    """(T + 1, n, causes) bool: which rules are broken."""
    fallen: Tensor
    """Bool: the torso is on its way to the floor, and the reference's pelvis is not."""
    sunk: Tensor
    """Bool: the pelvis is far below the reference's."""
    low: Tensor
    """Bool: the torso is as low as in a fall, wherever the reference is."""


def errors(rollout: Rollout, rules: TerminationConfig | None = None) -> Errors:
    """Compare every state with its frame."""
    if rollout.reference is None:
        raise ValueError("this rollout followed no reference: there is no error")
    rules = rules or terminations.evaluation()
    kinematics = Kinematics(g1.TRACKED_LINKS, rollout.robot.device)
    at_once = max(1, _AT_ONCE // rollout.count)
    pairs = zip(
        rollout.robot.split(at_once), rollout.reference.split(at_once), strict=True
    )
    parts = [_compare(kinematics, robot, wanted, rules) for robot, wanted in pairs]
    columns = [field.name for field in fields(Errors)]
    return Errors(*(torch.cat([getattr(p, name) for p in parts]) for name in columns))


def _compare(
    kinematics: Kinematics, robot: Tensor, wanted: Tensor, rules: TerminationConfig
) -> Errors:
    """Errors of rows (k, n, 36)."""
    shape = robot.shape[:2]
    robot, wanted = robot.flatten(0, 1), wanted.flatten(0, 1)
    found, reference = kinematics(robot), kinematics(wanted)
    apart = found.position - reference.position
    root = apart[:, :1]
    broken = ~torch.isfinite(robot).all(dim=-1, keepdim=True)
    failed = _failures(found, reference, robot[:, 7:], rules)
    causes = torch.cat((failed & ~broken, broken), dim=-1)
    low = (found.position[:, _TORSO, 2] < FALL_M) | broken[:, 0]
    stands = reference.position[:, 0, 2] >= FALL_M
    return Errors(
        local_mm=1000 * (apart - root).norm(dim=-1).mean(-1).view(shape),
        global_mm=1000 * apart.norm(dim=-1).mean(-1).view(shape),
        root_mm=1000 * root[:, 0].norm(dim=-1).view(shape),
        causes=causes.view(*shape, -1),
        fallen=((low & stands) | broken[:, 0]).view(shape),
        sunk=(root[:, 0, 2] < -SUNK_M).view(shape),
        low=low.view(shape),
    )


def _failures(
    found: LinkPoses, reference: LinkPoses, joints: Tensor, rules: TerminationConfig
) -> Tensor:
    """What the rules of training environments say, with other thresholds."""

    def states(poses: LinkPoses) -> LinkStates:
        still = torch.zeros_like(poses.position)
        return LinkStates(poses.position, poses.quaternion, still, still)

    robot, wanted = states(found), states(reference)
    position, quaternion = relative_reference(robot, wanted)
    # Rules look at poses alone.
    nothing = torch.zeros_like(joints)
    tracked = TrackingState(
        robot=robot,
        reference=wanted,
        relative_position=position,
        relative_quaternion=quaternion,
        joints=joints,
        reference_joints=nothing,
        joint_velocities=nothing,
        joint_accelerations=nothing,
        torque=nothing,
        contact_force=nothing,
        action=nothing,
        last_action=nothing,
        low=torch.zeros_like(nothing[:, 0], dtype=torch.bool),
    )
    return terminations.failures(tracked, rules)


CURVE_FRAMES = 8 * FPS + 1
"""Root errors of the first 8 s, start included."""
SUNK_FRAMES = FPS // 2
"""A robot that has sunk for so many frames on end has fallen."""
TRAVEL_M = 2.0
"""An episode travels if its reference ends at least so far from its start."""


@dataclass(frozen=True)
class Episodes:
    """What metrics need of n episodes; those of several records can be joined."""

    names: tuple[str, ...]
    frames: np.ndarray
    """(n,) that count, without the start."""
    failed_at: np.ndarray
    """(n,) first failing frame from the start on; 0: none, the episode succeeded."""
    cause: np.ndarray
    """(n,) index into CAUSES, -1 where nothing failed."""
    local_mm: np.ndarray
    """(n,) mean over the frames before the failure; not a number if there is none."""
    global_mm: np.ndarray
    root_mm: np.ndarray
    acceleration: np.ndarray
    """(n,) root mean square of joint accelerations over the same frames, rad/s^2: how
    unsteady the robot is."""
    reference_acceleration: np.ndarray
    """(n,) the same of the reference: what the motion itself asks for."""
    action_rate: np.ndarray
    """(n,) root mean square of the change of joint targets from a step to the next over
    the same frames, rad; not a number where actions were not recorded."""
    final_mm: np.ndarray
    """(n,) root error at the last frame."""
    travel_m: np.ndarray
    """(n,) how far from its start, on the floor, the reference ends."""
    along_mm: np.ndarray
    """(n,) root error at the end in the direction of travel; negative: ends short."""
    across_mm: np.ndarray
    """(n,) the same across it, without sign."""
    fell_at: np.ndarray
    """(n,) first frame of a fall; 0: none."""
    sank_at: np.ndarray
    """(n,) first frame of a fall as the paper tells it by the reference: half a second
    with the pelvis far below; 0: none."""
    low_at: np.ndarray
    """(n,) first frame with the torso as low as in a fall, even if the reference's is;
    0: none."""
    broken: np.ndarray
    """(n,) frames at which the simulation was broken: there is no error to count."""
    upright_local_mm: np.ndarray
    """(n,) mean over the frames before the fall."""
    upright_global_mm: np.ndarray
    afloat_local_mm: np.ndarray
    """(n,) mean over the frames before the fall told by the reference."""
    afloat_global_mm: np.ndarray
    whole_local_mm: np.ndarray
    """(n,) mean over all frames but the broken ones, whatever happened."""
    whole_global_mm: np.ndarray
    curve_mm: np.ndarray
    """(n, 401) root error over the first 8 s, not a number past the end."""

    @property
    def success(self) -> np.ndarray:
        return self.failed_at == 0

    @property
    def survived(self) -> np.ndarray:
        """(n,) frames before the failure."""
        return self._before(self.failed_at)

    @property
    def afloat(self) -> np.ndarray:
        """(n,) frames before the fall told by the reference."""
        return self._before(self.sank_at)

    def _before(self, event: np.ndarray) -> np.ndarray:
        return np.where(event == 0, self.frames, event - 1)

    @property
    def progress(self) -> np.ndarray:
        """(n,) share of its frames that each episode survived."""
        return self.survived / self.frames

    def select(self, chosen: Sequence[int] | np.ndarray) -> "Episodes":
        """Some episodes, in the given order; or those of a mask."""
        index = np.asarray(chosen)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(int)
        arrays = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        return replace(
            self,
            names=tuple(self.names[i] for i in index),
            **{name: array[index] for name, array in arrays.items()},
        )

    @classmethod
    def join(cls, parts: Sequence["Episodes"]) -> "Episodes":
        """The episodes of several, one after the other."""
        arrays = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)[1:]
        }
        return cls(names=tuple(n for part in parts for n in part.names), **arrays)


def episodes(rollout: Rollout, rules: TerminationConfig | None = None) -> Episodes:
    """Judge and measure every episode of a record."""
    if rollout.reference is None or int(rollout.lengths.min()) < 2:
        raise ValueError("an episode is at least two frames of a reference")
    measured = errors(rollout, rules)
    number = torch.arange(rollout.steps + 1, device=rollout.robot.device)[:, None]
    counted = (number > 0) & (number < rollout.lengths)
    failed = measured.causes.any(dim=-1) & counted
    failed_at, fell_at = first(failed), first(measured.fallen & counted)
    broken = measured.causes[..., CAUSES.index("broken")] & counted
    sank_at = first(lasting(measured.sunk & counted, SUNK_FRAMES) | broken)
    cause = measured.causes.gather(
        0, failed_at[None, :, None].expand(1, -1, len(CAUSES))
    )[0]
    cause = torch.where(failed_at > 0, cause.int().argmax(dim=-1), -1)
    lasted = counted & ((failed_at == 0) | (number < failed_at))
    stood = counted & ((fell_at == 0) | (number < fell_at))
    afloat = counted & ((sank_at == 0) | (number < sank_at))

    everyone = torch.arange(rollout.count, device=number.device)
    last = rollout.lengths - 1
    end, begin = rollout.reference[last, everyone, :2], rollout.reference[0, :, :2]
    way = end - begin
    travel = way.norm(dim=-1)
    x, y = (way / travel.clamp_min(1e-9)[:, None]).unbind(-1)
    off_x, off_y = (rollout.robot[last, everyone, :2] - end).unbind(-1)
    curve = torch.where(number < rollout.lengths, measured.root_mm, torch.nan)
    missing = max(0, CURVE_FRAMES - len(curve))
    curve = torch.nn.functional.pad(
        curve[:CURVE_FRAMES], (0, 0, 0, missing), value=torch.nan
    )
    columns = {
        "frames": last,
        "failed_at": failed_at,
        "cause": cause,
        "local_mm": mean_over(measured.local_mm, lasted),
        "global_mm": mean_over(measured.global_mm, lasted),
        "root_mm": mean_over(measured.root_mm, lasted),
        "acceleration": rms_acceleration(rollout.robot, rollout.fps, lasted),
        "reference_acceleration": rms_acceleration(
            rollout.reference, rollout.fps, lasted
        ),
        "action_rate": mean_over(square_action_rate(rollout), lasted).sqrt(),
        "final_mm": measured.root_mm[last, everyone],
        "travel_m": travel,
        "along_mm": 1000 * (off_x * x + off_y * y),
        "across_mm": 1000 * (off_y * x - off_x * y).abs(),
        "fell_at": fell_at,
        "sank_at": sank_at,
        "low_at": first(measured.low & counted),
        "broken": broken.sum(dim=0),
        "upright_local_mm": mean_over(measured.local_mm, stood),
        "upright_global_mm": mean_over(measured.global_mm, stood),
        "afloat_local_mm": mean_over(measured.local_mm, afloat),
        "afloat_global_mm": mean_over(measured.global_mm, afloat),
        "whole_local_mm": mean_over(measured.local_mm, counted & ~broken),
        "whole_global_mm": mean_over(measured.global_mm, counted & ~broken),
        "curve_mm": curve.T,
    }
    return Episodes(
        names=rollout.names, **{name: t.cpu().numpy() for name, t in columns.items()}
    )


def first(happened: Tensor) -> Tensor:
    """(n,) first frame at which something happened (T + 1, n); 0: at none.

    Frame 0 is the start, where nothing counts.
    """
    return happened.int().argmax(dim=0)


def lasting(happened: Tensor, frames: int) -> Tensor:
    """Frames (T + 1, n) at which something that lasts so many frames begins."""
    total = torch.nn.functional.pad(happened.cumsum(dim=0), (0, 0, 1, 0))
    begins = torch.zeros_like(happened)
    if len(happened) >= frames:
        begins[: len(total) - frames] = total[frames:] - total[:-frames] == frames
    return begins


def rms_acceleration(rows: Tensor, fps: float, chosen: Tensor) -> Tensor:
    """(n,) root mean square of joint accelerations over the chosen frames of rows
    (T + 1, n, 36). That of a frame is of it and the two before it; what has no two
    before it counts as still."""
    change = rows[..., 7:].diff(n=2, dim=0) * fps**2
    square = torch.nn.functional.pad(change.square().mean(dim=-1), (0, 0, 2, 0))
    return mean_over(square, chosen).sqrt()


def square_action_rate(rollout: Rollout) -> Tensor:
    """(T + 1, n) mean square of the change of joint targets at the step that led to
    each frame; the first step, which has none before it, counts as still."""
    if rollout.actions.shape[-1] == 0:
        return torch.full_like(rollout.robot[..., 0], torch.nan)
    targets = Body(rollout.actions.device).targets(rollout.actions)
    change = targets.diff(dim=0).square().mean(dim=-1)
    return torch.nn.functional.pad(change, (0, 0, 2, 0))


def mean_over(values: Tensor, chosen: Tensor) -> Tensor:
    """(n,) mean of the chosen frames of values (T + 1, n); nan where none is."""
    total = torch.where(chosen, values, 0.0).sum(dim=0, dtype=torch.float64)
    return total / chosen.sum(dim=0)


@dataclass(frozen=True)
class Measure:
    """One number about some episodes."""

    name: str
    value: float
    unit: str
    n: int
    """Episodes behind it."""


def summary(episodes: Episodes) -> list[Measure]:
    """The paper's numbers; those that no episode has a say in are left out."""
    good = episodes.select(episodes.success)
    bad = episodes.select(~episodes.success)
    total, n = len(episodes.names), len(good.names)
    if total == 0:
        return []
    found = [Measure("success_rate", n / total, "", total)]
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
        ]
        found += steadiness(good)
        found += _slope(good) + _travel(good)
    share = float((episodes.sank_at == 0).mean())
    found.append(Measure("fall_free_relative_share", share, "", total))
    if len(bad.names):
        progress = float(bad.progress.mean())
        found.append(Measure("progress_of_failed", progress, "", len(bad.names)))
    return found


def steadiness(good: Episodes) -> list[Measure]:
    """How much joints accelerate and targets move in episodes that ended well."""
    found = []
    for name, values, unit in (
        ("joint_acceleration", good.acceleration, "rad/s^2"),
        ("reference_acceleration", good.reference_acceleration, "rad/s^2"),
        ("action_rate", good.action_rate, "rad"),
    ):
        n = len(values)
        if n and np.isfinite(values).all():
            square = np.average(np.square(values), weights=good.frames)
            found.append(Measure(name, float(np.sqrt(square)), unit, n))
    return found


def _slope(good: Episodes) -> list[Measure]:
    """Line through the mean root error of all that last 8 s."""
    long = good.curve_mm[np.isfinite(good.curve_mm).all(axis=1)]
    if not len(long):
        return []
    seconds = np.arange(CURVE_FRAMES) / FPS
    slope = float(np.polyfit(seconds, long.mean(axis=0, dtype=np.float64), 1)[0])
    return [Measure("drift_slope_mm_s", slope, "mm/s", len(long))]


def _travel(good: Episodes) -> list[Measure]:
    """Where robots end that went somewhere, along and across their way."""
    far = good.select(good.travel_m >= TRAVEL_M)
    if not len(far.names):
        return []
    share = far.along_mm / (1000 * far.travel_m)

    def measure(name: str, values: np.ndarray, unit: str, by: Callable) -> Measure:
        return Measure(name, float(by(values)), unit, len(far.names))

    return [
        measure("along_mm", far.along_mm, "mm", np.median),
        measure("along_share_of_travel", share, "", np.median),
        measure("across_mm", far.across_mm, "mm", np.median),
        measure("short_share", far.along_mm < 0, "", np.mean),
    ]
