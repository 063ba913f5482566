"""Skills of whole motions: one for each time that has a whole window."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_skills import rotation
from spectral_skills.motion.clip import mirror_rows
from spectral_skills.motion.windows import WindowConfig, WindowSampler
from spectral_skills.skill import encoder as encoders
from spectral_skills.skill.encoder import (
    EncoderConfig,
    SkillBank,
    SkillEncoder,
    encode_rows,
    save_stream,
)

LENGTHS = (70, 9, 33, 10, 41)
"""The second is one frame too short for a chunk of ten."""


def make_encoder(seed: int = 0, sees: Any = "chunk", **windows) -> SkillEncoder:
    """A small encoder that answers to every input."""
    torch.manual_seed(seed)
    config = EncoderConfig(width=6, hidden=(32,), sees=sees)
    return SkillEncoder(config, WindowConfig(**windows))


@pytest.fixture(scope="module")
def encoder():
    return make_encoder()


@pytest.fixture(scope="module")
def corpus(make_clip, make_corpus, tmp_path_factory):
    clips = [make_clip(f"walk_{i}", n, seed=i) for i, n in enumerate(LENGTHS)]
    return make_corpus(tmp_path_factory.mktemp("codes") / "corpus", clips)


@pytest.mark.parametrize("anchor", ["heading", "pose", "reference"])
@pytest.mark.parametrize("sees", ["chunk", "full"])
@pytest.mark.parametrize("stride", [1, 2])
def test_skills_are_those_of_the_windows(corpus, anchor, sees, stride):
    """Wherever pretraining can look, the skill is that of the window it sees."""
    encoder = make_encoder(sees=sees, anchor=anchor, stride=stride)
    sampler = WindowSampler(corpus.to("cpu"), encoder.windows)
    times = torch.arange(encoder.windows.before, 70 - encoder.windows.after)
    windows = sampler.at(torch.zeros_like(times), times)
    poses = windows.chunk
    if sees == "full":
        poses = torch.cat((windows.context, windows.chunk[:, 1:]), dim=1)
    skills = encode_rows(encoder, corpus.qpos(0))
    assert skills.shape == (70 - (encoder.last - encoder.first), 6)
    found = skills[times + encoder.first]
    torch.testing.assert_close(found, encoder.encode(poses), atol=1e-5, rtol=0)


@settings(max_examples=15)
@given(turn=st.floats(-3, 3), x=st.floats(-10, 10), y=st.floats(-10, 10))
def test_skills_do_not_change_under_yaw_and_shift(corpus, encoder, turn, x, y):
    rows = torch.from_numpy(np.array(corpus.qpos(0)))
    q = rotation.from_yaw(torch.tensor(turn))
    position = rotation.rotate(q, rows[:, :3]) + torch.tensor((x, y, 0.0))
    moved = (position, rotation.multiply(q, rows[:, 3:7]), rows[:, 7:])
    before, after = (
        encode_rows(encoder, rows),
        encode_rows(encoder, torch.cat(moved, 1)),
    )
    torch.testing.assert_close(after, before, atol=1e-4, rtol=0)


def test_long_clips_are_encoded_in_parts(corpus, encoder, monkeypatch):
    whole = encode_rows(encoder, corpus.qpos(0))
    monkeypatch.setattr(encoders, "_AT_ONCE", 7)
    torch.testing.assert_close(encode_rows(encoder, corpus.qpos(0)), whole)


def test_a_clip_needs_one_whole_window(corpus, encoder):
    assert encode_rows(encoder, corpus.qpos(3)).shape == (1, 6)
    with pytest.raises(ValueError, match="9 frames .* sees 10 frames"):
        encode_rows(encoder, corpus.qpos(1))
    with pytest.raises(ValueError, match=r"shape \(70, 38\)"):
        encode_rows(encoder, np.zeros((70, 38)))


def test_streams_are_written_exactly(corpus, encoder, tmp_path):
    """Bit by bit, and without pickle."""
    skills = encode_rows(encoder, corpus.qpos(0)).numpy()
    path = tmp_path / "streams" / "walk.npz"
    save_stream(path, skills, "Tänzer 1", encoder.fingerprint())
    found = np.load(path, allow_pickle=False)
    assert found["skills"].tobytes() == skills.tobytes()
    assert found["skills"].dtype == np.float32 and found["skills"].shape == skills.shape
    assert (str(found["name"]), found["fps"], found["version"]) == ("Tänzer 1", 50, 1)
    assert str(found["encoder"]) == encoder.fingerprint()


@pytest.mark.parametrize("sees", ["chunk", "full"])
@pytest.mark.parametrize("every", [1, 5, 1000])
def test_bank_holds_every_clip_at_even_times(corpus, sees, every, monkeypatch):
    """Skill by skill what the clips give alone; short clips have none."""
    monkeypatch.setattr(encoders, "_BANK_BATCH", 16)
    encoder = make_encoder(sees=sees)
    bank = SkillBank.build(encoder, corpus, every)
    skills, clips, times = [], [], []
    for index, length in enumerate(LENGTHS):
        if length > encoder.last - encoder.first:
            own = encode_rows(encoder, corpus.qpos(index))[::every]
            skills.append(own)
            clips += [index] * len(own)
            times += [every * i - encoder.first for i in range(len(own))]
    torch.testing.assert_close(bank.skills, torch.cat(skills), atol=1e-5, rtol=0)
    assert bank.clips.tolist() == clips and bank.times.tolist() == times


def test_mirrored_clips_have_the_skills_of_mirrored_rows(corpus, encoder):
    bank = SkillBank.build(encoder, corpus.with_mirror())
    for index in (0, 2):
        rows = corpus.qpos(index)
        for clip, own in ((index, rows), (index + len(corpus), mirror_rows(rows))):
            found = bank.skills[bank.clips == clip]
            expected = encode_rows(encoder, own)[::5]
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_mean_and_spread_by_hand(corpus, encoder):
    """Also when some clips of the view are out of order or missing."""
    bank = SkillBank.build(encoder, corpus.select([4, 1, 0]))
    clips, means = bank.clip_means()
    assert clips.tolist() == [0, 2]
    whole = [encode_rows(encoder, corpus.qpos(i))[::5].double() for i in (4, 0)]
    expected = torch.stack([own.mean(dim=0) for own in whole]).float()
    torch.testing.assert_close(means, expected, atol=1e-5, rtol=0)
    joined = torch.cat(whole)
    each = (joined - joined.mean(dim=0)).square().mean(dim=0).sqrt()
    assert bank.spread() == pytest.approx(float(each.mean()), rel=1e-4)


def test_bank_says_what_is_missing(corpus, encoder):
    with pytest.raises(ValueError, match="the 10 frames .* longest has 9"):
        SkillBank.build(encoder, corpus.select([1]))
    with pytest.raises(ValueError, match="every is 0"):
        SkillBank.build(encoder, corpus, every=0)
