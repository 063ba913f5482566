"""Train a controller: the run, top to bottom."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from spectral_skills import distributed, runs
from spectral_skills.artifact import Provenance, load_provenance
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import simulate
from spectral_skills.runs import RunFolder
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking import start
from spectral_skills.tracking.critics import TwinCritic
from spectral_skills.tracking.env import TrackingEnv
from spectral_skills.tracking.learner import ActorCritic
from spectral_skills.tracking.policy import KIND, Controller
from spectral_skills.tracking.ppo import PPOLearner
from spectral_skills.tracking.references import References
from spectral_skills.tracking.sac import SACLearner
from spectral_skills.tracking.start import MAY_CHANGE, TrackConfig
from spectral_skills.updates import part

_MANY_BEYOND = 0.01
"""Share of the critics' belief on their outermost atoms that is worth a warning: values
are being cut off."""

Probe = Callable[[Controller], dict[str, float]]
"""Measures success_rate, followed, mpjpe_local_mm and mpjpe_global_mm on a fixed set of
clips."""


def train(
    config: TrackConfig,
    corpora: Sequence[Corpus],
    encoder: SkillEncoder | None,
    out: Path,
    device: str,
    init: Path | None = None,
    probe: Probe | None = None,
    watch: Callable[[Path], None] = lambda run: None,
    command: str = "",
    compiled: bool | None = None,
) -> Controller:
    """Train in the folder `out`, or continue there; returns the last controller.
    `watch` is called with the folder when there is something new to draw; `init` is a
    controller to start a new run from."""
    where = distributed.join(device)
    start.check_shares(config, distributed.world_size())
    settings = start.commanded(config.controller, encoder, init)
    config = replace(config, controller=settings)
    corpora, unseen = start.sides(corpora, config.held_out)
    data_hash = "+".join(corpus.hash for corpus in corpora)
    folder = RunFolder(out, config, data_hash, command, device, "frames", MAY_CHANGE)
    parents = {"skill": settings.command.encoder} if encoder else {}
    provenance = Provenance(KIND, folder.command, config.seed, data_hash, parents)
    with folder as run:
        if unseen and run.writes:
            held, rest = (sum(map(len, side)) for side in (unseen, corpora))
            print(f"{held:,} of {held + rest:,} clips are held out and measured")
        compiled = where.type == "cuda" if compiled is None else compiled
        data = corpora, encoder, init, compiled
        job = TrackTraining(config, where, run, provenance, probe, *data)
        with job.memory.advice():
            limits = config.frames, config.checkpoint_every, config.minutes
            runs.train(run, job, *limits, watch)
    return Controller.load(run.model_folder, where)


class TrackTraining(runs.Job):
    """Robots, learner and record of a run."""

    def __init__(
        self,
        config: TrackConfig,
        device: torch.device,
        run: RunFolder,
        provenance: Provenance,
        probe: Probe | None,
        corpora: Sequence[Corpus],
        encoder: SkillEncoder | None,
        init: Path | None,
        compiled: bool,
    ):
        """Build robots and learner, new or from the last checkpoint."""
        self.config, self.device, self.run = config, device, run
        self.provenance, self.probe = provenance, probe
        self.state: dict[str, Any] = {"frames": 0, "seconds": 0.0}
        self._iteration, self._slow = 0, 0.0
        self._learned: dict[str, Any] = {}
        self._mark: tuple[int, float] | None = None
        """Frames and time from which the next row's rate counts."""
        where, settings, found = device, config.controller, run.load_checkpoint()
        if found is not None:
            self.state |= found[1]
        torch.manual_seed(config.seed)  # for the weights
        self.controller = Controller(settings).to(where)
        self.critic = start.critic_of(config).to(where)
        if found is None and init is not None:
            config = start.load_init(self.controller, self.critic, init, config)
            parent = load_provenance(init, KIND)
            self.state["before"] = parent.frames
            self.state["parents"] = {"controller": parent.weights_hash}
        if "before" in self.state:
            # Loose thresholds are for new actors.
            rules = replace(config.env.terminations, anneal_frames=None)
            config = replace(config, env=replace(config.env, terminations=rules))
        # The warm-up of a controller's new critic also survives a restart.
        alone = self.state.setdefault("critic_warmup", config.learning.critic_warmup)
        config = start.with_warmup(config, alone)
        robots = config.robots // distributed.world_size()
        self.memory = start.Memory(where, robots)
        with self.memory.advice():
            sides = [c.with_mirror() if config.mirror else c for c in corpora]
            motions = MotionTensors.join([side.to(where) for side in sides])
            references = References.build(motions)
            self.memory.fixed = self.memory.used()[0]
            self.physics = simulate(where, robots, config.physics)
            # Other starts and noise after a restart, and in every process.
            seed = config.seed * 7919 + self.state["frames"] * 31 + distributed.rank()
            seed %= 2**31
            torch.manual_seed(seed)
            command, physics = settings.command, self.physics
            robots_of = command, physics, references, encoder, seed, compiled
            limits = settings.reach, settings.smoothing
            self.env = TrackingEnv(config.env, *robots_of, *limits)
            actor, critic = self.controller, self.critic
            self.learner: ActorCritic
            if isinstance(critic, TwinCritic):
                self.learner = SACLearner(config.sac, actor, critic, where, compiled)
            else:
                self.learner = PPOLearner(config.ppo, actor, critic, where, compiled)
            if found is not None:
                self.learner.load(part(found[0], "learner."))
                self.env.sampler.load(part(found[0], "sampler."))
        self._began = self.state["seconds"]
        self._compiles = self.learner.iterations + 2
        """Until something was learned twice, time goes into compiling."""

    def step(self, until: float) -> None:
        """One iteration; learning rates follow the frames or the time that is used."""
        frames, seconds = self.state["frames"], self.state["seconds"]
        if self._mark is None:
            self._mark = frames, time.monotonic()
        if self.learner.iterations <= self._compiles:
            self._slow = seconds - self._began
        if self.config.planned_minutes is not None:
            until = 60 * self.config.planned_minutes
        spent = (seconds - self._slow) / max(until - self._slow, 1e-9)
        self._learned = self.iterate(min(max(spent, frames / self.config.frames), 1.0))
        self._iteration += 1

    def iterate(self, progress: float) -> dict[str, Any]:
        """Let every robot act, and learn from it."""
        evenness = self.env.refresh(self.state["frames"])
        learned = self.learner.update(self.learner.collect(self.env), progress)
        if not self.learner.finite():
            options = {"ppo": "--ppo.actor-lr", "sac": "--sac.learning-rate"}
            raise ValueError(
                f"{self.run.path}: the policy is not finite after "
                f"{self.state['frames']:,} frames; try a lower rate "
                f"({options[self.config.learner]}), in another folder, with this one "
                "as --init. The last checkpoint and model are as they were"
            )
        self.state["frames"] += self.config.robots * self.config.learning.steps
        return learned | evenness

    def report(self, before: int, ended: bool) -> runs.LogEntry | None:
        """What happened since the last report; waits for the device."""
        config, frames = self.config, self.state["frames"]
        probed = self.probe is not None and (
            runs.crossed(before, frames, config.probe_every) or ended
        )
        if not (probed or ended or self._iteration % config.log_every == 0):
            return None
        assert self._mark is not None
        rate = (frames - self._mark[0]) / max(time.monotonic() - self._mark[1], 1e-9)
        row = {"frames": frames, "seconds": self.state["seconds"], "frames_per_s": rate}
        row |= self.env.statistics() | self.physics.counters()
        row |= {name: float(value) for name, value in self._learned.items()}
        if self.probe is not None and probed and distributed.rank() == 0:
            found = self.probe(self.learner.kept.eval())
            row |= {k: v for k, v in found.items() if math.isfinite(v)}
            self.learner.kept.train()
        self._mark = None
        return runs.LogEntry(row, line(row), draw=probed)

    def save(self) -> None:
        """Model first: a checkpoint promises that everything before it is there."""
        weights = self.learner.kept.weights(self.critic.state_dict())
        frames = self.state.get("before", 0) + self.state["frames"]
        parents = self.provenance.parents | self.state.get("parents", {})
        provenance = replace(self.provenance, parents=parents, frames=frames)
        self.run.save_model(self.config.controller, weights, provenance)
        tensors = {f"learner.{k}": v for k, v in self.learner.tensors().items()}
        tensors |= {f"sampler.{k}": v for k, v in self.env.sampler.tensors().items()}
        self.run.save_checkpoint(tensors, self.state)
        self._mark = None


