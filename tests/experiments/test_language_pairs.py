"""Two instructions at once: which pairs there are, what is added, what counts."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from obliging import Letters, directions, with_planner
from rehearsed import Rehearsed

from spectral_skills.control.steering import full_amplitude
from spectral_skills.experiments import planning, unseen
from spectral_skills.experiments.planning import PAIR_EPISODES as EPISODES
from spectral_skills.experiments.planning import PAIR_STEPS as STEPS
from spectral_skills.experiments.planning import (
    SAID,
    SpokenPair,
    amplitudes,
    judge_pair,
    pairs,
    spoken_pairs,
)
from spectral_skills.experiments.stage import Stage
from spectral_skills.experiments.unseen import PairVerdict
from spectral_skills.planner.motions import described
from spectral_skills.robot import g1
from spectral_skills.spectral.catalogue import Choice

ARM = 7 + g1.joint_index("right_shoulder_pitch")


def _named(**motions: str) -> Any:
    """A stage of motions with names and sentences alone."""
    said = [[sentence] for sentence in motions.values()]
    return SimpleNamespace(
        names=tuple(motions), clips=SimpleNamespace(sentences=said), words=Letters()
    )


def test_pairs_are_of_learned_bases_and_of_what_can_be_said():
    """Two of these motions are bases: one while walking forward, one alone."""
    motions = {"forward_0001": "walk", "forward+high_0002": "walk, stepping high"}
    motions |= {"bow_0003_mirror": "bow", "bow+reach_0004": "bow and reach"}
    found = spoken_pairs(_named(**motions), directions())
    assert [pair.factors for pair in found] == [
        *(("high", added) for added in ("turn", "arc", "crouch", "raise", "spread")),
        *(("high", added) for added in ("reach", "reach_up")),
        *(("bow", added) for added in ("raise", "spread", "reach", "reach_up")),
    ]
    assert all(pair.factors in unseen.PAIRS for pair in found)
    assert {(pair.factors[0], pair.motion) for pair in found} == {
        *(("high", "forward+high_0002"), ("bow", "bow_0003_mirror"))
    }
    # Wishes are taken from the catalogue; this one can raise the right arm alone.
    for pair in found:
        assert (pair.choice is not None) == (pair.factors[1] == "raise")
    chosen = found[3].choice
    assert chosen is not None and chosen.direction == directions().names[0]


def test_a_motion_alone_comes_before_one_while_walking():
    stage = _named(**{"forward+high_0002": "walk", "high_0005": "march"})
    found = spoken_pairs(stage, directions())
    assert {pair.motion for pair in found} == {"high_0005"}


def test_what_was_measured_on_the_base_is_asked():
    """The arm can be raised on a walk; where it made a jog fall, it is not."""
    stage = _named(jog_0001="jog ahead")
    found = {p.factors[1]: p for p in spoken_pairs(stage, directions())}
    assert found["raise"].choice is not None and found["reach"].choice is None
    walked = directions().measured[0]
    fell = {**walked, "base": "jog", "safe": [-0.5, 0.5]}
    known = replace(directions(), measured=(walked, fell))
    found = {p.factors[1]: p for p in spoken_pairs(stage, known)}
    assert found["raise"].choice is None


def test_without_a_base_there_is_nothing_to_try():
    stage = _named(forward_0001="walk", stand_0002="stand")
    with pytest.raises(ValueError, match="no pair has a base"):
        spoken_pairs(stage, directions())


def test_what_is_said_has_a_rule():
    """And is held: what beats is no part of it."""
    assert set(SAID) <= set(unseen.ADDED)
    assert not any(unseen.ADDED[added].get("beats") for added in SAID)


def _choice(direction: int, amplitude: float) -> Choice:
    return Choice(directions().names[direction], amplitude, "", "")


def test_only_the_first_half_of_the_robots_is_steered():
    """By its own pair's direction and amplitude, from step 40 on, risen at 65."""
    tried = [
        SpokenPair(("bow", "raise"), "bow_0003", _choice(4, -1.5)),
        SpokenPair(("bow", "reach"), "bow_0003", None),
        SpokenPair(("bow", "spread"), "bow_0003", _choice(0, 2.0)),
    ]
    found = amplitudes(tried, directions())
    assert found.shape == (STEPS, 2 * 3 * EPISODES, len(directions()))
    robots = found.reshape(STEPS, 2, 3, EPISODES, -1)
    assert not robots[:, 1].any() and not robots[:, 0, 1].any()
    assert not robots[:41].any() and (robots[full_amplitude(STEPS)] == robots[65]).all()
    first, last = robots[65, 0, 0], robots[65, 0, 2]
    assert (first[:, 4] == -1.5).all() and np.count_nonzero(first) == EPISODES
    assert (last[:, 0] == 2.0).all() and np.count_nonzero(last) == EPISODES


