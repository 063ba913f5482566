"""One update of a skill space, from random numbers to new weights.

Random numbers of an update depend on the seed and the update's number alone, and are
drawn for the whole batch by every process. A run that was killed, or that has more
processes, therefore goes through the same batches.
"""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spectral_skills import distributed
from spectral_skills.distributed import mean_over_ranks
from spectral_skills.motion.windows import (
    POSE_SIZE,
    MotionTensors,
    Windows,
    WindowSampler,
)
from spectral_skills.runs import load_optimizer, optimizer_tensors, part
from spectral_skills.skill.bottleneck import Code
from spectral_skills.skill.model import SkillConfig, SkillModel


@dataclass(frozen=True)
class PretrainConfig:
    """A pretraining run."""

    model: SkillConfig = SkillConfig()
    updates: int = 50_000
    batch: int = 8192
    """Windows of an update, over all processes."""
    learning_rate: float = 3e-4
    head_learning_rate: float = 3e-4
    clip_norm: float = 1.0
    reduction: Literal["mean", "sum"] = "mean"
    """Of the squared noise errors of a sample: their mean over coordinates, or their
    sum, which outweighs the other two terms 418 times more."""
    sigreg: float = 1.0
    """Weight of SIGReg, which is taken without the factor N: `batch` puts it back."""
    slices: int = 64
    """Random directions that SIGReg looks along, new ones at every update."""
    regularizer: float = 1e-3
    """Weight of the bottleneck's penalty; of a continuous skill the sum of z^2 over
    its numbers, so a 64th of a weight is that weight on their mean."""
    target_ema: float = 0.996
    """Momentum of the slow encoder that gives next-skill targets."""
    held_out: float = 0.05
    """Clips never trained on: a share of them, or their number from 1 on. With 0 all
    are trained on, and what is called held out is of the same clips."""
    mirror: bool = False
    """Also train on every clip's mirror image."""
    anchor_noise: tuple[float, float] = (0.0, 0.0)
    """Deviations, in metres and radians, of where the robot stands when it looks at
    chunk and future, as one that has drifted; the context stays its own past."""
    evaluate_every: int = 250
    evaluation_windows: int = 8192
    patience: int | None = None
    """Stop after so many evaluations without a better one, and keep the best. Without
    it the last weights are kept."""
    checkpoint_every: int = 2500
    seed: int = 0

    def __post_init__(self):
        counts = ("updates", "evaluate_every", "checkpoint_every", "slices", "patience")
        least = dict.fromkeys(counts, 1) | {"batch": 2, "evaluation_windows": 2}
        for name, value in least.items():
            found = getattr(self, name)
            if found is not None and found < value:
                raise ValueError(f"{name} is {found}, must be at least {value}")
        if self.held_out == 0 and self.patience is not None:
            raise ValueError("patience needs clips that are held out; held_out is 0")
        alone = self.model.encoder.sees != "full"
        if any(self.anchor_noise) and not (
            alone and self.model.windows.anchor == "heading"
        ):
            raise ValueError(
                f"anchor_noise is {self.anchor_noise}; it needs the anchor `heading` "
                "and an encoder that does not see the context"
            )
        if self.model.released:
            raise ValueError("a released model has no head to train")
        if self.model.pose_size != POSE_SIZE:
            raise ValueError(f"pose_size is {self.model.pose_size}, not {POSE_SIZE}")


