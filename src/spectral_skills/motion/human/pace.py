"""How a person walks beside the robot that follows: strides in lengths of the leg."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np

from spectral_skills.motion.gait import Pace, Walk, strides
from spectral_skills.motion.human.fit import STRAIGHT_M
from spectral_skills.motion.human.recording import SIDES, Recording, point

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
