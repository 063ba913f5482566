"""Evaluation of whole corpora: groups, order, windows, rows, and what is refused."""

from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from followers import Followers

from spectral_skills.experiments import tracking
from spectral_skills.experiments.tracking import Course, evaluate
from spectral_skills.models import Models
from spectral_skills.motion import motion_sets
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.physics.settings import PhysicsConfig, tracking_model
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.references import CommandConfig

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


@pytest.fixture(scope="module")
def models(controller, encoder) -> Models:
    return Models(controller, encoder)


def test_robots_on_their_references_score_everything(corpus, models):
    made = []

    def physics(count: int) -> Any:
        made.append(count)
        return Followers(count, corpus)

    found = evaluate(models, Course(corpus, physics=physics, robots=2))
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
    # Sorted by length when run, in the corpus's order in the results.
    assert [o.name for o in found.outcomes] == list(NAMES)
    assert [o.frames for o in found.outcomes] == list(LENGTHS)
    jumps = {r.metric: r.n for r in found.results if r.row == "jump"}
    assert jumps["success_rate"] == 2
    assert all(o.followed and o.path_share == pytest.approx(1) for o in found.outcomes)


def test_a_failure_has_its_clip_frame_and_cause(corpus, models):
    def physics(count: int) -> Any:
        return Followers(count, corpus, drop="walk_c")

    found = evaluate(models, Course(corpus, physics=physics, robots=3))
    outcome = found.outcomes[2]
    assert (outcome.success, outcome.failed_at) == (False, 10)
    assert outcome.cause == "anchor_height"
    assert sum(o.success for o in found.outcomes) == 4
    every = {r.metric: r.value for r in found.results if r.row == "all"}
    assert every["success_rate"] == 0.8
    assert every["failed_anchor_height"] == 1
    assert every["progress_of_failed"] == pytest.approx(9 / 54)


class Wobblers(Followers):
    """Robots beside the rows, each row with an error of its own, some large."""

    def __init__(self, count: int, corpus):
        super().__init__(count, corpus)
        random = torch.Generator().manual_seed(0)
        self.wrong = 0.05 * torch.randn(self.rows.shape, generator=random)
        # Clips are wrong by different amounts; two lose a rule each on their way.
        size = torch.tensor([0.5, 1.0, 0.2, 0.8, 0.3])
        self.wrong *= size.repeat_interleave(torch.tensor(LENGTHS))[:, None]
        ends = np.cumsum(LENGTHS)
        self.wrong[ends[0] + 35, 2] = -0.4
        self.wrong[ends[2] + 20, 3:7] = torch.tensor([-0.4, 0.9, 0.0, 0.0])
        self.wrong[ends[3] :, 2] -= 0.2
        self.wrong[ends[3] + 3 : ends[3] + 29, 2] = -0.3
        self.at = torch.zeros(count, dtype=torch.long)

    def robot(self, at) -> torch.Tensor:
        rows = self.rows[at] + self.wrong[at]
        turned = rows[..., 3:7] / rows[..., 3:7].norm(dim=-1, keepdim=True)
        return torch.cat((rows[..., :3], turned, rows[..., 7:]), dim=-1)

    def step(self) -> None:
        # Only a robot that was just put there is exactly on a row.
        offset = (self.qpos[:, None] - self.rows).abs().amax(dim=-1)
        least, row = offset.min(dim=1)
        self.at = self.following[torch.where(least == 0, row, self.at)]
        self.qpos.copy_(self.robot(self.at))


