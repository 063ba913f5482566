"""What people may wish of a motion, in measures of the catalogue of directions."""

from collections.abc import Mapping
from typing import NamedTuple


class Wish(NamedTuple):
    """A thing to change, and how people say so."""

    name: str
    parts: Mapping[str, int]
    """Measures, and whether they are to grow or to fall."""
    sentences: tuple[str, ...]


def _arm(side: str) -> tuple[Wish, ...]:
    own = {"left": 1, "right": -1}[side]
    return (
        _wish(
            f"{side} arm up",
            {f"{side}_shoulder_pitch": -1},
            f"raise the {side} arm|lift the {side} arm|{side} arm up|{side} hand up"
            f"|hold the {side} arm higher",
        ),
        _wish(
            f"{side} arm down",
            {f"{side}_shoulder_pitch": 1},
            f"lower the {side} arm|{side} arm down|put the {side} hand down",
        ),
        _wish(
            f"{side} arm out",
            {f"{side}_shoulder_roll": own},
            f"move the {side} arm out to the side|spread the {side} arm",
        ),
    )


def _wish(name: str, parts: Mapping[str, int], sentences: str) -> Wish:
    return Wish(name, parts, tuple(sentences.split("|")))


def _each(measure: str, left: int, right: int) -> dict[str, int]:
    return {f"left_{measure}": left, f"right_{measure}": right}


WISHES = (
    *_arm("left"),
    *_arm("right"),
    _wish(
        "both arms up",
        _each("shoulder_pitch", -1, -1),
        "raise both arms|lift both arms|arms up|both hands up|hold the arms higher",
    ),
    _wish(
        "both arms down",
        _each("shoulder_pitch", 1, 1),
        "lower both arms|arms down|put both hands down",
    ),
    _wish(
        "arms out",
        _each("shoulder_roll", 1, -1),
        "spread the arms|arms out|arms out to the sides|move both arms outward"
        "|open the arms",
    ),
    _wish(
        "arms in",
        _each("shoulder_roll", -1, 1),
        "arms closer to the body|keep the arms close to the body|pull the arms in",
    ),
    _wish(
        "high steps",
        _each("apex", 1, 1),
        "higher steps|step higher|lift the feet higher|with high steps"
        "|pick the feet up|raise the knees higher",
    ),
    _wish(
        "low steps",
        _each("apex", -1, -1),
        "lower steps|keep the feet low|step lower|lift the feet less",
    ),
    _wish(
        "left foot high",
        {"left_apex": 1},
        "lift the left foot higher|left foot up|raise the left leg|left leg higher",
    ),
    _wish(
        "right foot high",
        {"right_apex": 1},
        "lift the right foot higher|right foot up|raise the right leg|right leg higher",
    ),
    _wish(
        "turn left",
        {"heading": 1},
        "turn left|veer left|curve to the left|go left|rotate left",
    ),
    _wish(
        "turn right",
        {"heading": -1},
        "turn right|veer right|curve to the right|go right|rotate right",
    ),
    _wish(
        "faster",
        {"speed": 1},
        "faster|walk faster|go faster|speed up|move more quickly",
    ),
    _wish(
        "slower", {"speed": -1}, "slower|walk slower|slow down|go slower|more slowly"
    ),
    _wish(
        "taller", {"root_height": 1}, "stand taller|rise|stand up straighter|body up"
    ),
    _wish(
        "lower",
        {"root_height": -1},
        "crouch|go lower|bend the knees|body low|duck down",
    ),
    _wish("quick steps", {"stride": 1}, "quicker steps|shorter steps|step more often"),
    _wish("long steps", {"stride": -1}, "longer steps|longer strides|slower steps"),
    # Nothing measures these yet: they are named so that nothing else is taken for them.
    _wish("lean forward", {"lean_forward": 1}, "lean forward|tilt the body forward"),
    _wish("lean back", {"lean_forward": -1}, "lean back|tilt the body backward"),
    _wish("lean left", {"lean_left": 1}, "lean to the left|lean left"),
    _wish("lean right", {"lean_left": -1}, "lean to the right|lean right"),
)
