"""What a generated clip can be made of, and which pairs never meet.

A factor is one thing a motion does: where it goes, how it steps, how low it is, what
the arms do. Clips combine factors freely, except for the pairs that the table in
factors.toml leaves out on purpose: no clip ever has both, not even at different
times, so a controller that composes them does what its data has no example of.
"""

import tomllib
from itertools import combinations
from pathlib import Path

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
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


def check(factors: set[str]) -> None:
    """Refuse a combination with a pair that does not occur."""
    for pair in combinations(sorted(factors), 2):
        mark = PAIRS[frozenset(pair)]
        if mark != "x":
            why = "is left out on purpose" if mark == "o" else "is impossible"
            raise ValueError(f"{pair[0]} with {pair[1]} {why}")


def name_of(factors: set[str], number: int) -> str:
    """Name of a clip: its factors in the order of FACTORS, and a number."""
    words = [f for f in FACTORS if f in factors] or ["stand"]
    return f"{'+'.join(words)}_{number:04d}"


def factors_of(name: str) -> frozenset[str]:
    """Factors of a clip, from its name."""
    words = name.removesuffix("_mirror").rpartition("_")[0].split("+")
    return frozenset(words) - {"stand"}
