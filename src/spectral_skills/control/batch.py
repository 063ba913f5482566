"""Batches of runs: many robots at once, each run kept on disk when it is done.

A run is a robot that starts on a base and follows a stream of skills, or the base
itself. The name of a record contains a hash of everything that decides the outcome of
its run, so an interrupted experiment resumes where it stopped.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills import rotation
from spectral_skills.control import recorded
from spectral_skills.control.played import PlayedBase
from spectral_skills.control.rollout import Rollout, fell_at
from spectral_skills.control.run import (
    ReferenceSource,
    ReplaySource,
    SkillSource,
    Tracker,
    check_match,
    encode_clip,
    run,
)
from spectral_skills.control.steering import standard
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import STEPS, Base
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import simulate
from spectral_skills.results import hardware, model_hashes
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking import randomization
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import References

ROBOTS = {"cpu": 16, "cuda": 4096}
"""Number of robots simulated at once, by kind of device."""


@dataclass(frozen=True)
class Run:
    """One robot and what it is commanded."""

    name: str
    base: Base
    skills: np.ndarray | None
    """(T, d) commanded skills; None where the robot follows the base itself."""
    seed: int | None = None
    """Seed of the robot's friction, mass, start and so on; None: nothing is random."""
    action: np.ndarray | None = None
    """(T, 29) offsets added to the actions."""
    servo: np.ndarray | None = None
    """(T, 29) offsets added to the joint targets, rad."""
    push: tuple[int, np.ndarray] | None = None
    """Step of a push, and the velocity (6,) that it adds to the root."""

    @property
    def steps(self) -> int:
        return self.base.steps if self.skills is None else len(self.skills)


@dataclass(frozen=True)
class Executed:
    """A run and the motion (T + 1, 36) of its robot."""

    run: Run
    rows: np.ndarray

    @property
    def fell_at(self) -> int | None:
        """First row in which the root is too low or not a number."""
        return fell_at(self.rows, self.run.base.fall_m)

    @property
    def stands(self) -> bool:
        return self.fell_at is None


