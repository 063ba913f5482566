"""A controller at work: its history, its held command, its last action."""

import torch
from torch import Tensor

from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking import observations, randomization
from spectral_skills.tracking.observations import HISTORY, PROPRIO, Body
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.randomization import RandomizationConfig


class Tracker:
    """Many robots under one controller, all started together."""

    def __init__(self, controller: Controller, offset: Tensor | float = 0.0):
        """`offset` (n, 29) is how far each joint's zero is off, rad."""
        self.offset = offset
        self.controller, self.command = controller, controller.config.command
        self.source = torch.empty(0)
        """(n, s) what the running command is made of."""
        self.history = torch.empty(0)
        """(n, 10, 93) what robots have sensed, oldest first."""
        self._step = 0

    def reset(self, qpos: Tensor, qvel: Tensor) -> None:
        """Begin with robots that have just been put into a state."""
        n, device = len(qpos), qpos.device
        self.body = Body(device)
        self._last_action = self.body.first_action(qpos[:, 7:])
        self.history = torch.zeros((n, HISTORY, PROPRIO), device=device)
        self._fresh = torch.ones(n, dtype=torch.bool, device=device)
        self._step = 0

    @torch.no_grad()
    def sense(
        self, qpos: Tensor, qvel: Tensor, noise: RandomizationConfig | None = None
    ) -> None:
        """Take in the state before the next step, as robots sense it."""
        sensed = self.body.proprio(qpos, qvel, self._last_action, self.offset)
        if noise is not None:
            sensed = randomization.noisy(noise, sensed)
        fresh = self._fresh if self._step == 0 else torch.zeros_like(self._fresh)
        self.history = observations.push_history(self.history, sensed, fresh)

    @torch.no_grad()
    def act(self, source: Tensor) -> Tensor:
        """Mean actions (n, 29); a source counts once the held one's time is over."""
        since = self._step % self.command.hold
        if since == 0:
            self.source = source
        elapsed = torch.full((len(source),), since, device=source.device)
        phase = observations.phase(elapsed, self.command.hold)
        action = self.controller.act(self.history, self.source, phase)
        self._last_action = self.moved(action)
        self._step += 1
        return self._last_action

    def moved(self, action: Tensor) -> Tensor:
        """What becomes of the controller's action: here, nothing else."""
        return action

    def targets(self, action: Tensor) -> Tensor:
        """Joint targets (n, 29) of actions."""
        return self.body.targets(action, self.offset)


def check_match(controller: Controller, encoder: SkillEncoder | None) -> None:
    """Refuse a controller and a skill model that were not made for each other."""
    command = controller.config.command
    if command.kind != "skill":
        return
    if encoder is None:
        raise ValueError("this controller follows skills: a skill model is needed")
    if encoder.width != command.width:
        raise ValueError(
            f"the skill model's skills have {encoder.width} numbers, the controller "
            f"was trained on skills of {command.width}"
        )
    if command.encoder and command.encoder != (found := encoder.fingerprint()):
        raise ValueError(
            f"the controller was trained with the encoder {command.encoder}, this "
            f"skill model's is {found}; give the skill model it was trained with"
        )
