"""Robots, a controller and a source of skills, run together and recorded.

Tracking, chaining, steering and planning are all this loop with another source. The
robots keep going whatever happens to them: what counts is decided by metrics.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.control.controller import Tracker
from spectral_skills.control.record import QVEL_SIZE, Rollout
from spectral_skills.control.source import SkillSource
from spectral_skills.physics.base import Physics
from spectral_skills.robot import g1
from spectral_skills.tracking.randomization import RandomizationConfig


@torch.no_grad()
def run(
    physics: Physics,
    tracker: Tracker,
    source: SkillSource,
    start: tuple[Tensor, Tensor],
    steps: int,
    noise: RandomizationConfig | None = None,
    pushes: Mapping[int, Tensor] | None = None,
    poses_only: bool = False,
    keep_actions: bool = False,
    bar: tqdm | None = None,
) -> Rollout:
    """`steps` control steps from states `start` = (n, 36), (n, 35).

    `noise` disturbs what the robots sense, `pushes` adds velocities (n, 6) to their
    roots before the given steps. With `poses_only` velocities and skills are not kept,
    and actions only with `keep_actions`. `bar` is advanced in place of an own one.
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
    keep = not poses_only
    keep_actions = keep_actions or keep
    robot = torch.empty((steps + 1, n, g1.QPOS_SIZE), device=device)
    velocity = torch.empty((steps + 1, n, QVEL_SIZE * keep), device=device)
    actions = torch.empty((steps, n, g1.NUM_JOINTS * keep_actions), device=device)
    skills = torch.empty((steps, n, tracker.command.source_width * keep), device=device)
    robot[0] = physics.qpos
    if keep:
        velocity[0] = physics.qvel
    # disable=None: silent when the output is no terminal.
    own = tqdm(total=steps, unit=" steps", disable=None) if bar is None else bar
    # What is kept was made before, and is as any other tensor afterwards.
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
            if keep:
                velocity[step + 1] = torch.where(broken, torch.nan, physics.qvel)
                skills[step] = tracker.source
            if keep_actions:
                actions[step] = action
            own.update()
    if bar is None:
        own.close()
    if track is None:
        lengths = torch.full((n,), steps + 1, device=device)
        reference, names = None, tuple(f"robot {i}" for i in range(n))
    else:
        reference, lengths = track.rows.to(device), track.lengths.to(device)
        names = track.names
    return Rollout(robot, velocity, reference, lengths, actions, skills, names)
