"""One update of a planner: flow matching from noise to chunks that robots executed.

Random numbers of an update depend on the seed and the update's number alone. A run
that was killed therefore goes through the same batches.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from spectral_skills.planner.data import Batch, Output, Rows
from spectral_skills.planner.head import TIMES, HeadConfig
from spectral_skills.planner.model import Planner, PlannerConfig
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.runs import load_optimizer, optimizer_tensors

_LATEST = 0.999
"""No sample lies nearer to the data."""
_TYPICAL = 1 << 14
"""Rows that statistics are taken from."""
_AT_ONCE = 256
"""Rows that are evaluated together."""


@dataclass(frozen=True)
class PlanConfig:
    """A planner's training run.

    The learning rate rises in a straight line during the warm-up, then falls along a
    cosine to zero at the last update.
    """

    head: HeadConfig = HeadConfig()
    """Its action and text widths are those of the rows and of the language model."""
    output: Output = "skill"
    updates: int = 12_000
    batch: int = 64
    learning_rate: float = 1e-4
    weight_decay: float = 1e-5
    warmup: float = 0.05
    """Share of the updates."""
    state_dropout: float = 0.1
    """Share of rows whose state token is zero."""
    word_dropout: float = 0.0
    """Share of tokens that are not heard."""
    word_noise: float = 0.0
    """Added to token states, in their deviations."""
    clip_norm: float = 1.0
    evaluate_every: int = 500
    evaluation_rows: int = 2048
    checkpoint_every: int = 1000
    seed: int = 0

    def __post_init__(self):
        for name in (
            *("updates", "batch", "evaluate_every", "evaluation_rows"),
            "checkpoint_every",
        ):
            if (found := getattr(self, name)) < 1:
                raise ValueError(f"{name} is {found}, must be at least 1")

    def rate(self, update: int) -> float:
        """Learning rate of an update, counted from 1."""
        rise = max(1.0, self.warmup * self.updates)
        if update < rise:
            return self.learning_rate * update / rise
        done = (update - rise) / max(self.updates - rise, 1)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


class Phrases:
    """Sentences of motions: token states of all of them, and which are whose."""

    def __init__(
        self,
        sentences: Sequence[tuple[str, ...]],
        encoder: TextEncoder,
        device: torch.device,
    ):
        text = encoder.encode([sentence for some in sentences for sentence in some])
        # Attention is fastest over a number of keys that eight divides.
        room = (0, -text.mask.shape[1] % 8)
        self.text = TextStates(
            functional.pad(text.states, (0, 0, *room)),
            functional.pad(text.mask, room),
        ).to(device)
        self.deviation = float(text.states[text.mask].std())
        counts = torch.tensor([len(some) for some in sentences], device=device)
        self._counts, self._first = counts, counts.cumsum(0) - counts

    def pick(self, motion: Tensor, uniform: Tensor) -> TextStates:
        """A sentence of each motion (n,), by uniform random numbers."""
        one = self._first[motion] + (uniform * self._counts[motion]).long()
        return TextStates(self.text.states[one], self.text.mask[one])


class Draws(NamedTuple):
    """Random numbers of a batch."""

    rows: Tensor
    """(n,)"""
    noise: Tensor
    """(n, 30, a)"""
    time: Tensor
    """(n,) 0 at noise, 1 at data."""
    phrase: Tensor
    """(n,) uniform, picks a sentence."""
    keep: Tensor
    """(n,) whether the state is seen."""


class Trainer:
    """Planner, optimizer and data of a run."""

    def __init__(self, config: PlanConfig, rows: Rows, encoder: TextEncoder):
        self.config, self.rows, self.device = config, rows, rows.device
        motions = rows.about.motions
        width = rows.width(config.output)
        head = replace(config.head, action=width, text=encoder.width)
        whole = PlannerConfig(head, config.output, encoder.name, rows.about)
        self.learned, self.held = rows.split()
        if not len(self.held):
            raise ValueError("too few robots: none can be held out of training")
        taught, others = zip(*((m.sentences, m.held_out) for m in motions), strict=True)
        self.phrases = {"held_out": Phrases(taught, encoder, self.device)}
        """To learn from and, if every motion has others, those."""
        if all(others):
            self.phrases["paraphrased"] = Phrases(others, encoder, self.device)
        torch.manual_seed(config.seed)  # for the weights
        self.planner = Planner(whole).to(self.device)
        self.planner.fit(self._typical(), self.phrases["held_out"].text)
        self.parameters = list(self.planner.parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.generator = torch.Generator(self.device)
        self.loss = self._loss
        if self.device.type == "cuda":
            self.loss = torch.compile(self._loss, dynamic=False)

    def _typical(self) -> Batch:
        """Rows from all over those to learn from; says if one is not finite."""
        count = min(len(self.learned), _TYPICAL)
        spread = torch.arange(count, device=self.device) * len(self.learned) // count
        rows = self.learned[spread]
        batch = self.rows.batch(rows, self.config.output)
        if (bad := _not_finite(rows, batch)) is not None:
            raise ValueError(f"row {bad} of the rows to learn from is not finite")
        return batch

    def draw(self, update: int, rows: Tensor, count: int) -> Draws:
        """Random numbers of an update, which depend on the seed and on it alone."""
        generator, device = self.generator, self.device
        generator.manual_seed((self.config.seed << 32) + update)
        head = self.planner.config.head
        place = torch.randint(len(rows), (count,), generator=generator, device=device)
        size = (count, head.chunk, head.action)
        noise = torch.randn(size, generator=generator, device=device)
        uniform = torch.rand((3, count), generator=generator, device=device)
        # u ~ Beta(1.5, 1), whose distribution is u^1.5; t = (1 - u) * 0.999
        t = (1 - uniform[0] ** (2 / 3)) * _LATEST
        keep = uniform[2] >= self.config.state_dropout
        return Draws(rows[place], noise, t, uniform[1], keep)

    def _loss(self, batch: Batch, draws: Draws, text: TextStates) -> Tensor:
        """Mean squared error of the velocity."""
        planner, t = self.planner, draws.time[:, None, None]
        a, eps = planner.normalize_chunk(batch.chunk), draws.noise
        velocity = planner.head(
            (1 - t) * eps + t * a,
            (TIMES * draws.time).long(),
            planner.normalize_history(batch.history),
            *text,
            draws.keep,
        )
        return functional.mse_loss(velocity.float(), a - eps)

    def precision(self) -> torch.autocast:
        """bf16 where there are units for it."""
        kind = self.device.type
        return torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda")

    def update(self, number: int) -> tuple[Tensor, Tensor]:
        """One optimizer step, counted from 1; gives the loss and the norm of the
        gradient, without waiting for the device."""
        config = self.config
        draws = self.draw(number, self.learned, config.batch)
        batch = self.rows.batch(draws.rows, config.output)
        text = self.phrases["held_out"].pick(batch.motion, draws.phrase)
        # For dropout: other numbers than those of the batch.
        torch.manual_seed((config.seed << 32) + (1 << 31) + number)
        text = self._blurred(text)
        with self.precision():
            loss = self.loss(batch, draws, text)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, config.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = config.rate(number)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach(), norm

    def _blurred(self, text: TextStates) -> TextStates:
        """Sentences as others might word them: tokens are missing, and a little off."""
        states, mask, config = *text, self.config
        if config.word_noise:
            scale = config.word_noise * self.phrases["held_out"].deviation
            states = states + scale * torch.randn_like(states)
        if config.word_dropout:
            heard = torch.rand(mask.shape, device=mask.device) >= config.word_dropout
            heard[:, 0] = True  # it speaks for the whole sentence
            mask = mask & heard
        return TextStates(states, mask)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Losses on robots held out: with sentences learned from, and with others.

        Always of the same rows, noise and times.
        """
        count = self.config.evaluation_rows
        draws = self.draw(0, self.held, count)
        draws = draws._replace(keep=torch.ones_like(draws.keep))
        self.planner.eval()
        losses: dict[str, list[Tensor]] = {name: [] for name in self.phrases}
        for first in range(0, count, _AT_ONCE):
            some = Draws(*(part[first : first + _AT_ONCE] for part in draws))
            batch = self.rows.batch(some.rows, self.config.output)
            for name, phrases in self.phrases.items():
                text = phrases.pick(batch.motion, some.phrase)
                with self.precision():
                    losses[name].append(self._loss(batch, some, text) * len(some.rows))
        self.planner.train()
        return {k: float(torch.stack(v).sum()) / count for k, v in losses.items()}

    def broken_row(self, update: int) -> int | None:
        """Of the rows of an update, the first that is not finite."""
        rows = self.draw(update, self.learned, self.config.batch).rows
        return _not_finite(rows, self.rows.batch(rows, self.config.output))

    def tensors(self) -> dict[str, Tensor]:
        """All that changes during training."""
        tensors = {f"planner.{k}": v for k, v in self.planner.state_dict().items()}
        return tensors | optimizer_tensors(self.optimizer)

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        prefix = "planner."
        ours = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
        self.planner.load_state_dict(ours)
        load_optimizer(self.optimizer, tensors)


def _not_finite(rows: Tensor, batch: Batch) -> int | None:
    fine = batch.history.flatten(1).isfinite().all(1)
    fine &= batch.chunk.flatten(1).isfinite().all(1)
    bad = (~fine).nonzero()
    return int(rows[bad[0, 0]]) if len(bad) else None
