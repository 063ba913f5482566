"""What actor and critic see of robots, as it is kept, and what normalisers learn."""

import torch
from torch import Tensor
from torch.nn import functional

from spectral_skills.tracking.networks import aligned
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller, Critic
from spectral_skills.tracking.values import TwinCritic


class Inputs:
    """Turns observations into rows for both networks, and lets their normalisers learn
    when it is asked to."""

    def __init__(
        self, controller: Controller, critic: Critic | TwinCritic, device: torch.device
    ):
        self.controller, self.critic = controller, critic
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        """Type of rows that are kept."""
        self._normalizers = [controller.proprio, critic.normalizer]
        if controller.source is not None:
            self._normalizers.insert(1, controller.source)
        self._widths = [normalizer.width for normalizer in self._normalizers]
        shape = (2, sum(self._widths))
        self._sums = torch.zeros(shape, dtype=torch.float64, device=device)
        self._count = 0

    @property
    def widths(self) -> tuple[int, int]:
        """Numbers of a row of the actor, and of one of the critic."""
        return aligned(self.controller.input_width), aligned(self.critic.input_width)

    def rows(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """(n, w) of the actor and of the critic, with columns of zeros at the end."""
        history, source, phase, privileged = observation
        inputs = self.controller.inputs(history, source, phase)
        told = self.controller.told(inputs)
        return self._kept(inputs), self._kept(self.critic.inputs(privileged, told))

    def moments(self, observation: Observation) -> Tensor:
        """Sums (2, w) over robots for all normalisers."""
        seen = [observation.history[:, -1], observation.critic]
        if self.controller.source is not None:
            seen.insert(1, observation.source)
        pairs = zip(self._normalizers, seen, strict=True)
        return torch.cat([n.moments(values) for n, values in pairs], dim=1)

    def note(self, moments: Tensor, robots: int) -> None:
        """Remember the moments of a control step until `learn`."""
        self._sums += moments
        self._count += robots

    def learn(self) -> None:
        """Let the normalisers learn from all that was noted, by any process."""
        parts = self._sums.split(self._widths, dim=1)
        for normalizer, moments in zip(self._normalizers, parts, strict=True):
            normalizer.learn(moments, self._count)
        self._sums.zero_()
        self._count = 0

    def _kept(self, row: Tensor) -> Tensor:
        width = row.shape[-1]
        return functional.pad(row, (0, aligned(width) - width)).to(self.dtype)
