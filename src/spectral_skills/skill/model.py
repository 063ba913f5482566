"""A skill model: encoder, head and statistics, in one folder."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from spectral_skills import artifact
from spectral_skills.artifact import Provenance
from spectral_skills.distributed import mean_over_ranks
from spectral_skills.motion.windows import POSE_SIZE, WindowConfig, Windows
from spectral_skills.skill import contracted
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder, moments
from spectral_skills.skill.predictor import (
    NoiseHead,
    PredictionBatch,
    Predictor,
    PredictorConfig,
    Target,
    build_head,
)

KIND = "skill"


@dataclass(frozen=True)
class SkillConfig:
    """A skill model."""

    windows: WindowConfig = WindowConfig()
    encoder: EncoderConfig = EncoderConfig()
    predictor: PredictorConfig = PredictorConfig()
    target: Target = "chunk"
    target_floor: float = 0.01
    """Least deviation by which a coordinate of context or future is divided."""
    scale_context: bool = True
    """Whether the predictor's context is standardised; otherwise it stays in radians
    and metres."""
    target_statistics: Literal["corpus", "batch"] = "corpus"
    """Statistics that standardise the future: `corpus`, of many windows, taken once;
    `batch`, of each batch, the last of which remain."""
    pose_size: int = POSE_SIZE
    released: bool = False
    """Whether the head was omitted; a predictor may lie beside the weights."""

    def __post_init__(self):
        if self.encoder.sees == "full" and self.windows.anchor == "reference":
            raise ValueError(
                "an encoder that sees the context cannot be anchored on its first pose"
            )


class SkillModel(nn.Module):
    """Encoder and head, with means and deviations of context and future."""

    context_mean: Tensor
    context_std: Tensor
    future_mean: Tensor
    future_std: Tensor

    def __init__(self, config: SkillConfig):
        super().__init__()
        self.config = config
        self.folder: Path | None = None
        """Folder that a released model was read from."""
        windows = config.windows
        self.encoder = SkillEncoder(config.encoder, windows)
        self.head = None
        if not config.released:
            sizes = config.encoder.width, len(self.encoder.mean)
            self.head = build_head(config.target, config.predictor, windows, *sizes)
        for name in ("context", "future"):
            size = getattr(windows, name) * POSE_SIZE
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))

    @property
    def predictor(self) -> Predictor:
        """D, for models that predict the future by diffusion; that of a released model
        is contracted, and read when it is first asked for."""
        if self.config.released:
            return self._released_predictor
        if not isinstance(self.head, NoiseHead):
            raise ValueError(
                f"this skill model was trained for {self.config.target!r} and has no "
                "noise predictor"
            )
        return self.head.predictor

    @cached_property
    def _released_predictor(self) -> Predictor:
        weights = None
        if self.folder is not None:
            weights = artifact.load_beside(self.folder, artifact.PREDICTOR)
        if weights is None:
            raise ValueError(
                f"{self.folder or 'this skill model'}: released without its predictor; "
                "`spectral pretrain --release` writes one beside the weights"
            )
        sizes = len(self.context_mean), self.config.encoder.width, len(self.future_mean)
        found = contracted.read(self.config.predictor, sizes, weights)
        return found.to(self.future_mean)

    def fit(self, windows: Windows) -> None:
        """Take means and deviations from a sample of windows."""
        self.encoder.fit(self.seen(windows))
        floor = self.config.target_floor
        context, future = windows.context.flatten(1), windows.future.flatten(1)
        if self.config.scale_context:
            self.context_mean, self.context_std = moments(context, floor)
        self.future_mean, self.future_std = moments(future, floor)

    def fit_batch(self, future: Tensor) -> None:
        """Take the future's mean and deviation from a batch, over all processes."""
        wide = future.flatten(1).double()
        mean = mean_over_ranks(wide.mean(0))
        variance = mean_over_ranks((wide - mean).square().mean(0))
        self.future_mean.copy_(mean)
        self.future_std.copy_((variance + 1e-6).sqrt())

    def seen(self, windows: Windows) -> Tensor:
        """The poses that the encoder sees of windows."""
        if self.config.encoder.sees != "full":
            return windows.chunk
        return torch.cat((windows.context[:, :-1], windows.chunk), dim=1)

    def normalize_context(self, context: Tensor) -> Tensor:
        return (context.flatten(1) - self.context_mean) / self.context_std

    def normalize_future(self, future: Tensor) -> Tensor:
        return (future.flatten(1) - self.future_mean) / self.future_std

    def batch(
        self, windows: Windows, next_skill: Tensor | None = None
    ) -> PredictionBatch:
        return PredictionBatch(
            context=self.normalize_context(windows.context),
            future=self.normalize_future(windows.future),
            seen=self.encoder.normalize(self.seen(windows)),
            next_skill=next_skill,
        )

    @torch.no_grad()
    def scale(self, factor: float) -> None:
        """Multiply every skill by a factor; predictions stay the same."""
        for value in self.encoder.project.parameters():
            value *= factor
        self.predictor.features.reader.weight /= factor

    def release(
        self, folder: Path, provenance: Provenance, windows: Windows | None = None
    ) -> None:
        """Write what run time needs: encoder and statistics, in bf16 shards; with
        recorded windows also the contracted predictor, which finds directions."""
        weights = self.state_dict()
        weights = {k: v for k, v in weights.items() if not k.startswith("head.")}
        statistics = [name for name in weights if name.endswith(("mean", "std"))]
        config = replace(self.config, released=True)
        beside = {}
        if windows is not None:
            small = contracted.contract(self.predictor, *self.queries(windows))
            beside[artifact.PREDICTOR] = small.state_dict()
        artifact.release(folder, config, weights, statistics, provenance, beside)

    def queries(self, windows: Windows) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised contexts and futures, and the units of futures."""
        context = self.normalize_context(windows.context)
        return context, self.normalize_future(windows.future), self.future_std

    @classmethod
    def load(
        cls, folder: Path | str, device: torch.device | str = "cpu"
    ) -> "SkillModel":
        """Read a model: `base`, its folder, or the folder of its run."""
        config, weights = artifact.load(folder, SkillConfig, KIND)
        if config.pose_size != POSE_SIZE:
            raise ValueError(
                f"{folder}: a skill model for poses of {config.pose_size} numbers; "
                f"this robot's have {POSE_SIZE}"
            )
        model = cls(config)
        artifact.fill(model, weights, folder)
        model.folder = artifact.place(folder, KIND)
        return model.to(device).eval()
