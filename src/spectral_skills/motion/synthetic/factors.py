"""What a generated clip can be made of: factors, which of them meet, and their acts.

A factor is one thing a motion does: where it goes, how it steps, how low it is, what
the arms do. Clips combine factors freely, except for the pairs that the table in
factors.toml leaves out on purpose: no clip ever has both, not even at different
times, so a controller that composes them does what its data has no example of.

An act draws the curves of its factor on a sketch and says what it is. To add a factor:
name it in factors.toml with its weight and its row of pairs, write its act here and
put it in TRAVEL, STANDING, MANNER or GESTURE.
"""

from collections.abc import Set
from itertools import combinations

import numpy as np

from spectral_skills.config import read_table
from spectral_skills.motion.synthetic.sketch import LEFT, RIGHT, SIDES, Sketch, Stroke

TABLES = read_table(__file__)
TRAVELS, BODY, GESTURES = (
    tuple[str, ...](TABLES[name]) for name in ("travels", "body", "gestures")
)
FACTORS = (*TRAVELS, *BODY, *GESTURES)
_HEAD, *_ROWS = (line.split() for line in TABLES["pairs"].strip().splitlines())
PAIRS = {
    frozenset((name, column)): mark
    for name, *marks in _ROWS
    for column, mark in zip(_HEAD, marks, strict=False)
}
"""Mark of every pair of factors: x, o or -."""
LEFT_OUT = frozenset(pair for pair, mark in PAIRS.items() if mark == "o")
"""Pairs that no clip has, though a robot could do both at once."""
_HEIGHT = (0.15, 1.05)  # how far arms go towards a pose


def check(factors: Set[str]) -> None:
    """Refuse a combination with a pair that does not occur."""
    for pair in combinations(sorted(factors), 2):
        mark = PAIRS[frozenset(pair)]
        if mark != "x":
            why = "is left out on purpose" if mark == "o" else "is impossible"
            raise ValueError(f"{pair[0]} with {pair[1]} {why}")


def name_of(factors: Set[str], number: int) -> str:
    """Name of a clip: its factors in the order of FACTORS, and a number."""
    words = [f for f in FACTORS if f in factors] or ["stand"]
    return f"{'+'.join(words)}_{number:04d}"


def factors_of(name: str) -> frozenset[str]:
    """Factors of a clip, from its name."""
    words = name.removesuffix("_mirror").rpartition("_")[0].split("+")
    return frozenset(words) - {"stand"}


# Travel: one after the other, each with a start and a stop.


def _pace(speed: float, slow: float, fast: float) -> tuple[str, ...]:
    """Words for a speed; an empty one leaves it unsaid."""
    if speed < slow:
        return (" slowly", " at a slow pace", " at a leisurely pace")
    if speed > fast:
        return (" quickly", " at a brisk pace", " fast")
    return ("", "", " at a steady pace")


def _ramp(speed: float) -> float:
    return 0.9 + 0.7 * abs(speed)


def _fastest(sketch: Sketch, usual: float) -> float:
    """Who crouches or lifts the feet high walks slower, who uses the arms a little."""
    if sketch.factors & set(MANNER):
        return min(usual, 0.6)
    return 0.7 * usual if sketch.factors & set(GESTURE) else usual


def _side(sketch: Sketch) -> tuple[float, str]:
    """Sign of a side, left is positive, and the words for it."""
    side = sketch.choose(LEFT, RIGHT)
    return 1.0 if side == LEFT else -1.0, f"to the {SIDES[side]}"


def forward(sketch: Sketch) -> None:
    speed = sketch.uniform(0.3, _fastest(sketch, 1.3))
    sketch.walk(sketch.uniform(2.0, 5.0), _ramp(speed), forward=speed)
    where = sketch.choose("forward", "straight ahead", "ahead")
    sketch.act(f"walk {where}{sketch.choose(*_pace(speed, 0.55, 1.0))}")


def backward(sketch: Sketch) -> None:
    speed = sketch.uniform(0.3, _fastest(sketch, 0.75))
    sketch.walk(sketch.uniform(2.0, 4.5), _ramp(speed), forward=-speed)
    how = sketch.choose(*_pace(speed, 0.42, 0.62))
    sketch.act(f"walk {sketch.choose('backward', 'backwards')}{how}")


