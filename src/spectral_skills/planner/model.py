"""A planner, from what a robot has sensed and a sentence to a chunk of commands.

    planner, encoder = Planner.load("base"), MiniLM()
    commands = planner.plan(history, encoder.encode(["walk forward"]))

A chunk flows from noise to data. Its velocity has the layout of the GR00T N1.7 action
head for one robot: one state token and a token for every step of the chunk. Even blocks
attend to the sentence, odd blocks to the tokens themselves. Unlike there, padding
tokens of a sentence are never attended to.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills import artifact
from spectral_skills.artifact import Provenance
from spectral_skills.planner.data import About, Batch, Output
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.skill.encoder import moments
from spectral_skills.tracking.observations import HISTORY, PROPRIO

KIND = "planner"
TIMES = 1000
"""Number of buckets for the time of the flow, from noise to data."""
STEPS = 4
"""Number of Euler steps from noise to a chunk."""
_TIME_CHANNELS = 256
_SMALLEST_STD, _MOST_STDS = 0.01, 10.0
"""Smallest deviation that anything is divided by, and the number of deviations at which
sensed numbers are clipped."""
Pair = tuple[Tensor, Tensor]
"""Keys and values."""


@dataclass(frozen=True)
class HeadConfig:
    """Sizes of a head; the defaults are the paper's."""

    layers: int = 16
    heads: int = 32
    width: int = 1536
    mlp: int = 4
    """Width of the blocks' networks, as a multiple of `width`."""
    state_hidden: int = 1024
    output: int = 1024
    """Width of the decoder's input and hidden layer."""
    dropout: float = 0.2
    positions: int = 1024
    """Rows of the table of positions; only those of the chunk are used."""
    normal_queries: bool = False
    """Whether queries and keys are normalised; the paper's are not."""
    chunk: int = 30
    action: int = 64
    state: int = 930
    text: int = 384

    def __post_init__(self):
        if self.width % (2 * self.heads):
            raise ValueError(
                f"width {self.width} cannot be shared by {self.heads} heads of an "
                "even width"
            )
        if self.positions < self.chunk:
            raise ValueError(
                f"{self.positions} positions are too few for a chunk of {self.chunk}"
            )


class Context(NamedTuple):
    """Inputs that do not change while a chunk is made."""

    state: Tensor
    """(n, 1, width) token."""
    text: tuple[Pair, ...]
    """Keys and values (n or 1, heads, k, head width) for every even block."""
    mask: Tensor
    """(n or 1, 1, 1, k) True where there is a token."""


def wave(bucket: Tensor, width: int) -> Tensor:
    """(n, width): sines, then cosines, of a bucket at falling frequencies."""
    half = width // 2
    rank = torch.arange(half, device=bucket.device, dtype=torch.float32)
    angle = bucket.float()[:, None] * torch.exp(-math.log(10_000) / half * rank)
    return torch.cat((angle.sin(), angle.cos()), dim=-1)