@dataclass(frozen=True)
class Losses:
    """Of one batch; `total` is what is minimised."""

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
        self._seed(0)
        self.model.fit(self._typical(1 << 16))
        assert self.model.head is not None
        self.head = self.model.head
        self.slow_encoder = None
        if config.model.target == "next-skill":
            self.slow_encoder = copy.deepcopy(self.model.encoder).requires_grad_(False)
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

    def _seed(self, update: int) -> None:
        self.generator.manual_seed((self.config.seed << 32) + update)

    def _typical(self, count: int) -> Windows:
        """All windows, or so many of them."""
        if self.sampler.total > count:
            return self.sampler.sample(count, self.generator)
        numbers = torch.arange(self.sampler.total, device=self.device)
        return self.sampler.at(*self.sampler.locate(numbers))

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
        """How far the robots of this process's share of a batch are off, (n, 3)."""
        size, (metres, radians) = (self.config.batch, 3), self.config.anchor_noise
        normal = torch.randn(size, generator=self.generator, device=self.device)
        normal[:, :2] *= metres
        normal[:, 2] *= radians
        return distributed.share(normal)

    def _windows(self, clips: Tensor, times: Tensor, offset: Tensor | None) -> Windows:
        """Windows as robots see them that are off by that much."""
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
            # Outside of the compiled part, which may not wait for other processes.
            self.model.fit_batch(self._windows(clips, times, offset).future)
        later = None
        with self.precision():
            if self.slow_encoder is not None:
                later = self.slow_encoder.encode_next(self.motions, clips, times)
            share = distributed.share(noise)
            code, errors = self.predict(
                clips, times, offset, level, share, draws, later
            )
        prediction, penalty = errors.mean(), code.penalty.mean()
        uneven = torch.zeros((), device=self.device)
        if code.latent is not None:
            uneven = sigreg(code.latent, slices)
        coordinates = self.head.outputs if config.reduction == "sum" else 1
        total = (
            coordinates * prediction
            + config.sigreg * uneven
            + config.regularizer * penalty
        )
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

    def precision(self) -> torch.autocast:
        """bf16 where there are units for it."""
        kind = self.device.type
        return torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda")

    def update(self, number: int) -> tuple[Losses, Tensor]:
        """One optimizer step; gives the losses and the norm of the gradient."""
        losses = self.losses(number)
        losses.total.backward()
        distributed.average_gradients(self.parameters)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if losses.latent is not None:
            latent = losses.latent.detach()
            self.model.encoder.bottleneck.update(latent, self.generator)
        if self.slow_encoder is not None:
            keep = self.config.target_ema
            fast = self.model.encoder.parameters()
            with torch.no_grad():
                for slow, now in zip(self.slow_encoder.parameters(), fast, strict=True):
                    slow.lerp_(now, 1 - keep)
        return losses, norm

    def tensors(self) -> dict[str, Tensor]:
        """All that changes during training."""
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        if self.slow_encoder is not None:
            slow = self.slow_encoder.state_dict()
            tensors |= {f"slow.{k}": v for k, v in slow.items()}
        return tensors | optimizer_tensors(self.optimizer)

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        self.model.load_state_dict(part(tensors, "model."))
        if self.slow_encoder is not None:
            self.slow_encoder.load_state_dict(part(tensors, "slow."))
        load_optimizer(self.optimizer, tensors)


# SIGReg: how far a batch of skills is from a standard normal distribution.
#
# Along a random direction the characteristic function of the skills is compared with
# that of a standard normal (Epps and Pulley's statistic):
#
#     integral over t of |mean_n exp(i t s_n) - exp(-t^2/2)|^2 exp(-t^2/2) dt
#
# by the trapezoid rule on 17 points of [0, 3], doubled since the integrand is even.
# In the literature the statistic also carries a factor N, the number of samples.

POINTS, T_MAX = 17, 3.0


def quadrature(device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Points t and their weights, the Gaussian weight included."""
    t = torch.linspace(0, T_MAX, POINTS, device=device)
    weight = torch.full_like(t, 2 * T_MAX / (POINTS - 1))
    weight[0] = weight[-1] = T_MAX / (POINTS - 1)
    return t, weight * torch.exp(-0.5 * t**2)


def draw_slices(width: int, count: int, generator: torch.Generator) -> Tensor:
    """(width, count) unit vectors, uniform over directions."""
    slices = torch.randn((width, count), generator=generator, device=generator.device)
    return slices / slices.norm(dim=0)


def sigreg(skill: Tensor, slices: Tensor) -> Tensor:
    """Mean of the statistic over slices, without the factor N.

    Zero in the limit of many samples of N(0, I); 0.402 if all skills are zero.
    """
    t, weight = quadrature(skill.device)
    angle = (skill.float() @ slices)[..., None] * t  # (n, slices, points)
    cosine = mean_over_ranks(angle.cos().mean(0))
    sine = mean_over_ranks(angle.sin().mean(0))
    error = (cosine - torch.exp(-0.5 * t**2)).square() + sine.square()
    return (error @ weight).mean()
