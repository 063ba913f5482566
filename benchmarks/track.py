"""Speed of training a controller, and where an iteration's time goes.

Robots follow the embedded corpus under the released controller, as they do when
training goes on: with contacts, falls and new starts. Everything is on: noise,
randomisation, pushes, and encoding at every step.

The off-policy learner's networks are of another size, so they cannot be the released
controller's. A new actor sees, chooses, is stored and learns as in training, and all of
it is timed; but the robots do what the released controller says, or they would only
fall. Its time is measured too, and subtracted.

In training on a GPU updates run beside the robots' next steps (`overlap`), where parts
of a step cannot be timed separately. So it is timed both without and with that.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from report import main
from torch import Tensor

from spectral_skills import recipes
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import simulate
from spectral_skills.physics.settings import FAST
from spectral_skills.results import Result
from spectral_skills.skill.model import SkillModel
from spectral_skills.tracking.critics import Critic, TwinCritic
from spectral_skills.tracking.env import TrackingEnv
from spectral_skills.tracking.learner import Environment, ReplayBatch, captured
from spectral_skills.tracking.observations import Observation
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.ppo import PPOConfig, PPOLearner
from spectral_skills.tracking.references import References
from spectral_skills.tracking.sac import SACConfig, SACLearner
from spectral_skills.tracking.start import TrackConfig, commanded, critic_of
from spectral_skills.updates import precision


class Stopwatch:
    """Adds up the time that calls take on the device, without waiting for it."""

    def __init__(self, device: torch.device):
        self.device = device
        self._marks: list[tuple[Any, Any]] = []

    def around(self, function: Callable) -> Callable:
        """The function, timed."""

        def timed(*args):
            before = self._now()
            result = function(*args)
            self._marks.append((before, self._now()))
            return result

        return timed

    def _now(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(self) -> float:
        """Of all calls since the last time it was asked; waits for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            total = sum(a.elapsed_time(b) for a, b in self._marks)
        else:
            total = 1e3 * sum(b - a for a, b in self._marks)
        self._marks.clear()
        return total


class Driven:
    """Robots that do what a controller says, whatever a learner wants of them."""

    def __init__(self, robots: Environment, controller: Controller, compiled: bool):
        self.robots = robots
        self.device = controller.log_std.device
        self._act = torch.compile(controller.act) if compiled else controller.act

    @property
    def observation(self) -> Observation:
        return self.robots.observation

    def act(self) -> Tensor:
        """What the controller does."""
        history, source, phase, _ = self.observation
        with precision(self.device):
            return self._act(history, source, phase).float()

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.robots.step(self.act())


def ppo(device: str) -> list[Result]:
    """Milliseconds of an iteration's parts, and frames a second end to end."""
    return _track(device, TrackConfig(physics=FAST))


def sac(device: str) -> list[Result]:
    """The same for the off-policy recipe `lafan1`."""
    return _track(device, recipes.track("lafan1"))