class Attention(nn.Module):
    """Attention from the tokens to themselves or to a sentence."""

    def __init__(self, config: HeadConfig, source: int):
        super().__init__()
        self.heads, width = config.heads, config.width
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(source, width)
        self.value = nn.Linear(source, width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(config.dropout)
        self.query_norm = self.key_norm = nn.Identity()
        if config.normal_queries:
            size = width // config.heads
            self.query_norm, self.key_norm = (
                nn.LayerNorm(size, bias=False) for _ in range(2)
            )

    def _split(self, tokens: Tensor) -> Tensor:
        """(n, k, width) to (n, heads, k, head width)."""
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def keys_and_values(self, source: Tensor) -> Pair:
        key = self.key_norm(self._split(self.key(source)))
        return key, self._split(self.value(source))

    def forward(self, tokens: Tensor, source: Pair, mask: Tensor | None) -> Tensor:
        query = self.query_norm(self._split(self.query(tokens)))
        key, value = source
        size = (tokens.shape[0], -1, -1, -1)  # one sentence may serve all robots
        mixed = functional.scaled_dot_product_attention(
            query, key.expand(size), value.expand(size), attn_mask=mask
        )
        return self.dropout(self.out(mixed.transpose(1, 2).flatten(2)))


def _modulated(normal: Tensor, modulation: Tensor) -> Tensor:
    """Tokens (n, k, width) scaled and shifted by the time of the flow."""
    scale, shift = modulation.chunk(2, dim=-1)
    return normal * (1 + scale) + shift


class Block(nn.Module):
    """Attention, scaled and shifted by the time of the flow, then a network."""

    def __init__(self, config: HeadConfig, source: int):
        super().__init__()
        width, dropout = config.width, config.dropout
        self.modulation = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = Attention(config, source)
        self.network = nn.Sequential(
            nn.LayerNorm(width, elementwise_affine=False),
            nn.Linear(width, config.mlp * width),
            nn.GELU(approximate="tanh"),
            nn.Dropout(dropout),
            nn.Linear(config.mlp * width, width),
            nn.Dropout(dropout),
        )

    def forward(
        self, tokens: Tensor, time: Tensor, text: Pair | None, mask: Tensor | None
    ) -> Tensor:
        """Tokens after the block; without a text they attend to each other."""
        seen = _modulated(self.norm(tokens), time)
        source = self.attention.keys_and_values(seen) if text is None else text
        tokens = tokens + self.attention(seen, source, mask)
        return tokens + self.network(tokens)


class ActionEncoder(nn.Module):
    """A token for every step of a noisy chunk."""

    def __init__(self, config: HeadConfig):
        super().__init__()
        width = config.width
        self.first = nn.Linear(config.action, width)
        self.second = nn.Linear(2 * width, width)
        self.third = nn.Linear(width, width)
        self.position = nn.Parameter(0.02 * torch.randn(config.positions, width))

    def forward(self, noisy: Tensor, code: Tensor) -> Tensor:
        tokens = self.first(noisy)
        tokens = torch.cat((tokens, code.expand_as(tokens).to(tokens.dtype)), dim=-1)
        tokens = self.third(functional.silu(self.second(tokens)))
        return tokens + self.position[: noisy.shape[1]]


class Head(nn.Module):
    """v(x, t | state, sentence) of the flow from noise to chunks."""

    def __init__(self, config: HeadConfig):
        super().__init__()
        self.config, width = config, config.width
        self.state_encoder = nn.Sequential(
            nn.Linear(config.state, config.state_hidden),
            nn.ReLU(),
            nn.Linear(config.state_hidden, width),
        )
        self.action_encoder = ActionEncoder(config)
        self.text_norm = nn.LayerNorm(config.text)
        self.time_encoder = nn.Sequential(
            nn.Linear(_TIME_CHANNELS, width), nn.SiLU(), nn.Linear(width, width)
        )
        self.blocks = nn.ModuleList(
            Block(config, width if number % 2 else config.text)
            for number in range(config.layers)
        )
        self.last_modulation = nn.Linear(width, 2 * width)
        self.last_norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.last = nn.Linear(width, config.output)
        self.decoder = nn.Sequential(
            nn.Linear(config.output, config.output),
            nn.ReLU(),
            nn.Linear(config.output, config.action),
        )

    def forward(
        self,
        noisy: Tensor,
        bucket: Tensor,
        state: Tensor,
        text: Tensor,
        mask: Tensor,
        keep: Tensor | None = None,
    ) -> Tensor:
        """Velocities (n, 30, a) of noisy chunks (n, 30, a) at time buckets (n,).

        `state` is (n, 930), `text` (n or 1, k, 384) with its `mask` (n or 1, k). The
        state token is zero where `keep` (n,) is False.
        """
        context = self.context(state, text, mask, keep)
        return self.velocity(noisy, self.flow_time(bucket), context)

    def context(
        self, state: Tensor, text: Tensor, mask: Tensor, keep: Tensor | None = None
    ) -> Context:
        """What robots and their sentences give to every step of the flow."""
        token = self.state_encoder(state)[:, None]
        if keep is not None:
            token = torch.where(keep[:, None, None], token, 0.0)
        text, even = self.text_norm(text), cast(list[Block], self.blocks[::2])
        sources = tuple(block.attention.keys_and_values(text) for block in even)
        return Context(token, sources, mask[:, None, None])

    def flow_time(self, bucket: Tensor) -> list[Tensor]:
        """What time buckets (n,) give: a code (n, 1, width) to the action encoder, and
        scale and shift (n, 1, 2 width) to every block and to the end."""
        silu = functional.silu(self.time_encoder(wave(bucket, _TIME_CHANNELS)))[:, None]
        blocks = [block.modulation(silu) for block in cast(list[Block], self.blocks)]
        code = wave(bucket, self.config.width)[:, None]
        return [code, *blocks, self.last_modulation(silu)]

    def velocity(self, noisy: Tensor, time: list[Tensor], context: Context) -> Tensor:
        """Velocities (n, 30, a) of noisy chunks."""
        code, *times, last = time
        actions = self.action_encoder(noisy, code)
        tokens = torch.cat((context.state.to(actions.dtype), actions), dim=1)
        for number, block in enumerate(self.blocks):
            heard = None, None
            if number % 2 == 0:
                heard = context.text[number // 2], context.mask
            tokens = block(tokens, times[number], *heard)
        tokens = _modulated(self.last_norm(tokens[:, 1:]), last)
        return self.decoder(self.last(tokens))


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

    def __init__(self, config: PlannerConfig):
        super().__init__()
        self.config, head = config, config.head
        self.head = Head(head)
        # All frames share one mean and deviation, and so do all steps of a chunk.
        for name, size in (("history", PROPRIO), ("chunk", head.action)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))

    def fit(self, batch: Batch) -> None:
        """Take statistics from typical rows."""
        history, chunk = batch.history.flatten(0, 1), batch.chunk.flatten(0, 1)
        self.history_mean, self.history_std = moments(history, _SMALLEST_STD)
        self.chunk_mean, self.chunk_std = moments(chunk, _SMALLEST_STD)

    def normalize_history(self, history: Tensor) -> Tensor:
        """Histories (n, 10, 93) as the head reads them (n, 930)."""
        normal = (history - self.history_mean) / self.history_std
        return normal.clamp(-_MOST_STDS, _MOST_STDS).flatten(1)

    def normalize_chunk(self, chunk: Tensor) -> Tensor:
        """Chunks (n, 30, a) as the head makes them, without units."""
        return (chunk - self.chunk_mean) / self.chunk_std

    def plan(
        self, history: Tensor, text: TextStates, noise: Tensor | None = None
    ) -> Tensor:
        """Chunks (n, 30, a) that grow out of noise, which is drawn if it is not given,
        for robots with histories (n, 10, 93).

        `text` has one sentence for each robot, or one for all.
        """
        if noise is None:
            size = (len(history), self.config.head.chunk, self.config.head.action)
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
        time, chunk = self.head.flow_time(times), noise
        for step in range(STEPS):
            now = [values[step : step + 1] for values in time]
            chunk = chunk + self.head.velocity(chunk, now, context) / STEPS
        return chunk * self.chunk_std + self.chunk_mean

    def release(self, folder: Path, provenance: Provenance) -> None:
        """Write a folder with weights in bf16 and exact statistics."""
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
    if planner.config.text != encoder.name:
        raise ValueError(
            f"the planner was trained with the sentences of {planner.config.text}, "
            f"not of {encoder.name}"
        )


def check_match(
    planner: Planner, controller: Provenance, encoder_fingerprint: str
) -> None:
    """Refuse a controller and a skill model that the planner was not trained with.

    A planner that was trained without skills matches any skill model.
    """
    about = planner.config.about
    if not controller.is_of(about.controller):
        raise ValueError(
            f"the planner was trained on rollouts of the controller "
            f"{about.controller}, this one is {controller.weights_hash}; give the "
            "controller it was trained with"
        )
    if about.encoder and about.encoder != encoder_fingerprint:
        found = encoder_fingerprint or "none"
        raise ValueError(
            f"the planner was trained with the encoder {about.encoder}, this skill "
            f"model's is {found}; give the skill model it was trained with"
        )
