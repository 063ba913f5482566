"""From a seed to a corpus: the same bytes, resumed after a kill."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from spectral_skills.motion.checks import measure
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.inverse_dynamics import body_weight, inverse_dynamics
from spectral_skills.motion.momentum import Momentum
from spectral_skills.motion.synthetic import generate
from spectral_skills.motion.synthetic.generate import SynthConfig, synthesise


def rows_of(folder):
    return np.array(Corpus.open(folder).rows)


def test_same_seed_same_bytes_whatever_the_workers(tmp_path):
    synthesise(tmp_path / "one", SynthConfig(3, seed=5), workers=1)
    synthesise(tmp_path / "two", SynthConfig(3, seed=5), workers=2)
    one, two = (Corpus.open(tmp_path / name) for name in ("one", "two"))
    assert one.hash == two.hash
    assert np.array_equal(rows_of(tmp_path / "one"), rows_of(tmp_path / "two"))


def test_other_seed_other_motion_and_size_does_not_matter(tmp_path):
    synthesise(tmp_path / "a", SynthConfig(2, seed=5), workers=1)
    synthesise(tmp_path / "b", SynthConfig(1, seed=5), workers=1)
    a, b = Corpus.open(tmp_path / "a"), Corpus.open(tmp_path / "b")
    assert np.array_equal(a.qpos(0), b.qpos(0))
    synthesise(tmp_path / "c", SynthConfig(1, seed=6), workers=1)
    c = Corpus.open(tmp_path / "c")
    assert not np.array_equal(b.qpos(0)[:50], c.qpos(0)[:50])


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    synthesise(whole, SynthConfig(3, seed=1), workers=1)
    made = []

    def dying(number, seed):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(number)
        return CLIP(number, seed)

    CLIP = generate.clip  # noqa: N806
    monkeypatch.setattr(generate, "clip", dying)
    with pytest.raises(KeyboardInterrupt):
        synthesise(tmp_path / "cut", SynthConfig(3, seed=1), workers=1)
    made.clear()
    synthesise(tmp_path / "cut", SynthConfig(3, seed=1), workers=1)
    assert made == [2]
    assert np.array_equal(rows_of(tmp_path / "cut"), rows_of(whole))


@pytest.mark.parametrize("config", [SynthConfig(0), SynthConfig(1, seed=-1)])
def test_impossible_requests_are_refused(tmp_path, config):
    with pytest.raises(ValueError, match="--clips 0|--seed -1"):
        synthesise(tmp_path / "x", config)
    assert not (tmp_path / "x").exists()


def test_our_dynamics_agree_with_mujoco():
    """Zero-moment point and force of a walk, by two ways."""
    qpos = generate.clip(11).qpos().astype(np.float64)
    ours = Momentum().dynamics(torch.from_numpy(qpos), 50.0)
    theirs = inverse_dynamics(qpos, 50.0)
    inside = slice(2, -2)
    force = theirs.force[:, 2] / body_weight()
    assert np.abs(ours.force.numpy() - force)[inside].max() < 0.01
    gap = np.linalg.norm(ours.zmp.numpy() - theirs.zero_moment_point, axis=1)[inside]
    assert np.median(gap) < 0.002 and gap.max() < 0.02
    assert np.allclose(ours.centre.numpy(), theirs.mass_centre, atol=1e-6)


def test_clips_say_where_they_come_from():
    clip = generate.clip(5)
    assert clip.licence == "Apache-2.0" and clip.source == generate.SOURCE
    assert clip.name.endswith("_0005") and clip.fps == 50.0 and not clip.notes


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_keep_the_laws(seed):
    """What holds for every clip of seed 0 is not tuned to it."""
    for number in range(8 * seed, 8 * seed + 8):
        clip = generate.clip(number, seed)
        measured = measure(clip.qpos(), contact_height_m=0.005)
        assert measured.sole_depth_mm < 5.0 and measured.slide_max < 0.02, clip.name
        assert measured.limit_excess < 1e-6, clip.name
        if "jog" not in clip.name:
            assert measured.balance_max < 0.02, clip.name
            assert measured.airborne_share == 0.0, clip.name


@pytest.mark.parametrize("number", [315, 109, 213, 199, 406, 284])
def test_the_generator_makes_the_recorded_motions(number):
    """The released models were trained on them: a change of motion must be meant."""
    file = Path(__file__).parent / "recorded_clips.json"
    expected = json.loads(file.read_text())[str(number)]
    clip = generate.clip(number)
    rows = clip.qpos().astype(np.float64)
    assert (clip.name, clip.text) == (expected["name"], expected["text"])
    assert len(rows) == expected["frames"]
    assert np.allclose(rows.mean(axis=0), expected["mean"], atol=1e-5)
    assert np.allclose(rows.std(axis=0), expected["deviation"], atol=1e-5)