def sideways(sketch: Sketch) -> None:
    (sign, to_the_side), speed = _side(sketch), sketch.uniform(0.3, 0.42)
    wider = max(0.0, 0.17 + 0.33 * speed - sketch.width)
    sketch.walk(sketch.uniform(2.0, 4.5), 0.9, sideways=sign * speed, width=wider)
    verb = sketch.choose("step sideways", "sidestep", "walk sideways")
    sketch.act(f"{verb} {to_the_side}")


def turn(sketch: Sketch) -> None:
    (sign, to_the_side), rate = _side(sketch), sketch.uniform(0.35, 1.0)
    wider = max(0.0, 0.23 - sketch.width)
    seconds = sketch.uniform(0.8, 3.5)
    sketch.walk(seconds, 0.9, turning=sign * rate, width=wider)
    far = rate * (sketch.patience * seconds + 0.9)
    how = sketch.choose("", " on the spot", " in place")
    if far > 2.6:
        how = sketch.choose(" around", " around on the spot")
    sketch.act(f"turn{how} {to_the_side}")


def arc(sketch: Sketch) -> None:
    sign, to_the_side = _side(sketch)
    speed = sketch.uniform(0.35, _fastest(sketch, 0.95))
    rate = sign * sketch.uniform(0.15, 0.75)
    sketch.walk(sketch.uniform(3.0, 6.0), _ramp(speed), forward=speed, turning=rate)
    how = sketch.choose("in a curve", "along an arc", "in a wide circle")
    sketch.act(f"walk {how} {to_the_side}")


def jog(sketch: Sketch) -> None:
    speed = sketch.uniform(1.5, 1.9)
    narrower, higher = 0.13 - sketch.width, sketch.uniform(0.04, 0.08)
    seconds = sketch.uniform(2.0, 3.6) / sketch.patience
    sketch.walk(seconds, 2.8, forward=speed, width=narrower, lift=higher)
    sketch.jogs.append(sketch.walks[-1])
    verb = sketch.choose("jog", "run")
    how = sketch.choose("forward", "straight ahead", "at an easy pace")
    sketch.act(f"{'jog' if speed < 1.75 else verb} {how}")


# Acts on the spot, one after the other.


def stand(sketch: Sketch) -> None:
    sketch.width = sketch.uniform(0.19, 0.3)
    sketch.wait(3.5, 7.0)
    sketch.act(f"stand {sketch.choose('still', 'on the spot', 'in place')}")


def squat(sketch: Sketch) -> None:
    # What is carried stays above the thighs.
    deep = sketch.uniform(0.14, 0.2 if "carry" in sketch.factors else 0.28)
    sketch.width = max(sketch.width, sketch.uniform(0.22, 0.32))
    ramp = sketch.uniform(0.9, 1.5)
    span = (sketch.now_s + 0.3, sketch.now_s + 0.3 + 2 * ramp + sketch.uniform(0.2, 2))
    sketch.hold("drop", deep, span, ramp)
    sketch.hold("lean", 2.3 * deep + 0.12, span, ramp)
    if not sketch.factors & {"reach", "carry"}:
        stroke(sketch, (LEFT, RIGHT), "balance", span, ramp)
    sketch.now_s = span[1] + 0.5
    how = sketch.choose("", " and stand up again", " and come back up")
    deeply = " deeply" if deep > 0.23 else " a little" if deep < 0.18 else " down"
    sketch.act(f"squat{deeply}{how}", doing=f"squatting{deeply}")


def bow(sketch: Sketch) -> None:
    deep, ramp = sketch.uniform(0.45, 0.9), sketch.uniform(0.9, 1.4)
    span = (sketch.now_s + 0.3, sketch.now_s + 0.3 + 2 * ramp + sketch.uniform(0.3, 2))
    sketch.hold("lean", deep, span, ramp)
    sketch.now_s = span[1] + 0.5
    sketch.act(
        f"bow {'deeply' if deep > 0.7 else sketch.choose('politely', 'slightly')}"
    )


def march(sketch: Sketch) -> None:
    """High steps without travel."""
    sketch.walk(sketch.uniform(2.5, 5.0), 0.5, forward=0.0)
    sketch.act(f"march {sketch.choose('on the spot', 'in place')}")


# Manners of travelling or standing.


