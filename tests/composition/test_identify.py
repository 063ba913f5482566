"""What robots do when their skills change, found again from what they did."""

import numpy as np
import pytest
import torch
from obedient import Obedient, turned
from released import released

from spectral_skills.control.batch import Executed, Run
from spectral_skills.experiments.identify import GRID, describe, identify, walking_clips
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.robot import g1
from spectral_skills.spectral.directions import TARGETS, from_responses, solve
from spectral_skills.spectral.response import GROUPS, NAMES, Effects, Responses

ARM = NAMES.index("right_shoulder_pitch")


def straight(speed: float, steps: int = 300) -> np.ndarray:
    return turned(lambda t: 0 * t, speed, steps)


@pytest.fixture(scope="module")
def walks(make_corpus, tmp_path_factory):
    """Some clips that walk, and others that stand, run or are too short."""
    speeds = [0.4 + 0.05 * i for i in range(20)] + [0.0, 3.0]
    rows = {f"at {speed:.2f}": straight(speed) for speed in speeds}
    rows["short"] = straight(0.8, 100)
    clips = [Clip.from_qpos(one, name=n, fps=50.0) for n, one in rows.items()]
    return make_corpus(tmp_path_factory.mktemp("walks") / "corpus", clips)


def test_clips_that_walk_are_drawn(walks):
    """By the seed; too few are refused."""
    names = {base.name for base in walking_clips([walks], 20)}
    assert len(names) == 20 and not names & {"at 0.00", "at 3.00", "short"}
    few = [[b.name for b in walking_clips([walks], 3, seed)] for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    with pytest.raises(ValueError, match="20 of 23 clips walk for 5 s, and 21"):
        walking_clips([walks], 21)


def test_a_run_is_described_as_a_recorded_motion_is():
    """Where it is after 0.3 s, how fast it goes and turns."""
    rows = turned(lambda t: 0.5 * t, 0.8, 300)
    base = Base("made", rows.astype(np.float32))
    run = Run("made", base, np.zeros((300, 64), np.float32))
    still = Executed(run, straight(0.0))
    found, zero = describe([Executed(run, rows), still], WindowConfig())
    values = dict(zip(NAMES, found.tolist(), strict=True))
    assert zero[NAMES.index("forward_speed")].abs() < 1e-6
    assert zero[NAMES.index("left_foot_height")] == pytest.approx(0.038, abs=1e-3)
    assert values["yaw_rate"] == pytest.approx(0.5, abs=1e-3)
    assert values["facing"] == pytest.approx(0.15, abs=1e-3)
    assert values["forward_speed"] == pytest.approx(0.8, abs=1e-2)
    assert values["ahead"] == pytest.approx(0.24, abs=1e-2)


def arm_alone(effects: Effects) -> torch.Tensor:
    target = next(t for t in TARGETS if t.name == "right_arm")
    return solve(effects, target)[0][None]


def test_what_robots_obey_is_found(walks):
    """Joints that follow skills by known numbers, from both halves of the vectors."""
    generator = np.random.default_rng(0)
    rule = 0.1 * generator.normal(size=(64, g1.NUM_JOINTS))
    first, second = identify(Obedient(rule), [walks], arm_alone, count=256)
    for half in (first, second):
        error = np.linalg.norm(half.mean[:29].numpy() - rule.T)
        assert error < 0.2 * np.linalg.norm(rule)
    moved = arm_alone(first + second)[0].numpy() @ rule
    assert np.abs(moved).argmax() == g1.joint_index("right_shoulder_pitch")
    assert moved[g1.joint_index("right_shoulder_pitch")] < -0.3


class Frail(Obedient):
    """Robots that fall whatever they do."""

    def _rows(self, run: Run) -> np.ndarray:
        rows = super()._rows(run)
        rows[100:, 2] = 0.1
        return rows


def test_robots_that_fall_tell_nothing(walks):
    with pytest.raises(ValueError, match="in 8 of 8 pairs a robot fell"):
        identify(Frail(np.zeros((64, 29))), [walks], arm_alone, count=16)
    assert GRID.clips <= 20


class Shy(Obedient):
    """Robots whose arm does what a vector says only if it is the one they know."""

    known = np.eye(64)[0]

    def _rows(self, run: Run) -> np.ndarray:
        rows, change = super()._rows(run), run.skills - self.skills(run.base)
        along = np.linalg.norm(change @ self.known) > 0.999 * np.linalg.norm(change)
        if not along:
            rows[:, 7 + g1.joint_index("right_shoulder_pitch")] = 0.0
        return rows


def test_directions_that_will_be_used_are_tried_themselves(walks):
    """Random vectors say that nothing happens along this one, and are wrong."""
    rule = np.zeros((64, 29))
    rule[0, g1.joint_index("right_shoulder_pitch")] = -0.3
    used = torch.from_numpy(Shy.known)[None]
    halves = identify(Shy(rule), [walks], lambda _: used, count=128)
    for half in halves:
        assert half.mean[ARM, 0] < -0.15


def test_directions_by_the_robot_have_the_plain_names():
    """Solved by what it does and by what is predicted, described by what is predicted,
    compared by halves."""
    generator = torch.Generator().manual_seed(0)
    shape = 40, len(NAMES), 8
    rows = torch.randn(shape, generator=generator, dtype=torch.float64)
    zeros = torch.zeros(len(GROUPS), 8, 8, dtype=torch.float64)
    none = Effects.of(rows[:0])
    half = Responses(
        *(40, zeros + torch.eye(8), torch.zeros(22, 8, dtype=torch.float64)),
        *(Effects.of(rows), none, none, none, none),
    )
    robot = Effects.of(rows[:1]), Effects.of(rows[1:2])
    found = from_responses(half, half, released()[2].encoder, robot=robot)
    plain = [target.name for target in TARGETS]
    assert [found.names[i] for i in found.family("robot")] == plain
    alone = [found.names[i] for i in found.family("target")]
    assert alone == [f"predicted_{name}" for name in plain]
    place, other = found.index("turn"), found.index("predicted_turn")
    turn = next(t for t in TARGETS if t.name == "turn")
    expected = solve(half.effects, turn)[0].numpy()
    np.testing.assert_allclose(found.vectors[other], expected, atol=1e-6)
    # As if there were ten contexts of the robot for three of the others.
    often = torch.cat((rows.repeat(3, 1, 1), rows[:2].repeat(200, 1, 1)))
    expected = solve(Effects.of(often), turn)[0].numpy()
    np.testing.assert_allclose(found.vectors[place], expected, atol=1e-6)
    assert 0 < found.stability[place] < 0.99 < found.stability[other]
    mean = found.vectors[place] @ half.effects.mean.numpy().T
    np.testing.assert_allclose(found.effect_mean[place], mean, atol=1e-5)
