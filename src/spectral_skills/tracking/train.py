"""Train a controller: the run, top to bottom."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from spectral_skills import distributed
from spectral_skills.artifact import Provenance, load_provenance
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import simulate
from spectral_skills.results import hardware
from spectral_skills.runs import RunFolder, between_steps
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.skill.model import place
from spectral_skills.tracking import start
from spectral_skills.tracking.env import TrackingEnv
from spectral_skills.tracking.learner import ActorCritic, part
from spectral_skills.tracking.policy import KIND, Controller, TwinCritic
from spectral_skills.tracking.ppo import Learner as PPOLearner
from spectral_skills.tracking.references import References
from spectral_skills.tracking.run_log import Bar, line
from spectral_skills.tracking.sac import SACLearner
from spectral_skills.tracking.start import MAY_CHANGE, TrackConfig

Probe = Callable[[Controller], dict[str, float]]
"""Gives success_rate, mpjpe_local_mm and mpjpe_global_mm on a fixed set of clips."""


class Training:
    """Robots, learner and record of a run."""

    def __init__(
        self,
        config: TrackConfig,
        corpora: Sequence[Corpus],
        encoder: SkillEncoder | None,
        out: Path,
        device: str,
        init: Path | None = None,
        command: str = "",
        compiled: bool | None = None,
    ):
        self.where = where = distributed.join(device)
        self.first = distributed.rank() == 0
        if where.type == "cuda":
            torch.set_float32_matmul_precision("high")
        start.check_shares(config, distributed.world_size())
        settings = start.commanded(config.controller, encoder, init)
        self.config = config = replace(config, controller=settings)
        corpora = start.usable(corpora)
        data_hash = "+".join(corpus.hash for corpus in corpora)
        about = {"command": command, "hardware": hardware(device)}
        self.run = RunFolder(
            out, config, data_hash, about, self.first, "frames", MAY_CHANGE
        )
        parents = {"skill": settings.command.encoder} if encoder else {}
        self.provenance = Provenance(KIND, command, config.seed, data_hash, parents)
        self.state: dict[str, Any] = {"frames": 0, "seconds": 0.0}
        self.run.claim()
        try:
            self._build(corpora, encoder, init, compiled)
        except BaseException:
            self.run.close()
            raise
        self._mark = self.state["frames"], self.state["seconds"]

    def _build(
        self,
        corpora: Sequence[Corpus],
        encoder: SkillEncoder | None,
        init: Path | None,
        compiled: bool | None,
    ) -> None:
        config, where = self.config, self.where
        settings = config.controller
        found = self.run.load_checkpoint()
        if found is not None:
            self.state |= found[1]
        torch.manual_seed(config.seed)  # for the weights
        self.controller = Controller(settings).to(where)
        self.critic = start.critic_of(config).to(where)
        if found is None and init is not None:
            config = start.load_init(self.controller, self.critic, init, config)
            parent = load_provenance(place(init, KIND))
            self.state["before"] = parent.frames
            self.state["parents"] = {"controller": parent.weights_hash}
        if "before" in self.state:
            config = start.without_anneal(config)
        # What it takes before an old controller may learn, also after a restart.
        alone = self.state.setdefault("critic_warmup", start.critic_warmup(config))
        config = start.with_warmup(config, alone)
        robots = config.robots // distributed.world_size()
        compiled = where.type == "cuda" if compiled is None else compiled
        self.memory = start.Memory(where, robots)
        with self.memory.advice():
            sides = [c.with_mirror() if config.mirror else c for c in corpora]
            motions = MotionTensors.join([side.to(where) for side in sides])
            references = References.build(motions)
            self.memory.measure()
            self.physics = simulate(where, robots, config.physics)
            # Not the same starts and noise again when a run goes on, nor in another
            # process.
            seed = config.seed * 7919 + self.state["frames"] * 31 + distributed.rank()
            torch.manual_seed(seed % 2**31)
            self.env = TrackingEnv(
                config.env,
                settings.command,
                self.physics,
                references,
                encoder,
                seed % 2**31,
                compiled,
            )
            self.learner = self._learner(config, compiled)
            if found is not None:
                self.learner.load(part(found[0], "learner."))
                self.env.sampler.load(part(found[0], "sampler."))

    def _learner(self, config: TrackConfig, compiled: bool) -> ActorCritic:
        actor, critic, where = self.controller, self.critic, self.where
        if isinstance(critic, TwinCritic):
            return SACLearner(config.sac, actor, critic, where, compiled)
        return PPOLearner(config.ppo, actor, critic, where, compiled)

    def iterate(self, progress: float) -> dict[str, Any]:
        """A rollout of every robot and what is learned from it."""
        evenness = self.env.refresh(self.state["frames"])
        learned = self.learner.update(self.learner.collect(self.env), progress)
        if not self.learner.finite():
            raise ValueError(
                f"{self.run.path}: the policy is not finite after "
                f"{self.state['frames']:,} frames; try a lower rate "
                f"({start.RATE_OPTIONS[self.config.learner]}), in another folder, with "
                "this one as --init. The last checkpoint and model are as they were"
            )
        self.state["frames"] += self.config.robots * self.config.steps
        return learned | evenness

    def row(self, learned: dict[str, Any]) -> dict[str, float]:
        """What happened since the last row; waits for the device."""
        frames, seconds = self.state["frames"], self.state["seconds"]
        rate = (frames - self._mark[0]) / max(seconds - self._mark[1], 1e-9)
        found = {"frames": frames, "seconds": seconds, "frames_per_s": rate}
        found |= self.env.statistics() | self.physics.counters()
        return found | {name: float(value) for name, value in learned.items()}

    def measure(self, probe: Probe) -> dict[str, float]:
        """Results of a probe."""
        kept = self.learner.kept.eval()
        results = {k: v for k, v in probe(kept).items() if math.isfinite(v)}
        kept.train()
        return results

    def count_from(self, seconds: float) -> None:
        """The next row's rate counts from here: probes and files are no part of it."""
        self._mark = self.state["frames"], seconds

    def save(self) -> None:
        """Model first: the checkpoint says that everything before it is there."""
        weights = self.learner.kept.weights(self.critic.state_dict())
        frames = self.state.get("before", 0) + self.state["frames"]
        parents = self.provenance.parents | self.state.get("parents", {})
        provenance = replace(self.provenance, parents=parents, frames=frames)
        self.run.save_model(self.config.controller, weights, provenance)
        tensors = {f"learner.{k}": v for k, v in self.learner.tensors().items()}
        tensors |= {f"sampler.{k}": v for k, v in self.env.sampler.tensors().items()}
        self.run.save_checkpoint(tensors, self.state)


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
    """Train in the folder `out`, or go on there; gives the last controller.

    `probe` measures it now and then, `watch` is called with the folder when there is
    something new to draw. `init` is a controller whose weights a new run begins with.
    """
    training = Training(config, corpora, encoder, out, device, init, command, compiled)
    run, state, first = training.run, training.state, training.first
    began = time.monotonic() - state["seconds"]
    until = math.inf
    if config.minutes is not None:
        until = state["seconds"] + 60 * config.minutes

    def clock() -> float:
        return start.of_first(time.monotonic() - began, training.where)

    def done() -> bool:
        return state["frames"] >= config.frames or state["seconds"] >= until

    run.begin_log(state["frames"], goes_on=not done())
    bar = Bar(config.frames, until, state, silent=not first)
    last = {"probe": state["frames"], "checkpoint": state["frames"]}

    def due(name: str, every: int) -> bool:
        late = state["frames"] - last[name] >= every
        if late:
            last[name] = state["frames"]
        return late

    try:
        with between_steps() as interrupted, training.memory.advice():
            if done():
                bar.write(f"nothing left to do: {state['frames']:,} frames are done")
            iteration, ended = 0, done()
            # Until something was learned twice, time goes into compiling.
            learner, before, slow = training.learner, state["seconds"], 0.0
            compiles = learner.iterations + 2
            while not ended:
                spent = (state["seconds"] - slow) / max(until - slow, 1e-9)
                progress = max(spent, state["frames"] / config.frames)
                learned = training.iterate(min(progress, 1.0))
                state["seconds"], iteration = clock(), iteration + 1
                if learner.iterations <= compiles:
                    slow = state["seconds"] - before
                bar.show(state)
                ended = done()
                probed = probe is not None and (
                    due("probe", config.probe_every) or ended
                )
                logged = probed or ended or iteration % config.log_every == 0
                if logged:
                    row = training.row(learned)
                    if probed and first:
                        assert probe is not None
                        row |= training.measure(probe)
                    run.log(row)
                    bar.write(line(row))
                # Asked once: whoever interrupts later waits for another step.
                stop = interrupted()
                saved = due("checkpoint", config.checkpoint_every) or ended or stop
                if saved:
                    training.save()
                if first and (probed or saved):
                    watch(run.path)
                if logged or saved:
                    training.count_from(time.monotonic() - began)
                if stop:
                    raise KeyboardInterrupt
    finally:
        bar.close()
        run.close()
    return Controller.load(run.model_folder, training.where)
