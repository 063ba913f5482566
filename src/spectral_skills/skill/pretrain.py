"""Learn a skill space: data, evaluation and the run, top to bottom."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spectral_skills import distributed, training
from spectral_skills.artifact import Provenance
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import MotionTensors, WindowSampler
from spectral_skills.results import hardware
from spectral_skills.runs import RunFolder
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.skill.model import KIND, SkillModel
from spectral_skills.skill.trainer import PretrainConfig, Trainer, draw_slices, sigreg

_AT_ONCE = 1024
TRAINED = ("prediction", "sigreg_batch", "penalty", "gradient_norm")
"""Figures of training, averaged over the updates since the last evaluation."""


def pretrain(
    config: PretrainConfig,
    corpora: Sequence[Corpus],
    out: Path,
    device: str,
    command: str = "",
    watch: Callable[[Path], None] = lambda run: None,
) -> SkillModel:
    """Train in the folder `out`, or continue there; returns the model that was kept.

    `watch` is called with the folder whenever its log has something new.
    """
    where = distributed.join(device)
    if where.type == "cuda":
        torch.set_float32_matmul_precision("high")
    data_hash = "+".join(corpus.hash for corpus in corpora)
    about = {"command": command, "hardware": hardware(device)}
    first = distributed.rank() == 0
    folder = RunFolder(
        *(out, config, data_hash, about, first),
        may_change=("updates",),
        amounts=("patience",),
    )
    with folder as run:
        provenance = Provenance(KIND, command, config.seed, data_hash)
        job = Pretraining(config, corpora, where, run, provenance)
        if config.held_out == 0 and first:
            print("every clip is trained on: held-out errors are of the same clips")
        every = config.checkpoint_every
        training.train(run, job, config.updates, every, watch=watch)
    return job.result()


class Pretraining:
    """Trainer, evaluation and record of a run."""

    def __init__(
        self,
        config: PretrainConfig,
        corpora: Sequence[Corpus],
        device: torch.device,
        run: RunFolder,
        provenance: Provenance,
    ):
        self.config, self.run, self.provenance = config, run, provenance
        motions, unseen = split(
            corpora, config.held_out, config.seed, config.mirror, device
        )
        self.trainer = Trainer(config, motions, compiled=device.type == "cuda")
        self.model, windows = self.trainer.model, config.model.windows
        self.evaluate = Evaluator(
            WindowSampler(unseen, windows),
            self.trainer.sampler,
            config.evaluation_windows,
            config.seed,
        )
        self.means = training.Means(TRAINED, device)
        self.state: dict[str, Any] = {"update": 0, "seconds": 0.0}
        self.state |= {"best": float("inf"), "since_best": 0}
        self.kept: dict[str, Tensor] | None = None
        """The best weights so far, where the run stops for lack of progress."""
        if (found := run.load_checkpoint()) is not None:
            self.trainer.load(found[0])
            self.state |= found[1]
            self.means.load(self.state)
            if config.patience is not None and run.model_folder.exists():
                self.kept = SkillModel.load(run.model_folder, device).state_dict()

    def step(self, until: float) -> None:
        """One update."""
        update = self.state["update"] + 1
        losses, norm = self.trainer.update(update)
        figures = (losses.prediction, losses.sigreg, losses.penalty, norm)
        self.means.add(update, figures)
        self.state["update"] = update

    def report(self, before: int, ended: bool) -> training.LogEntry | None:
        """Evaluate, and remember the weights if they are the best so far."""
        config, state, trainer = self.config, self.state, self.trainer
        update = state["update"]
        if not (training.crossed(before, update, config.evaluate_every) or ended):
            return None
        self.means.check(self.run.path, self._explain)
        found = self.evaluate(self.model, trainer.slow_encoder, trainer.precision())
        state["since_best"] += 1
        if found["held_out"] < state["best"]:
            state.update(best=found["held_out"], since_best=0)
            if config.patience is not None:
                weights = self.model.state_dict()
                self.kept = {k: v.clone() for k, v in weights.items()}
        row = {"update": update} | self.means.take() | found
        levels = " ".join(f"{value:.3f}" for value in found["held_out_levels"])
        line = (
            f"{update:>7,}  held-out {found['held_out']:.4f}  by level {levels}  "
            f"shuffled {found['shuffled']:.3f}  std {found['skill_std']:.2f}  "
            f"sigreg {found['sigreg']:.4f}"
        )
        return training.LogEntry(row | {"seconds": state["seconds"]}, line)

    def save(self) -> None:
        """Model first: a checkpoint promises that everything before it is there."""
        self.means.check(self.run.path, self._explain)
        weights = self.model.state_dict() if self.kept is None else self.kept
        self.run.save_model(self.config.model, weights, self.provenance)
        self.state |= self.means.state()
        self.run.save_checkpoint(self.trainer.tensors(), self.state)

    def stopped(self) -> str:
        """Whether the last evaluations brought nothing better."""
        patience = self.config.patience
        if patience is None or self.state["since_best"] < patience:
            return ""
        return f"no better for {patience} evaluations: stopped"

    def result(self) -> SkillModel:
        """The model that was kept."""
        if self.kept is not None:
            self.model.load_state_dict(self.kept)
        return self.model.eval()

    def _explain(self, update: int) -> str:
        """What the batch of a broken update says about its cause."""
        clips, times = self.trainer.window_numbers(update)
        windows = self.trainer.sampler.at(clips, times)
        parts = [x.flatten(1).isfinite().all(1) for x in vars(windows).values()]
        finite = torch.stack(parts).all(0)
        if bool(finite.all()):
            return (
                f"its {len(clips):,} windows are finite, so try a lower learning rate"
            )
        first = int((~finite).nonzero()[0])
        return f"clip {int(clips[first])} is not finite near frame {int(times[first])}"


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


class Evaluator:
    """Measures models on the same windows, with the same noise, every time.

    held_out         mean squared error of a coordinate, over all noise levels
    held_out_levels  the same for each level
    shuffled         the error with skills exchanged between windows
    skill_std        mean over dimensions of the deviation over windows trained on
    sigreg           of windows trained on, without the factor N
    """

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
    ) -> dict[str, Any]:
        encoder = model.encoder
        with precision:
            skill = encoder.encode_at(self.held_out.motions, *self.windows)
            known = encoder.encode_at(self.trained_on.motions, *self.other_windows)
            errors = self._errors(model, slow, skill)
            shuffled = self._errors(model, slow, skill[self.exchange])
        self.generator.manual_seed(self.seed)
        slices = draw_slices(encoder.width, 64, self.generator)
        by_level = errors.mean(1).tolist()
        return {
            "held_out": sum(by_level) / len(by_level),
            "held_out_levels": by_level,
            "shuffled": float(shuffled.mean()),
            "skill_std": float(known.std(0).mean()),
            "sigreg": float(sigreg(known, slices)),
        }

    def _errors(
        self, model: SkillModel, slow: SkillEncoder | None, skill: Tensor
    ) -> Tensor:
        """Errors (levels, n), with the same noise at every level and every call."""
        assert (head := model.head) is not None
        self.generator.manual_seed(self.seed)
        parts = []
        for clips, times, z in zip(
            *(x.split(_AT_ONCE) for x in (*self.windows, skill)), strict=True
        ):
            later = None
            if slow is not None:
                later = slow.encode_next(self.held_out.motions, clips, times)
            batch = model.batch(self.held_out.at(clips, times), later)
            size = (len(z), head.noise_width)
            noise = torch.randn(size, generator=self.generator, device=z.device)
            at_levels = [
                head(z, batch, torch.full_like(clips, level), noise)
                for level in range(head.levels)
            ]
            parts.append(torch.stack(at_levels).float())
        return torch.cat(parts, dim=1)
