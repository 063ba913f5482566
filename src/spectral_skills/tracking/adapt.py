"""Move a controller to another skill space without training it again.

Both encoders see the same windows of motion, so what the old skill of a window was can
be learned from its new one. A small network that has learned it stands before the
controller, which then acts on new skills as it did on the old ones. Training on from
there (`spectral track --init`) also trains that network.

Nothing is added to skills while it learns: a network that brings disturbed skills back
brings steered ones back too, and directions no longer move the robot.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from tqdm import tqdm

from spectral_skills.motion.corpus import Corpus
from spectral_skills.skill.codes import SkillBank
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.skill.networks import mlp
from spectral_skills.tracking.policy import Controller


@dataclass(frozen=True)
class AdaptConfig:
    """How the network between two skill spaces is trained."""

    hidden: tuple[int, ...] = (512, 512)
    updates: int = 4000
    batch: int = 2048
    learning_rate: float = 2e-3
    """At its highest; it rises and falls within the run."""
    weight_decay: float = 1e-2
    every: int = 2
    """Frames from one skill to the next."""
    held_out: float = 0.05
    """Share of the clips that tell how well the map does."""
    seed: int = 0


@dataclass(frozen=True)
class Adapted:
    """A controller for another skill space."""

    controller: Controller
    explained: float
    """Share of the variance of the old skills of clips held out: 1 is all of it."""
    skills: int
    """That it learned from."""


def adapt(
    controller: Controller,
    old: SkillEncoder,
    new: SkillEncoder,
    corpus: Corpus,
    config: AdaptConfig | None = None,
) -> Adapted:
    """The controller of the `old` encoder's skills, made to follow those of `new`."""
    config, command = config or AdaptConfig(), controller.config.command
    if new.width != old.width:
        raise ValueError(
            f"new skills have {new.width} numbers, the controller's {old.width}: only "
            "spaces of one size can be exchanged"
        )
    before, after, held = _pairs(controller, old, new, corpus, config)
    network = _fit(before[~held], after[~held], config)
    with torch.no_grad():
        error = (network(before[held]) - after[held]).square().sum()
    spread = (after[held] - after[held].mean(0)).square().sum()
    command = replace(command, encoder=new.fingerprint(), adapter=config.hidden)
    moved = Controller(replace(controller.config, command=command)).to(before.device)
    weights = {f"adapter.{k}": v for k, v in network.state_dict().items()}
    kept = {k: v for k, v in controller.state_dict().items() if "adapter." not in k}
    moved.load_state_dict(kept | weights)
    return Adapted(moved.eval(), float(1 - error / spread), int((~held).sum()))


def _pairs(
    controller: Controller,
    old: SkillEncoder,
    new: SkillEncoder,
    corpus: Corpus,
    config: AdaptConfig,
) -> tuple[Tensor, Tensor, Tensor]:
    """New skills (n, d), what the controller's network saw of the old ones (n, d), and
    which (n,) are of clips held out."""
    bank = SkillBank.build(new, corpus, config.every)
    motions, seen = corpus.to(new.steps.device), []
    with torch.no_grad():
        for part in torch.arange(len(bank.skills), device=motions.device).split(8192):
            skills = old.encode_at(motions, bank.clips[part], bank.times[part])
            if controller.adapter is not None:
                skills = controller.adapter(skills)
            seen.append(skills)
    generator = torch.Generator().manual_seed(config.seed)
    order = torch.randperm(len(corpus), generator=generator)
    some = order[: max(1, round(config.held_out * len(corpus)))]
    held = torch.isin(bank.clips, some.to(bank.clips.device))
    if held.all() or not held.any():
        raise ValueError("too few clips to hold one out; give a larger corpus")
    return bank.skills, torch.cat(seen), held


def _fit(before: Tensor, after: Tensor, config: AdaptConfig) -> nn.Module:
    """A network from the one to the other by least squares."""
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
