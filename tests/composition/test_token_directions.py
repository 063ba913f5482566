"""Directions from skills alone: known answers, and skills beside their motions."""

import numpy as np
import pytest

from spectral_skills.experiments.neighbours import describe_skills, principal, ridge
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import EncoderConfig, SkillBank, SkillEncoder


def test_principal_components_are_the_axes_of_the_spread():
    """Skills spread 3, 1 and 0.1 along turned axes: order, length and sign."""
    random = np.random.default_rng(0)
    turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
    skills = random.normal(size=(4000, 3)) * (3.0, 1.0, 0.1) @ turn + 7.0
    found = principal(skills, 2)
    assert found.shape == (2, 3)
    np.testing.assert_allclose(np.abs((found * turn[:2]).sum(1)), 1.0, atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    assert (found[np.arange(2), np.abs(found).argmax(1)] > 0).all()


def test_ridge_finds_the_weights_whatever_the_scales():
    """y = 2 a - b, where b varies a hundred times as much as a, and c never."""
    random = np.random.default_rng(1)
    skills = random.normal(size=(5000, 3)) * (0.1, 10.0, 0.0) + (5.0, 0.0, 2.0)
    attribute = skills @ (2.0, -1.0, 0.0) + 3.0
    np.testing.assert_allclose(
        ridge(skills, attribute, 1e-9), np.array((2, -1, 0)) / 5**0.5, atol=1e-6
    )
    # A penalty of the variance halves both weights, and so keeps the direction.
    np.testing.assert_allclose(
        ridge(skills, attribute, 1.0), np.array((2, -1, 0)) / 5**0.5, atol=0.05
    )


def test_what_never_varies_has_no_weight():
    """Also where the mean of equal numbers is another one in floats."""
    skills = np.random.default_rng(2).normal(size=(100, 2))
    skills[:, 1] = 0.1
    assert skills.std(axis=0)[1] > 0
    np.testing.assert_allclose(ridge(skills, skills[:, 0]), (1, 0), atol=1e-12)


@pytest.mark.parametrize("value", [1.0, 0.1])
def test_ridge_refuses_an_attribute_that_never_changes(value):
    skills = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(ValueError, match="no direction"):
        ridge(skills, np.full(50, value))


def test_skills_are_beside_the_motion_they_stand_for(make_clip, make_corpus, tmp_path):
    """The joint angle of a described window is the mean of its ten frames."""
    corpus = make_corpus(tmp_path / "two", [make_clip(f"w{i}", 60, i) for i in (0, 1)])
    windows = WindowConfig()
    encoder = SkillEncoder(EncoderConfig(width=4, hidden=(8,)), windows).eval()
    found = describe_skills(encoder, corpus, every=7)
    per_clip = len(range(0, 60 - windows.chunk + 1, 7))
    assert found.skills.shape == (2 * per_clip, 4)
    assert found.clips.tolist() == [0] * per_clip + [1] * per_clip
    column = 7 + g1.joint_index("right_shoulder_pitch")
    third = corpus.qpos(1)[14 : 14 + windows.chunk, column].mean()
    at = per_clip + 2
    assert found.attribute("right_shoulder_pitch")[at] == pytest.approx(third, abs=1e-5)
    bank = SkillBank.build(encoder, corpus, every=7)
    assert found.spread == pytest.approx(bank.spread(), rel=1e-5)
