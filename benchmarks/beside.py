"""Two robots that follow one person, and how a person walks beside its robot.

Retargeters start their clips at other places and facings, and may drop frames. One
motion is shifted in time, turned about the vertical and moved along the floor until it
lies on the other; what is left are differences. Strides are in lengths of the leg.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.motion.gait import Pace, Walk, strides
from spectral_skills.motion.human.fit import STRAIGHT_M
from spectral_skills.motion.human.recording import SIDES, Recording, point
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.plots import film
from spectral_skills.plots.human import Pair, laid, turn
from spectral_skills.robot import g1

_MOST_LAG = 100
"""Largest number of frames by which one motion may begin later than the other."""
_PLACED = ("pelvis", *g1.FEET)
_LINKS = (*_PLACED, *g1.WRISTS)
_PARTS = {
    "leg": ("hip", "knee", "ankle"),
    "waist": ("waist",),
    "arm": ("shoulder", "elbow"),
    "wrist": ("wrist",),
}


@dataclass(frozen=True)
class Alignment:
    """How a motion is laid onto another one of the same rate."""

    lag: int  # its frame i + lag belongs to frame i of the other
    frames: int  # that both have
    first: int  # frame of the other one that the first common frame is
    yaw: float  # rad
    shift: tuple[float, float]  # m, after the turn
    scale: float  # that its path would need to be as long as the other's

    def common(self, one: np.ndarray, other: np.ndarray) -> tuple:
        """Rows of the common frames, the second motion turned and moved."""
        rows = other[self.first + self.lag :][: self.frames].copy()
        heading = rotation.from_yaw(torch.tensor(self.yaw, dtype=torch.float64))
        turned = rotation.multiply(heading, torch.from_numpy(rows[:, 3:7]))
        rows[:, :2] = rows[:, :2] @ turn(self.yaw).T + self.shift
        rows[:, 3:7] = turned.numpy()
        return one[self.first :][: self.frames], rows


@dataclass(frozen=True)
class Difference:
    """Between two motions that are laid onto each other, mean and 95th percentile."""

    alignment: Alignment
    joints_deg: float  # over frames and joints
    joints_95_deg: float
    parts_deg: dict[str, float]  # mean of the joints of each part of the body
    root_mm: float
    root_95_mm: float
    root_turn_deg: float
    feet_mm: float  # ankles
    feet_95_mm: float
    feet_from_root_mm: float  # of ankles seen from the pelvis, both facing ahead
    hands_from_root_mm: float


def compare(
    one: np.ndarray, other: np.ndarray
) -> tuple[Difference, np.ndarray, np.ndarray]:
    """Difference of (T, 36) rows of one rate, and the rows of the common frames."""
    one, other = (np.asarray(rows, dtype=np.float64) for rows in (one, other))
    alignment = align(one, other)
    one, other = alignment.common(one, other)
    joints = np.degrees(np.abs(one[:, 7:] - other[:, 7:]))
    kinematics = Kinematics(_LINKS, dtype=torch.float64)
    poses = [kinematics(torch.from_numpy(rows)) for rows in (one, other)]
    apart = (poses[0].position - poses[1].position).norm(dim=-1).numpy() * 1e3
    turns = [pose.quaternion[:, 0] for pose in poses]
    seen = [
        rotation.rotate_inverse(
            rotation.heading(turn)[:, None], pose.position[:, 1:] - pose.position[:, :1]
        )
        for turn, pose in zip(turns, poses, strict=True)
    ]
    around = (seen[0] - seen[1]).norm(dim=-1).numpy() * 1e3
    parts = {
        part: float(joints[:, [any(w in n for w in words) for n in g1.JOINTS]].mean())
        for part, words in _PARTS.items()
    }
    difference = Difference(
        alignment=alignment,
        joints_deg=float(joints.mean()),
        joints_95_deg=float(np.percentile(joints, 95)),
        parts_deg=parts,
        root_mm=float(apart[:, 0].mean()),
        root_95_mm=float(np.percentile(apart[:, 0], 95)),
        root_turn_deg=np.degrees(float(rotation.angle_between(*turns).mean())),
        feet_mm=float(apart[:, 1:3].mean()),
        feet_95_mm=float(np.percentile(apart[:, 1:3], 95)),
        feet_from_root_mm=float(around[:, :2].mean()),
        hands_from_root_mm=float(around[:, 2:].mean()),
    )
    return difference, one, other


def align(one: np.ndarray, other: np.ndarray) -> Alignment:
    """Lay the second motion onto the first.

    The lag is the one at which joints differ least. Turn and shift are those that bring
    pelvis and ankles closest along the floor.
    """

    def common(lag: int) -> tuple[int, int]:
        """First of their frames, and number of frames, that both have."""
        first = max(0, -lag)
        return first, min(len(one) - first, len(other) - first - lag)

    def error(lag: int) -> float:
        first, frames = common(lag)
        later = other[first + lag :][:frames, 7:]
        return float(np.abs(one[first:][:frames, 7:] - later).mean())

    least = min(len(one), len(other)) // 2
    every = range(-_MOST_LAG, _MOST_LAG + 1)
    lags = [lag for lag in every if common(lag)[1] >= least]
    lag = min(lags, key=lambda lag: (error(lag), abs(lag)))
    first, frames = common(lag)
    kinematics = Kinematics(_PLACED, dtype=torch.float64)

    def places(rows: np.ndarray) -> np.ndarray:
        return (
            kinematics(torch.from_numpy(rows)).position[..., :2].reshape(-1, 2).numpy()
        )

    goal, found = places(one[first:][:frames]), places(other[first + lag :][:frames])
    return Alignment(lag, frames, first, *laid(goal, found))


def versus(points: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> Pair:
    """A person with two versions of its motion, the second laid onto the first.

    Points go with `ours`; `theirs` may begin elsewhere and earlier or later.
    """
    found = align(ours, theirs)
    first, second = found.common(ours, theirs)
    pair = Pair.of(points[found.first :][: found.frames], first)
    return replace(pair, robots=(*pair.robots, film.unbroken(second)))


SPEEDS = {
    "walk 0.5 to 1 legs/s": (0.5, 1.0),
    "walk 1 to 1.5 legs/s": (1.0, 1.5),
    "walk 1.5 to 2.5 legs/s": (1.5, 2.5),
    "run 2 to 4 legs/s": (2.0, 4.0),
    "run over 4 legs/s": (4.0, np.inf),
}
"""Ranges of speed over leg length; a run has flight."""
_FLIGHT_SHARE = 0.05
_USUAL_PERCENT = 10
_GRAVITY = 9.81


@dataclass(frozen=True)
class LegPace:
    """A stride in lengths of the leg, from the hip's to the ankle's joint."""

    speed: float  # legs a second
    froude: float  # speed squared over gravity and leg
    cadence: float  # steps a second
    step_length: float  # legs
    step_width: float  # legs
    stance_share: float
    double_support_share: float
    flight_share: float

    @classmethod
    def of(cls, pace: Pace, leg_m: float) -> "LegPace":
        return cls(
            speed=pace.speed / leg_m,
            froude=pace.speed**2 / (_GRAVITY * leg_m),
            cadence=pace.cadence,
            step_length=pace.step_length / leg_m,
            step_width=pace.step_width / leg_m,
            stance_share=pace.stance_share,
            double_support_share=pace.double_support_share,
            flight_share=pace.flight_share,
        )


def robot_paces(qpos: np.ndarray, fps: float) -> list[LegPace]:
    """Steady strides straight ahead of (T, 36) rows."""
    return [LegPace.of(stride, STRAIGHT_M) for stride in strides(qpos, fps)]


def human_paces(person: Recording) -> list[LegPace]:
    """Steady strides straight ahead of a person, found as the robot's are.

    The person is scaled to the robot's legs first, so that the same heights and speeds
    tell standing feet. What touches are ankle and toe, each less its own usual height.
    """
    leg_m = person.leg_m()
    larger = leg_m / STRAIGHT_M
    points = person.points / larger
    hips = points[:, [point(f"{side}_hip") for side in SIDES]]
    across = hips[:, 0] - hips[:, 1]
    yaw = np.unwrap(np.arctan2(-across[:, 0], across[:, 1]))
    parts = [[point(f"{s}_{part}") for part in ("ankle", "toe")] for s in SIDES]
    soles = points[:, parts].copy()
    soles[..., 2] -= np.percentile(soles[..., 2], _USUAL_PERCENT, axis=0)
    ankles = points[:, [ankle for ankle, _ in parts]]
    walk = Walk(hips.mean(axis=1)[:, :2], yaw, ankles, soles, person.fps)
    found = [walk.pace(*stride) for stride in walk.steady()]
    lengths = ("speed", "step_length", "step_width")
    own = [replace(p, **{k: larger * getattr(p, k) for k in lengths}) for p in found]
    return [LegPace.of(pace, leg_m) for pace in own]


def by_speed(paces: Iterable[LegPace]) -> dict[str, dict[str, float]]:
    """Number of strides and medians of every range of speed that has any."""
    paces, found = list(paces), {}
    for row, (slowest, fastest) in SPEEDS.items():
        chosen = [
            asdict(p)
            for p in paces
            if slowest <= p.speed < fastest
            and (p.flight_share > _FLIGHT_SHARE) == row.startswith("run")
        ]
        if chosen:
            medians = {k: float(np.median([p[k] for p in chosen])) for k in chosen[0]}
            found[row] = {"strides": len(chosen), **medians}
    return found
