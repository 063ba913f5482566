"""Runs of one seed, made together: a robot each, a stream of skills each.

An explicit tracker knows no skills: it follows the poses of the base itself, as seen
from where the robot is.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills import rotation
from spectral_skills.control.run import Tracker, run
from spectral_skills.control.source import ReferenceSource, ReplaySource, SkillSource
from spectral_skills.experiments.offsets import OffsetTracker
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import Variation, simulate
from spectral_skills.robot import g1
from spectral_skills.tracking import randomization
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import References


@dataclass(frozen=True)
class Run:
    """One robot, one stream of skills."""

    name: str
    base: Base
    skills: np.ndarray
    """(T, d) commands; d is 0 where the base itself is followed."""
    seed: int | None = None
    """Of another friction, mass, start and so on; None: nothing is random."""
    action: np.ndarray | None = None
    """(T, 29) added to the actions."""
    servo: np.ndarray | None = None
    """(T, 29) added to the joint targets, rad."""
    push: tuple[int, np.ndarray] | None = None
    """Step, and the velocity (6,) that the root gets before it."""

    @property
    def follows(self) -> bool:
        """Whether the robot is to follow its base, pose by pose."""
        return self.skills.shape[1] == 0


def following(name: str, base: Base, seed: int | None = None) -> Run:
    """A run of an explicit tracker along a base."""
    return Run(name, base, np.zeros((base.steps, 0), np.float32), seed)


def together(
    controller: Controller, runs: list[Run], device: torch.device
) -> list[np.ndarray]:
    """Rows (T + 1, 36) of each run; all have the seed of the first."""
    steps, seed = max(len(one.skills) for one in runs), runs[0].seed
    physics = simulate(device, len(runs))
    start = _starts(runs, device)
    offset: Tensor | float = 0.0
    if seed is not None:
        random = RandomizationConfig()
        generator = torch.Generator().manual_seed(seed)
        # The same robot for every run of a seed, so that runs can be compared.
        one = randomization.variation(random, 1, device, generator)
        physics.vary(_for_all(one, len(runs)))
        offset = randomization.joint_offsets(random, 1, device, generator)
        start = _start_near(random, start, seed)
    rollout = run(
        physics,
        _tracker(controller, runs, steps, offset, device),
        _source(controller, runs, device),
        start,
        steps,
        pushes=_pushes(runs, device),
        poses_only=True,
        bar=tqdm(disable=True),
    )
    rows = rollout.robot.cpu().numpy()
    return [rows[: len(one.skills) + 1, i] for i, one in enumerate(runs)]


def _source(
    controller: Controller, runs: list[Run], device: torch.device
) -> SkillSource:
    """Streams of skills or, for a controller of poses, the bases."""
    if not runs[0].follows:
        return ReplaySource([torch.from_numpy(one.skills).to(device) for one in runs])
    lengths = torch.tensor([len(one.base.rows) for one in runs], device=device)
    motions = MotionTensors(
        rows=torch.from_numpy(np.concatenate([r.base.rows for r in runs])).to(device),
        starts=lengths.cumsum(0) - lengths,
        lengths=lengths,
        mirrored=torch.zeros(len(runs), dtype=torch.bool, device=device),
        has_mirrored=False,
    )
    robots, command = torch.arange(len(runs), device=device), controller.config.command
    references = References.build(motions)
    return ReferenceSource(references, robots, encoder=None, command=command)


def _for_all(one: Variation, count: int) -> Variation:
    """The variation of one robot for many."""
    values = {field.name: getattr(one, field.name) for field in fields(one)}
    return Variation(
        **{
            k: v if v is None else v.expand(count, *v.shape[1:])
            for k, v in values.items()
        }
    )


def _starts(runs: list[Run], device: torch.device) -> tuple[Tensor, Tensor]:
    """On the first frames of the bases, moving as they do."""
    first, second = (
        torch.from_numpy(np.stack([one.base.rows[i] for one in runs])).to(device)
        for i in range(2)
    )
    turn = rotation.log(
        rotation.multiply(rotation.conjugate(first[:, 3:7]), second[:, 3:7])
    )
    moved = second - first
    qvel = torch.cat((moved[:, :3], turn, moved[:, 7:]), dim=1) * g1.CONTROL_HZ
    return first, qvel


def _start_near(
    random: RandomizationConfig, start: tuple[Tensor, Tensor], seed: int
) -> tuple[Tensor, Tensor]:
    """Moved from the start by the same draw for all runs of a seed."""
    found = []
    with torch.random.fork_rng():
        for rows, qvel in zip(*start, strict=True):
            torch.manual_seed(seed)
            found.append(randomization.start(random, rows[None], qvel[None]))
    return torch.cat([f[0] for f in found]), torch.cat([f[1] for f in found])


def _tracker(
    controller: Controller,
    runs: list[Run],
    steps: int,
    offset: Tensor | float,
    device: torch.device,
) -> Tracker:
    moves = [[one.action for one in runs], [one.servo for one in runs]]
    if not any(move is not None for both in moves for move in both):
        return Tracker(controller, offset)
    padded = torch.zeros((2, steps, len(runs), g1.NUM_JOINTS), device=device)
    for which, kind in enumerate(moves):
        for i, move in enumerate(kind):
            if move is not None:
                padded[which, : len(move), i] = torch.from_numpy(move).to(padded)
    return OffsetTracker(controller, padded[0], padded[1], offset)


def _pushes(runs: list[Run], device: torch.device) -> dict[int, Tensor]:
    pushes: dict[int, Tensor] = {}
    for i, one in enumerate(runs):
        if one.push is not None:
            step, velocity = one.push
            kick = pushes.setdefault(step, torch.zeros((len(runs), 6), device=device))
            kick[i] = torch.from_numpy(np.asarray(velocity, np.float32)).to(device)
    return pushes