def slowly(corpus, robots: Wobblers) -> dict[str, dict]:
    """What became of each clip, frame by frame and link by link in MuJoCo."""
    model = tracking_model(PhysicsConfig())
    data = mujoco.MjData(model)

    def links(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        bodies = [data.body(name) for name in g1.TRACKED_LINKS]
        return np.array([b.xpos for b in bodies]), bodies[0].xmat.reshape(3, 3).copy()

    feet_and_hands = [g1.TRACKED_LINKS.index(name) for name in g1.END_EFFECTORS]
    found, row = {}, 0
    for clip, name in enumerate(corpus.names):
        frames = len(corpus.qpos(clip))
        scores = {"local": [], "global": [], "root": [], "cause": "", "failed_at": 0}
        low = longest = 0
        for frame in range(1, frames):
            body, turned = links(robots.robot(row + frame).numpy())
            wanted, upright = links(corpus.qpos(clip)[frame])
            offset = body - wanted
            low = low + 1 if offset[0, 2] < -0.25 else 0
            longest = max(longest, low)
            cosine = (np.trace(turned @ upright.T) - 1) / 2
            rules = {
                "anchor_height": abs(offset[0, 2]) > 0.25,
                "anchor_orientation": np.arccos(np.clip(cosine, -1, 1)) > 1,
                "end_effector_height": (abs(offset[feet_and_hands, 2]) > 0.25).any(),
            }
            if not scores["cause"] and any(rules.values()):
                scores["cause"] = next(rule for rule, broken in rules.items() if broken)
                scores["failed_at"] = frame
            if not scores["cause"]:
                scores["global"].append(np.linalg.norm(offset, axis=1).mean())
                scores["local"].append(
                    np.linalg.norm(offset - offset[0], axis=1).mean()
                )
                scores["root"].append(np.linalg.norm(offset[0]))
        found[name] = scores | {"fell": longest >= 25}
        row += frames
    return found


def test_every_number_is_that_of_a_slow_loop(corpus, models):
    """By clip, by kind and in all; three robots at a time, in another order."""
    made: list[Any] = []

    def physics(count: int) -> Any:
        made.append(Wobblers(count, corpus))
        return made[-1]

    found = evaluate(models, Course(corpus, physics=physics, robots=3))
    truth = slowly(corpus, made[0])
    causes = [t["cause"] for t in truth.values()]
    assert causes == ["", "anchor_height", "", "anchor_orientation", "anchor_height"]
    assert [t["fell"] for t in truth.values()] == [False, False, False, False, True]
    for outcome in found.outcomes:
        scores = truth[outcome.name]
        assert (outcome.cause, outcome.failed_at) == (
            scores["cause"],
            scores["failed_at"],
        )
        for name, value in (
            ("local", outcome.mpjpe_local_mm),
            ("global", outcome.mpjpe_global_mm),
            ("root", outcome.root_drift_mm),
        ):
            assert value == pytest.approx(1000 * np.mean(scores[name]), rel=1e-4)
    members = {
        "all": NAMES,
        "walk": ("walk_a", "walk_c"),
        "jump": ("jump_b", "jump_e"),
        "boxing": ("box_punch_d",),
    }
    for row, names in members.items():
        scores = {r.metric: r.value for r in found.results if r.row == row}
        good = [truth[name] for name in names if not truth[name]["cause"]]
        assert scores["success_rate"] == len(good) / len(names)
        stood = np.mean([not truth[name]["fell"] for name in names])
        assert scores["fall_free_relative_share"] == stood
        for key, metric in (
            ("local", "mpjpe_local_mm"),
            ("global", "mpjpe_global_mm"),
            ("root", "root_drift_mm"),
        ):
            # Over frames, not over clips.
            every = [value for clip in good for value in clip[key]]
            assert (metric in scores) == bool(every)
            if every:
                expected = 1000 * np.mean(every)
                assert scores[metric] == pytest.approx(expected, rel=1e-4)


def test_kinds_can_come_from_a_table(corpus, models, tmp_path):
    """A row for each of its kinds; a clip that it lacks is refused before any run."""
    table = tmp_path / "index.csv"
    kinds = dict(zip(NAMES, ("stroll", "jump", "stroll", "bout", "jump"), strict=True))
    lines = [f"{name},somebody,{kind}" for name, kind in kinds.items()]
    table.write_text("\n".join(("name,by,kind", *lines)) + "\n")
    known = motion_sets.read_kinds(table)

    def physics(count: int) -> Any:
        return Followers(count, corpus)

    course = Course(corpus, physics=physics)
    found = evaluate(models, course, known)
    # The order of our kinds, then that of the alphabet.
    rows = list(dict.fromkeys(r.row for r in found.results))
    assert rows == ["all", "jump", "bout", "stroll"]
    assert [o.kind for o in found.outcomes] == list(kinds.values())
    del known["walk_c"]
    with pytest.raises(ValueError, match="1 clips have no kind in the table: walk_c"):
        evaluate(models, course, known)
    table.write_text("name,type\n")
    with pytest.raises(ValueError, match="index.csv: no column kind"):
        motion_sets.read_kinds(table)


def test_windows_begin_at_their_frames(corpus, models):
    """Two windows of one clip and one of another; row 10 of jump_b is in one."""

    def physics(count: int) -> Any:
        return Followers(count, corpus, drop="jump_b")

    windows = [(1, 0), (1, 30), (3, 31)]
    course = Course(corpus, windows=windows, frames=30, physics=physics)
    found = evaluate(models, course)
    assert [o.failed_at for o in found.outcomes] == [10, 0, 0]
    assert [o.frames for o in found.outcomes] == [30, 30, 30]
    assert [o.start for o in found.outcomes] == [0, 30, 31]
    assert [o.name for o in found.outcomes] == ["jump_b", "jump_b", "box_punch_d"]


def test_beginnings_are_of_the_same_run(corpus, models):
    """What fails at frame 10 has not failed in 10 frames, of which one is the start."""
    made = []

    def physics(count: int) -> Any:
        made.append(Followers(count, corpus, drop="walk_c"))
        return made[-1]

    course = Course(corpus, physics=physics, robots=2)
    whole, eleven, ten = course.beginnings(models, [90, 11, 10])
    assert len(made) == 1
    assert whole.failed_at.tolist() == eleven.failed_at.tolist() == [0, 0, 10, 0, 0]
    assert ten.success.all() and ten.names == whole.names == NAMES
    assert ten.frames.tolist() == [9] * 5
    assert whole.frames.tolist() == [length - 1 for length in LENGTHS]
    assert np.isfinite(whole.action_rate).all()


def test_windows_that_are_not_there_are_refused(corpus):
    with pytest.raises(ValueError, match="jump_b has 90 frames, too few for 30"):
        Course(corpus, windows=[(1, 61)], frames=30)
    with pytest.raises(ValueError, match="no clip 5; there are 5"):
        Course(corpus, windows=[(5, 0)], frames=30)
    with pytest.raises(ValueError, match="nothing to run"):
        Course(corpus, windows=[])


def test_groups_are_even_and_longest_first(corpus):
    course = Course(corpus, robots=4)
    assert course.robots == 3
    assert [group.tolist() for group in course.groups] == [[1, 3, 2], [0, 4]]


def test_a_probe_is_the_same_evaluation_again_and_again(
    corpus, encoder, controller, monkeypatch
):
    made = []

    def simulate(device: str, count: int, config: PhysicsConfig) -> Any:
        assert config.feet == "light"
        made.append(Followers(count, corpus, drop="walk_a"))
        return made[-1]

    monkeypatch.setattr(tracking, "simulate", simulate)
    settings = PhysicsConfig(feet="light")
    measure = tracking.probe_of([corpus], encoder, 5, "cpu", settings)
    first, second = measure(controller), measure(controller)
    assert first == second and len(made) == 1
    assert first["success_rate"] == 0.8
    assert first["followed"] == 0.8
    errors = {"mpjpe_local_mm", "mpjpe_global_mm"}
    assert set(first) == {"success_rate", "followed", "probed", *errors}
    # Half of the clips of each of two corpora, each with its own robots.
    tracking.probe_of([corpus, corpus], encoder, 4, "cpu", settings)(controller)
    assert [robots.count for robots in made] == [5, 2, 2]


def test_a_probe_cuts_windows_out_of_long_clips(make_clip, make_corpus, tmp_path):
    """Evenly over all places where 10 s fit: 1 of a, 3 of c, none of b."""
    lengths = {"a": 510, "b": 300, "c": 530}
    clips = [make_clip(name, frames) for name, frames in lengths.items()]
    windows = tracking.spread_windows(make_corpus(tmp_path / "long", clips), 4)
    # 11 + 31 starts; the middles of four equal parts are 5, 15, 26 and 36.
    assert windows.tolist() == [[0, 5], [2, 4], [2, 15], [2, 25]]


def test_a_probe_also_runs_the_short_clips_beside_long_ones(
    make_clip, make_corpus, tmp_path
):
    """As many of each as their shares; short ones whole."""
    lengths = {"a": 510, "b": 300, "c": 530, "d": 40}
    clips = [make_clip(name, frames) for name, frames in lengths.items()]
    corpus = make_corpus(tmp_path / "long", clips)
    spans = Course(corpus, windows=tracking.spread_pieces(corpus, 8)).spans.tolist()
    assert sorted(spans)[-2:] == [[2, 25, 500], [3, 0, 40]]
    assert [1, 0, 300] in spans and len(spans) == 2 + 4
    only = make_corpus(tmp_path / "only", clips[:1])
    assert tracking.spread_pieces(only, 3)[:, 2].tolist() == [500] * 3


def test_a_controller_of_another_encoder_is_refused(corpus, encoder):
    other = ControllerConfig(hidden=(8,), command=CommandConfig(width=4, encoder="x"))
    with pytest.raises(ValueError, match="trained with the encoder x"):
        evaluate(Models(Controller(other), encoder), Course(corpus))


def test_on_mujoco_itself_an_untrained_controller_is_scored(corpus, models):
    """It does something, and the table says what."""
    found = evaluate(models, Course(corpus.select([0, 4])))
    every = {r.metric: r for r in found.results if r.row == "all"}
    assert every["success_rate"].n == 2
    assert every["success_rate"].hardware
    errors = [o.mpjpe_local_mm for o in found.outcomes]
    assert all(e is not None and e > 1 for e in errors)
