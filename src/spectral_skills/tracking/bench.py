"""Speed of training a controller, and where an iteration's time goes.

Robots follow the embedded corpus under the released controller, as they do when
training goes on: with contacts, falls and new starts. Everything is on: noise,
randomisation, pushes, and encoding at every step.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from spectral_skills.motion.bench import hardware
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.build import simulate
from spectral_skills.physics.settings import FAST
from spectral_skills.results import Result
from spectral_skills.skill.model import SkillModel
from spectral_skills.tracking.env import EnvConfig, TrackingEnv
from spectral_skills.tracking.policy import Controller, Critic
from spectral_skills.tracking.ppo import Learner, PPOConfig
from spectral_skills.tracking.references import References

_TABLE = "Tracking: speed"


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


def track(device: str) -> list[Result]:
    """Milliseconds of an iteration's parts, and frames a second, end to end."""
    where = torch.device(device)
    cuda = where.type == "cuda"
    torch.set_float32_matmul_precision("high")
    robots, ppo = (16_384, PPOConfig()) if cuda else (8, PPOConfig(steps=8))
    corpus = Corpus.open(embedded_corpus()).with_mirror()
    references = References.build(MotionTensors.load(corpus, where))
    encoder = SkillModel.load("base", where).encoder
    released = Controller.load("base", where)
    controller = Controller(replace(released.config, released=False)).to(where)
    controller.load_state_dict(released.state_dict())
    command = controller.config.command
    physics = simulate(where, robots, FAST)
    env = TrackingEnv(EnvConfig(), command, physics, references, encoder, 0, cuda)
    # The critic is new: the controller must not learn from what it says.
    frozen = replace(ppo, actor_lr=1e-12, actor_lr_limits=(1e-12, 1e-12))
    critic = Critic(controller.config)
    learner = Learner(frozen, controller, critic, where, compiled=cuda)
    for _ in range(3):
        learner.update(learner.collect(env), 0.0)

    watches = {
        name: Stopwatch(where) for name in ("physics", "step function", "policy")
    }
    physics.step = watches["physics"].around(physics.step)
    env._step = watches["step function"].around(env._step)
    collector = learner._collector
    collector._act = watches["policy"].around(collector._act)
    rollout, update = Stopwatch(where), Stopwatch(where)
    collect = rollout.around(learner.collect)
    improve = update.around(learner.update)
    iterations = 10 if cuda else 2
    _wait(where)
    began = time.perf_counter()
    for i in range(iterations):
        env.refresh(i)
        improve(collect(env), 0.0)
    _wait(where)
    seconds = (time.perf_counter() - began) / iterations

    steps = iterations * ppo.steps
    parts = {name: watch.milliseconds() / steps for name, watch in watches.items()}
    a_step = rollout.milliseconds() / steps
    parts["values, storage and the rest"] = a_step - sum(parts.values())
    rate = robots * ppo.steps / seconds
    limit = robots / (1e-3 * parts["physics"])
    size = f"{robots:,} robots"
    rows = [
        (f"a control step of {size}: {n}", "time", v, "ms") for n, v in parts.items()
    ]
    rows += [
        (f"a control step of {size}", "time", a_step, "ms"),
        (
            f"update from {robots * ppo.steps:,} frames",
            "time",
            update.milliseconds() / iterations,
            "ms",
        ),
        ("end to end", "rate", rate, "frames/s"),
        ("physics alone", "rate", limit, "frames/s"),
        ("end to end, of physics alone", "share", rate / limit, ""),
    ]
    if cuda:
        used = torch.cuda.mem_get_info(where)
        rows.append(("memory", "used", (used[1] - used[0]) / 2**30, "GiB"))
    flag = " --device cuda" if cuda else ""
    goal = {"end to end": "400,000; paper 150,000"} if cuda else {}
    return [
        Result(
            *(_TABLE, row, metric, value, unit),
            n=steps,
            paper=goal.get(row, ""),
            command=f"spectral bench track{flag}",
            hardware=hardware(device),
        )
        for row, metric, value, unit in rows
    ]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
