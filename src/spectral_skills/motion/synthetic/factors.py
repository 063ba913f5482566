"""What a clip can be made of, and which pairs never meet.

A factor is one thing a motion does: where it goes, how it steps, how low it is, what
the arms do. Clips combine factors freely, except for the pairs that the table leaves
out on purpose: no clip ever holds both, not even at different times, so a controller
that composes them does what its data has no example of.
"""

from itertools import combinations

TRAVELS = ("forward", "backward", "sideways", "turn", "arc", "jog")
BODY = ("high", "crouch", "squat", "bow")
GESTURES = ("raise", "spread", "reach", "reach_up", "wave", "punch", "carry")
FACTORS = (*TRAVELS, *BODY, *GESTURES)

# x: occurs. o: left out on purpose. -: no such thing, one excludes the other.
_TABLE = """
          forward backward sideways turn arc jog high crouch squat bow raise spread reach reach_up wave punch
backward     x
sideways     x        x
turn         x        x        x
arc          x        x        x      x
jog          x        -        -      o   o
high         x        o        o      o   o   o
crouch       x        x        o      o   x   o    o
squat        x        x        x      x   x   -    -     -
bow          x        x        x      x   x   -    -     -     -
raise        x        o        x      o   o   o    o     o     o    o
spread       x        o        o      o   o   o    o     o     o    o    -
reach        x        x        x      x   x   o    o     x     x    o    -      -
reach_up     x        o        o      o   o   o    o     o     o    o    -      -     -
wave         x        o        o      o   o   o    o     o     o    o    -      -     -       -
punch        x        x        o      x   o   o    o     o     o    o    -      -     -       -      -
carry        x        x        x      x   x   o    x     x     x    o    -      -     -       -      -    -
"""  # noqa: E501


def _read(table: str) -> dict[frozenset[str], str]:
    head, *lines = (line.split() for line in table.strip().splitlines())
    return {
        frozenset((line[0], column)): mark
        for line in lines
        for column, mark in zip(head, line[1:], strict=False)
    }


PAIRS = _read(_TABLE)
"""Mark of every pair of factors: x, o or -."""
LEFT_OUT = frozenset(pair for pair, mark in PAIRS.items() if mark == "o")
"""Pairs that no clip holds, though a robot could do both at once."""


def check(factors: set[str]) -> None:
    """Refuse a combination with a pair that does not occur."""
    for pair in combinations(sorted(factors), 2):
        mark = PAIRS[frozenset(pair)]
        if mark != "x":
            why = "is left out on purpose" if mark == "o" else "is no such thing"
            raise ValueError(f"{pair[0]} with {pair[1]} {why}")


def name_of(factors: set[str], number: int) -> str:
    """Name of a clip: its factors in the order of FACTORS, and a number."""
    words = [f for f in FACTORS if f in factors] or ["stand"]
    return f"{'+'.join(words)}_{number:04d}"


def factors_of(name: str) -> frozenset[str]:
    """Factors of a clip, from its name."""
    words = name.removesuffix("_mirror").rpartition("_")[0].split("+")
    return frozenset(words) - {"stand"}
