"""A planner, from what a robot sensed and a sentence to a chunk of commands.

A planner is one folder on disk; `Planner.load(folder)` is all a user needs:

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
from spectral_skills.skill.model import SHARD_BYTES, place
from spectral_skills.tracking.observations import HISTORY, PROPRIO

KIND = "planner"
STEPS = 4
"""Euler steps from noise to a chunk."""
_FLOOR = 0.01
"""Nothing is divided by a smaller deviation."""
_MOST = 10.0
"""Deviations that a sensed number may seem off its mean."""


@dataclass(frozen=True)
class PlannerConfig:
    """A planner, whole."""

    head: HeadConfig
    output: Output
    """What its chunks are of."""
    text: str
    """Name of the language model whose token states it reads."""
    about: About
    """What it was trained on."""

    def __post_init__(self):
        if self.head.state != HISTORY * PROPRIO:
            raise ValueError(
                f"a head for states of {self.head.state} numbers; this robot's "
                f"history has {HISTORY} x {PROPRIO}"
            )


class Planner(nn.Module):
    """A head and the fixed statistics of what it was trained on."""

    history_mean: Tensor
    history_std: Tensor
    chunk_mean: Tensor
    chunk_std: Tensor
    known: Tensor

    def __init__(self, config: PlannerConfig):
        super().__init__()
        self.config, head = config, config.head
        self.head = Head(head)
        # One for all frames, and one for all steps: they are the same quantities.
        for name, size in (("history", PROPRIO), ("chunk", head.action)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))
        known = torch.zeros(len(config.about.sentences), head.text)
        self.register_buffer("known", known)
        """Of every sentence it learned from, the mean token state at length 1."""

    def fit(self, batch: Batch, text: TextStates) -> None:
        """Take means and deviations from typical rows, and what sentences it knows."""
        history, chunk = batch.history.flatten(0, 1), batch.chunk.flatten(0, 1)
        self.history_mean, self.history_std = moments(history, _FLOOR)
        self.chunk_mean, self.chunk_std = moments(chunk, _FLOOR)
        self.known = pooled(text).to(self.known.device)

    def normalize_history(self, history: Tensor) -> Tensor:
        """What the head sees (n, 930) of histories (n, 10, 93)."""
        normal = (history - self.history_mean) / self.history_std
        return normal.clamp(-_MOST, _MOST).flatten(1)

    def normalize_chunk(self, chunk: Tensor) -> Tensor:
        """Chunks (n, 30, a) as the head makes them."""
        return (chunk - self.chunk_mean) / self.chunk_std

    @torch.no_grad()
    def plan(
        self, history: Tensor, text: TextStates, noise: Tensor | None = None
    ) -> Tensor:
        """Chunks (n, 30, a) of robots that sensed histories (n, 10, 93).

        `text` is a sentence for each robot, or one for all. A chunk begins as `noise`
        (n, 30, a), which is drawn if it is not given.
        """
        if noise is None:
            head = self.config.head
            size = (len(history), head.chunk, head.action)
            noise = torch.randn(size, device=history.device)
        with torch.inference_mode():  # a little faster than without gradients alone
            chunk = self(history, *text, noise)
        return chunk.clone()  # as any other tensor

    def forward(
        self, history: Tensor, states: Tensor, mask: Tensor, noise: Tensor
    ) -> Tensor:
        """`plan` of a sentence's token states and mask: one graph, for export."""
        times = torch.arange(STEPS, device=history.device) * (TIMES // STEPS)
        context = self.head.context(self.normalize_history(history), states, mask)
        moment, chunk = self.head.moment(times), noise
        for step in range(STEPS):
            velocity = self.head.velocity(chunk, moment.at(step), context)
            chunk = chunk + velocity / STEPS
        return chunk * self.chunk_std + self.chunk_mean

    def save(self, folder: Path, provenance: Provenance) -> None:
        """Write head, statistics and config."""
        artifact.save(folder, self.config, self.state_dict(), provenance)

    def release(self, folder: Path, provenance: Provenance) -> None:
        """Write the same in bf16 shards; statistics stay as they are."""
        exact = {name for name, _ in self.named_buffers()}
        weights = {
            name: value if name in exact else value.to(torch.bfloat16)
            for name, value in self.state_dict().items()
        }
        artifact.save(folder, self.config, weights, provenance, SHARD_BYTES)

    @classmethod
    def load(cls, folder: Path | str, device: torch.device | str = "cpu") -> "Planner":
        """Read a planner: `base`, or from its folder or the run folder it lies in."""
        folder = place(folder, KIND)
        kind = artifact.load_provenance(folder).kind
        if kind != KIND:
            raise ValueError(f"{folder}: a {kind} model, not a {KIND} model")
        config, weights = artifact.load(folder, PlannerConfig)
        planner = cls(config)
        try:
            planner.load_state_dict({k: v.float() for k, v in weights.items()})
        except RuntimeError as error:
            raise ValueError(
                f"{folder}: weights do not fit config.json: {error}"
            ) from None
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

    A planner of rows without skills asks for no skill model.
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
