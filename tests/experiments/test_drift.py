"""Drift: nothing for skills that ignore the root, known lengths for those it makes."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.experiments.skills import ReadoutWindows, displaced_skills, drift
from spectral_skills.motion.windows import WindowConfig, WindowSampler, move_anchor
from spectral_skills.skill.encoder import SkillEncoder


@pytest.fixture(scope="module")
def sides(
    make_clip, make_corpus, tmp_path_factory
) -> tuple[ReadoutWindows, ReadoutWindows]:
    clips = [make_clip(f"walk{i}", 80 + i % 9, seed=i) for i in range(40)]
    corpus = make_corpus(tmp_path_factory.mktemp("drift") / "walks", clips)
    fit, score = corpus.select(range(30)), corpus.select(range(30, 40))
    return ReadoutWindows.draw(fit.to("cpu"), 1500, 0), ReadoutWindows.draw(
        score.to("cpu"), 1500, 1
    )


def _encoder(encode, anchor: Any = "heading") -> Any:
    """A real encoder's way to its poses, with any function in its place."""
    stand_in: Any = SimpleNamespace(
        windows=WindowConfig(anchor=anchor), steps=torch.arange(10), encode=encode
    )
    stand_in.encode_at = partial(SkillEncoder.encode_at, stand_in)
    return stand_in


def _yaw(poses: Tensor) -> Tensor:
    return rotation.yaw(rotation.from_rot6d(poses[:, 0, 32:]))[:, None]


def test_skills_of_joints_alone_do_not_move(sides):
    """They change over time, but do not depend on where the robot is."""
    found = drift(_encoder(lambda poses: poses[:, 0, :29]), *sides, seed=0)
    assert found["way at 10 cm"] == found["way at 0.1 rad"] == found["way at both"] == 0
    assert found["R^2 of the offset"] < 0.02
    assert (
        0
        < found["way in 0.02 s"]
        < found["way in 0.2 s"]
        < found["way to another window"]
    )


def test_an_anchor_on_the_reference_feels_nothing(sides):
    encoder = _encoder(lambda poses: poses.flatten(1), "reference")
    found = drift(encoder, *sides, seed=0)
    assert found["way at 10 cm"] == found["way at 0.1 rad"] == found["way at both"] == 0


def test_linear_skills_move_as_far_as_the_robot(sides):
    """Three times the place of the first pose: 0.3 for 10 cm, and no way to turn it;
    a skill that is the heading moves by the turn."""
    found = drift(_encoder(lambda poses: 3 * poses[:, 0, 29:32]), *sides, seed=0)
    assert found["way at 10 cm"] == pytest.approx(0.3, abs=1e-4)
    assert found["way at 0.1 rad"] == pytest.approx(0, abs=1e-4)
    assert found["way at both"] == pytest.approx(0.3, abs=1e-4)
    assert found["10 cm / length"] == pytest.approx(0.3 / found["length"], rel=1e-3)
    found = drift(_encoder(_yaw), *sides, seed=0)
    assert found["way at 10 cm"] == pytest.approx(0, abs=1e-4)
    assert found["way at 0.1 rad"] == pytest.approx(0.1, abs=1e-4)


def test_an_offset_that_skills_contain_is_read(sides):
    """Two metres and a turn, mixed: all of it; two of three: two thirds."""

    def encode(poses: Tensor) -> Tensor:
        back = rotation.from_yaw(-_yaw(poses)[:, 0])
        place = rotation.rotate(back, poses[:, 0, 29:32])
        return torch.cat((place[:, :2], _yaw(poses)), dim=1) @ mix

    mix = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)))
    mix = mix.Q
    assert drift(_encoder(encode), *sides, seed=0)["R^2 of the offset"] > 0.99
    place = _encoder(lambda poses: encode(poses) @ mix.T @ torch.eye(3)[:, :2])
    assert drift(place, *sides, seed=0)["R^2 of the offset"] == pytest.approx(
        2 / 3, abs=0.02
    )


def test_ways_in_time_are_between_windows_of_the_clip(sides):
    """A skill that is the height moves as the height does, within its clip."""
    score = sides[1]
    found = drift(_encoder(lambda poses: poses[:, 0, 31:32]), *sides, seed=0)
    motions = score.motions
    heights = [
        motions.gather(score.clips, (score.times + step)[:, None])[:, 0, 2]
        for step in (0, 1, 10)
    ]
    for step, way in ((1, found["way in 0.02 s"]), (2, found["way in 0.2 s"])):
        wanted = (heights[step] - heights[0]).abs().mean()
        assert way == pytest.approx(float(wanted), rel=0.1)


def test_the_same_seed_measures_the_same(sides):
    encoder = _encoder(lambda poses: poses.flatten(1))
    assert drift(encoder, *sides, seed=3) == drift(encoder, *sides, seed=3)


def test_a_moved_anchor_is_a_robot_elsewhere(sides):
    """Noise of pretraining and the view at run time are one thing."""
    score = sides[1]
    torch.manual_seed(0)
    offset = torch.randn(len(score.clips), 3)
    encoder = _encoder(lambda poses: poses.flatten(1))
    seen = displaced_skills(encoder, score, offset).view(-1, 10, 38)
    sampler = WindowSampler(score.motions, WindowConfig(context=1, future=1))
    windows = sampler.at(score.clips, score.times)
    moved = windows.ahead_from(offset)
    torch.testing.assert_close(moved.chunk, seen, atol=1e-4, rtol=0)
    assert torch.equal(moved.context, windows.context)
    future = move_anchor(windows.future, offset)
    torch.testing.assert_close(moved.future, future)
    assert not torch.equal(future, windows.future)
