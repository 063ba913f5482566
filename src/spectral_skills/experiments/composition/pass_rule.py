"""The paper's rule for whether a steered run passes.

It does not fall, makes at least half of the asked change, and keeps speed and heading
near the base unless they are what was asked for.
"""

from dataclasses import dataclass

import numpy as np

from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.effects import NOTICED
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.spectral.support import ATTRIBUTES, describe_run

ENOUGH = 0.5
"""Share of the goal that a passing run has reached."""
SPEED_SHARE = 0.3
HEADING_DEG = 27.0
"""How far speed and heading may be from those of the base."""
SLOW = 0.1
"""m/s; on a slower base speed may change by what one notices, as no share of it has a
meaning."""


@dataclass(frozen=True, eq=False)
class Target:
    """What a run is asked for."""

    name: str
    direction: str
    moves: dict[str, float]
    """Measure and its change; `speed` is forward, so less of a backward walk."""

    def predicted(self, directions: Directions) -> np.ndarray:
        """(k,) share of the goal that a unit of each direction is foretold to make."""
        known = {"heading": "yaw_rate", "speed": "forward_speed"}
        shares = []
        for name, goal in self.moves.items():
            column = directions.attributes.index(known.get(name, name))
            shares.append(directions.effect_mean[:, column] / goal)
        return np.mean(shares, axis=0)


TARGETS = (
    Target("right arm", "right_arm", {"right_shoulder_pitch": -1.0}),
    Target(
        "spread", "spread", {"left_shoulder_roll": 0.6, "right_shoulder_roll": -0.6}
    ),
    Target("speed", "speed", {"speed": 0.3}),
    Target("turn", "turn", {"heading": 90.0}),
)


@dataclass(frozen=True)
class Verdict:
    """Whether a run passes, and why not."""

    share: float
    """Of the goal that was reached; of two joints, by the one that moved less."""
    failure: str
    """`fall`, `too little`, `speed`, `heading`, or empty."""

    @property
    def passes(self) -> bool:
        return not self.failure


def judge(target: Target, run: Executed, plain: Executed, lab: Lab) -> Verdict:
    """A run by the paper's rule."""
    steps = lab.hold(run.run.base)
    changes = dict(lab.effect(run, plain).changes)
    forward = ATTRIBUTES.index("forward_speed")
    speed, usual = (describe_run(one.rows, steps)[forward] for one in (run, plain))
    changes["speed"] = float(speed - usual)
    share = min(changes[name] / goal for name, goal in target.moves.items())
    near = SPEED_SHARE * abs(usual) if abs(usual) >= SLOW else NOTICED["speed"]
    failure = ""
    if not run.stands:
        failure = "fall"
    elif not share >= ENOUGH:  # what is no number is not enough
        failure = "too little"
    elif "speed" not in target.moves and abs(changes["speed"]) > near:
        failure = "speed"
    elif "heading" not in target.moves and abs(changes["heading"]) > HEADING_DEG:
        failure = "heading"
    return Verdict(share, failure)
