"""Factors: a full table, names that tell them, words that fit."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from spectral_skills.motion.synthetic import factors
from spectral_skills.motion.synthetic.generate import (
    chosen,
    compose,
    compose_factors,
    repertoire,
)

CLIPS = 512


@pytest.fixture(scope="module")
def pieces():
    return [compose(0, number) for number in range(CLIPS)]


def test_every_pair_has_a_mark():
    pairs = {frozenset(pair) for pair in combinations(factors.FACTORS, 2)}
    assert set(factors.PAIRS) == pairs
    assert set(factors.PAIRS.values()) == {"x", "o", "-"}


def test_the_pairs_that_must_be_unseen_are_left_out():
    for pair in (
        ("raise", "turn"),
        ("raise", "arc"),
        ("raise", "backward"),
        ("high", "jog"),
        ("jog", "arc"),
    ):
        assert frozenset(pair) in factors.LEFT_OUT


def test_every_pair_that_occurs_is_in_the_corpus_and_no_other(pieces):
    """The table is what the corpus of 512 clips holds, cell by cell."""
    seen = Counter()
    for piece in pieces:
        for pair in combinations(sorted(factors.factors_of(piece.name)), 2):
            seen[frozenset(pair)] += 1
    occurring = {pair for pair, mark in factors.PAIRS.items() if mark == "x"}
    assert set(seen) == occurring


def test_every_factor_also_occurs_alone(pieces):
    alone = {factors.factors_of(p.name) for p in pieces}
    assert {frozenset({f}) for f in factors.FACTORS} <= alone
    assert frozenset() in alone


def test_a_left_out_pair_is_refused():
    with pytest.raises(ValueError, match="jog with raise is left out on purpose"):
        compose_factors(frozenset({"jog", "raise"}), np.random.default_rng(0))


def test_names_tell_the_factors():
    name = factors.name_of({"raise", "forward"}, 7)
    assert name == "forward+raise_0007"
    assert factors.factors_of(name) == {"forward", "raise"}
    assert factors.factors_of(f"{name}_mirror") == {"forward", "raise"}
    assert factors.factors_of("stand_0001") == frozenset()
    assert factors.factors_of("stand+reach_up_0001") == {"reach_up"}


def test_few_clips_have_variety():
    """Any sixty neighbours have every travel and most gestures."""
    for first in (0, 100, 333):
        seen = set().union(*(chosen(0, n) for n in range(first, first + 60)))
        assert seen >= set(factors.TRAVELS)
        assert len(seen & set(factors.GESTURES)) >= 5


def test_combinations_all_obey_the_table():
    for combination in repertoire():
        factors.check(set(combination))


def test_the_corpus_is_about_an_hour(pieces):
    seconds = sum(last - first for first, last in (p.crop for p in pieces)) / 50
    assert 0.9 < seconds / 3600 < 1.25


def test_each_clip_has_two_or_three_sentences(pieces):
    for piece in pieces:
        lines = piece.text.split("\n")
        assert 2 <= len(lines) == len(set(lines)) <= 3, piece.name
        for line in lines:
            assert line == line.strip() and "  " not in line and len(line) > 5, line


def test_sentences_name_what_the_clip_does(pieces):
    words = {
        "forward": "walk",
        "backward": "backward",
        "sideways": "side",
        "turn": "turn",
        "jog": ("jog", "run"),
        "squat": "squat",
        "bow": "bow",
        "raise": "rais",
        "spread": "spread",
        "wave": "wav",
        "punch": "punch",
        "carry": "carry",
        "reach_up": "reach",
    }
    for piece in pieces:
        for factor in factors.factors_of(piece.name) & set(words):
            accepted = words[factor]
            accepted = (accepted,) if isinstance(accepted, str) else accepted
            for line in piece.text.split("\n"):
                assert any(word in line for word in accepted), (piece.name, line)


def test_the_side_in_the_text_is_the_side_of_the_arm(pieces):
    """Strokes and words agree about left and right."""
    checked = 0
    for piece in pieces:
        if not factors.factors_of(piece.name) & {"raise", "wave", "reach_up"}:
            continue
        if factors.factors_of(piece.name) & {"sideways", "turn", "arc"}:
            continue  # their sentences name the other side, too
        sides = {stroke.side for stroke in piece.score.strokes}
        said = {s for s, word in enumerate(("left", "right")) if word in piece.text}
        assert said == (sides if len(sides) == 1 else set()), piece.text
        checked += 1
    assert checked > 15
