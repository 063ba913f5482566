"""The batched run: many robots, a controller and a source of skills, recorded.

Tracking, chaining, steering and planning are all this loop with another source. A
reference is encoded at every step, as the robot sees it. Replayed skills do not depend
on where the robot is. Robots keep going whatever happens to them: metrics decide what
counts.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.control.rollout import QVEL_SIZE, Rollout
from spectral_skills.motion.corpus import Corpus
from spectral_skills.physics.base import Physics, simulate
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder, encode_rows
from spectral_skills.tracking import observations, randomization
from spectral_skills.tracking.observations import HISTORY, PROPRIO, Body
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import CommandConfig, CommandSource, References


class Track(NamedTuple):
    """What robots should follow, from the frame they start at: poses (T + 1, n, 36),
    where a clip that is over stays at its last frame, and numbers (n,) of frames that
    count, at most T + 1."""

    rows: Tensor
    lengths: Tensor
    names: tuple[str, ...]


class SkillSource(Protocol):
    """Gives what commands are made of; the step is known on the host."""

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """(n, s) for robots at `qpos` (n, 36) after `step` control steps, which have
        sensed where they are."""
        ...

    def track(self, steps: int) -> Track | None:
        """What robots should do meanwhile, where that is known."""
        ...


class ReferenceSource:
    """Clips, each from its start frame, seen from where the robots are."""

    def __init__(
        self,
        references: References,
        clips: Tensor,
        encoder: SkillEncoder | None,
        starts: Tensor | None = None,
        command: CommandConfig | None = None,
        names: Sequence[str] | None = None,
    ):
        self.references, self.clips = references, clips
        self.starts = torch.zeros_like(clips) if starts is None else starts
        self.names = tuple(names or (f"robot {i}" for i in range(len(clips))))
        self._commands = CommandSource(references, command or CommandConfig(), encoder)

    @property
    def start(self) -> tuple[Tensor, Tensor]:
        """(n, 36) poses and (n, 35) velocities of robots on their first frames."""
        begin = self.references.at(self.clips, self.starts)
        return begin.rows, begin.qvel

    @torch.no_grad()
    def source(self, step: int, qpos: Tensor) -> Tensor:
        """Skill of frames t to t + 9, the window itself, or the pose of frame t + 1."""
        return self._commands(self.clips, self.starts + step, qpos[:, :3], qpos[:, 3:7])

    def track(self, steps: int) -> Track:
        """The clips themselves."""
        frames = torch.arange(steps + 1, device=self.clips.device)
        rows = self.references.rows_at(self.clips, self.starts[:, None] + frames)
        lengths = self.references.lengths[self.clips] - self.starts
        return Track(
            rows.transpose(0, 1).contiguous(), lengths.clamp_max(steps + 1), self.names
        )


class ReplaySource:
    """One stream of skills per robot; each repeats its last skill when it is over."""

    def __init__(self, streams: Sequence[Tensor]):
        if not streams or not all(s.ndim == 2 and len(s) for s in streams):
            shapes = [tuple(s.shape) for s in streams]
            raise ValueError(f"streams of shapes {shapes}, must be (T, d) with T > 0")
        longest = max(len(s) for s in streams)
        padded = [torch.cat((s, s[-1:].expand(longest - len(s), -1))) for s in streams]
        self.skills = torch.stack(padded, dim=1)
        """(T, n, d)"""

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """The skills of this step, wherever the robots are."""
        return self.skills[min(step, len(self.skills) - 1)]

    def track(self, steps: int) -> None:
        """Nothing is known but the skills."""


def encode_clip(
    encoder: SkillEncoder, rows: Tensor, after: Tensor | None = None
) -> Tensor:
    """(T, d) a skill for every frame of a clip (T, 36), as its own robot would see it.

    It continues as `after`; otherwise, as before its start, it stands still, as it does
    for a live reference.
    """
    rows = torch.as_tensor(rows, dtype=torch.float32, device=encoder.steps.device)
    before = rows[:1].expand(-encoder.first, -1)
    after = rows[-1:].expand(encoder.last, -1) if after is None else after
    return encode_rows(encoder, torch.cat((before, rows, after)))


class SteeredSource:
    """The skills of another source, moved along directions: z(t) + V eta(t)."""

    def __init__(
        self, base: SkillSource, directions: np.ndarray, amplitudes: np.ndarray
    ):
        """Directions (k, d); amplitudes (T, k) for all robots, or (T, n, k). The last
        amplitudes hold on."""
        k = len(directions)
        if amplitudes.ndim not in (2, 3) or amplitudes.shape[-1] != k:
            raise ValueError(
                f"amplitudes have shape {amplitudes.shape}, must be (T, {k}) or "
                f"(T, n, {k}): a column for every direction"
            )
        for name, values in {
            "amplitudes": amplitudes,
            "directions": directions,
        }.items():
            if len(bad := np.argwhere(~np.isfinite(values))):
                at = tuple(bad[0].tolist())
                raise ValueError(f"{name}{list(at)} is {values[at]}, must be finite")
        self.base = base
        self._offsets = torch.from_numpy((amplitudes @ directions).astype(np.float32))

    def source(self, step: int, qpos: Tensor) -> Tensor:
        skills = self.base.source(step, qpos)
        # The offsets move to the device of the skills once.
        self._offsets = self._offsets.to(skills)
        return skills + self._offsets[min(step, len(self._offsets) - 1)]

    def track(self, steps: int) -> Track | None:
        """The track of the base: what robots would do without steering."""
        return self.base.track(steps)


class Tracker:
    """Many robots under one controller, all started together."""

    def __init__(
        self,
        controller: Controller,
        offset: Tensor | float = 0.0,
        action: Tensor | None = None,
        servo: Tensor | None = None,
    ):
        """`offset` (n, 29) is the error of each joint's zero, rad.

        `action` and `servo` (T, n, 29) are added to the actions and to the joint
        targets, rad; the last of them hold on. The controller sees what was added to an
        action in its last action, but does not know of an offset of the targets.
        """
        self.offset, self._action, self._servo = offset, action, servo
        self.controller, self.command = controller, controller.config.command
        self.source = torch.empty(0)
        """(n, s) source of the running command."""
        self.history = torch.empty(0)
        """(n, 10, 93) sensed frames, oldest first."""
        self._step = 0

    def reset(self, qpos: Tensor, qvel: Tensor) -> None:
        """Begin with robots that have just been placed in a state."""
        n, device = len(qpos), qpos.device
        self.body = Body(device, self.controller.config.reach)
        self._last_action = self.body.first_action(qpos[:, 7:])
        self.history = torch.zeros((n, HISTORY, PROPRIO), device=device)
        self._fresh = torch.ones(n, dtype=torch.bool, device=device)
        self._step = 0

    @torch.no_grad()
    def sense(
        self, qpos: Tensor, qvel: Tensor, noise: RandomizationConfig | None = None
    ) -> None:
        """Take in the state before the next step, as robots sense it."""
        sensed = self.body.proprio(qpos, qvel, self._last_action, self.offset)
        if noise is not None:
            sensed = randomization.noisy(noise, sensed)
        fresh = self._fresh if self._step == 0 else torch.zeros_like(self._fresh)
        self.history = observations.push_history(self.history, sensed, fresh)

    @torch.no_grad()
    def act(self, source: Tensor) -> Tensor:
        """Mean actions (n, 29); a new source counts when the held one expires."""
        since = self._step % self.command.hold
        if since == 0:
            self.source = source
        elapsed = torch.full((len(source),), since, device=source.device)
        phase = observations.phase(elapsed, self.command.hold)
        action = self.controller.act(self.history, self.source, phase)
        self._last_action = _added(action, self._action, self._step)
        self._step += 1
        return self._last_action

    def targets(self, action: Tensor) -> Tensor:
        """Joint targets (n, 29) of the actions of the last step."""
        targets = self.body.targets(action, self.offset)
        return _added(targets, self._servo, self._step - 1)


def _added(values: Tensor, offsets: Tensor | None, step: int) -> Tensor:
    if offsets is None:
        return values
    return values + offsets[min(step, len(offsets) - 1)]


def check_match(controller: Controller, encoder: SkillEncoder | None) -> None:
    """Refuse a controller and a skill model that were not made for each other."""
    command = controller.config.command
    if command.kind != "skill":
        return
    if encoder is None:
        raise ValueError("this controller follows skills: a skill model is needed")
    if encoder.width != command.width:
        raise ValueError(
            f"the skill model's skills have {encoder.width} numbers, the controller "
            f"was trained on skills of {command.width}"
        )
    if command.encoder and command.encoder != (found := encoder.fingerprint()):
        raise ValueError(
            f"the controller was trained with the encoder {command.encoder}, this "
            f"skill model's is {found}; give the skill model it was trained with"
        )


@torch.no_grad()
def run(
    physics: Physics,
    tracker: Tracker,
    source: SkillSource,
    start: tuple[Tensor, Tensor],
    steps: int,
    noise: RandomizationConfig | None = None,
    pushes: Mapping[int, Tensor] | None = None,
    keep: Collection[str] = ("robot_velocity", "actions", "skills"),
    bar: tqdm | None = None,
) -> Rollout:
    """Run `steps` control steps from states `start` = (n, 36), (n, 35).

    `noise` disturbs what the robots sense; `pushes` adds velocities (n, 6) to their
    roots before the given steps. `keep` is what is recorded besides poses. `bar` is
    advanced instead of a new one.
    """
    if steps < 1:
        raise ValueError(f"a run of {steps} steps, must be at least 1")
    n, device = physics.count, physics.device
    qpos, qvel = start
    if len(qpos) != n or len(qvel) != n:
        raise ValueError(f"{len(qpos)} starts for {n} robots")
    track = source.track(steps)
    physics.qpos.copy_(qpos)
    physics.qvel.copy_(qvel)
    tracker.reset(physics.qpos, physics.qvel)
    shapes = {
        "robot_velocity": (steps + 1, n, QVEL_SIZE),
        "actions": (steps, n, g1.NUM_JOINTS),
        "skills": (steps, n, tracker.command.source_width),
    }
    kept: dict[str, Any] = {
        name: torch.empty(shapes[name], device=device) for name in keep
    }
    kept["reach"] = tracker.controller.config.reach
    robot = torch.empty((steps + 1, n, g1.QPOS_SIZE), device=device)
    robot[0] = physics.qpos
    if "robot_velocity" in kept:
        kept["robot_velocity"][0] = physics.qvel
    # disable=None: silent when the output is no terminal.
    own = tqdm(total=steps, unit=" steps", disable=None) if bar is None else bar
    # The arrays were made outside, so they are ordinary tensors afterwards.
    with torch.inference_mode():
        for step in range(steps):
            if pushes is not None and step in pushes:
                physics.qvel[:, :6] += pushes[step].to(physics.qvel)
            tracker.sense(physics.qpos, physics.qvel, noise)
            action = tracker.act(source.source(step, physics.qpos))
            physics.targets.copy_(tracker.targets(action))
            physics.step()
            # The one place where a state meets its frame: after step t it is row t + 1,
            # and frame t + 1 of the track is what it should be.
            broken = physics.broken[:, None]
            robot[step + 1] = torch.where(broken, torch.nan, physics.qpos)
            if "robot_velocity" in kept:
                velocity = torch.where(broken, torch.nan, physics.qvel)
                kept["robot_velocity"][step + 1] = velocity
            if "skills" in kept:
                kept["skills"][step] = tracker.source
            if "actions" in kept:
                kept["actions"][step] = action
            own.update()
    if bar is None:
        own.close()
    if track is None:
        lengths = torch.full((n,), steps + 1, device=device)
        return Rollout(robot, tuple(f"robot {i}" for i in range(n)), lengths, **kept)
    lengths, rows = track.lengths.to(device), track.rows.to(device)
    return Rollout(robot, track.names, lengths, rows, **kept)


def follow(
    controller: Controller, encoder: SkillEncoder | None, clips: Corpus
) -> Rollout:
    """Simulate robots on the CPU that follow whole clips, one each."""
    steps = int(clips.lengths.max()) - 1
    if steps < 1:
        raise ValueError(f"{clips.names[0]}: one frame; there is nothing to follow")
    references = References.build(clips.to("cpu"))
    chosen = torch.arange(len(clips))
    command = controller.config.command
    source = ReferenceSource(
        references, chosen, encoder, command=command, names=clips.names
    )
    physics = simulate("cpu", len(clips))
    return run(physics, Tracker(controller), source, source.start, steps)
