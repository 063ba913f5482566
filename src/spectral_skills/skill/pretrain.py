"""How well a skill model predicts clips it was not trained on, level by level."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills import distributed
from spectral_skills.artifact import Provenance
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import MotionTensors, WindowSampler
from spectral_skills.results import hardware
from spectral_skills.runs import RunFolder, between_steps
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.skill.model import KIND, SkillModel
from spectral_skills.skill.trainer import PretrainConfig, Trainer, draw_slices, sigreg

_AT_ONCE = 1024


@dataclass(frozen=True)
class Evaluation:
    """Mean squared errors of a coordinate on held-out windows."""

    held_out: float
    """Mean over noise levels."""
    held_out_levels: tuple[float, ...]
    shuffled: float
    """The same with skills exchanged between windows: what they are worth."""
    skill_std: float
    """Mean over dimensions of the deviation over trained-on windows."""
    sigreg: float
    """Of trained-on windows, without the factor N."""


class Probe:
    """The same windows, noise and exchange of skills at every evaluation."""

    def __init__(
        self, held_out: WindowSampler, trained_on: WindowSampler, count: int, seed: int
    ):
        self.held_out, self.trained_on, self.seed = held_out, trained_on, seed
        device = held_out.motions.device
        self.generator = torch.Generator(device).manual_seed(seed)

        def draw(sampler: WindowSampler) -> tuple[Tensor, Tensor]:
            numbers = torch.randint(
                sampler.total, (count,), generator=self.generator, device=device
            )
            return sampler.locate(numbers)

        self.windows, self.other_windows = draw(held_out), draw(trained_on)
        self.exchange = torch.randperm(count, generator=self.generator, device=device)

    @torch.no_grad()
    def __call__(
        self, model: SkillModel, slow: SkillEncoder | None, precision: torch.autocast
    ) -> Evaluation:
        """Evaluate a model."""
        assert model.head is not None
        encoder, levels = model.encoder, model.head.levels
        with precision:
            skill = encoder.encode_at(self.held_out.motions, *self.windows)
            known = encoder.encode_at(self.trained_on.motions, *self.other_windows)
            errors = self._errors(model, slow, skill)
            shuffled = self._errors(model, slow, skill[self.exchange])
        self.generator.manual_seed(self.seed)
        slices = draw_slices(encoder.width, 64, self.generator)
        by_level = errors.mean(1).tolist()
        return Evaluation(
            held_out=sum(by_level) / levels,
            held_out_levels=tuple(by_level),
            shuffled=float(shuffled.mean()),
            skill_std=float(known.std(0).mean()),
            sigreg=float(sigreg(known, slices)),
        )

    def _errors(
        self, model: SkillModel, slow: SkillEncoder | None, skill: Tensor
    ) -> Tensor:
        """(levels, n), with the same noise at every level and every call."""
        assert model.head is not None
        self.generator.manual_seed(self.seed)
        parts = []
        for clips, times, z in zip(
            *(x.split(_AT_ONCE) for x in (*self.windows, skill)), strict=True
        ):
            later = None
            if slow is not None:
                later = slow.encode_next(self.held_out.motions, clips, times)
            batch = model.batch(self.held_out.at(clips, times), later)
            noise = torch.randn(
                (len(z), model.head.noise_width),
                generator=self.generator,
                device=z.device,
            )
            at_levels = [
                model.head(z, batch, torch.full_like(clips, level), noise)
                for level in range(model.head.levels)
            ]
            parts.append(torch.stack(at_levels).float())
        return torch.cat(parts, dim=1)


# Learn a skill space: the run, top to bottom.

TRAINED = ("prediction", "sigreg_batch", "penalty", "gradient_norm")
"""Means over the updates since the last evaluation."""


def split(
    corpora: Sequence[Corpus],
    held_out: float,
    seed: int,
    mirror: bool,
    device: torch.device | str,
) -> tuple[MotionTensors, MotionTensors]:
    """Motions to train on and motions held out, by the names of the clips.

    With nothing held out, both are all motions.
    """

    def moved(views: list[Corpus]) -> MotionTensors:
        views = [view.with_mirror() if mirror else view for view in views]
        return MotionTensors.join([view.to(device) for view in views])

    if held_out == 0:
        return (motions := moved(list(corpora))), motions
    sides: tuple[list, list] = ([], [])
    for corpus in corpora:
        if held_out >= 1:
            indices = motion_sets.split(corpus, held_out_clips=int(held_out), seed=seed)
        else:
            indices = motion_sets.split(corpus, held_out_fraction=held_out, seed=seed)
        for side, chosen in zip(sides, indices, strict=True):
            side.append(corpus.select(chosen))
    return moved(sides[0]), moved(sides[1])


class Sums:
    """What happened since the last evaluation, kept on the device."""

    def __init__(self, device: torch.device):
        self.device = device
        self.bad = torch.full((), -1, device=device)
        """First update whose loss or gradient was not finite."""
        self.clear()

    def clear(self) -> None:
        self.total, self.count = torch.zeros(len(TRAINED), device=self.device), 0

    def add(self, update: int, values: list[Tensor]) -> None:
        """Take in an update without waiting for the device."""
        row = torch.stack([v.detach().float() for v in values])
        broken = ~torch.isfinite(row).all() & (self.bad < 0)
        self.bad = torch.where(broken, update, self.bad)
        self.total, self.count = self.total + row, self.count + 1

    def means(self) -> dict[str, float]:
        """Means by name."""
        total = distributed.all_reduce_sum(self.total) / distributed.world_size()
        values = (total / max(self.count, 1)).tolist()
        return dict(zip(TRAINED, values, strict=True))


def pretrain(
    config: PretrainConfig,
    corpora: Sequence[Corpus],
    out: Path,
    device: str,
    command: str = "",
    watch: Callable[[Path], None] = lambda run: None,
) -> SkillModel:
    """Train in the folder `out`, or go on there; gives the model that was kept.

    `watch` is called with the folder whenever there is something new in its log.
    """
    where = distributed.join(device)
    if where.type == "cuda":
        torch.set_float32_matmul_precision("high")
    data_hash = "+".join(corpus.hash for corpus in corpora)
    about = {"command": command, "hardware": hardware(device)}
    run = RunFolder(
        out,
        config,
        data_hash,
        about,
        writes=distributed.rank() == 0,
        may_change=("updates",),
        amounts=("patience",),
    )
    motions, unseen = split(corpora, config.held_out, config.seed, config.mirror, where)
    trainer = Trainer(config, motions, compiled=where.type == "cuda")
    model = trainer.model
    probe = Probe(
        WindowSampler(unseen, config.model.windows),
        trainer.sampler,
        config.evaluation_windows,
        config.seed,
    )
    state = {"update": 0, "seconds": 0.0, "best": float("inf"), "since_best": 0}
    kept: dict[str, Tensor] | None = None
    run.claim()
    if (found := run.load_checkpoint()) is not None:
        trainer.load(found[0])
        state |= found[1]
        if config.patience is not None and run.model_folder.exists():
            kept = SkillModel.load(run.model_folder, where).state_dict()
    run.begin_log(state["update"], goes_on=state["update"] < config.updates)

    sums, first = Sums(where), distributed.rank() == 0
    if "sums" in state:
        sums.total, sums.count = torch.tensor(state["sums"]).to(where), state["count"]
    began = time.monotonic() - state["seconds"]
    bar = tqdm(
        total=config.updates,
        initial=state["update"],
        unit=" updates",
        disable=None if first else True,  # None: none where there is no terminal
    )

    def told(line: str) -> None:
        if first:
            bar.write(line)

    def evaluate(update: int) -> None:
        nonlocal kept
        _stop_if_broken(trainer, sums, run.path)
        evaluation = probe(model, trainer.slow_encoder, trainer.precision())
        state["seconds"] = time.monotonic() - began
        row = {"update": update} | sums.means() | asdict(evaluation)
        run.log(row | {"seconds": state["seconds"]})
        sums.clear()
        told(_line(update, evaluation))
        if first:
            watch(run.path)
        state["since_best"] += 1
        if evaluation.held_out < state["best"]:
            state.update(best=evaluation.held_out, since_best=0)
            if config.patience is not None:
                kept = {k: v.clone() for k, v in model.state_dict().items()}

    def save() -> None:
        """Model first: the checkpoint says that everything before it is there."""
        _stop_if_broken(trainer, sums, run.path)
        provenance = Provenance(
            KIND, command=command, seed=config.seed, data_hash=data_hash
        )
        weights = model.state_dict() if kept is None else kept
        run.save_model(config.model, weights, provenance)
        state.update(sums=sums.total.tolist(), count=sums.count)
        run.save_checkpoint(trainer.tensors(), state)

    if config.held_out == 0:
        told("every clip is trained on: errors called held out are of the same clips")
    try:
        with between_steps() as interrupted:
            if state["update"] >= config.updates:
                told(f"nothing left to do: {state['update']:,} updates are done")
            for update in range(state["update"] + 1, config.updates + 1):
                if state["since_best"] >= (config.patience or math.inf):
                    told(f"no better for {config.patience} evaluations: stopped")
                    break
                losses, norm = trainer.update(update)
                parts = [losses.prediction, losses.sigreg, losses.penalty, norm]
                sums.add(update, parts)
                state["update"] = update
                bar.update()
                if update % config.evaluate_every == 0 or update == config.updates:
                    evaluate(update)
                stop = interrupted()
                if update % config.checkpoint_every == 0 or stop:
                    save()
                if stop:
                    raise KeyboardInterrupt
        save()
    finally:
        bar.close()
        run.close()
    if kept is not None:
        model.load_state_dict(kept)
    return model.eval()


def _line(update: int, evaluation: Evaluation) -> str:
    levels = " ".join(f"{value:.3f}" for value in evaluation.held_out_levels)
    return (
        f"{update:>7,}  held-out {evaluation.held_out:.4f}  by level {levels}  "
        f"shuffled {evaluation.shuffled:.3f}  std {evaluation.skill_std:.2f}  "
        f"sigreg {evaluation.sigreg:.4f}"
    )


def _stop_if_broken(trainer: Trainer, sums: Sums, run: Path) -> None:
    """Refuse to go on from an update that was not finite; say what its batch tells."""
    if (update := int(sums.bad)) < 0:
        return
    clips, times = trainer.window_numbers(update)
    windows = trainer.sampler.at(clips, times)
    finite = torch.stack(
        [x.flatten(1).isfinite().all(1) for x in vars(windows).values()]
    ).all(0)
    if bool(finite.all()):
        why = f"its {len(clips):,} windows are finite, so try a lower learning rate"
    else:
        first = int((~finite).nonzero()[0])
        why = f"clip {int(clips[first])} is not finite near frame {int(times[first])}"
    raise ValueError(
        f"{run}: the loss of update {update:,} is not finite; {why}. The last "
        "checkpoint is as it was"
    )
