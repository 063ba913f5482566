"""How well a skill model predicts clips it was not trained on, level by level."""

from dataclasses import dataclass

import torch
from torch import Tensor

from spectral_skills.motion.windows import WindowSampler
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.skill.losses import draw_slices, sigreg
from spectral_skills.skill.model import SkillModel

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
