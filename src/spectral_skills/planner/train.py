"""Train a planner: flow matching from noise to chunks that robots executed.

The random numbers of an update depend only on the seed and on the update's number, so a
run that was killed continues with the same batches. On a GPU an update is one captured
graph, because a small planner's kernels take less time than it takes to start them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from spectral_skills import config as configs
from spectral_skills import runs
from spectral_skills.artifact import Provenance
from spectral_skills.planner.data import Batch, Output, Rows
from spectral_skills.planner.model import (
    KIND,
    TIMES,
    HeadConfig,
    Planner,
    PlannerConfig,
)
from spectral_skills.planner.text import TextEncoder, TextStates
from spectral_skills.runs import RunFolder
from spectral_skills.updates import (
    Means,
    captured,
    load_optimizer,
    optimizer_tensors,
    part,
    precision,
)

_LATEST = 0.999
"""Largest time of the flow at which the velocity is learned; 1 is the data."""
_TYPICAL = 1 << 14
"""Number of rows that statistics are taken from."""
_AT_ONCE = 256
"""Number of rows that are evaluated together."""
_BROKEN = 1.25
"""Factor by which the loss on held-out robots rises where training breaks down."""
_OURS = "planner."
"""Prefix of the planner's weights in a checkpoint."""


@dataclass(frozen=True)
class PlanConfig:
    """A planner's training run.

    The learning rate rises linearly during the warm-up, then falls along a cosine to
    zero at the last update.
    """

    head: HeadConfig = HeadConfig()
    """Sizes; the widths of actions and text follow the rows and the language model."""
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
    """Share of tokens that are hidden."""
    word_noise: float = 0.0
    """Noise added to token states, in their standard deviations."""
    clip_norm: float = 1.0
    evaluate_every: int = 500
    evaluation_rows: int = 2048
    checkpoint_every: int = 1000
    seed: int = 0

    def __post_init__(self):
        counts = "updates", "batch", "evaluate_every", "evaluation_rows"
        configs.at_least(self, 1, *counts, "checkpoint_every")

    def rate(self, update: int) -> float:
        """Learning rate of an update, counted from 1."""
        rise = max(1.0, self.warmup * self.updates)
        if update < rise:
            return self.learning_rate * update / rise
        done = (update - rise) / max(self.updates - rise, 1)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