def _track(device: str, config: TrackConfig) -> list[Result]:
    where = torch.device(device)
    cuda = where.type == "cuda"
    torch.set_float32_matmul_precision("high")
    ppo = config.learner == "ppo"
    if not cuda:
        small = SACConfig(updates=2, batch=64, warmup=8, memory=64)
        config = replace(config, robots=8, ppo=PPOConfig(steps=8), sac=small)
    each = config.learning.steps
    corpus = Corpus.open(embedded_corpus()).with_mirror()
    references = References.build(MotionTensors.load(corpus, where))
    encoder = SkillModel.load("base", where).encoder
    released = Controller.load("base", where)
    command = released.config.command
    physics = simulate(where, config.robots, config.physics)
    env = TrackingEnv(config.env, command, physics, references, encoder, 0, cuda)
    if ppo:
        learner, stage = _on_policy(config, released, where), env
        acting, beside = learner, "values, storage and the rest"
    else:
        settings = commanded(config.controller, encoder)
        apart = replace(config.sac, overlap=False)
        learner = _off_policy(replace(config, controller=settings, sac=apart), where)
        stage = Driven(env, released, cuda)
        acting, beside = learner, "storage and the rest"
    # Where thresholds change with the frames, those of most of a run.
    frames = 0 if ppo else config.frames

    def iterate(collect: Callable, improve: Callable, times: int) -> None:
        for i in range(times):
            env.refresh(frames + i)
            improve(collect(stage), 0.0)

    iterate(learner.collect, learner.update, (72 if cuda else 24) // each)

    watches = {
        name: Stopwatch(where) for name in ("physics", "step function", "policy")
    }
    step_physics = physics.step
    physics.step = watches["physics"].around(step_physics)
    env._step = watches["step function"].around(env._step)
    acting._act = watches["policy"].around(acting._act)
    driving, rollout, update = (Stopwatch(where) for _ in range(3))
    if isinstance(stage, Driven):
        stage.act = driving.around(stage.act)
    collect = rollout.around(learner.collect)
    improve = update.around(learner.update)
    steps = 240 if cuda else 16
    iterations = steps // each

    def measured(collect: Callable, improve: Callable) -> tuple[float, float]:
        """Frames a second, and the milliseconds that driving the robots took."""
        _wait(where)
        began = time.perf_counter()
        iterate(collect, improve, iterations)
        _wait(where)
        driven = driving.milliseconds()
        seconds = time.perf_counter() - began - 1e-3 * driven
        return config.robots * steps / seconds, driven

    rate, driven = measured(collect, improve)
    parts = {name: watch.milliseconds() / steps for name, watch in watches.items()}
    a_step = (rollout.milliseconds() - driven) / steps
    parts[beside] = a_step - sum(parts.values())
    alone = _alone(where, step_physics, 24 if cuda else 2)
    limit = config.robots / (1e-3 * alone)
    size = f"a control step of {config.robots:,} robots"
    rows = [(f"{size}: {name}", "time", v, "ms") for name, v in parts.items()]
    rows.append((size, "time", a_step, "ms"))
    after, times = (f"update from {config.robots * each:,} frames", iterations)
    if not ppo:
        after, times = "updates that follow a control step", steps
    rows.append((after, "time", update.milliseconds() / times, "ms"))
    rows += [
        ("end to end", "rate", rate, "frames/s"),
        ("physics alone", "rate", limit, "frames/s"),
        ("end to end, of physics alone", "share", rate / limit, ""),
    ]
    if cuda:
        used = torch.cuda.mem_get_info(where)
        rows.append(("memory", "used", (used[1] - used[0]) / 2**30, "GiB"))
    if isinstance(learner, SACLearner):
        pieces = _update_parts(learner, 20 if cuda else 2)
        rows += [(name, "time", value, "ms") for name, value in pieces.items()]
        if cuda:
            learner = SACLearner(
                config.sac, learner.controller, learner.critic, where, True
            )
            iterate(learner.collect, learner.update, 72 // each)
            rate, _ = measured(learner.collect, learner.update)
            row = "end to end, updates beside the next steps"
            rows.append((row, "rate", rate, "frames/s"))
    table, goal = "Tracking: speed", "400,000; paper 150,000"
    if not ppo:
        table, goal = f"{table}, off-policy", "350,000"
    return [
        Result(
            *(table, row, metric, value, unit),
            n=steps,
            paper=goal if cuda and row == "end to end" else "",
        )
        for row, metric, value, unit in rows
    ]


def _on_policy(
    config: TrackConfig, released: Controller, device: torch.device
) -> PPOLearner:
    """PPO, with the released controller as the actor."""
    controller = Controller(replace(released.config, released=False))
    controller.load_state_dict(released.state_dict())
    # The critic is new: the controller must not learn from what it says.
    frozen = replace(config.ppo, actor_lr=1e-12, actor_lr_limits=(1e-12, 1e-12))
    critic = Critic(controller.config)
    return PPOLearner(frozen, controller, critic, device, device.type == "cuda")


def _off_policy(config: TrackConfig, device: torch.device) -> SACLearner:
    """A new actor and new critics."""
    critic = critic_of(config)
    assert isinstance(critic, TwinCritic)
    controller = Controller(config.controller)
    return SACLearner(config.sac, controller, critic, device, device.type == "cuda")


def _update_parts(learner: SACLearner, times: int) -> dict[str, float]:
    """Milliseconds of all updates of a control step, and of what makes them up; what is
    left, the slow critics take.

    Each is measured alone, so many times. On a GPU, where all updates together are one
    captured graph, each is captured too: launched by the host it would take longer.
    """
    config = learner.config
    rows, critics = config.batch * config.updates, config.updates
    actors = critics // config.actor_every
    batch = ReplayBatch(*(values[: config.batch] for values in learner._sample(rows)))
    pieces: dict[str, tuple[int, Callable]] = {
        "": (1, learner._updates),
        f": drawing {rows:,} rows": (1, lambda: learner._sample(rows)),
        f": {critics} of the critics": (critics, lambda: learner._critic_step(batch)),
        f": {actors} of the actor": (actors, lambda: learner._actor_step(batch)),
    }
    found = {}
    for name, (count, piece) in pieces.items():
        run = captured(piece) if learner.launcher.captures else piece
        time = count * _alone(learner.device, run, times)
        found[f"updates of a control step, alone{name}"] = time
    return found


def _alone(device: torch.device, function: Callable, times: int) -> float:
    """Milliseconds of a call, in the mean over so many."""
    watch = Stopwatch(device)
    timed = watch.around(function)
    for _ in range(times):
        timed()
    return watch.milliseconds() / times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main(ppo, sac)
