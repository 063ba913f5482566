"""Gestures: what the arms do while the rest of the body does something else."""

import numpy as np

from spectral_skills.motion.synthetic.arms import LEFT, RIGHT, SIDES, Stroke
from spectral_skills.motion.synthetic.sketch import Phrase, Sketch

_HEIGHT = (0.15, 1.05)
"""How far arms go towards a pose."""


def _span(sketch: Sketch, ramp: float) -> tuple[float, float]:
    """Most of what the clip does, so that a gesture meets it."""
    first = sketch.walks[0][0] if sketch.walks else 0.2
    last = sketch.walks[-1][1] if sketch.walks else sketch.now_s - 0.3
    start = sketch.uniform(max(0.1, first - 0.3), first + 0.3 * (last - first))
    least = start + max(2.2 * ramp + 0.3, 0.6 * (last - start))
    end = sketch.uniform(least, max(least, last) + 0.6)
    sketch.now_s = max(sketch.now_s, end + 0.1)
    return start, end


def stroke(
    sketch: Sketch,
    sides: tuple[int, ...],
    pose: str,
    span: tuple[float, float],
    ramp: float,
    **more,
) -> None:
    """Let arms take a pose within a span, a little different every time."""
    scale = np.array((0.1, 0.05, 0.07, 0.1, 0.1, 0.1, 0.1))
    shared = np.clip(sketch.rng.normal(scale=scale), -0.18, 0.18)
    for side in sides:
        own = np.clip(sketch.rng.normal(scale=0.2 * scale), -0.04, 0.04)
        sketch.strokes.append(Stroke(side, pose, *span, ramp, shared + own, **more))


def _sides(sketch: Sketch) -> tuple[tuple[int, ...], str]:
    # Mostly one: arms that always move together would be one thing to a skill.
    sides = sketch.choose((LEFT,), (RIGHT,), (LEFT,), (RIGHT,), (LEFT, RIGHT))
    return sides, "both arms" if len(sides) == 2 else f"the {SIDES[sides[0]]} arm"


def _pose(sketch: Sketch, pose: str, sides: tuple[int, ...]) -> str:
    """Let arms go some of the way to a pose, then higher or lower; says how far."""
    ramp = sketch.uniform(0.7, 1.2)
    start, end = _span(sketch, ramp)
    heights = [(0.0, sketch.uniform(*_HEIGHT))]
    at = start + ramp + sketch.uniform(0.5, 2.0)
    while at + 2 * ramp < end:
        heights.append((at, sketch.uniform(*_HEIGHT)))
        at += ramp + sketch.uniform(0.5, 2.0)
    stroke(sketch, sides, pose, (start, end), ramp, heights=tuple(heights))
    far = max(share for _, share in heights)
    return " a little" if far < 0.45 else " halfway" if far < 0.7 else ""


def raise_arm(sketch: Sketch) -> None:
    sides, what = _sides(sketch)
    far = _pose(sketch, "raise", sides)
    sketch.overlays.append(
        Phrase(f"raise {what}{far}", f"raising {what}{far}", f"with {what} raised{far}")
    )


def spread(sketch: Sketch) -> None:
    far = _pose(sketch, "spread", (LEFT, RIGHT))
    how = far or sketch.choose("", " to the sides", " wide")
    sketch.overlays.append(
        Phrase(
            f"spread the arms{how}",
            f"spreading the arms{how}",
            f"with the arms spread{far}",
        )
    )


def reach(sketch: Sketch) -> None:
    sides, what = _sides(sketch)
    far = _pose(sketch, "reach_forward", sides)
    what = "both hands" if len(sides) == 2 else what.replace("arm", "hand")
    sketch.overlays.append(
        Phrase(
            f"reach forward{far} with {what}",
            f"reaching forward{far} with {what}",
            f"with {what} stretched forward{far}",
        )
    )


def reach_up(sketch: Sketch) -> None:
    sides, what = _sides(sketch)
    far = _pose(sketch, "reach_up", sides)
    what = "both hands" if len(sides) == 2 else what.replace("arm", "hand")
    order = f"reach up{far} with {what}"
    sketch.overlays.append(Phrase(order, order.replace("reach", "reaching", 1)))


def wave(sketch: Sketch) -> None:
    side, ramp = sketch.choose(LEFT, RIGHT), sketch.uniform(0.7, 1.0)
    span = _span(sketch, ramp)
    stroke(sketch, (side,), "wave", span, ramp, beats=sketch.uniform(1.2, 1.9))
    what = f"the {SIDES[side]} hand"
    sketch.overlays.append(Phrase(f"wave {what}", f"waving {what}"))


def punch(sketch: Sketch) -> None:
    ramp, rate = 0.6, sketch.uniform(0.9, 1.2)
    start, end = _span(sketch, ramp)
    hands = sketch.choose((LEFT,), (RIGHT,), (LEFT, RIGHT))
    # The right hand strikes half a beat after the left one; two blows at least.
    late = 0.5 / rate if len(hands) == 2 else 0.0
    end = max(end, start + 2 * ramp + late + 2.1 / rate)
    sketch.now_s = max(sketch.now_s, end + 0.3)
    for side in (LEFT, RIGHT):
        delay = late if side == RIGHT else 0.0
        beats = rate if side in hands else 0.0
        stroke(sketch, (side,), "guard", (start, end), ramp, beats=beats, delay_s=delay)
    what = "both fists" if len(hands) == 2 else f"the {SIDES[hands[0]]} fist"
    sketch.overlays.append(Phrase(f"punch with {what}", f"punching with {what}"))


def carry(sketch: Sketch) -> None:
    ramp = sketch.uniform(0.7, 1.0)
    span = (-ramp - 1.0, sketch.now_s + 2.0)  # has it all the time, or takes it up
    if sketch.uniform(0, 1) < 0.5:
        span = (sketch.uniform(0.05, 0.3), sketch.now_s - sketch.uniform(0.1, 0.4))
    stroke(sketch, (LEFT, RIGHT), "carry", span, ramp)
    thing = sketch.choose("a box", "a crate", "something")
    sketch.overlays.append(
        Phrase(
            f"carry {thing} with both hands",
            f"carrying {thing} with both hands",
            f"carrying {thing}",
        )
    )


GESTURE = {
    "raise": raise_arm,
    "spread": spread,
    "reach": reach,
    "reach_up": reach_up,
    "wave": wave,
    "punch": punch,
    "carry": carry,
}
POSES = frozenset(("raise", "spread", "reach", "reach_up"))
"""Those that may be held at any height."""