def high(sketch: Sketch) -> None:
    sketch.lift, sketch.hurry = sketch.uniform(0.1, 0.21), 0.72
    phrases = (
        ("lift the feet high", "with high steps"),
        ("step high", "with exaggerated steps"),
    )
    sketch.overlay(*sketch.choose(*phrases))


def crouch(sketch: Sketch) -> None:
    # Short steps: far behind a bent knee the ankle could not follow.
    sketch.hurry = 1.3
    sketch.change("drop", sketch.uniform(0.05, 0.12), 0.1, 0.9)
    sketch.change("lean", sketch.uniform(0.15, 0.35), 0.1, 0.9)
    sketch.now_s += 0.5
    sketch.overlay("crouch", sketch.choose("in a crouch", "with bent knees"))


# Gestures: what the arms do while the rest of the body does something else.


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


def _pose(sketch: Sketch, pose: str, sides: tuple[int, ...] = ()) -> tuple[str, str]:
    """Let arms go some of the way to a pose, then higher or lower.

    Returns which arms, and how far they go.
    """
    # Mostly one: arms that always move together would be one thing to a skill.
    one = ((LEFT,), (RIGHT,), (LEFT,), (RIGHT,), (LEFT, RIGHT))
    sides = sides or sketch.choose(*one)
    ramp = sketch.uniform(0.7, 1.2)
    start, end = _span(sketch, ramp)
    heights = [(0.0, sketch.uniform(*_HEIGHT))]
    at = start + ramp + sketch.uniform(0.5, 2.0)
    while at + 2 * ramp < end:
        heights.append((at, sketch.uniform(*_HEIGHT)))
        at += ramp + sketch.uniform(0.5, 2.0)
    stroke(sketch, sides, pose, (start, end), ramp, heights=tuple(heights))
    far = max(share for _, share in heights)
    arms = "both arms" if len(sides) == 2 else f"the {SIDES[sides[0]]} arm"
    return arms, " a little" if far < 0.45 else " halfway" if far < 0.7 else ""


def raise_arm(sketch: Sketch) -> None:
    arm, far = _pose(sketch, "raise")
    sketch.overlay(f"raise {arm}{far}", f"with {arm} raised{far}")


def spread(sketch: Sketch) -> None:
    _, far = _pose(sketch, "spread", (LEFT, RIGHT))
    how = far or sketch.choose("", " to the sides", " wide")
    sketch.overlay(f"spread the arms{how}", f"with the arms spread{far}")


def reach(sketch: Sketch) -> None:
    arm, far = _pose(sketch, "reach_forward")
    hand = arm.replace("arm", "hand")
    state = f"with {hand} stretched forward{far}"
    sketch.overlay(f"reach forward{far} with {hand}", state)


def reach_up(sketch: Sketch) -> None:
    arm, far = _pose(sketch, "reach_up")
    sketch.overlay(f"reach up{far} with {arm.replace('arm', 'hand')}")


def wave(sketch: Sketch) -> None:
    side, ramp = sketch.choose(LEFT, RIGHT), sketch.uniform(0.7, 1.0)
    span = _span(sketch, ramp)
    stroke(sketch, (side,), "wave", span, ramp, beats=sketch.uniform(1.2, 1.9))
    sketch.overlay(f"wave the {SIDES[side]} hand")


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
    fists = "both fists" if len(hands) == 2 else f"the {SIDES[hands[0]]} fist"
    sketch.overlay(f"punch with {fists}")


def carry(sketch: Sketch) -> None:
    ramp = sketch.uniform(0.7, 1.0)
    span = (-ramp - 1.0, sketch.now_s + 2.0)  # has it all the time, or takes it up
    if sketch.uniform(0, 1) < 0.5:
        span = (sketch.uniform(0.05, 0.3), sketch.now_s - sketch.uniform(0.1, 0.4))
    stroke(sketch, (LEFT, RIGHT), "carry", span, ramp)
    what = sketch.choose("a box", "a crate", "something")
    sketch.overlay(f"carry {what} with both hands", f"carrying {what}")


TRAVEL = {act.__name__: act for act in (forward, backward, sideways, turn, arc, jog)}
STANDING = {"squat": squat, "bow": bow}
MANNER = {"high": high, "crouch": crouch}
GESTURE = {"raise": raise_arm}
GESTURE |= {g.__name__: g for g in (spread, reach, reach_up, wave, punch, carry)}
