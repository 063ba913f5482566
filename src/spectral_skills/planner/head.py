"""The velocity of a noisy chunk, from a robot's state and the tokens of a sentence.

The layout is that of the GR00T N1.7 action head for one robot: one state token and a
token for every step of the chunk. Even blocks attend to the sentence, odd blocks to the
tokens themselves. Unlike there, padding tokens of a sentence are never attended to.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

TIMES = 1000
"""Number of buckets for the time of the flow, from noise to data."""
_TIME_CHANNELS = 256
Pair = tuple[Tensor, Tensor]
"""Keys and values, or scale and shift."""


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


class FlowTime(NamedTuple):
    """The time of the flow, as every part of the head receives it."""

    code: Tensor
    """(n or 1, 1, width) for the action encoder."""
    blocks: tuple[Pair, ...]
    """Scale and shift (n or 1, 1, width) of every block."""
    last: Pair

    def at(self, row: int) -> "FlowTime":
        """One of several times, for all chunks."""
        one = slice(row, row + 1)
        blocks = tuple((scale[one], shift[one]) for scale, shift in self.blocks)
        return FlowTime(self.code[one], blocks, (self.last[0][one], self.last[1][one]))


def wave(bucket: Tensor, width: int) -> Tensor:
    """(n, width): sines, then cosines, of a bucket at falling frequencies."""
    half = width // 2
    rank = torch.arange(half, device=bucket.device, dtype=torch.float32)
    angle = bucket.float()[:, None] * torch.exp(-math.log(10_000) / half * rank)
    return torch.cat((angle.sin(), angle.cos()), dim=-1)


class Attention(nn.Module):
    """Attention from the tokens to themselves or to a sentence."""

    def __init__(self, width: int, heads: int, source: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(source, width)
        self.value = nn.Linear(source, width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def _split(self, tokens: Tensor) -> Tensor:
        """(n, k, width) to (n, heads, k, head width)."""
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def keys_and_values(self, source: Tensor) -> Pair:
        return self._split(self.key(source)), self._split(self.value(source))

    def forward(self, tokens: Tensor, source: Pair, mask: Tensor | None) -> Tensor:
        query, (key, value) = self._split(self.query(tokens)), source
        size = (tokens.shape[0], -1, -1, -1)  # one sentence may serve all robots
        mixed = functional.scaled_dot_product_attention(
            query, key.expand(size), value.expand(size), attn_mask=mask
        )
        return self.dropout(self.out(mixed.transpose(1, 2).flatten(2)))


class Block(nn.Module):
    """Attention, scaled and shifted by the time of the flow, then a network."""

    def __init__(self, config: HeadConfig, source: int):
        super().__init__()
        width, dropout = config.width, config.dropout
        self.modulation = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = Attention(width, config.heads, source, dropout)
        self.network = nn.Sequential(
            nn.LayerNorm(width, elementwise_affine=False),
            nn.Linear(width, config.mlp * width),
            nn.GELU(approximate="tanh"),
            nn.Dropout(dropout),
            nn.Linear(config.mlp * width, width),
            nn.Dropout(dropout),
        )

    def forward(
        self, tokens: Tensor, time: Pair, text: Pair | None, mask: Tensor | None
    ) -> Tensor:
        """Tokens after the block; without a text they attend to each other."""
        scale, shift = time
        seen = self.norm(tokens) * (1 + scale) + shift
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

    def _blocks(self) -> list[Block]:
        return [cast(Block, block) for block in self.blocks]

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
        text, even = self.text_norm(text), self._blocks()[::2]
        sources = tuple(block.attention.keys_and_values(text) for block in even)
        return Context(token, sources, mask[:, None, None])

    def flow_time(self, bucket: Tensor) -> FlowTime:
        """What time buckets (n,) give to every block."""
        silu = functional.silu(self.time_encoder(wave(bucket, _TIME_CHANNELS)))[:, None]
        return FlowTime(
            code=wave(bucket, self.config.width)[:, None],
            blocks=tuple(_halves(block.modulation(silu)) for block in self._blocks()),
            last=_halves(self.last_modulation(silu)),
        )

    def velocity(self, noisy: Tensor, time: FlowTime, context: Context) -> Tensor:
        """Velocities (n, 30, a) of noisy chunks."""
        actions = self.action_encoder(noisy, time.code)
        tokens = torch.cat((context.state.to(actions.dtype), actions), dim=1)
        for number, block in enumerate(self._blocks()):
            even = number % 2 == 0
            text = context.text[number // 2] if even else None
            tokens = block(
                tokens, time.blocks[number], text, context.mask if even else None
            )
        scale, shift = time.last
        tokens = self.last_norm(tokens[:, 1:]) * (1 + scale) + shift
        return self.decoder(self.last(tokens))


def _halves(both: Tensor) -> Pair:
    scale, shift = both.chunk(2, dim=-1)
    return scale, shift
