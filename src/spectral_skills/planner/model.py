"""A planner, from what a robot has sensed and a sentence to a chunk of commands.

A planner is one folder on disk:

    planner, encoder = Planner.load("base"), text_encoder()
    commands = planner.plan(history, encoder.encode(["walk forward"]))
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from spectral_skills import artifact
from spectral_skills.artifact import Provenance
from spectral_skills.planner.data import About, Batch, Output
from spectral_skills.planner.head import TIMES, Head, HeadConfig
from spectral_skills.planner.text import TextEncoder, TextStates, pooled
from spectral_skills.skill.encoder import moments
from spectral_skills.tracking.observations import HISTORY, PROPRIO

KIND = "planner"
STEPS = 4
"""Number of Euler steps from noise to a chunk."""
_SMALLEST_STD, _MOST_STDS = 0.01, 10.0
"""Smallest deviation that anything is divided by, and the number of deviations at which
sensed numbers are clipped."""


@dataclass(frozen=True)
class PlannerConfig:
    """Everything that a planner's folder says about it."""

    head: HeadConfig
    output: Output
    """Kind of the commands in its chunks."""
    text: str
    """Name of the language model that it was trained with."""
    about: About
    """Rows that it was trained on."""

    def __post_init__(self):
        if self.head.state != HISTORY * PROPRIO:
            raise ValueError(
                f"a head for states of {self.head.state} numbers; this robot's "
                f"history has {HISTORY} x {PROPRIO}"
            )


class Planner(nn.Module):
    """A head, and the fixed statistics of its training rows."""

    history_mean: Tensor
    history_std: Tensor
    chunk_mean: Tensor
    chunk_std: Tensor
    known: Tensor

    def __init__(self, config: PlannerConfig):
        super().__init__()
        self.config, head = config, config.head
        self.head = Head(head)
        # All frames share one mean and deviation, and so do all steps of a chunk.
        for name, size in (("history", PROPRIO), ("chunk", head.action)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))
        known = torch.zeros(len(config.about.sentences), head.text)
        self.register_buffer("known", known)
        """Pooled vectors of all training sentences."""

    def fit(self, batch: Batch, text: TextStates) -> None:
        """Take statistics from typical rows, and the vectors of training sentences."""
        history, chunk = batch.history.flatten(0, 1), batch.chunk.flatten(0, 1)
        self.history_mean, self.history_std = moments(history, _SMALLEST_STD)
        self.chunk_mean, self.chunk_std = moments(chunk, _SMALLEST_STD)
        self.known = pooled(text).to(self.known.device)

    def normalize_history(self, history: Tensor) -> Tensor:
        """Histories (n, 10, 93) as the head reads them (n, 930)."""
        normal = (history - self.history_mean) / self.history_std
        return normal.clamp(-_MOST_STDS, _MOST_STDS).flatten(1)

    def normalize_chunk(self, chunk: Tensor) -> Tensor:
        """Chunks (n, 30, a) as the head makes them, without units."""
        return (chunk - self.chunk_mean) / self.chunk_std

    @torch.no_grad()
    def plan(
        self, history: Tensor, text: TextStates, noise: Tensor | None = None
    ) -> Tensor:
        """Chunks (n, 30, a) for robots with histories (n, 10, 93).

        `text` has one sentence for each robot, or one for all. A chunk begins as
        `noise` (n, 30, a), which is drawn if it is not given.
        """
        if noise is None:
            head = self.config.head
            size = (len(history), head.chunk, head.action)
            noise = torch.randn(size, device=history.device)
        with torch.inference_mode():  # a little faster than no_grad
            chunk = self(history, *text, noise)
        return chunk.clone()  # an ordinary tensor

    def forward(
        self, history: Tensor, states: Tensor, mask: Tensor, noise: Tensor
    ) -> Tensor:
        """`plan` as a function of tensors alone, for export."""
        times = torch.arange(STEPS, device=history.device) * (TIMES // STEPS)
        context = self.head.context(self.normalize_history(history), states, mask)
        flow_time, chunk = self.head.flow_time(times), noise
        for step in range(STEPS):
            velocity = self.head.velocity(chunk, flow_time.at(step), context)
            chunk = chunk + velocity / STEPS
        return chunk * self.chunk_std + self.chunk_mean

    def save(self, folder: Path, provenance: Provenance) -> None:
        """Write weights, statistics and config."""
        artifact.save(folder, self.config, self.state_dict(), provenance)

    def release(self, folder: Path, provenance: Provenance) -> None:
        """Write the same with weights in bf16 shards and exact statistics."""
        exact = {name for name, _ in self.named_buffers()}
        weights = self.state_dict()
        artifact.release(folder, self.config, weights, exact, provenance)

    @classmethod
    def load(cls, folder: Path | str, device: torch.device | str = "cpu") -> "Planner":
        """Read a planner: `base`, its folder, or the folder of its run."""
        config, weights = artifact.load(folder, PlannerConfig, KIND)
        planner = cls(config)
        artifact.fill(planner, weights, folder)
        planner = planner.to(device).eval()
        for layer in planner.modules():
            if isinstance(layer, nn.Linear):
                # Column by column: few tokens then take a fifth less time on a CPU.
                layer.weight.data = layer.weight.data.t().contiguous().t()
        return planner


def check_text(planner: Planner, encoder: TextEncoder) -> None:
    """Refuse a language model that the planner was not trained with."""
    if planner.config.text != encoder.name:
        raise ValueError(
            f"the planner was trained with the sentences of {planner.config.text}, "
            f"not of {encoder.name}"
        )


def check_match(
    planner: Planner, controller_hash: str, encoder_fingerprint: str
) -> None:
    """Refuse a controller and a skill model that the planner was not trained with.

    A planner that was trained without skills matches any skill model.
    """
    about = planner.config.about
    if about.controller != controller_hash:
        raise ValueError(
            f"the planner was trained on rollouts of the controller "
            f"{about.controller}, this one is {controller_hash}; give the controller "
            "it was trained with"
        )
    if about.encoder and about.encoder != encoder_fingerprint:
        found = encoder_fingerprint or "none"
        raise ValueError(
            f"the planner was trained with the encoder {about.encoder}, this skill "
            f"model's is {found}; give the skill model it was trained with"
        )