_SHOWN = (
    ("reward", "reward", "{:.2f}"),
    ("failures/s", "failures_per_s", "{:.2f}"),
    ("episode", "episode_s", "{:.1f} s"),
    ("KL", "kl", "{:.3f}"),
    ("value", "value", "{:.2f}"),
    ("lr", "actor_lr", "{:.0e}"),
    ("critic", "critic_lr", "{:.0e}"),
    ("std", "std", "{:.2f}"),
    ("temperature", "temperature", "{:.0e}"),
    ("evenness", "sampler_entropy", "{:.2f}"),
)


def line(row: dict[str, float]) -> str:
    """The most important numbers of a row of the log, as they are printed."""
    parts = [f"{runs.short(row['frames']):>7}"]
    if "success_rate" in row:
        parts.append(f"success {100 * row['success_rate']:.1f} %")
        if "followed" in row:
            parts.append(f"followed {100 * row['followed']:.1f} %")
        for name, key in (("L", "mpjpe_local_mm"), ("G", "mpjpe_global_mm")):
            if key in row:
                parts.append(f"{name} {row[key]:.0f} mm")
    parts += [f"{name} {form.format(row[k])}" for name, k, form in _SHOWN if k in row]
    if (beyond := row.get("end_atoms", 0.0)) > _MANY_BEYOND:
        parts.append(f"values beyond the atoms {100 * beyond:.0f} %")
    causes = {k.removeprefix("cause/"): v for k, v in row.items() if "cause/" in k}
    by_cause = [f"{k.replace('_', ' ')} {v:.2f}" for k, v in causes.items() if v]
    parts += [f"({', '.join(by_cause)})"] if by_cause else []
    troubles = {k: int(row.get(k, 0)) for k in ("contacts", "constraints", "broken")}
    parts += [f"{name} {count:,}" for name, count in troubles.items() if count]
    return "  ".join([*parts, f"{runs.short(row['frames_per_s'])}/s"])
