"""Learn a skill space: the run, its evaluation, and what is released of it."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spectral_skills import distributed, runs
from spectral_skills.artifact import Provenance
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import MotionTensors, WindowSampler
from spectral_skills.runs import RunFolder
from spectral_skills.skill import contracted
from spectral_skills.skill.model import KIND, SkillModel
from spectral_skills.skill.trainer import PretrainConfig, Trainer, draw_slices, sigreg
from spectral_skills.updates import Means, part, precision

_AT_ONCE = 1024
"""Number of windows evaluated at once."""
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
    data_hash = "+".join(corpus.hash for corpus in corpora)
    folder = RunFolder(
        *(out, config, data_hash, command, device),
        may_change=("updates",),
        amounts=("patience",),
    )
    with folder as run:
        provenance = Provenance(KIND, run.command, config.seed, data_hash)
        job = Pretraining(config, corpora, where, run, provenance)
        if run.writes:
            unseen = sum(map(len, motion_sets.hold_out(corpora, config.held_out)[1]))
            words = "every clip is trained on: held-out errors are of the same clips"
            if unseen:
                words = f"{unseen:,} of {sum(map(len, corpora)):,} clips are held out"
            print(words)
        runs.train(run, job, config.updates, config.checkpoint_every, watch=watch)
    return job.result()


def release(
    model: SkillModel,
    config: PretrainConfig,
    corpora: Sequence[Corpus],
    folder: Path,
    provenance: Provenance,
) -> list[float]:
    """Write what run time needs, and what finds directions where the predictor can.

    Returns how far released responses are from the model's own at each noise level,
    on windows of the clips that were held out.
    """
    if config.model.target != "chunk" or config.model.predictor.kind != "affine":
        model.release(folder, provenance)
        return []
    device = model.future_mean.device
    motions = split(corpora, config.held_out, config.mirror, device)
    samplers = [WindowSampler(part, config.model.windows) for part in motions]
    counts = contracted.WINDOWS, contracted.UNSEEN
    generator = torch.Generator(device).manual_seed(config.seed)
    pairs = zip(samplers, counts, strict=True)
    seen, unseen = (sampler.sample(count, generator) for sampler, count in pairs)
    model.release(folder, provenance, seen)
    small = SkillModel.load(folder, device).predictor
    return contracted.response_error(model.predictor, small, *model.queries(unseen))


class Pretraining(runs.Job):
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
        motions, unseen = split(corpora, config.held_out, config.mirror, device)
        self.trainer = Trainer(config, motions, compiled=device.type == "cuda")
        self.model = self.trainer.model
        samplers = WindowSampler(unseen, config.model.windows), self.trainer.sampler
        self.evaluate = Evaluator(*samplers, config.evaluation_windows, config.seed)
        self.means = Means(TRAINED, device)
        self.state: dict[str, Any] = {"update": 0, "seconds": 0.0}
        self.state |= {"best": float("inf"), "since_best": 0}
        self.kept: dict[str, Tensor] | None = None
        """The best weights so far, where the run stops for lack of progress."""
        if (found := run.load_checkpoint()) is not None:
            self.trainer.load(part(found[0], "trainer.") or found[0])
            self.state |= found[1]
            self.means.load(self.state)
            if kept := part(found[0], "kept."):
                self.kept = {name: value.to(device) for name, value in kept.items()}
            elif config.patience is not None and run.model_folder.exists():
                self.kept = SkillModel.load(run.model_folder, device).state_dict()

    def step(self, until: float) -> None:
        update = self.state["update"] + 1
        losses, norm = self.trainer.update(update)
        figures = (losses.prediction, losses.sigreg, losses.penalty, norm)
        self.means.add(update, figures)
        self.state["update"] = update

    def report(self, before: int, ended: bool) -> runs.LogEntry | None:
        """Evaluate, and remember the weights if they are the best so far."""
        config, state, update = self.config, self.state, self.state["update"]
        if not (runs.crossed(before, update, config.evaluate_every) or ended):
            return None
        self.means.check(self.run.path, self._explain)
        found = self.evaluate(self.trainer)
        state["since_best"] += 1
        if found["held_out"] < state["best"]:
            state.update(best=found["held_out"], since_best=0)
            if config.patience is not None:
                self.kept = copy.deepcopy(self.model.state_dict())
        row = {"update": update} | self.means.take() | found
        if config.deviation is not None:
            row["scale"] = self.trainer.factor(self.model)
        levels = " ".join(f"{value:.3f}" for value in found["held_out_levels"])
        line = (
            f"{update:>7,}  held-out {found['held_out']:.4f}  by level {levels}  "
            f"shuffled {found['shuffled']:.3f}  std {found['skill_std']:.2f}  "
            f"sigreg {found['sigreg']:.4f}"
        )
        line += f"  scaled by {row['scale']:.3f}" if "scale" in row else ""
        return runs.LogEntry(row | {"seconds": state["seconds"]}, line)

    def save(self) -> None:
        """Model first: a checkpoint promises that everything before it is there."""
        self.means.check(self.run.path, self._explain)
        self.run.save_model(self.config.model, self._weights(), self.provenance)
        self.state |= self.means.state()
        tensors = self.trainer.tensors()
        if self.config.deviation is not None:
            # The model's weights are scaled: training goes on with the learned ones.
            tensors = {f"trainer.{name}": value for name, value in tensors.items()}
            kept = self.kept or {}
            tensors |= {f"kept.{name}": value for name, value in kept.items()}
        self.run.save_checkpoint(tensors, self.state)

    def _weights(self) -> dict[str, Tensor]:
        """The weights that are kept, scaled if the run wants it."""
        weights = self.model.state_dict() if self.kept is None else self.kept
        if self.config.deviation is None:
            return weights
        model = copy.deepcopy(self.model)
        model.load_state_dict(weights)
        model.scale(self.trainer.factor(model))
        return model.state_dict()

    def stopped(self) -> str:
        patience = self.config.patience
        if patience is None or self.state["since_best"] < patience:
            return ""
        return f"no better for {patience} evaluations: stopped"

    def _explain(self, update: int) -> str:
        """What the batch of a broken update says about its cause."""
        clips, times = self.trainer.window_numbers(update)
        windows = vars(self.trainer.sampler.at(clips, times)).values()
        finite = torch.stack([part.flatten(1).isfinite().all(1) for part in windows])
        if bool((found := finite.all(0)).all()):
            return f"its {len(clips):,} windows are finite: try a lower learning rate"
        first = int((~found).nonzero()[0])
        return f"clip {int(clips[first])} is not finite near frame {int(times[first])}"

    def result(self) -> SkillModel:
        self.model.load_state_dict(self._weights())
        return self.model.eval()


def split(
    corpora: Sequence[Corpus], held_out: float, mirror: bool, device: torch.device | str
) -> tuple[MotionTensors, MotionTensors]:
    """Motions to train on and motions held out; with nothing held out, both are all."""

    def moved(views: list[Corpus]) -> MotionTensors:
        views = [view.with_mirror() if mirror else view for view in views]
        return MotionTensors.join([view.to(device) for view in views])

    trained_on, unseen = motion_sets.hold_out(corpora, held_out)
    motions = moved(trained_on)
    return motions, moved(unseen) if unseen else motions


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
            random = {"generator": self.generator, "device": device}
            return sampler.locate(torch.randint(sampler.total, (count,), **random))

        self.windows, self.other_windows = draw(held_out), draw(trained_on)
        self.exchange = torch.randperm(count, generator=self.generator, device=device)

    @torch.no_grad()
    def __call__(self, trainer: "Trainer") -> dict[str, Any]:
        encoder = trainer.model.encoder
        with precision(trainer.device):
            skill = encoder.encode_at(self.held_out.motions, *self.windows)
            known = encoder.encode_at(self.trained_on.motions, *self.other_windows)
            errors = self._errors(trainer, skill)
            shuffled = self._errors(trainer, skill[self.exchange])
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

    def _errors(self, trainer: "Trainer", skill: Tensor) -> Tensor:
        """Errors (levels, n), with the same noise at every level and every call."""
        head, slow, parts = trainer.head, trainer.slow_encoder, []
        self.generator.manual_seed(self.seed)
        pieces = (values.split(_AT_ONCE) for values in (*self.windows, skill))
        for clips, times, z in zip(*pieces, strict=True):
            later = None
            if slow is not None:
                later = slow.encode_next(self.held_out.motions, clips, times)
            batch = trainer.model.batch(self.held_out.at(clips, times), later)
            size = (len(z), head.noise_width)
            noise = torch.randn(size, generator=self.generator, device=z.device)
            levels = (torch.full_like(clips, level) for level in range(head.levels))
            at_levels = [head(z, batch, level, noise) for level in levels]
            parts.append(torch.stack(at_levels).float())
        return torch.cat(parts, dim=1)
