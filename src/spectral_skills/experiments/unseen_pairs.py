"""The pairs of factors that the embedded corpus leaves out, and when one is there.

One factor of a pair is the base, the other is added by steering. Bases, amplitudes and
least changes were written before the first run and kept. Five factors have a second
choice of knobs, which was added after that run, where the first had moved next to
nothing: results tell the two apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.control.batch import Run
from spectral_skills.control.schedules import standard
from spectral_skills.experiments import effects
from spectral_skills.experiments.composition.lab import Lab
from spectral_skills.experiments.effects import UNITS
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.synthetic import acts, bases
from spectral_skills.motion.synthetic.bases import STEPS, Base
from spectral_skills.motion.synthetic.generate import Piece, perform
from spectral_skills.motion.synthetic.sketch import Sketch
from spectral_skills.robot import g1

_TABLE = {
    "jog": "turn arc high crouch raise spread reach reach_up wave punch carry",
    "backward": "high raise spread reach_up wave",
    "sideways": "high crouch spread reach_up wave punch",
    "turn": "crouch raise spread reach_up wave",
    "arc": "raise spread reach_up wave punch",
    "high": "turn arc crouch raise spread reach reach_up wave punch",
    "crouch": "raise spread reach_up wave punch",
    "squat": "raise spread reach_up wave punch",
    "bow": "raise spread reach reach_up wave punch carry",
}
PAIRS = tuple((base, added) for base in _TABLE for added in _TABLE[base].split())
"""Base and added factor of every pair that the corpus leaves out."""


@dataclass(frozen=True)
class Added:
    """How a factor is added, and when it is there."""

    knobs: tuple[Mapping[str, float], ...]
    """Choices of directions, each with what the amplitude is multiplied by; hands are
    moved by the hand maps."""
    least: Mapping[str, float]
    """Least change of each measure, with its sign."""
    beats: bool = False
    """Whether the amplitude goes up and down."""


_RIGHT, _BOTH = {"right_arm_1": 1}, {"left_arm_1": 1, "right_arm_1": 1}
_HAND, _HANDS = {"right_hand_x": 1}, {"left_hand_x": 1, "right_hand_x": 1}
_KNEES = {"left_leg_1": 1, "right_leg_1": 1}
_WAVED = {"right_shoulder_pitch": -0.2, "right_shoulder_beat": 0.15}
_SPREAD = {"left_shoulder_roll": 0.2, "right_shoulder_roll": -0.2}
_CARRIED = {"left_hand_x": 0.08, "right_hand_x": 0.08}
_STEPPED = {"left_apex": 0.03, "right_apex": 0.03}
ADDED: dict[str, Added] = {
    "raise": Added((_RIGHT,), {"right_shoulder_pitch": -0.4}),
    "spread": Added(({"spread": 1},), _SPREAD),
    "reach": Added((_HAND, _RIGHT), {"right_hand_x": 0.1}),
    "reach_up": Added(({"right_hand_z": 1}, _RIGHT), {"right_hand_z": 0.15}),
    "carry": Added((_HANDS, _BOTH), _CARRIED),
    "wave": Added((_RIGHT,), _WAVED, beats=True),
    "punch": Added((_HAND, _RIGHT), {"right_hand_beat": 0.05}, beats=True),
    "turn": Added(({"turn": 1},), {"heading": 45.0}),
    "arc": Added(({"turn": -1},), {"heading": -45.0}),
    "high": Added(({"foot_clearance": 1}, _KNEES), _STEPPED),
    # The direction's own goal is a lower root.
    "crouch": Added(({"stance_height": 1},), {"root_height": -0.03}),
}
"""A turn goes to the left, an arc to the right."""
KEPT = {
    **dict.fromkeys(("jog", "backward"), "forward_speed"),
    "sideways": "sideways_speed",
    **dict.fromkeys(("turn", "arc"), "heading"),
    "high": "apex",
    "crouch": "lowness",
    "squat": "root_range",
    "bow": "lean_range",
}
"""What a base is known by; of this it must keep a share."""
KEPT_SHARE = 0.6
SPEED_SHARE, SPEED_SLACK = 0.3, 0.15
"""The base's speed, m/s, may change by this share of it or by this much."""
AMPLITUDES = (2.0, 3.0)
LARGER = (4.0,)
"""Added later: told beside, and no part of what succeeds."""
BEAT_HZ = 1.7
"""Within what the corpus waves at, and away from the stride of every base."""
MORE_UNITS = UNITS | {
    **{f"{side}_hand_{axis}": "m" for side in ("left", "right") for axis in "xyz"},
    "right_hand_beat": "m",
    "right_shoulder_beat": "rad",
}
"""Of all measures that factors are added by."""
_AXES = "xyz"


@dataclass(frozen=True)
class Judged:
    """A steered run by the rules."""

    share: float
    """Of the least change, that of the weakest measure; 0 after a fall."""
    goes_on: bool
    """Whether the base does."""
    stands: bool = True

    @property
    def success(self) -> bool:
        return self.stands and self.goes_on and self.share >= 1.0


