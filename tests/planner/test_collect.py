"""Robots are told motions; what they sense and what they were told is kept."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from spectral_skills import rotation
from spectral_skills.models import Models
from spectral_skills.motion.synthetic.generate import clip
from spectral_skills.planner import collect as collecting
from spectral_skills.planner.collect import (
    REACHED_STEPS,
    CollectConfig,
    Placement,
    TeachingSource,
    collect,
    in_place,
    second_instructions,
    starts,
)
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking.references import References

STAND, WALK = 383, 472
"""Numbers of clips of the embedded corpus."""


@pytest.fixture(scope="module")
def corpus(make_corpus, tmp_path_factory):
    clips = [clip(number) for number in (STAND, WALK)]
    return make_corpus(tmp_path_factory.mktemp("planned") / "corpus", clips)


def _roots(n: int, seed: int) -> torch.Tensor:
    rows = torch.randn((n, 36), generator=torch.Generator().manual_seed(seed))
    rows[:, 3:7] /= rows[:, 3:7].norm(dim=-1, keepdim=True)
    return rows


def test_a_reference_begins_where_another_ends_and_as_it_is_turned():
    last, first = _roots(4, 0), _roots(4, 1)
    place = Placement(4, torch.device("cpu"))
    which = torch.tensor([True, False, True, True])
    place.put(which, last, first)
    laid = place.into(first)
    torch.testing.assert_close(laid[which, :2], last[which, :2])
    turn = rotation.yaw(laid[:, 3:7]) - rotation.yaw(last[:, 3:7])
    torch.testing.assert_close(turn[which].cos(), torch.ones(3))
    torch.testing.assert_close(laid[:, 2], first[:, 2])
    torch.testing.assert_close(laid[1], first[1])


def test_a_robot_in_its_place_keeps_its_height_and_its_tilt():
    robot, reference = _roots(4, 0), _roots(4, 1)
    found = in_place(robot, reference)
    torch.testing.assert_close(found[:, :2], reference[:, :2])
    torch.testing.assert_close(found[:, 2], robot[:, 2])
    turn = rotation.yaw(found[:, 3:]) - rotation.yaw(reference[:, 3:7])
    torch.testing.assert_close(turn.cos(), torch.ones(4))
    up = torch.tensor([0.0, 0.0, 1.0]).expand(4, 3)
    down = [rotation.rotate_inverse(q, up) for q in (found[:, 3:], robot[:, 3:7])]
    torch.testing.assert_close(*down)


def test_commands_do_not_ask_a_robot_back_to_its_place(
    corpus, encoder, make_controller
):
    """A planner cannot know that its robot is 2 m away and turned."""
    references = References.build(corpus.to("cpu"))
    config = CollectConfig(astray=0.0, early=0.0)
    loops, motion = torch.zeros(2, dtype=torch.long), torch.tensor([1])
    kept = []
    for away in (False, True):
        tracker: Any = Silent(make_controller(), 1)
        source = TeachingSource(references, loops, motion, tracker, encoder, config)
        for step in range(20):
            qpos = references.at(motion, torch.full_like(motion, step)).rows.clone()
            if away:
                qpos[:, :2] += 2.0
                turn = rotation.from_yaw(torch.tensor([2.0]))
                qpos[:, 3:7] = rotation.multiply(turn, qpos[:, 3:7])
            source.source(step, qpos)
        assert torch.stack(source.frames["valid"]).all()
        kept.append({k: torch.stack(v).float() for k, v in source.frames.items()})
    for name in ("skill", "root", "reference"):
        torch.testing.assert_close(kept[0][name], kept[1][name], atol=2e-3, rtol=2e-3)


class Silent:
    """A tracker that has sensed nothing."""

    def __init__(self, controller, n: int):
        self.command = controller.config.command
        self.history = torch.zeros(n, 10, 93)


def _taught(corpus, encoder, make_controller, config, steps=120, motion=(0, 1, 0, 1)):
    """A source, asked for some steps by robots that stay on their references."""
    references = References.build(corpus.to("cpu"))
    tracker: Any = Silent(make_controller(), len(motion))
    loops = torch.zeros(2, dtype=torch.long)
    source = TeachingSource(
        references, loops, torch.tensor(motion), tracker, encoder, config
    )
    now = references.at(source.motion, torch.zeros_like(source.motion)).rows
    commanded = []
    for step in range(steps):
        commanded.append(source.source(step, now))
        now = source.frames["reference"][-1]
    return source, torch.stack(commanded)


def test_motions_follow_one_another_from_where_they_end(
    corpus, encoder, make_controller
):
    config = CollectConfig(again=0.0, early=1.0, least_steps=20, astray=0.0)
    source, _ = _taught(corpus, encoder, make_controller, config, 400)
    motion = torch.stack(source.frames["motion"])
    changed = (motion[1:] != motion[:-1]).any(dim=0)
    assert changed.all()
    rows = torch.stack(source.frames["reference"])
    jump = rows.diff(dim=0)[..., :2].norm(dim=-1)
    assert jump.max() < 0.06  # nothing is put elsewhere: 1.3 m/s are 0.026 m a step
    assert torch.stack(source.frames["valid"]).all()


def test_what_is_kept_is_what_robots_should_have_been_told(
    corpus, encoder, make_controller
):
    calm = CollectConfig(astray=0.0, early=0.0)
    source, commanded = _taught(corpus, encoder, make_controller, calm, 60)
    kept = torch.stack(source.frames["skill"]).float()
    torch.testing.assert_close(kept, commanded, atol=2e-3, rtol=2e-3)
    wild = CollectConfig(astray=1.0, astray_std=3.0, early=0.0)
    source, commanded = _taught(corpus, encoder, make_controller, wild, 60)
    kept = torch.stack(source.frames["skill"]).float()
    off = commanded - kept
    assert off[:50].std(dim=0).max() < 5e-3 < 0.05 < off[0].std()
    assert not torch.allclose(off[49], off[50], atol=1e-2)


def test_a_robot_that_is_lost_stays_lost(corpus, encoder, make_controller):
    references = References.build(corpus.to("cpu"))
    tracker: Any = Silent(make_controller(), 2)
    loops = torch.zeros(2, dtype=torch.long)
    source = TeachingSource(
        references, loops, torch.tensor([0, 0]), tracker, encoder, CollectConfig()
    )
    rows = references.at(source.motion, torch.zeros_like(source.motion)).rows
    down = rows.clone()
    down[0, 2] -= 0.3
    for step, qpos in enumerate((rows, down, rows)):
        source.source(step, qpos)
    valid = torch.stack(source.frames["valid"])
    assert valid.tolist() == [[True, True], [False, True], [False, True]]


def test_a_robot_has_time_to_reach_a_motion_that_begins_elsewhere(
    corpus, encoder, make_controller
):
    references = References.build(corpus.to("cpu"))
    tracker: Any = Silent(make_controller(), 3)
    motion, loops = torch.zeros(3, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    config = CollectConfig(astray=0.0, early=0.0)
    source = TeachingSource(references, loops, motion, tracker, encoder, config)
    for step in range(REACHED_STEPS + 10):
        rows = references.at(motion, torch.full_like(motion, step)).rows.clone()
        rows[0, 2] -= 0.3 * (step < 20)  # gets there
        rows[1, 2] -= 0.3  # does not
        rows[2] = rows[2] / (step < 30)  # breaks
        source.source(step, rows)
    valid = torch.stack(source.frames["valid"])
    assert valid[:, 0].all()
    assert valid[:, 1].sum() == REACHED_STEPS
    assert valid[:, 2].sum() == 30


def test_some_robots_of_every_motion_begin_standing(corpus):
    references = References.build(corpus.to("cpu"))
    motion = torch.arange(2).repeat_interleave(20)
    rows, speed = starts(references, motion, CollectConfig(standing=0.3))
    first = references.at(motion, torch.zeros_like(motion))
    joints = torch.tensor(g1.DEFAULT_QPOS[7:]).float()
    stands = (rows[:, 7:] == joints).all(dim=1)
    assert stands.reshape(2, 20).sum(dim=1).tolist() == [6, 6]
    assert not speed[stands].any()
    torch.testing.assert_close(rows[stands, :2], first.rows[stands, :2])
    turned = rotation.yaw(rows[:, 3:7]) - rotation.yaw(first.rows[:, 3:7])
    torch.testing.assert_close(turned.cos(), torch.ones(40))
    assert torch.equal(rows[~stands], first.rows[~stands])


def test_held_commands_are_kept_as_they_were_given(corpus, encoder, make_controller):
    references = References.build(corpus.to("cpu"))
    tracker: Any = Silent(make_controller(hold=10), 2)
    config = CollectConfig(astray=0.0, early=0.0)
    loops, both = torch.zeros(2, dtype=torch.long), torch.tensor([0, 1])
    source = TeachingSource(references, loops, both, tracker, encoder, config)
    for step in range(25):
        frames = torch.full((2,), step)
        source.source(step, references.at(torch.tensor([0, 1]), frames).rows)
    skill = torch.stack(source.frames["skill"]).float()
    for begin, end in ((0, 10), (10, 20), (20, 25)):
        assert torch.equal(skill[begin:end], skill[begin].expand(end - begin, 2, -1))
    assert not torch.equal(skill[0], skill[10])


def test_the_released_controller_gives_rows(corpus):
    models = Models.load()
    controller, encoder = models.controller, models.skill_encoder
    config = CollectConfig(robots=2, steps=60)
    rows = collect(config, controller, encoder, corpus, "hash", "cpu")
    assert rows.robots == 4 and len(rows) == 4 * 30 and rows.upright == 1.0
    assert rows.about.controller == "hash" and rows.about.corpus == corpus.hash
    names = [motion.name for motion in rows.about.motions]
    assert names == corpus.names and rows.about.motions[0].frames == 384
    assert all(motion.sentences and motion.held_out for motion in rows.about.motions)
    # The poses of a row are those whose skill was told.
    batch = rows.batch(torch.arange(120), "pose")
    skills = rows.batch(torch.arange(120), "skill").chunk[:, 0]
    off = (encoder.encode(batch.chunk[:, :10]) - skills).abs()
    assert off.median() < 1e-3


def test_what_cannot_be_collected_is_refused(
    corpus, encoder, make_controller, make_clip, make_corpus, tmp_path, monkeypatch
):
    joint = make_controller(kind="joint")
    with pytest.raises(ValueError, match="makes skills of windows itself"):
        collect(CollectConfig(), joint, encoder, corpus, "", "cpu")
    with pytest.raises(ValueError, match="a row needs 31"):
        collect(CollectConfig(steps=30), make_controller(), encoder, corpus, "", "cpu")
    silent = make_corpus(tmp_path / "silent", [make_clip("a", 60)])
    monkeypatch.setattr(collecting, "check_match", lambda *_: None)
    with pytest.raises(ValueError, match="described in words"):
        collect(CollectConfig(), make_controller(), encoder, silent, "", "cpu")


def test_second_instructions_move_some_robots_and_are_not_kept(
    corpus, encoder, make_controller
):
    """Commands are moved by up to the whole of one move, and rows keep them unmoved."""
    references = References.build(corpus.to("cpu"))
    tracker: Any = Silent(make_controller(), 40)
    config = CollectConfig(astray=0.0, along=0.5, along_steps=20, early=0.0)
    motion, loops = torch.zeros(40, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    moves = 4 * torch.eye(5)[:2]
    parts = references, loops, motion, tracker, encoder, config, moves
    source = TeachingSource(*parts)
    rows = references.at(motion, torch.zeros_like(motion)).rows
    given = torch.stack([source.source(step, rows) for step in range(40)])
    off = given - torch.stack(source.frames["skill"]).float()
    torch.testing.assert_close(off[..., 2:], torch.zeros(40, 40, 3), atol=5e-3, rtol=0)
    moved = off[0].abs().amax(dim=-1) > 0.05
    assert 8 < moved.sum() < 32 and off.max() < 4.01 and off.min() > -0.01
    torch.testing.assert_close(off[0], off[19], atol=5e-3, rtol=0)
    assert not torch.allclose(off[19, moved], off[20, moved], atol=0.05)
    assert off[:, ~moved].abs().max() < 0.01


def test_second_instructions_are_directions_of_targets_both_ways():
    known = Directions.load("base")
    found = second_instructions(known)
    turn = torch.from_numpy(2 * known.vectors[known.index("turn")]).float()
    for sign in (1, -1):
        assert ((found - sign * turn).abs().amax(dim=1) < 1e-6).sum() == 1
    spectral = known.select(known.family("spectral"))
    with pytest.raises(ValueError, match="no targets"):
        second_instructions(spectral)


def test_only_motions_that_are_followed_are_collected(corpus, make_corpus, tmp_path):
    """A robot cannot follow one that glides: it would be no row."""
    models = Models.load()
    walk = corpus.clip(1)
    away = walk.root_position + np.linspace(0, 8, walk.frames)[:, None] * (0, 1, 0)
    glides = replace(walk, name="glide", text="glide away", root_position=away)
    other = make_corpus(tmp_path / "corpus", [glides])
    config = CollectConfig(robots=1, steps=40, astray=0.0)
    both = models.controller, models.skill_encoder
    rows = collect(config, *both, [corpus, other], "hash", "cpu")
    assert [motion.name for motion in rows.about.motions] == corpus.names
    assert rows.about.corpus == f"{corpus.hash}+{other.hash}"
    with pytest.raises(ValueError, match="follows none of 1"):
        collect(config, *both, other, "hash", "cpu")
