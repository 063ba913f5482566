"""Move a controller to other commands without training it again.

Both encoders see the same windows of motion, so a small network can learn the old skill
of a window from the new one. Placed before the controller, it lets the controller act
on new skills as it did on old ones; `spectral track --init` trains it further.

The same gives a controller of explicit commands: the network learns the old skill from
the next pose of the reference, which says less than a window. Robots then stand a
little off their references: a map that has never seen one that has drifted makes it
fall.

Skills are not disturbed while the network learns: a network that undoes disturbances
also undoes steering, and directions no longer move the robot.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from tqdm import tqdm

from spectral_skills import rotation
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import every_frame
from spectral_skills.skill.encoder import SkillEncoder, mlp
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.references import CommandConfig, CommandSource, References

_AT_ONCE = 8192
"""Number of commands computed at once."""


@dataclass(frozen=True)
class AdaptConfig:
    """Training of the network before the controller."""

    hidden: tuple[int, ...] = (512, 512)
    updates: int = 4000
    batch: int = 2048
    learning_rate: float = 2e-3
    """Highest learning rate; it rises and falls within the run."""
    weight_decay: float = 1e-2
    every: int = 2
    """Frames between commands."""
    held_out: float = 0.05
    """Share of the clips that measure the quality of the map."""
    off: float = 0.1
    """Distance of robots from their references, in metres and radians (poses)."""
    seed: int = 0


class Adapted(NamedTuple):
    """A controller for other commands."""

    controller: Controller
    explained: float
    """Explained share of the variance of old skills of clips held out; NaN where they
    do not vary, as in clips that stand still."""


def adapt(
    controller: Controller,
    old: SkillEncoder,
    new: SkillEncoder | None,
    corpus: Corpus,
    config: AdaptConfig | None = None,
) -> Adapted:
    """A controller of the `old` encoder's skills that follows those of `new` or,
    without it, explicit commands."""
    config = config or AdaptConfig()
    command = replace(controller.config.command, adapter=config.hidden)
    if new is None:
        command = replace(command, kind="pose", encoder="")
    elif new.width == old.width:
        command = replace(command, encoder=new.fingerprint())
    else:
        raise ValueError(
            f"new skills have {new.width} numbers, the controller's {old.width}: only "
            "spaces of one size can be exchanged"
        )
    moved = Controller(replace(controller.config, command=command))
    moved = moved.to(old.steps.device).eval()
    before, after, held = _pairs(controller, old, moved, new, corpus, config)
    network = _fit(before[~held], after[~held], config)
    with torch.no_grad():
        error = (network(before[held]) - after[held]).square().sum()
    spread = (after[held] - after[held].mean(0)).square().sum()
    varies = spread > 1e-9 * after[held].square().sum()  # more than by rounding
    explained = float(1 - error / spread) if varies else math.nan
    weights = {f"adapter.{k}": v for k, v in network.state_dict().items()}
    kept = {k: v for k, v in controller.state_dict().items() if "adapter." not in k}
    moved.load_state_dict(moved.state_dict() | kept | weights)
    return Adapted(moved, explained)


@torch.no_grad()
def _pairs(
    controller: Controller,
    old: SkillEncoder,
    moved: Controller,
    new: SkillEncoder | None,
    corpus: Corpus,
    config: AdaptConfig,
) -> tuple[Tensor, Tensor, Tensor]:
    """New commands (n, s) as the moved controller's adapter sees them, the old commands
    (n, d) as the old network saw them, and which (n,) belong to clips held out. The
    moved controller learns the statistics of commands that have units."""
    references = References.build(corpus.to(old.steps.device))
    clips, frames = every_frame(references.lengths, config.every)
    held = _held_out(len(corpus), config).to(clips.device)[clips]
    roots = references.at(clips, frames).rows[:, :7]
    if new is None:
        roots = _beside(roots, config)

    def seen(command: CommandConfig, encoder: SkillEncoder | None) -> Tensor:
        source = CommandSource(references, command, encoder)
        parts = zip(*(x.split(_AT_ONCE) for x in (clips, frames, roots)), strict=True)
        return torch.cat([source(c, f, r[:, :3], r[:, 3:]) for c, f, r in parts])

    after = seen(controller.config.command, old)
    if controller.adapter is not None:
        after = torch.cat([controller.adapter(part) for part in after.split(_AT_ONCE)])
    before = seen(moved.config.command, new)
    if moved.source is not None:
        moved.source.update(before)
        # Counted like the observations of joints: further training would soon forget
        # statistics of few commands.
        moved.source.count.clamp_min_(float(controller.proprio.count))
        before = moved.source(before)
    return before, after, held


def _held_out(clips: int, config: AdaptConfig) -> Tensor:
    """Which clips (n,) measure the map instead of training it."""
    generator = torch.Generator().manual_seed(config.seed)
    some = max(1, round(config.held_out * clips))
    if some >= clips:
        raise ValueError("too few clips to hold one out; give a larger corpus")
    held = torch.zeros(clips, dtype=torch.bool)
    held[torch.randperm(clips, generator=generator)[:some]] = True
    return held


def _beside(roots: Tensor, config: AdaptConfig) -> Tensor:
    """Roots (n, 7) near these: at random shares of up to twice the distance."""
    generator = torch.Generator().manual_seed(config.seed)
    # x, y, z, then roll, pitch, yaw: robots drift and turn more than they tilt.
    shares = torch.tensor([1.0, 1.0, 0.2, 0.5, 0.5, 1.0])
    away = config.off * shares * torch.randn(len(roots), 6, generator=generator)
    away = away * 2 * torch.rand(len(roots), 1, generator=generator)
    moved, turned = away.to(roots.device).split(3, dim=1)
    quaternion = rotation.multiply(rotation.exp(turned), roots[:, 3:])
    return torch.cat((roots[:, :3] + moved, quaternion), dim=1)


def _fit(before: Tensor, after: Tensor, config: AdaptConfig) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        network = mlp((before.shape[1], *config.hidden, after.shape[1]))
    network = network.to(before.device)
    optimizer = torch.optim.AdamW(
        network.parameters(), config.learning_rate, weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.learning_rate, config.updates
    )
    generator = torch.Generator(before.device).manual_seed(config.seed)
    bar = tqdm(range(config.updates), desc="adapting", unit="update", disable=None)
    for _ in bar:
        rows = torch.randint(
            len(before), (config.batch,), generator=generator, device=before.device
        )
        loss = (network(before[rows]) - after[rows]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.requires_grad_(False)
