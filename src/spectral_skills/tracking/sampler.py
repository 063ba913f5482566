"""Where episodes start: more often where tracking fails.

Clips are cut into bins of a second. A bin's rate is failures per pass, both counted
from 1, so that a bin nobody has visited counts as one that always fails:

    p_b ~ [(1 - u) r_b / sum r + u / B] w_b,   r_b = min(F_b / N_b, cap x mean of F/N)

with w_b = L_b / K (frames of the bin, bins of its clip), which gives every clip the
same weight as long as failures are even. A start is a frame of the drawn bin minus up
to `lead` frames, so that the motion before a failure is practised as well.

SONIC counts a failure where the next episode starts; here it is counted where the robot
was. In a public report SONIC's cap of 200 let training collapse onto a few bins, which
a cap of 10 and a limit on each clip cured; both are the defaults here. The paper's
authors keep 200 and have no limit on clips.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills.distributed import all_reduce_sum
from spectral_skills.motion.windows import every_frame


@dataclass(frozen=True)
class SamplerConfig:
    """How strongly starts prefer places where tracking fails."""

    bin: int = 50
    """Length of a bin in frames."""
    uniform: tuple[tuple[int, float], ...] = ((0, 0.8), (1_000_000_000, 0.2))
    """Share u of uniform draws: pairs of frames done and share, interpolated linearly.
    """
    lead: int = 200
    """Most frames by which a start precedes the frame that was drawn."""
    rate_cap: float | None = 10.0
    """Largest rate as a multiple of the mean over all bins; 200 in SONIC."""
    clip_cap: float | None = 5.0
    """Largest share of a clip, as a multiple of its share of uniform starts."""
    per_clip: bool = True
    """Whether uniform means over clips; otherwise over frames."""
    half_life: int | None = None
    """Frames after which a count has half its weight; None keeps all, as SONIC."""

    def __post_init__(self):
        frames = [at for at, _ in self.uniform]
        if not frames or frames != sorted(set(frames)) or frames[0] < 0:
            raise ValueError(
                f"uniform = {self.uniform}: must be pairs of frames and a share, with "
                "frames that grow"
            )
        if not all(0 <= share <= 1 for _, share in self.uniform):
            raise ValueError(f"uniform = {self.uniform}: a share is not within 0 and 1")
        configs.at_least(self, 1, "bin", "half_life")
        configs.at_least(self, 0, "lead")
        for name in ("rate_cap", "clip_cap"):
            cap = getattr(self, name)
            if cap is not None and cap < 1:
                raise ValueError(f"{name} = {cap}: a cap below the mean")


class AdaptiveSampler:
    """Draws clips and frames to start from, and learns where robots fail."""

    def __init__(
        self, config: SamplerConfig, lengths: Tensor, device: torch.device | str
    ):
        lengths = lengths.to("cpu", torch.long)
        if not bool((lengths >= 2).any()):
            raise ValueError(
                f"none of the {len(lengths)} clips has two frames: nothing to track"
            )
        clip, start = every_frame(lengths, config.bin)
        bins = clip.bincount(minlength=len(lengths))
        first = bins.cumsum(0) - bins
        length = (lengths[clip] - start).clamp_max(config.bin)
        # A clip of one frame cannot be followed.
        active = lengths[clip] >= 2
        weight = length.double() * active
        if config.per_clip:
            weight = weight / bins[clip]

        self.config, self.lengths = config, lengths.to(device)
        self._first, self._clip = first.to(device), clip.to(device)
        self._start, self._length = start.to(device), length.to(device)
        self._active = active.to(device)
        self._active_bins = int(active.sum())
        self._active_clips = int((lengths >= 2).sum())
        self._uniform = (weight / weight.sum()).to(device)
        """(bins,) probabilities when starts are uniform."""
        # Merged counts of all ranks, and counts of this one since. Sums of integers do
        # not depend on the order in which a GPU adds them.
        self._failures = torch.ones(len(clip), dtype=torch.double, device=device)
        self._visits = torch.ones_like(self._failures)
        self._new_failures = torch.zeros(len(clip), dtype=torch.int32, device=device)
        self._new_steps = torch.zeros_like(self._new_failures)
        self._frames_done = 0
        self.probabilities = self._uniform.clone()
        """(bins,) float64, clip after clip."""
        self._cumulative = self.probabilities.cumsum(0)
        self._update()

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """Clips and frames (count,); at least one frame follows each."""
        device = self._cumulative.device
        # A million bins need more than the 24 bits that compiled code draws.
        coarse, fine, inside = torch.rand((3, count), device=device).double()
        draw = coarse + fine * 2.0**-24
        total = self._cumulative[-1]
        bins = torch.searchsorted(self._cumulative, draw * total, right=True)
        bins = bins.clamp_max(len(self._cumulative) - 1)
        clips = self._clip[bins]
        frames = self._start[bins] + (inside * self._length[bins]).long()
        lead = torch.randint(0, self.config.lead + 1, (count,), device=device)
        frames = torch.minimum(frames - lead, self.lengths[clips] - 2)
        return clips, frames.clamp_min(0)

    def book(self, clips: Tensor, frames: Tensor, failed: Tensor) -> None:
        """Count a step of robots (n,) at these frames, and their failures."""
        bins = self._first[clips] + frames // self.config.bin
        self._new_steps.index_add_(0, bins, torch.ones_like(bins, dtype=torch.int32))
        self._new_failures.index_add_(0, bins, failed.to(torch.int32))

    @torch.no_grad()
    def refresh(self, frames_done: int) -> dict[str, float]:
        """Update the probabilities with the counts of all ranks; waits for them."""
        new = torch.stack((self._new_failures, self._new_steps)).double()
        new_failures, new_steps = all_reduce_sum(new)
        self._new_failures.zero_()
        self._new_steps.zero_()
        if self.config.half_life is not None:
            passed = max(0, frames_done - self._frames_done)
            kept = 0.5 ** (passed / self.config.half_life)
            for counts in (self._failures, self._visits):
                counts.sub_(1).mul_(kept).add_(1)
        self._failures += new_failures
        self._visits += new_steps / self._length
        self._frames_done = frames_done
        self._update()
        return self._figures()

    def tensors(self) -> dict[str, Tensor]:
        """State for a checkpoint, without counts since the last refresh."""
        return {
            "failures": self._failures.clone(),
            "visits": self._visits.clone(),
            "lengths": self.lengths.clone(),
            "frames_done": torch.tensor(self._frames_done),
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        same = torch.equal(tensors["lengths"].cpu(), self.lengths.cpu())
        if not same or len(tensors["visits"]) != len(self._visits):
            raise ValueError("the sampler's checkpoint is of other clips or bins")
        self._failures.copy_(tensors["failures"])
        self._visits.copy_(tensors["visits"])
        self._new_failures.zero_()
        self._new_steps.zero_()
        self._frames_done = int(tensors["frames_done"])
        self._update()

    def uniform_share(self) -> float:
        """The current share u of uniform draws."""
        frames, shares = zip(*self.config.uniform, strict=True)
        return float(np.interp(self._frames_done, frames, shares))

    def _update(self) -> None:
        config, share = self.config, self.uniform_share()
        rate = self._failures / self._visits * self._active
        if config.rate_cap is not None:
            rate = rate.clamp_max(config.rate_cap * rate.sum() / self._active_bins)
        mixed = (1 - share) * rate / rate.sum() + share / self._active_bins
        p = mixed * self._uniform
        p = p / p.sum()
        if config.clip_cap is not None:
            limit = config.clip_cap * self._of_clips(self._uniform)
            shares = self._of_clips(p)
            within = (limit / shares.clamp_min(1e-300)).clamp_max(1)
            p = p * within[self._clip]
            p = p / p.sum()
        # In place: a captured graph reads these very tensors.
        self.probabilities.copy_(p)
        self._cumulative.copy_(p.cumsum(0))

    def _figures(self) -> dict[str, float]:
        """Evenness of the starts, which is the relative entropy where all bins have the
        same weight, and the largest share of a clip."""
        p, uniform = self.probabilities, self._uniform
        ratio = torch.where(p > 0, p / uniform, 1.0)
        distance = (p * ratio.log()).sum()
        largest = self._of_clips(p).max() * self._active_clips
        distance, largest = torch.stack((distance, largest)).tolist()
        entropy = 1 - distance / math.log(max(self._active_bins, 2))
        return {"sampler_entropy": entropy, "sampler_largest": largest}

    def _of_clips(self, values: Tensor) -> Tensor:
        """(clips,) sums over each clip's bins."""
        total = torch.zeros(len(self.lengths), dtype=values.dtype, device=values.device)
        return total.index_add_(0, self._clip, values)
