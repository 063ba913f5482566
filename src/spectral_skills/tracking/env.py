"""Robots that track references: one step of all of them, in one compiled function.

After the physics everything happens in `_advance`: the reference of the new frame,
rewards, terminations, new starts drawn by the sampler, pushes, proprioception, history,
and the encoding of the reference as the robot sees it. Nothing waits for the device.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from spectral_skills.motion.kinematics import Kinematics, LinkStates
from spectral_skills.physics.base import Physics
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking import observations, randomization, rewards, terminations
from spectral_skills.tracking.observations import Body, Observation, TrackingState
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import CommandConfig, CommandSource, References
from spectral_skills.tracking.rewards import STEP_S, RewardConfig
from spectral_skills.tracking.sampler import AdaptiveSampler, SamplerConfig
from spectral_skills.tracking.terminations import CAUSES, TerminationConfig

_CAUSES = (*CAUSES, "broken")
_Pair = tuple[Tensor, Tensor]
_Moving = tuple[Tensor, Tensor, LinkStates]
"""Positions, velocities, and the links that follow from them."""


@dataclass(frozen=True)
class EnvConfig:
    """Rewards, failures, disturbances and starts of episodes."""

    rewards: RewardConfig = RewardConfig()
    terminations: TerminationConfig = TerminationConfig()
    randomization: RandomizationConfig = RandomizationConfig()
    sampler: SamplerConfig = SamplerConfig()
    episode_steps: int | None = None
    """Longest episode in control steps; None lets robots follow a clip to its end."""
    clip_end: Literal["timeout", "terminal"] = "timeout"
    """Meaning of a clip's last frame to the learner: a time-out, after which the
    episode would have continued, or an end with no value after it, as with the paper's
    authors. It is never a failure."""


class StepResult(NamedTuple):
    """Result of a control step for every robot."""

    reward: Tensor
    done: Tensor
    """(n,) bool: failed, or over."""
    timeout: Tensor
    """(n,) bool: over without a failure, where the episode could have continued."""


class _State(NamedTuple):
    """State of every robot beside that of the physics."""

    clip: Tensor
    frame: Tensor
    age: Tensor
    since: Tensor
    """Steps since the command was published."""
    push_in: Tensor
    walk: Tensor
    """(n, 2) error of the robot's estimate of its place, m."""
    height: Tensor
    """Height of the reference's pelvis, m, current or averaged."""
    last_action: Tensor
    history: Tensor
    source: Tensor


class _Sim(NamedTuple):
    """State of the physics after a step."""

    qpos: Tensor
    qvel: Tensor
    qacc: Tensor
    torque: Tensor
    contact_force: Tensor
    broken: Tensor


