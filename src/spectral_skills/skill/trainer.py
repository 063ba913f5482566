"""The update of a skill space: its configuration, losses, batches and optimizer.

Random numbers of an update depend only on the seed and the update's number, and every
process draws them for the whole batch. A run that was killed, or that has more
processes, therefore sees the same batches.
"""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from spectral_skills import config as configs
from spectral_skills import distributed
from spectral_skills.distributed import mean_over_ranks
from spectral_skills.motion.windows import (
    POSE_SIZE,
    MotionTensors,
    Windows,
    WindowSampler,
)
from spectral_skills.skill.bottleneck import Code
from spectral_skills.skill.model import SkillConfig, SkillModel
from spectral_skills.updates import load_optimizer, optimizer_tensors, precision

_TYPICAL = 1 << 16
"""Number of windows from which means and deviations are taken."""
POINTS, T_MAX = 17, 3.0
"""Number of points of SIGReg's integral, and its upper end."""


@dataclass(frozen=True)
class PretrainConfig:
    """A pretraining run."""

    model: SkillConfig = SkillConfig()
    updates: int = 50_000
    batch: int = 8192
    """Number of windows of an update, over all processes."""
    learning_rate: float = 3e-4
    head_learning_rate: float = 3e-4
    clip_norm: float = 1.0
    reduction: Literal["mean", "sum"] = "mean"
    """Reduction of a sample's squared errors: the mean over coordinates, or the sum,
    which weighs 418 times more beside the other two terms."""
    sigreg: float = 1.0
    """Weight of SIGReg, which is computed without its factor N, the batch."""
    slices: int = 64
    """Number of random directions of SIGReg, drawn at every update."""
    regularizer: float = 1e-3
    """Weight of the bottleneck's penalty; for a continuous skill the sum of z^2 over
    its 64 numbers, not the mean."""
    target_ema: float = 0.996
    """Momentum of the slow encoder for next-skill targets."""
    held_out: float = 0.05
    """Clips that are not trained on: a share below 1, or their number in each corpus.
    They depend on their names only, not on the seed. With 0 all are trained on, and
    held-out errors are of the same clips."""
    mirror: bool = False
    """Whether every clip's mirror image is trained on as well."""
    anchor_noise: tuple[float, float] = (0.0, 0.0)
    """Deviations in metres and radians of the place from which the robot sees chunk and
    future, as if it had drifted; the context is its own past."""
    evaluate_every: int = 250
    evaluation_windows: int = 8192
    patience: int | None = None
    """Evaluations without improvement after which the run stops; the best weights are
    then kept, otherwise the last."""
    deviation: float | None = None
    """Mean deviation of the dimensions of a skill in the saved model, whose skills are
    multiplied by a factor that its predictor divides by; None leaves them as they were
    learned."""
    checkpoint_every: int = 2500
    seed: int = 0

    def __post_init__(self):
        counts = ("updates", "evaluate_every", "checkpoint_every", "slices", "patience")
        configs.at_least(self, 1, *counts)
        configs.at_least(self, 2, "batch", "evaluation_windows")
        if self.held_out == 0 and self.patience is not None:
            raise ValueError("patience needs clips that are held out; held_out is 0")
        full = self.model.encoder.sees == "full"
        if any(self.anchor_noise) and (full or self.model.windows.anchor != "heading"):
            raise ValueError(
                f"anchor_noise is {self.anchor_noise}; it needs the anchor `heading` "
                "and an encoder that does not see the context"
            )
        if self.model.released:
            raise ValueError("a released model has no head to train")
        if self.deviation is not None:
            configs.require(self, "deviation", self.deviation > 0, "above 0")
            kind, target = self.model.encoder.bottleneck.kind, self.model.target
            if kind != "continuous" or target not in ("chunk", "endpoint"):
                raise ValueError(
                    f"deviation is {self.deviation}; only continuous skills of a model "
                    f"that predicts noise can be scaled, not {kind!r} with the target "
                    f"{target!r}"
                )
        if self.model.pose_size != POSE_SIZE:
            raise ValueError(f"pose_size is {self.model.pose_size}, not {POSE_SIZE}")