def judge(
    pair: tuple[str, str], run: Mapping[str, float], plain: Mapping[str, float]
) -> Judged:
    """Compare the measures of a run with those of its base."""
    base, added = pair
    least = ADDED[added].least
    share = min((run[name] - plain[name]) / least[name] for name in least)
    slack = max(SPEED_SLACK, SPEED_SHARE * plain["speed"])
    same_pace = abs(run["speed"] - plain["speed"]) <= slack
    own = plain[KEPT[base]]
    kept = run[KEPT[base]] * np.sign(own) >= KEPT_SHARE * abs(own)
    return Judged(share, bool(same_pace and kept))


@cache
def _links() -> Kinematics:
    return Kinematics((*g1.WRISTS, "torso_link"))


def measure(rows: np.ndarray) -> dict[str, float]:
    """What `effects.measure` tells of rows (T, 36), and of hands, trunk and travel."""
    found = effects.measure(rows)
    whole = torch.as_tensor(np.asarray(rows), dtype=torch.float32)
    heading, links = rotation.heading(whole[:, 3:7]), _links()(whole)
    hands = links.position[:, :2] - whole[:, None, :3]
    hands = rotation.rotate_inverse(heading[:, None], hands).numpy()
    for side, hand in zip(("left", "right"), hands.mean(axis=0), strict=True):
        found |= {f"{side}_hand_{axis}": float(hand[i]) for i, axis in enumerate(_AXES)}
    up = rotation.rotate(links.quaternion[:, 2], torch.tensor((0.0, 0.0, 1.0)))
    # Of who lies flat, it may be a little more than 1 in floats.
    lean = rotation.rotate_inverse(heading, up)[:, 0].clamp(-1, 1).asin()
    travel = rotation.rotate_inverse(heading[:-1], whole[:, :3].diff(dim=0) * FPS)
    shoulder = whole[:, 7 + g1.joint_index("right_shoulder_pitch")].numpy()
    return found | {
        "right_hand_beat": _beat(hands[:, 1, 0]),
        "right_shoulder_beat": _beat(shoulder),
        "lean_range": float(lean.max() - lean.min()),
        "forward_speed": float(travel[:, 0].mean()),
        "sideways_speed": float(travel[:, 1].mean()),
        "root_range": float(np.ptp(rows[:, 2])),
        "lowness": g1.DEFAULT_HEIGHT - found["root_height"],
        "apex": min(found["left_apex"], found["right_apex"]),
    }


def _beat(signal: np.ndarray) -> float:
    """How far a signal goes to each side at the frequency of the beat."""
    wave = np.exp(-2j * np.pi * BEAT_HZ * np.arange(len(signal)) / FPS)
    window = np.hanning(len(signal))
    return float(2 * abs((window * wave) @ (signal - signal.mean())) / window.sum())


def base(lab: Lab, factor: str, steps: int = STEPS) -> Base:
    """A base that is one factor, under way from the first frame on."""
    if factor in bases.NAMES:
        return lab.base(factor, steps)
    sketch, seconds, first_s = Sketch(np.random.default_rng(0)), steps / FPS + 1.0, 1.6
    if factor == "turn":
        sketch.walk(seconds, 0.9, turning=0.6, width=0.04)
    elif factor == "arc":
        sketch.walk(seconds, 1.4, forward=0.6, turning=0.35)
    elif factor == "sideways":
        sketch.walk(seconds, 0.9, sideways=0.36, width=0.1)
    elif factor == "bow":
        first_s = 0.0
        while sketch.now_s < seconds:
            acts.bow(sketch)
    else:
        acts.MANNER[factor](sketch)
        sketch.walk(seconds, 1.1, forward=0.45)
    first = round(first_s * FPS)
    piece = Piece(factor, "", sketch.score(), (first, first + steps + 1))
    return Base(factor, np.asarray(perform(piece).qpos(), np.float32))


def steered(
    lab: Lab,
    on: Base,
    added: str,
    amplitude: float,
    choice: int = 0,
    seed: int | None = None,
) -> Run:
    """A base with a factor added by one of its choices of knobs."""
    rule, change = ADDED[added], np.zeros(lab.directions.vectors.shape[1])
    knobs = rule.knobs[choice]
    for name, times in knobs.items():
        side, _, axis = name.partition("_hand_")
        if axis:
            hand = lab.directions.hand_maps[int(side == "right")]
            vector = hand[:, _AXES.index(axis)]
            vector = vector / np.linalg.norm(vector)
        else:
            vector = lab.direction(name)
        change += amplitude * times * vector
    curve = standard(1.0, on.steps)[:, 0]
    if rule.beats:
        t = np.arange(on.steps) / FPS
        curve = curve * 0.5 * (1.0 - np.cos(2 * np.pi * BEAT_HZ * t))
    name = f"{added} by {' and '.join(knobs)} a={amplitude:g}"
    return lab.steered(on, change, name, curve, seed)