class Phrases:
    """Token states of all sentences of some motions."""

    def __init__(
        self,
        sentences: Sequence[tuple[str, ...]],
        encoder: TextEncoder,
        device: torch.device,
    ):
        text = encoder.encode([sentence for some in sentences for sentence in some])
        # Attention is fastest if the number of keys is divisible by eight.
        room = (0, -text.mask.shape[1] % 8)
        self.text = TextStates(
            functional.pad(text.states, (0, 0, *room)), functional.pad(text.mask, room)
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
    """(n,) uniform numbers that pick a sentence."""
    keep: Tensor
    """(n,) False where the state is hidden."""


class PlanTrainer(runs.Job):
    """Planner, optimizer, data and record of a run."""

    run: RunFolder
    provenance: Provenance

    def __init__(self, config: PlanConfig, rows: Rows, encoder: TextEncoder):
        self.config, self.rows, self.device = config, rows, rows.device
        sizes = {"action": rows.width(config.output), "text": encoder.width}
        head, about = replace(config.head, **sizes), rows.about
        self.training_rows, self.held = rows.split()
        if not len(self.held):
            raise ValueError("too few robots: none can be held out of training")
        own = [motion.sentences for motion in about.motions]
        others = [motion.held_out for motion in about.motions]
        self.phrases = {"held_out": Phrases(own, encoder, self.device)}
        """Training sentences and, if every motion has some, held-out sentences."""
        if all(others):
            self.phrases["paraphrased"] = Phrases(others, encoder, self.device)
        torch.manual_seed(config.seed)  # for the weights
        whole = PlannerConfig(head, config.output, encoder.name, about)
        self.planner = Planner(whole).to(self.device)
        self.planner.fit(self._typical())
        self.parameters = list(self.planner.parameters())
        cuda = self.device.type == "cuda"
        self.rate = torch.zeros((), device=self.device)
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=self.rate,
            weight_decay=config.weight_decay,
            fused=True,
            capturable=cuda,
        )
        self.generator = torch.Generator(self.device)
        self.means = Means(("loss", "gradient_norm"), self.device)
        self.state: dict[str, Any] = {"update": 0, "seconds": 0.0}
        self.loss = torch.compile(self._loss, dynamic=False) if cuda else self._loss
        self.draws: Draws | None = None
        """Random numbers of the present update, always in the same memory."""
        self._learn: Callable[[], Tensor] | None = None
        """What an update does with them."""

    def _typical(self) -> Batch:
        """Training rows at even distances; refuses one that is not finite."""
        count = min(len(self.training_rows), _TYPICAL)
        spread = torch.arange(count, device=self.device)
        rows = self.training_rows[spread * len(self.training_rows) // count]
        batch = self.rows.batch(rows, self.config.output)
        if bad := self._not_finite(rows, batch):
            raise ValueError(bad)
        return batch

    def _not_finite(self, rows: Tensor, batch: Batch) -> str:
        """Which of the rows (n,) is not finite; empty if all are."""
        fine = batch.history.flatten(1).isfinite().all(1)
        fine &= batch.chunk.flatten(1).isfinite().all(1)
        bad = rows[~fine].tolist()
        return f"row {bad[0]} of the rows to learn from is not finite" if bad else ""

    def draw(self, update: int, rows: Tensor, count: int) -> Draws:
        """Random numbers of an update."""
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

    def update(self, number: int) -> tuple[Tensor, Tensor]:
        """One optimizer step, counted from 1; returns the loss and the norm of the
        gradient without waiting for the device."""
        config = self.config
        draws = self.draw(number, self.training_rows, config.batch)
        if self.draws is None:
            self.draws = draws
        else:
            for mine, new in zip(self.draws, draws, strict=True):
                mine.copy_(new)
        self.rate.fill_(config.rate(number))
        # Dropout must not repeat the random numbers of the batch.
        torch.manual_seed((config.seed << 32) + (1 << 31) + number)
        if self._learn is None:
            cuda = self.device.type == "cuda"
            self._learn = captured(self._step) if cuda else self._step
        loss, norm = self._learn().clone()
        return loss, norm

    def _step(self) -> Tensor:
        """Loss and norm of the gradient of the rows drawn, along which it steps."""
        assert self.draws is not None
        batch = self.rows.batch(self.draws.rows, self.config.output)
        text = self.phrases["held_out"].pick(batch.motion, self.draws.phrase)
        text = self._blurred(text)
        with precision(self.device):
            loss = self.loss(batch, self.draws, text)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return torch.stack((loss.detach(), norm))

    def _blurred(self, text: TextStates) -> TextStates:
        """Sentences with hidden tokens and noise, as if others had worded them."""
        states, mask, config = *text, self.config
        if config.word_noise:
            scale = config.word_noise * self.phrases["held_out"].deviation
            states = states + scale * torch.randn_like(states)
        if config.word_dropout:
            seen = torch.rand(mask.shape, device=mask.device) >= config.word_dropout
            seen[:, 0] = True  # the first token stands for the whole sentence
            mask = mask & seen
        return TextStates(states, mask)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Losses on held-out robots, with training sentences and with held-out ones.

        Rows, noise and times are always the same.
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
                with precision(self.device):
                    losses[name].append(self._loss(batch, some, text) * len(some.rows))
        self.planner.train()
        return {k: float(torch.stack(v).sum()) / count for k, v in losses.items()}

    def begin(self, run: RunFolder, provenance: Provenance) -> None:
        """Begin in a run's folder, from its checkpoint if there is one."""
        self.run, self.provenance = run, provenance
        if (found := run.load_checkpoint()) is not None:
            tensors, state = found
            self.planner.load_state_dict(part(tensors, _OURS))
            load_optimizer(self.optimizer, tensors)
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate  # loading replaced it by a copy
            self.state |= state
            self.means.load(self.state)
        self.planner.train()

    def step(self, until: float) -> None:
        update = self.state["update"] + 1
        self.means.add(update, self.update(update))
        self.state["update"] = update

    def report(self, before: int, ended: bool) -> runs.LogEntry | None:
        update = self.state["update"]
        if not (runs.crossed(before, update, self.config.evaluate_every) or ended):
            return None
        self.means.check(self.run.path, self._explain)
        row = {"update": update} | self.means.take() | self.evaluate()
        held, best = row["held_out"], self.state.get("best", math.inf)
        if not held <= _BROKEN * best:  # it may be no number
            raise ValueError(
                f"{self.run.path}: the loss on held-out robots rose from {best:.3f} to "
                f"{held:.3f} by update {update:,}, so training has broken down; try a "
                "lower learning rate or --head.normal-queries, in another folder. The "
                "last checkpoint and model are as they were"
            )
        self.state["best"] = min(held, best)
        names = {"loss": "loss", "held_out": "held-out", "paraphrased": "other words"}
        parts = [f"{name} {row[key]:.4f}" for key, name in names.items() if key in row]
        line = "  ".join((f"{update:>7,}", *parts))
        return runs.LogEntry(row | {"seconds": self.state["seconds"]}, line)

    def save(self) -> None:
        """Write the model, then the checkpoint, which promises that it is there."""
        self.means.check(self.run.path, self._explain)
        weights = self.planner.state_dict()
        self.run.save_model(self.planner.config, weights, self.provenance)
        self.state |= self.means.state()
        tensors = {f"{_OURS}{name}": value for name, value in weights.items()}
        tensors |= optimizer_tensors(self.optimizer)
        self.run.save_checkpoint(tensors, self.state)

    def _explain(self, update: int) -> str:
        """What the batch of a broken update says about its cause."""
        rows = self.draw(update, self.training_rows, self.config.batch).rows
        bad = self._not_finite(rows, self.rows.batch(rows, self.config.output))
        return bad or "its rows are finite, so try a lower learning rate"


def train(
    config: PlanConfig,
    rows: Rows,
    encoder: TextEncoder,
    out: Path,
    device: str,
    command: str = "",
    watch: Callable[[Path], None] = lambda run: None,
) -> Planner:
    """Train in the folder `out`, or continue there; returns the planner.

    `rows` are on the device. `watch` is called with the folder whenever its log has
    something new.
    """
    if rows.device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    parents = {"controller": rows.about.controller, "skill": rows.about.encoder}
    parents = {role: name for role, name in parents.items() if name}
    with RunFolder(out, config, f"{rows.hash}+{encoder.name}", command, device) as run:
        provenance = Provenance(KIND, run.command, config.seed, rows.hash, parents)
        trainer = PlanTrainer(config, rows, encoder)
        trainer.begin(run, provenance)
        runs.train(run, trainer, config.updates, config.checkpoint_every, watch=watch)
    return trainer.planner.eval()