class Runner:
    """A controller with its skill space, on a device."""

    def __init__(
        self,
        controller: Controller,
        encoder: SkillEncoder | None = None,
        directions: Directions | None = None,
        device: str = "cpu",
        records: Path | None = None,
        robots: int | None = None,
        hashes: Mapping[str, str] | None = None,
    ):
        """Without an encoder the controller must follow poses. `records` is the folder
        where runs are kept, `robots` the number of robots simulated at once, `hashes`
        are those of the models' files."""
        wanted = "pose" if encoder is None else "skill"
        if (kind := controller.config.command.kind) != wanted:
            raise ValueError(
                f"this needs a controller of {wanted} commands, not of {kind!r}"
            )
        check_match(controller, encoder)
        if directions is not None and encoder is not None:
            directions.check(encoder.fingerprint())
        self.controller = controller
        self._encoder, self._directions = encoder, directions
        self.device, self.records = torch.device(device), records
        self.robots = robots or ROBOTS[self.device.type]
        weights = controller.state_dict().values()
        self.fingerprint = _digest(w.detach().float().cpu().numpy() for w in weights)
        """Hash of the controller's weights."""
        self.hashes = {"controller": self.fingerprint}
        if encoder is not None:
            self.hashes["skill"] = encoder.fingerprint()
        if directions is not None:
            self.hashes["directions"] = directions.fingerprint()
        self.hashes |= hashes or {}
        self._bases: dict[tuple[str, int], Base] = {}
        self._skills: dict[str, np.ndarray] = {}

    @property
    def encoder(self) -> SkillEncoder:
        if self._encoder is None:
            raise ValueError("a controller of poses has no skill space")
        return self._encoder

    @property
    def directions(self) -> Directions:
        if self._directions is None:
            raise ValueError("this skill space has no directions; give a file of them")
        return self._directions

    @property
    def hardware(self) -> str:
        """Name of the processor that simulates the robots."""
        return hardware(str(self.device))

    @property
    def models(self) -> str:
        """Hashes of everything that was loaded, for a `Result`."""
        return model_hashes(**self.hashes)

    def base(self, name: str, steps: int = STEPS) -> Base:
        """A generated base, made once, or one of a recorded motion."""
        if name in self.recorded:
            return recorded.as_base(self.recorded[name], steps)
        if (name, steps) not in self._bases:
            self._bases[name, steps] = bases.generate(name, steps)
        return self._bases[name, steps]

    @cached_property
    def recorded(self) -> dict[str, PlayedBase]:
        """Bases of recorded motions that are known in this skill space."""
        return {} if self._encoder is None else recorded.released(self.hashes["skill"])

    @property
    def known(self) -> tuple[str, ...]:
        """Names of bases; others are clips of a corpus."""
        return (*bases.NAMES, *self.recorded)

    def skills(self, base: Base) -> np.ndarray:
        """(T, d) the base's own skills, as a robot that follows it sees them."""
        if base.skills is not None:
            return base.skills
        key = _digest([base.rows])
        if key not in self._skills:
            rows = torch.from_numpy(base.rows)
            encoded = encode_clip(self.encoder, rows)[:-1]
            self._skills[key] = encoded.cpu().numpy()
        return self._skills[key]

    def direction(self, name: str, amplitude: float = 1.0) -> np.ndarray:
        """(d,) a direction by name, scaled to a length."""
        return amplitude * self.directions.vectors[self.directions.index(name)]

    def plain(self, base: Base, seed: int | None = None) -> Run:
        """The base without steering."""
        return Run("base", base, self.skills(base), seed)

    def steered(
        self,
        base: Base,
        change: np.ndarray,
        name: str,
        curve: np.ndarray | None = None,
        seed: int | None = None,
    ) -> Run:
        """The base's skills plus a change (d,), which follows a curve (T,) or else the
        paper's schedule; a change (T, d) is added as it is."""
        if change.ndim == 1:
            if curve is None:
                curve = standard(1.0, base.steps)[:, 0]
            change = curve[:, None] * change
        return Run(name, base, (self.skills(base) + change).astype(np.float32), seed)

    def execute(self, runs: Sequence[Run], label: str = "runs") -> list[Executed]:
        """All runs in their order; those that are on record are read from disk."""
        found: dict[int, np.ndarray] = {}
        for i, one in enumerate(runs):
            if (rows := self._read(one)) is not None:
                found[i] = rows
        todo = [i for i in range(len(runs)) if i not in found]
        # Runs of equal seed and similar length share a batch, so few robots idle.
        todo.sort(key=lambda i: (str(runs[i].seed), -runs[i].steps))
        bar = tqdm(
            total=len(runs), initial=len(found), desc=label, unit=" runs", disable=None
        )
        with bar:
            while todo:
                seed = runs[todo[0]].seed
                batch = [i for i in todo[: self.robots] if runs[i].seed == seed]
                todo = todo[len(batch) :]
                rollout = self.run_together([runs[i] for i in batch])
                for place, i in enumerate(batch):
                    single = rollout.select([place]).first(runs[i].steps + 1)
                    found[i] = single.robot[:, 0].cpu().numpy()
                    if (path := self.record(runs[i])) is not None:
                        single.save(path)
                bar.update(len(batch))
        return [Executed(one, found[i]) for i, one in enumerate(runs)]

    def run_together(self, runs: Sequence[Run]) -> Rollout:
        """Simulate runs of the same seed side by side; shorter ones idle at the end."""
        n, seed, device = len(runs), runs[0].seed, self.device
        physics, start = simulate(device, n), _starts(runs, device)
        offset: Tensor | float = 0.0
        if seed is not None:
            random = RandomizationConfig()
            generator = torch.Generator().manual_seed(seed)
            # Every run of a seed gets the same robot, so that runs can be compared.
            one, offset, _ = randomization.robots(random, 1, device, generator)
            varied = {k: v for k, v in vars(one).items() if v is not None}
            varied = {k: v.expand(n, *v.shape[1:]) for k, v in varied.items()}
            physics.vary(replace(one, **varied))
            start = _start_near(random, start, seed)
        offsets = _padded(runs, "action", device), _padded(runs, "servo", device)
        return run(
            physics,
            Tracker(self.controller, offset, *offsets),
            self._source(runs),
            start,
            max(one.steps for one in runs),
            pushes=_pushes(runs, device),
            keep=(),
            bar=tqdm(disable=True),
        )

    def _source(self, runs: Sequence[Run]) -> SkillSource:
        streams = [one.skills for one in runs if one.skills is not None]
        if streams:
            return ReplaySource([torch.from_numpy(s).to(self.device) for s in streams])
        bases = [torch.from_numpy(one.base.rows).to(self.device) for one in runs]
        references = References.build(MotionTensors.of_clips(bases))
        robots = torch.arange(len(runs), device=self.device)
        command = self.controller.config.command
        return ReferenceSource(references, robots, self._encoder, command=command)

    def record(self, one: Run) -> Path | None:
        """The file where a run is kept; None where runs are not kept."""
        if self.records is None:
            return None
        # Of a base that is not followed only the start decides.
        seen = one.base.rows[: None if one.skills is None else 2]
        parts = (seen, one.skills, one.action, one.servo, *(one.push or ()))
        about = f"{self.fingerprint} {one.seed} {self.device.type}"
        name = "".join(c if c.isalnum() or c in "+-._" else "_" for c in one.name)
        return self.records / f"{one.base.name}-{name}-{_digest(parts, about)}.npz"

    def _read(self, one: Run) -> np.ndarray | None:
        path = self.record(one)
        if path is None or not path.is_file():
            return None
        try:
            return Rollout.load(path).robot[:, 0]
        except (OSError, ValueError):
            return None  # A damaged record is made again.


def _digest(arrays: Iterable, about: str = "") -> str:
    digest = hashlib.blake2b(about.encode(), digest_size=8)
    for array in arrays:
        digest.update(b"None" if array is None else np.asarray(array).tobytes())
    return digest.hexdigest()


def _starts(runs: Sequence[Run], device: torch.device) -> tuple[Tensor, Tensor]:
    """The first frames of the bases, and their velocities."""
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
    """Starts displaced by the same draw for all runs of a seed."""
    found = []
    with torch.random.fork_rng():
        for rows, qvel in zip(*start, strict=True):
            torch.manual_seed(seed)
            found.append(randomization.start(random, rows[None], qvel[None]))
    return torch.cat([f[0] for f in found]), torch.cat([f[1] for f in found])


def _pushes(runs: Sequence[Run], device: torch.device) -> dict[int, Tensor]:
    pushes: dict[int, Tensor] = {}
    for i, one in enumerate(runs):
        if one.push is not None:
            step, velocity = one.push
            kick = pushes.setdefault(step, torch.zeros((len(runs), 6), device=device))
            kick[i] = torch.from_numpy(np.asarray(velocity, np.float32)).to(device)
    return pushes


def _padded(
    runs: Sequence[Run], name: Literal["action", "servo"], device: torch.device
) -> Tensor | None:
    """(T, n, 29) offsets of all runs, zero where a run has none."""
    given = [getattr(one, name) for one in runs]
    if all(values is None for values in given):
        return None
    shape = max(one.steps for one in runs), len(runs), g1.NUM_JOINTS
    padded = torch.zeros(shape, device=device)
    for i, values in enumerate(given):
        if values is not None:
            padded[: len(values), i] = torch.from_numpy(values).to(padded)
    return padded
