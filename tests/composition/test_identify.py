"""What robots do when their skills change, found again from what they did."""

import numpy as np
import pytest
import torch
from obedient import Obedient, turned
from released import released

from spectral_skills.control.batch import Executed, Run
from spectral_skills.experiments.identify import (
    GRID,
    describe,
    identify,
    walking_clips,
)
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
    speeds = [0.4 + 0.1 * i for i in range(10)] + [0.0, 3.0]
    rows = {f"at {speed:.1f}": straight(speed) for speed in speeds}
    rows["short"] = straight(0.8, 100)
    clips = [Clip.from_qpos(one, name=n, fps=50.0) for n, one in rows.items()]
    return make_corpus(tmp_path_factory.mktemp("walks") / "corpus", clips)


def test_clips_that_walk_are_drawn(walks):
    """By the seed; too few are refused."""
    names = {base.name for base in walking_clips([walks], 10)}
    assert len(names) == 10 and not names & {"at 0.0", "at 3.0", "short"}
    few = [[b.name for b in walking_clips([walks], 3, seed)] for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    with pytest.raises(ValueError, match="10 of 13 clips walk for 5 s, and 11"):
        walking_clips([walks], 11)


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


def test_what_robots_obey_is_found(walks):
    """Joints that follow skills by known numbers, from both halves of the vectors."""
    generator = np.random.default_rng(0)
    rule = 0.1 * generator.normal(size=(64, g1.NUM_JOINTS))
    first, second = identify(Obedient(rule), [walks], count=256)
    for half in (first, second):
        error = np.linalg.norm(half.mean[:29].numpy() - rule.T)
        assert error < 0.2 * np.linalg.norm(rule)
    target = next(t for t in TARGETS if t.name == "right_arm")
    vector, _ = solve(first + second, target)
    moved = vector.numpy() @ rule
    assert np.abs(moved).argmax() == g1.joint_index("right_shoulder_pitch")
    assert moved[g1.joint_index("right_shoulder_pitch")] < -0.3


class Frail(Obedient):
    """Robots that fall whatever they do."""

    def _rows(self, run: Run) -> np.ndarray:
        rows = super()._rows(run)
        rows[100:, 2] = 0.1
        return rows


def test_robots_that_fall_tell_nothing(walks):
    with pytest.raises(ValueError, match="in 16 of 16 pairs a robot fell"):
        identify(Frail(np.zeros((64, 29))), [walks], count=16)
    assert GRID.clips <= 10


def test_directions_by_the_robot_stand_beside_the_others():
    """Solved by what it does, described by what is predicted, compared by halves."""
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
    ours = [found.names[i] for i in found.family("robot")]
    assert ours == [f"robot_{target.name}" for target in TARGETS]
    place = found.index("robot_turn")
    turn = next(t for t in TARGETS if t.name == "turn")
    expected = solve(robot[0] + robot[1], turn)[0].numpy()
    np.testing.assert_allclose(found.vectors[place], expected, atol=1e-6)
    assert 0 < found.stability[place] < 0.99 < found.stability[found.index("turn")]
    mean = found.vectors[place] @ half.effects.mean.numpy().T
    np.testing.assert_allclose(found.effect_mean[place], mean, atol=1e-5)