class TrackingEnv:
    """`physics.count` robots on references, drawn more often where tracking fails."""

    def __init__(
        self,
        config: EnvConfig,
        command: CommandConfig,
        physics: Physics,
        references: References,
        encoder: SkillEncoder | None,
        seed: int = 0,
        compiled: bool = False,
        reach: float = 1.0,
        smoothing: float = 0.0,
    ):
        self.config, self.command, self.physics = config, command, physics
        self.smoothing = smoothing
        self.references = references
        self.device, self.count = device, count = physics.device, physics.count
        torch.manual_seed(seed)
        generator = torch.Generator(device).manual_seed(seed)
        rewards.constants(device)  # created before anything is compiled
        self.body = Body(device, reach)
        self.kinematics = Kinematics(g1.TRACKED_LINKS, device)
        self.sampler = AdaptiveSampler(config.sampler, references.lengths, device)
        rules = config.terminations
        self._limits = terminations.thresholds_of(rules, 0, count).to(device)
        """Current thresholds of failures. Compiled code reads this very tensor."""
        random = config.randomization
        drawn = randomization.robots(random, count, device, generator)
        variation, self.offset, delay = drawn
        physics.vary(variation)
        physics.delay.copy_(delay)
        half = device.type == "cuda"
        self.source = CommandSource(references, command, encoder, half)
        self.last = references.lengths - 1
        self._step = torch.compile(self._advance) if compiled else self._advance
        self._terms = rewards.weighted(config.rewards)
        width = len(self._terms) + len(_CAUSES) + 3
        self._sums, self._steps = torch.zeros(width, device=device), 0
        self._state, self.observation = self._first()

    def _first(self) -> tuple[_State, Observation]:
        """Put every robot on a reference."""
        n, device, physics = self.count, self.device, self.physics
        zero = torch.zeros(n, dtype=torch.long, device=device)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros((n, *shape), device=device)

        state = _State(
            *(zero, zero, zero, zero),
            push_in=randomization.next_push(self.config.randomization, zero),
            walk=zeros(2),
            height=zeros(),
            last_action=zeros(g1.NUM_JOINTS),
            history=zeros(observations.HISTORY, observations.PROPRIO),
            source=zeros(self.command.source_width),
        )
        everyone = torch.ones(n, dtype=torch.bool, device=device)
        with torch.no_grad():
            drawn, fresh = self._draw()
            links = self.kinematics.states(*fresh)
            now, begun = (physics.qpos, physics.qvel, links), (*fresh, links)
            state, observation, qpos, qvel = self._go_on(
                state, now, drawn, begun, everyone
            )
        physics.qpos.copy_(qpos)
        physics.qvel.copy_(qvel)
        return state, observation

    def refresh(self, frames: int) -> dict[str, float]:
        """Update thresholds and starts for the frames done in all processes; returns
        figures of the sampler, and waits for the device."""
        rules = self.config.terminations
        self._limits.copy_(terminations.thresholds_of(rules, frames, self.count))
        return self.sampler.refresh(frames)

    @torch.no_grad()
    def step(self, action: Tensor) -> StepResult:
        """One control step of every robot; `observation` is then the new one."""
        physics = self.physics
        if self.smoothing:
            action = torch.lerp(action, self._state.last_action, self.smoothing)
        physics.targets.copy_(self.body.targets(action, self.offset))
        physics.step()
        sim = _Sim(*(getattr(physics, name) for name in _Sim._fields))
        self._state, self.observation, result, sums, qpos, qvel = self._step(
            self._state, sim, action
        )
        physics.qpos.copy_(qpos)
        physics.qvel.copy_(qvel)
        # A new start must not be driven by the old episode's targets.
        physics.held.copy_(self.body.targets(self._state.last_action, self.offset))
        self._sums += sums
        self._steps += 1
        return result

    def _advance(self, state: _State, sim: _Sim, action: Tensor):
        """Judge the new state, and continue from it or from a new start."""
        config = self.config
        frame = state.frame + 1
        reference = self.references.at(state.clip, frame)
        drawn, fresh = self._draw()
        # Links of the robots, of their references, and of their possible new starts.
        qpos = torch.cat((sim.qpos, reference.rows, fresh[0]))
        qvel = torch.cat((sim.qvel, reference.qvel, fresh[1]))
        every = self.kinematics.states(qpos, qvel)
        robot, links, begun = (
            LinkStates(*(part[i * self.count : (i + 1) * self.count] for part in every))
            for i in range(3)
        )
        height = reference.rows[:, 2]
        if config.terminations.low_average:
            height = terminations.lowered(state.height, height, state.age == 0)
        # The first action of an episode has no action before it to differ from.
        begins = (state.age == 0)[:, None]
        tracked = TrackingState(
            *(robot, links, *observations.relative_reference(robot, links)),
            joints=sim.qpos[:, 7:],
            reference_joints=reference.rows[:, 7:],
            joint_velocities=sim.qvel[:, 6:],
            joint_accelerations=sim.qacc[:, 6:],
            torque=sim.torque,
            contact_force=sim.contact_force,
            action=action,
            last_action=torch.where(begins, action, state.last_action),
            low=terminations.is_low(height),
        )
        terms = rewards.terms(tracked, config.rewards)
        reward = torch.stack(list(terms.values())).sum(0)
        causes = terminations.failures(tracked, config.terminations, self._limits)
        causes = torch.cat((causes, sim.broken[:, None]), dim=1)
        failed = causes.any(dim=1)
        # What is not finite must not reach the learner.
        reward = torch.where(sim.broken, 0.0, reward)
        age = state.age + 1
        ended, late = frame >= self.last[state.clip], torch.zeros_like(failed)
        if config.episode_steps is not None:
            late = age >= config.episode_steps
        done, timeout = failed | ended | late, (ended | late) & ~failed
        if config.clip_end == "terminal":
            timeout = timeout & ~ended
        self.sampler.book(state.clip, frame, failed)
        sums = _summed(terms, causes, done, age)
        state = state._replace(frame=frame, age=age, height=height, last_action=action)
        now = sim.qpos, sim.qvel, robot
        state, observation, qpos, qvel = self._go_on(
            state, now, drawn, (*fresh, begun), done
        )
        return state, observation, StepResult(reward, done, timeout), sums, qpos, qvel

    def _draw(self) -> tuple[_Pair, _Pair]:
        """Clip and frame where each robot would start if its episode were over, and
        positions and velocities there."""
        drawn = self.sampler.draw(self.count)
        random = self.config.randomization
        return drawn, randomization.start(random, *self.references.at(*drawn))

    def _go_on(
        self, state: _State, now: _Moving, drawn: _Pair, fresh: _Moving, done: Tensor
    ):
        """Restart robots that are done, push some of the others, and observe."""
        random, (qpos, qvel, robot) = self.config.randomization, now
        first_qpos, first_qvel, begun = fresh
        clip = torch.where(done, drawn[0], state.clip)
        frame = torch.where(done, drawn[1], state.frame)
        qpos = torch.where(done[:, None], first_qpos, qpos)
        pairs = zip(begun, robot, strict=True)
        over = done[:, None, None]
        robot = LinkStates(*(torch.where(over, new, old) for new, old in pairs))
        push_in = state.push_in - 1
        pushed = push_in <= 0
        push_in = torch.where(pushed, randomization.next_push(random, push_in), push_in)
        qvel = torch.where(pushed[:, None], randomization.kick(random, qvel), qvel)
        qvel = torch.where(done[:, None], first_qvel, qvel)

        first_action = self.body.first_action(qpos[:, 7:])
        last_action = torch.where(done[:, None], first_action, state.last_action)
        sensed = self.body.proprio(qpos, qvel, last_action, self.offset)
        sensed = randomization.noisy(random, sensed)
        history = observations.push_history(state.history, sensed, done)
        since = torch.where(done, 0, (state.since + 1) % self.command.hold)
        walk = randomization.walked(random, state.walk, done)
        believed = randomization.noisy_anchor(random, qpos[:, :3], walk)
        source = self.source(clip, frame, believed, qpos[:, 3:7])
        source = torch.where((since == 0)[:, None], source, state.source)
        following = self.references.at(clip, frame + 1)
        observation = Observation(
            history=history,
            source=source,
            phase=observations.phase(since, self.command.hold),
            critic=observations.critic(robot, following, qpos, qvel, last_action),
        )
        state = _State(
            *(clip, frame, torch.where(done, 0, state.age), since, push_in, walk),
            *(state.height, last_action, history, source),
        )
        return state, observation, qpos, qvel

    def statistics(self) -> dict[str, float]:
        """Means since the last call: reward and its terms per second, failures by cause
        per robot and second, and the length of episodes. Waits for the device."""
        if not self._steps:
            return {}
        values, seconds = self._sums.tolist(), self._steps * STEP_S
        self._sums.zero_()
        self._steps = 0
        *counts, done, failed, lived = values[len(self._terms) :]
        terms, robot_seconds = values[: len(self._terms)], seconds * self.count
        found = {"reward": sum(terms) / seconds}
        for name, value in zip(self._terms, terms, strict=True):
            found[f"reward/{name}"] = value / seconds
        for name, count in zip(_CAUSES, counts, strict=True):
            found[f"cause/{name}"] = count / robot_seconds
        found["failures_per_s"] = failed / robot_seconds
        found["episode_s"] = lived / max(done, 1.0) * STEP_S
        return found


def _summed(
    terms: dict[str, Tensor], causes: Tensor, done: Tensor, age: Tensor
) -> Tensor:
    """One step of n robots as a vector of sums, for `statistics`."""
    means = [term.nan_to_num().mean() for term in terms.values()]
    failed = causes.any(dim=1).sum()
    ended = torch.stack((done.sum(), failed, torch.where(done, age, 0).sum()))
    return torch.cat((torch.stack(means), causes.sum(0).float(), ended.float()))
