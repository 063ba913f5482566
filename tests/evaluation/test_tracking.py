"""Evaluation of whole corpora: groups, order, windows, rows, and what is refused."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch

from spectral_skills.evaluation.course import Course
from spectral_skills.evaluation.tracking import Probe, evaluate, save_outcomes
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking.joint import CommandConfig
from spectral_skills.tracking.policy import Controller, ControllerConfig

LENGTHS = (40, 90, 55, 61, 30)
NAMES = ("walk_a", "jump_b", "walk_c", "box_punch_d", "jump_e")


@pytest.fixture(scope="module")
def corpus(make_clip, make_corpus, tmp_path_factory):
    clips = [
        make_clip(name, frames, seed=i)
        for i, (name, frames) in enumerate(zip(NAMES, LENGTHS, strict=True))
    ]
    return make_corpus(tmp_path_factory.mktemp("tracking") / "clips", clips)


@pytest.fixture(scope="module")
def encoder() -> SkillEncoder:
    torch.manual_seed(0)
    return SkillEncoder(EncoderConfig(width=4, hidden=(8,)), WindowConfig()).eval()


@pytest.fixture(scope="module")
def controller() -> Controller:
    torch.manual_seed(0)
    config = ControllerConfig(hidden=(8,), command=CommandConfig(width=4))
    return Controller(config).eval()


class Followers:
    """Robots that step from a row of a corpus to the next one of the same clip."""

    def __init__(self, count: int, corpus, drop: str = ""):
        self.count, self.device = count, torch.device("cpu")
        self.qpos, self.qvel = torch.zeros(count, 36), torch.zeros(count, 35)
        self.targets = torch.zeros(count, g1.NUM_JOINTS)
        self.broken = torch.zeros(count, dtype=torch.bool)
        rows, following, self.low = [], [], -1
        total = 0
        for i, name in enumerate(corpus.names):
            rows.append(torch.tensor(np.array(corpus.qpos(i))))
            end = total + len(rows[-1])
            following.append(torch.arange(total + 1, end + 1).clamp_max(end - 1))
            if name == drop:
                self.low = total + 10
            total = end
        self.rows, self.following = torch.cat(rows), torch.cat(following)

    def step(self) -> None:
        # Known by all but the height, which may have been lowered.
        apart = (self.qpos[:, None] - self.rows).abs()
        apart[..., 2] = 0.0
        at = self.following[apart.amax(dim=-1).argmin(dim=1)]
        self.qpos.copy_(self.rows[at])
        self.qpos[at == self.low, 2] -= 0.5


def test_robots_on_their_references_score_everything(corpus, encoder, controller):
    made = []

    def physics(count: int) -> Any:
        made.append(count)
        return Followers(count, corpus)

    found = evaluate(controller, encoder, corpus, physics=physics, robots=2)
    # Five clips in three groups of two; the simulation is made once.
    assert made == [2]
    rows = {r.row for r in found.results}
    assert rows == {"all", "walk", "jump", "boxing"}
    every = {r.metric: r for r in found.results if r.row == "all"}
    assert every["success_rate"].value == 1 and every["success_rate"].n == 5
    for name in ("mpjpe_local_mm", "mpjpe_global_mm", "root_drift_mm"):
        assert every[name].value == pytest.approx(0, abs=1e-3)
        assert every[name].unit == "mm" and every[name].table == "tracking"
    assert all(r.run == corpus.hash[:8] for r in found.results)
    # Sorted by length when run, in the corpus's order when told.
    assert [o.name for o in found.outcomes] == list(NAMES)
    assert [o.frames for o in found.outcomes] == list(LENGTHS)
    jumps = {r.metric: r.n for r in found.results if r.row == "jump"}
    assert jumps["success_rate"] == 2


def test_a_failure_is_told_for_its_clip_with_frame_and_cause(
    corpus, encoder, controller
):
    def physics(count: int) -> Any:
        return Followers(count, corpus, drop="walk_c")

    found = evaluate(controller, encoder, corpus, physics=physics, robots=3)
    outcome = found.outcomes[2]
    assert (outcome.success, outcome.failed_at) == (False, 10)
    assert outcome.cause == "anchor_height"
    assert sum(o.success for o in found.outcomes) == 4
    every = {r.metric: r.value for r in found.results if r.row == "all"}
    assert every["success_rate"] == 0.8
    assert every["failed_anchor_height"] == 1
    assert every["progress_of_failed"] == pytest.approx(9 / 54)


def test_windows_begin_at_their_frames(corpus, encoder, controller):
    """Two windows of one clip and one of another; row 10 of jump_b is in one."""

    def physics(count: int) -> Any:
        return Followers(count, corpus, drop="jump_b")

    windows = [(1, 0), (1, 30), (3, 31)]
    found = evaluate(
        controller, encoder, corpus, windows=windows, frames=30, physics=physics
    )
    assert [o.failed_at for o in found.outcomes] == [10, 0, 0]
    assert [o.frames for o in found.outcomes] == [30, 30, 30]
    assert [o.name for o in found.outcomes] == ["jump_b", "jump_b", "box_punch_d"]
    row = {r.metric: r for r in found.results if r.row == "windows"}
    assert row["complete"].value == 2 and row["complete"].n == 3
    assert {r.row for r in found.results} == {
        "windows",
        "windows, jump",
        "windows, boxing",
    }


def test_windows_that_are_not_there_are_refused(corpus, encoder):
    with pytest.raises(ValueError, match="jump_b has 90 frames, too few for 30"):
        Course(corpus, encoder, windows=[(1, 61)], frames=30)
    with pytest.raises(ValueError, match="no clip 5; there are 5"):
        Course(corpus, encoder, windows=[(5, 0)], frames=30)
    with pytest.raises(ValueError, match="nothing to run"):
        Course(corpus, encoder, windows=[])


def test_groups_are_even_and_longest_first(corpus, encoder):
    course = Course(corpus, encoder, robots=4)
    assert course.robots == 3
    assert [group.tolist() for group in course.groups] == [[1, 3, 2], [0, 4]]


def test_a_probe_is_the_same_evaluation_again_and_again(corpus, encoder, controller):
    made = []

    def physics(count: int) -> Any:
        made.append(Followers(count, corpus, drop="walk_a"))
        return made[-1]

    probe = Probe(corpus, encoder, physics=physics)
    first, second = probe(controller), probe(controller)
    assert first == second and len(made) == 1
    assert first["success_rate"] == 0.8
    assert set(first) == {"success_rate", "mpjpe_local_mm", "mpjpe_global_mm"}


def test_a_controller_of_another_encoder_is_refused(corpus, encoder):
    other = ControllerConfig(hidden=(8,), command=CommandConfig(width=4, encoder="x"))
    with pytest.raises(ValueError, match="trained with the encoder x"):
        evaluate(Controller(other), encoder, corpus)


def test_on_mujoco_itself_an_untrained_controller_is_scored(
    corpus, encoder, controller, tmp_path
):
    """It does something, and the table says what."""
    found = evaluate(controller, encoder, corpus.select([0, 4]))
    every = {r.metric: r for r in found.results if r.row == "all"}
    assert every["success_rate"].n == 2
    assert every["success_rate"].hardware
    errors = [o.mpjpe_local_mm for o in found.outcomes]
    assert all(e is not None and e > 1 for e in errors)
    save_outcomes(tmp_path / "clips.jsonl", found.outcomes)
    lines = (tmp_path / "clips.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [asdict(o) for o in found.outcomes]
