"""A controller at work: history, hold and phase, noise, and whose skills it knows."""

import math
from typing import Any

import pytest
import torch

from spectral_skills.control.run import Tracker, check_match
from spectral_skills.robot import g1
from spectral_skills.tracking.observations import HISTORY, PROPRIO
from spectral_skills.tracking.policy import ControllerConfig
from spectral_skills.tracking.randomization import RandomizationConfig, scaled
from spectral_skills.tracking.references import CommandConfig


class Listener:
    """Keeps what a controller is given, and answers with its call number."""

    def __init__(self, **command):
        self.config = ControllerConfig(command=CommandConfig(**command))
        self.calls: list[tuple[torch.Tensor, ...]] = []

    def act(self, history, source, phase):
        self.calls.append((history.clone(), source.clone(), phase.clone()))
        return torch.full((len(history), g1.NUM_JOINTS), float(len(self.calls)))


def _follow(steps: int, noise=None, **command) -> Listener:
    listener: Any = Listener(**command)
    tracker = Tracker(listener)
    qpos, qvel = torch.zeros(2, 36), torch.zeros(2, 35)
    qpos[:, 3], qpos[:, 7:] = 1.0, 0.1
    tracker.reset(qpos, qvel)
    for step in range(steps):
        qvel[:, 6] = step
        tracker.sense(qpos, qvel, noise)
        tracker.act(torch.full((2, 3), float(step)))
    return listener


def test_the_first_frame_fills_the_history_with_an_action_that_holds_the_pose():
    history, _, _ = _follow(1).calls[0]
    assert history.shape == (2, HISTORY, PROPRIO)
    assert torch.equal(history, history[:, :1].expand_as(history))
    action = history[0, 0, -g1.NUM_JOINTS :]
    held = torch.tensor(g1.DEFAULT_JOINTS) + action * torch.tensor(g1.ACTION_SCALE)
    torch.testing.assert_close(held, torch.full((29,), 0.1, dtype=held.dtype))


def test_later_frames_enter_at_the_end_with_the_action_before():
    history = _follow(3).calls[2][0]
    speeds, actions = history[0, :, 6 + 29], history[0, :, -1]
    assert speeds.tolist() == [0] * 8 + [1, 2]
    assert actions[-2:].tolist() == [1, 2]


def test_a_second_run_begins_afresh():
    listener: Any = Listener(hold=4)
    tracker = Tracker(listener)
    qpos, qvel = torch.zeros(1, 36), torch.zeros(1, 35)
    for run in range(2):
        tracker.reset(qpos, qvel)
        for step in range(3):
            tracker.sense(qpos, qvel)
            tracker.act(torch.full((1, 3), 10.0 * run + step))
    sources = [source[0, 0].item() for _, source, _ in listener.calls]
    assert sources == [0, 0, 0, 10, 10, 10]
    assert torch.equal(listener.calls[0][0], listener.calls[3][0])


def test_a_command_is_held_while_its_phase_goes_round():
    calls = _follow(6, hold=4).calls
    assert [source[0, 0].item() for _, source, _ in calls] == [0, 0, 0, 0, 4, 4]
    angles = [math.atan2(*phase[0].tolist()) for _, _, phase in calls]
    quarter = math.pi / 2
    expected = [0, quarter, math.pi, -quarter, 0, quarter]
    torch.testing.assert_close(
        torch.tensor(angles).cos(), torch.tensor(expected).cos(), atol=1e-6, rtol=0
    )
    assert angles[1] > 0 > angles[3]


def test_without_hold_the_phase_stands_still():
    calls = _follow(3).calls
    assert [source[0, 0].item() for _, source, _ in calls] == [0, 1, 2]
    assert all(torch.equal(p, torch.tensor([[0.0, 1.0]] * 2)) for *_, p in calls)


def test_noise_is_on_the_senses_and_not_on_the_action():
    torch.manual_seed(0)
    clean, noisy = _follow(2).calls[1][0], _follow(2, RandomizationConfig()).calls[1][0]
    difference = (noisy - clean).abs()
    assert (difference[..., :64].amax(dim=(0, 1)) > 0).all()
    assert torch.equal(difference[..., 64:], torch.zeros(2, HISTORY, 29))
    assert torch.equal(
        _follow(2, scaled(RandomizationConfig(), 0.0)).calls[1][0], clean
    )


def test_a_controller_refuses_skills_it_was_not_trained_on(encoder, make_controller):
    check_match(make_controller(), encoder)
    check_match(make_controller(encoder=encoder.fingerprint()), encoder)
    check_match(make_controller(kind="pose"), None)
    with pytest.raises(ValueError, match="skill model is needed"):
        check_match(make_controller(), None)
    with pytest.raises(ValueError, match="have 5 numbers.*of 6"):
        check_match(make_controller(width=6), encoder)
    with pytest.raises(ValueError, match="trained with the encoder abc"):
        check_match(make_controller(encoder="abc"), encoder)