def _still() -> np.ndarray:
    return np.tile(g1.DEFAULT_QPOS, (STEPS + 1, EPISODES, 1))


def _judged(added: np.ndarray, fallen: bool = False) -> PairVerdict:
    """The verdict on a bow whose right shoulder is moved in each episode."""
    pair = SpokenPair(("bow", "raise"), "bow_0003", _choice(0, 2.0))
    steered = _still()
    steered[..., ARM] += added
    return judge_pair(pair, steered, _still(), fallen)


def test_pairs_are_judged_by_the_rules_of_composition():
    """Least change: 0.4 rad, the mean of the episodes."""
    found = _judged(np.array([-0.9, -0.1, -0.5]))
    assert found.share == pytest.approx(0.5 / 0.4, rel=1e-4)
    assert found.success and found.goes_on
    found = _judged(np.array([-0.9, -0.1, -0.1]))
    assert found.share == pytest.approx(1.1 / 1.2, rel=1e-4)
    assert not found.success and found.goes_on
    # What comes before and after full amplitude does not count.
    late = np.where(np.arange(STEPS + 1) < STEPS - 65, 0.0, -3.0)[:, None]
    assert _judged(late).share == 0


def test_a_fall_fails():
    for added, fallen in (
        (np.full(3, -0.9), True),
        (np.array([-0.9, 0, np.nan]), False),
    ):
        found = _judged(added, fallen)
        assert not found.success and not found.goes_on and found.share == 0


@pytest.fixture(scope="module")
def bowing(two_motions, make_corpus, tmp_path_factory) -> Stage:
    """A stage whose standing robot passes for one that bows."""
    clips = [replace(two_motions.clip(0), name="bow_0001"), two_motions.clip(1)]
    corpus = make_corpus(tmp_path_factory.mktemp("bowing") / "corpus", clips)
    return Stage(described(corpus), "a corpus", Letters(), episodes=1, steps=2)


def test_pairs_are_run_beside_their_bases(bowing, monkeypatch):
    """One that the catalogue offers nothing for does not succeed."""
    monkeypatch.setattr(planning, "PAIR_STEPS", 190)
    monkeypatch.setattr(planning, "PAIR_EPISODES", 1)
    tried = (("bow", "raise"), ("bow", "reach"), ("jog", "raise"), ("bow", "wave"))
    monkeypatch.setattr(unseen, "PAIRS", tried)
    planner = Rehearsed(bowing, 30)
    models = replace(with_planner(planner), directions=directions())
    found = pairs(bowing, models)
    values = {(r.row, r.metric): r.value for r in found.results}
    raised, reached = "bow: raise the right arm", f"bow: {SAID['reach']}"
    assert {row for row, _ in values} == {"all pairs", raised, reached}
    assert values[raised, "amplitude"] == 2 and values[reached, "amplitude"] == 0
    assert values[reached, "success"] == 0
    assert abs(values[reached, "share of the least change"]) < 0.3
    assert values["all pairs", "met"] == 50 * values[raised, "success"]
    assert values["all pairs", "falls"] == 0
    assert all(
        set(plan) <= set(planner.config.about.sentences[:2]) for plan in planner.words
    )
    assert [len(plan) for plan in planner.words] == [4] * 7
    assert (found.experiment, found.results[0].metric) == ("pairs", "met")


def test_directions_of_another_encoder_are_refused(bowing):
    other = replace(directions(), encoder="another")
    models = replace(with_planner(Rehearsed(bowing, 30)), directions=other)
    with pytest.raises(ValueError, match="another"):
        pairs(bowing, models)
