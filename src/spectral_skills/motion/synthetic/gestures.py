"""Gestures: what the arms do while the rest of the body does something else."""

import numpy as np

from spectral_skills.motion.synthetic.arms import LEFT, RIGHT, SIDES, Stroke
from spectral_skills.motion.synthetic.sketch import Phrase, Sketch


def _span(sketch: Sketch, ramp: float) -> tuple[float, float]:
    """Most of what the clip does, so that a gesture meets it."""
    first = sketch.walks[0][0] if sketch.walks else 0.2
    last = sketch.walks[-1][1] if sketch.walks else sketch.now_s - 0.3
    start = sketch.uniform(max(0.1, first - 0.3), first + 0.3 * (last - first))
    end = sketch.uniform(
        start + max(2.2 * ramp + 0.3, 0.6 * (last - start)), last + 0.6
    )
    return start, min(end, sketch.now_s - 0.1)


def stroke(
    sketch: Sketch,
    side: int,
    pose: str,
    span: tuple[float, float],
    ramp: float,
    beats: float = 0.0,
    delay: float = 0.0,
) -> None:
    """Let one arm take a pose within a span, a little different every time."""
    offset = sketch.rng.normal(scale=(0.12, 0.06, 0.08, 0.1, 0.05, 0.05, 0.05))
    offset = np.clip(offset, -0.2, 0.2)
    sketch.strokes.append(Stroke(side, pose, *span, ramp, offset, beats, delay))


def _sides(sketch: Sketch) -> tuple[tuple[int, ...], str]:
    sides = sketch.choose((LEFT,), (RIGHT,), (LEFT, RIGHT))
    return sides, "both arms" if len(sides) == 2 else f"the {SIDES[sides[0]]} arm"


def _pose(sketch: Sketch, pose: str, sides: tuple[int, ...]) -> None:
    ramp = sketch.uniform(0.7, 1.2)
    span = _span(sketch, ramp)
    for side in sides:
        stroke(sketch, side, pose, span, ramp)


def raise_arm(sketch: Sketch) -> None:
    sides, what = _sides(sketch)
    _pose(sketch, "raise", sides)
    sketch.overlays.append(
        Phrase(f"raise {what}", f"raising {what}", f"with {what} raised")
    )


def spread(sketch: Sketch) -> None:
    _pose(sketch, "spread", (LEFT, RIGHT))
    how = sketch.choose("", " to the sides", " wide")
    sketch.overlays.append(
        Phrase(
            f"spread the arms{how}", f"spreading the arms{how}", "with the arms spread"
        )
    )


def reach(sketch: Sketch) -> None:
    sides, what = _sides(sketch)
    _pose(sketch, "reach_forward", sides)
    what = "both hands" if len(sides) == 2 else what.replace("arm", "hand")
    sketch.overlays.append(
        Phrase(
            f"reach forward with {what}",
            f"reaching forward with {what}",
            f"with {what} stretched forward",
        )
    )


def reach_up(sketch: Sketch) -> None:
    sides, what = _sides(sketch)
    _pose(sketch, "reach_up", sides)
    what = "both hands" if len(sides) == 2 else what.replace("arm", "hand")
    sketch.overlays.append(Phrase(f"reach up with {what}", f"reaching up with {what}"))


def wave(sketch: Sketch) -> None:
    side, ramp = sketch.choose(LEFT, RIGHT), sketch.uniform(0.7, 1.0)
    span = _span(sketch, ramp)
    stroke(sketch, side, "wave", span, ramp, sketch.uniform(1.2, 1.9))
    what = f"the {SIDES[side]} hand"
    sketch.overlays.append(Phrase(f"wave {what}", f"waving {what}"))


def punch(sketch: Sketch) -> None:
    ramp, rate = 0.6, sketch.uniform(0.8, 1.2)
    start, end = _span(sketch, ramp)
    hands = sketch.choose((LEFT,), (RIGHT,), (LEFT, RIGHT))
    for side in (LEFT, RIGHT):
        # The other hand strikes half a beat later, or keeps the guard.
        late = 0.5 / rate if len(hands) == 2 and side == RIGHT else 0.0
        beats = rate if side in hands else 0.0
        stroke(sketch, side, "guard", (start, end), ramp, beats, late)
    what = "both fists" if len(hands) == 2 else f"the {SIDES[hands[0]]} fist"
    sketch.overlays.append(Phrase(f"punch with {what}", f"punching with {what}"))


def carry(sketch: Sketch) -> None:
    ramp = sketch.uniform(0.7, 1.0)
    span = (0.0, sketch.now_s + 2.0)
    if sketch.uniform(0, 1) < 0.5:
        span = (sketch.uniform(0.05, 0.3), sketch.now_s - sketch.uniform(0.1, 0.4))
    offset = sketch.rng.normal(scale=(0.1, 0.04, 0.05, 0.1, 0.0, 0.0, 0.0))
    for side in (LEFT, RIGHT):
        start = span[0] if span[0] else -ramp - 1.0
        sketch.strokes.append(Stroke(side, "carry", start, span[1], ramp, offset))
    thing = sketch.choose("a box", "a crate", "something")
    sketch.overlays.append(
        Phrase(
            f"carry {thing} with both hands", f"carrying {thing}", f"carrying {thing}"
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
