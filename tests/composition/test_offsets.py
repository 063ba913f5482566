"""Joint offsets: what the controller sees of them, and what the servos get."""

from typing import Any

import pytest
import torch

from spectral_skills.control.run import Tracker
from spectral_skills.robot import g1
from spectral_skills.tracking.policy import ControllerConfig
from spectral_skills.tracking.references import CommandConfig

STEPS, ROBOTS = 4, 2


class Listener:
    """Keeps the last action that a controller is told of, and answers with 0.5."""

    def __init__(self):
        self.config = ControllerConfig(command=CommandConfig())
        self.last: list[torch.Tensor] = []

    def act(self, history, source, phase):
        self.last.append(history[:, -1, -g1.NUM_JOINTS :].clone())
        return torch.full((len(history), g1.NUM_JOINTS), 0.5)


def _follow(tracker: Tracker) -> tuple[torch.Tensor, torch.Tensor]:
    """Actions and targets (T, n, 29) of a robot that does not move."""
    qpos, qvel = torch.zeros(ROBOTS, 36), torch.zeros(ROBOTS, 35)
    qpos[:, 3] = 1.0
    tracker.reset(qpos, qvel)
    actions, targets = [], []
    for _ in range(STEPS):
        tracker.sense(qpos, qvel)
        actions.append(tracker.act(torch.zeros(ROBOTS, 64)).clone())
        targets.append(tracker.targets(actions[-1]).clone())
    return torch.stack(actions), torch.stack(targets)


def _moves() -> torch.Tensor:
    """(T, n, 29) that differ in every number."""
    return torch.arange(STEPS * ROBOTS * 29.0).view(STEPS, ROBOTS, 29) / 1000


@pytest.fixture
def listener() -> Any:
    return Listener()


def test_an_offset_on_the_action_is_seen_as_the_last_action(listener):
    move = _moves()
    actions, targets = _follow(Tracker(listener, 0.0, move))
    torch.testing.assert_close(actions, 0.5 + move)
    torch.testing.assert_close(torch.stack(listener.last[1:]), 0.5 + move[:-1])
    rad = (targets - targets[0, 0]) / torch.tensor(g1.ACTION_SCALE, dtype=torch.float32)
    torch.testing.assert_close(rad, move - move[0, 0], atol=1e-4, rtol=0)


def test_an_offset_on_the_servo_is_not_seen(listener):
    move = _moves()
    plain = _follow(Tracker(listener))
    actions, targets = _follow(Tracker(listener, 0.0, None, move))
    torch.testing.assert_close(targets - plain[1], move)
    assert torch.equal(actions, plain[0])
    assert torch.equal(torch.stack(listener.last[-STEPS + 1 :]), actions[:-1])


def test_offsets_of_zero_change_nothing(listener):
    zero = torch.zeros_like(_moves())
    for ours, theirs in zip(
        _follow(Tracker(listener, 0.0, zero, zero)),
        _follow(Tracker(listener)),
        strict=True,
    ):
        assert torch.equal(ours, theirs)


def test_the_last_offset_holds_on(listener):
    """A run longer than its offsets keeps the last of them."""
    short = _moves()[:2]
    actions, _ = _follow(Tracker(listener, 0.0, short))
    torch.testing.assert_close(actions[2:], 0.5 + short[[1, 1]])