@dataclass(frozen=True)
class Losses:
    """Losses of one batch; `total` is minimised."""

    total: Tensor
    prediction: Tensor
    """Mean squared error of a coordinate, whatever the reduction."""
    sigreg: Tensor
    penalty: Tensor
    latent: Tensor | None


class Trainer:
    """Model, optimizer and data of a run."""

    def __init__(
        self, config: PretrainConfig, motions: MotionTensors, compiled: bool = False
    ):
        self.config, self.motions = config, motions
        self.device = motions.device
        self.sampler = WindowSampler(motions, config.model.windows)
        self.generator = torch.Generator(self.device)
        torch.manual_seed(config.seed)  # for the weights
        self.model = SkillModel(config.model).to(self.device)
        self.model.fit(self.sampler.at(*self._typical()))
        assert self.model.head is not None
        self.head = self.model.head
        self._changing, self.slow_encoder = nn.ModuleDict({"model": self.model}), None
        if config.model.target == "next-skill":
            self.slow_encoder = copy.deepcopy(self.model.encoder).requires_grad_(False)
            self._changing["slow"] = self.slow_encoder
        self.parameters = list(self.model.parameters())
        groups = [
            {"params": list(self.model.encoder.parameters())},
            {"params": list(self.head.parameters()), "lr": config.head_learning_rate},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=config.learning_rate, weight_decay=0.0, fused=True
        )
        self.predict = torch.compile(self._predict) if compiled else self._predict
        if config.batch % distributed.world_size():
            raise ValueError(
                f"a batch of {config.batch} cannot be shared equally by "
                f"{distributed.world_size()} processes"
            )

    def _typical(self) -> tuple[Tensor, Tensor]:
        """Clips and times of the windows from which statistics are taken."""
        self._seed(0)
        total, generator = self.sampler.total, self.generator
        numbers = torch.arange(total, device=self.device)
        if total > _TYPICAL:
            size = (_TYPICAL,)
            numbers = torch.randint(
                total, size, generator=generator, device=self.device
            )
        return self.sampler.locate(numbers)

    def factor(self, model: SkillModel) -> float:
        """The factor that gives skills the deviation that the run wants."""
        assert self.config.deviation is not None
        skills = model.encoder.encode_at(self.motions, *self._typical())
        return self.config.deviation / float(skills.std(0).mean())

    def _seed(self, update: int) -> None:
        self.generator.manual_seed((self.config.seed << 32) + update)

    def _integers(self, below: int) -> Tensor:
        """This process's share of a batch of random numbers."""
        size, generator = (self.config.batch,), self.generator
        whole = torch.randint(below, size, generator=generator, device=self.device)
        return distributed.share(whole)

    def window_numbers(self, update: int) -> tuple[Tensor, Tensor]:
        """Clips and times of the windows of an update."""
        self._seed(update)
        return self.sampler.locate(self._integers(self.sampler.total))

    def _offsets(self) -> Tensor:
        """Drift (n, 3) of the robots in this process's share of a batch."""
        size, (metres, radians) = (self.config.batch, 3), self.config.anchor_noise
        normal = torch.randn(size, generator=self.generator, device=self.device)
        normal[:, :2] *= metres
        normal[:, 2] *= radians
        return distributed.share(normal)

    def _windows(self, clips: Tensor, times: Tensor, offset: Tensor | None) -> Windows:
        """Windows as seen by robots that have drifted that much."""
        windows = self.sampler.at(clips, times)
        return windows if offset is None else windows.ahead_from(offset)

    def losses(self, update: int) -> Losses:
        """Losses of the batch of an update, counted from 1."""
        config, generator = self.config, self.generator
        clips, times = self.window_numbers(update)
        level = self._integers(self.head.levels)
        size = (config.batch, self.head.noise_width)
        noise = torch.randn(size, generator=generator, device=self.device)
        draws = self.model.encoder.bottleneck.draw(config.batch, generator)
        if draws is not None:
            draws = distributed.share(draws)
        slices = draw_slices(config.model.encoder.width, config.slices, generator)
        offset = self._offsets() if any(config.anchor_noise) else None

        if config.model.target_statistics == "batch":
            # Outside the compiled part, which may not wait for other processes.
            self.model.fit_batch(self._windows(clips, times, offset).future)
        later = None
        with precision(self.device):
            if self.slow_encoder is not None:
                later = self.slow_encoder.encode_next(self.motions, clips, times)
            random = level, distributed.share(noise), draws
            code, errors = self.predict(clips, times, offset, *random, later)
        prediction, penalty = errors.mean(), code.penalty.mean()
        uneven = torch.zeros((), device=self.device)
        if code.latent is not None:
            uneven = sigreg(code.latent, slices)
        coordinates = self.head.outputs if config.reduction == "sum" else 1
        total = coordinates * prediction + config.sigreg * uneven
        total = total + config.regularizer * penalty
        return Losses(total, prediction, uneven, penalty, code.latent)

    def _predict(
        self,
        clips: Tensor,
        times: Tensor,
        offset: Tensor | None,
        level: Tensor,
        noise: Tensor,
        draws: Tensor | None,
        later: Tensor | None,
    ) -> tuple[Code, Tensor]:
        """Skills of windows, and the error of each sample."""
        windows = self._windows(clips, times, offset)
        code = self.model.encoder(self.model.seen(windows), draws)
        batch = self.model.batch(windows, later)
        return code, self.head(code.skill, batch, level, noise)

    def update(self, number: int) -> tuple[Losses, Tensor]:
        """One optimizer step; returns the losses and the norm of the gradient."""
        losses = self.losses(number)
        losses.total.backward()
        distributed.average_gradients(self.parameters)
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if losses.latent is not None:
            latent = losses.latent.detach()
            self.model.encoder.bottleneck.update(latent, self.generator)
        if self.slow_encoder is not None:
            slow, fast = self.slow_encoder.parameters(), self.model.encoder.parameters()
            with torch.no_grad():
                for old, new in zip(slow, fast, strict=True):
                    old.lerp_(new, 1 - self.config.target_ema)
        return losses, norm

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes during training."""
        return self._changing.state_dict() | optimizer_tensors(self.optimizer)

    def load(self, tensors: dict[str, Tensor]) -> None:
        own = {k: v for k, v in tensors.items() if not k.startswith("optimizer.")}
        self._changing.load_state_dict(own)
        load_optimizer(self.optimizer, tensors)


def quadrature(device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Points t and their weights, which include the Gaussian."""
    t = torch.linspace(0, T_MAX, POINTS, device=device)
    weight = torch.full_like(t, 2 * T_MAX / (POINTS - 1))
    weight[0] = weight[-1] = T_MAX / (POINTS - 1)
    return t, weight * torch.exp(-0.5 * t**2)


def draw_slices(width: int, count: int, generator: torch.Generator) -> Tensor:
    """(width, count) unit vectors, uniform over directions."""
    slices = torch.randn((width, count), generator=generator, device=generator.device)
    return slices / slices.norm(dim=0)


def sigreg(skill: Tensor, slices: Tensor) -> Tensor:
    """How far a batch of skills is from a standard normal distribution.

    Along each slice the characteristic function of the skills is compared with that of
    a standard normal (Epps and Pulley's statistic):

        integral over t of |mean_n exp(i t s_n) - exp(-t^2/2)|^2 exp(-t^2/2) dt

    by the trapezoid rule on 17 points of [0, 3], doubled since the integrand is even,
    and averaged over slices. The literature has a factor N, the number of samples,
    which is omitted here. The limit for many samples of N(0, I) is zero; if all skills
    are zero the value is 0.402.
    """
    t, weight = quadrature(skill.device)
    angle = (skill.float() @ slices)[..., None] * t  # (n, slices, points)
    cosine = mean_over_ranks(angle.cos().mean(0))
    sine = mean_over_ranks(angle.sin().mean(0))
    error = (cosine - torch.exp(-0.5 * t**2)).square() + sine.square()
    return (error @ weight).mean()
