"""A start for the actor: ask the motors for the reference before any reward is seen.

A robot on its reference needs joint targets that make up for the motors' damping,
q + (kd / kp) qd. An actor that first learns these from the skill knows which arm and
wrist poses a skill stands for; what is left for reinforcement is to keep balance.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills import rotation
from spectral_skills.robot import g1
from spectral_skills.tracking import observations, randomization
from spectral_skills.tracking.env import TrackingEnv
from spectral_skills.tracking.observations import HISTORY
from spectral_skills.tracking.policy import Controller

_PRIOR = 5e6
"""Observations that the first statistics count for."""


@dataclass(frozen=True)
class ImitationConfig:
    """Supervised updates before the first rollout."""

    updates: int = 0
    batch: int = 16_384
    learning_rate: float = 1e-3
    action_noise: float = 0.5
    """Deviation of the actions in the history: the next action must follow from the
    skill, not from the last ones."""


def reference_action(env: TrackingEnv, rows: Tensor, qvel: Tensor) -> Tensor:
    """Actions (n, 29) whose targets hold a robot on moving rows."""
    lag = float(g1.DAMPING[0] / g1.STIFFNESS[0])  # the same for all motors
    return env.body.first_action(rows[:, 7:] + lag * qvel[:, 6:])


def example(env: TrackingEnv, count: int, action_noise: float):
    """History, source and phase of robots near the reference, and what to do there."""
    references, random = env.references, env.config.randomization
    flat = torch.randint(len(references.table), (count,), device=env.device)
    clip = torch.searchsorted(references.starts, flat, right=True) - 1
    frame = flat - references.starts[clip]
    many = clip.repeat_interleave(HISTORY)
    past = torch.arange(1 - HISTORY, 1, device=env.device)
    seen = references.at(many, (frame[:, None] + past).flatten())
    before = references.at(many, (frame[:, None] + past - 1).flatten())
    # One displacement for the ten frames of a robot.
    now = references.at(clip, frame)
    moved, _ = randomization.start(random, now.rows, now.qvel)
    turn = rotation.multiply(moved[:, 3:7], rotation.conjugate(now.rows[:, 3:7]))
    rows = seen.rows.clone().unflatten(0, (count, HISTORY))
    rows[..., :3] += (moved - now.rows)[:, None, :3]
    rows[..., 3:7] = rotation.multiply(turn[:, None], rows[..., 3:7])
    rows[..., 7:] += (moved - now.rows)[:, None, 7:]
    rows = rows.flatten(0, 1)
    last = reference_action(env, before.rows, before.qvel)
    last = last + action_noise * torch.randn_like(last)
    sensed = env.body.proprio(rows, seen.qvel, last)
    history = randomization.noisy(random, sensed).unflatten(0, (count, HISTORY))
    source = env.source(clip, frame, moved)
    since = torch.zeros_like(clip)
    phase = observations.phase(since, env.command.hold)
    following = references.at(clip, frame + 1)
    return history, source, phase, reference_action(env, following.rows, following.qvel)


def warm_up(controller: Controller, env: TrackingEnv, config: ImitationConfig) -> float:
    """Teach the actor reference actions; gives the last mean squared error.

    Errors are in units of what each joint's actions vary by, and at least of one.
    """
    with torch.no_grad():
        history, source, phase, target = example(env, config.batch, 0.0)
        controller.proprio.update(history.flatten(0, 1))
        # The statistics of rollouts should take over slowly: the actor learns in these.
        controller.proprio.count.fill_(_PRIOR)
        if controller.source is not None:
            controller.source.update(source)
            controller.source.count.fill_(_PRIOR)
        scale = 1 / (1 + target.var(dim=0))
    optimizer = torch.optim.AdamW(controller.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, max(config.updates, 1), eta_min=0.05 * config.learning_rate
    )
    loss = torch.zeros((), device=env.device)
    half = env.device.type == "cuda"
    for _ in tqdm(
        range(config.updates), desc="imitating", unit=" updates", disable=None
    ):
        with torch.no_grad():
            *senses, target = example(env, config.batch, config.action_noise)
            inputs = controller.inputs(*senses)
        with torch.autocast(env.device.type, torch.bfloat16, half):
            mean = controller(inputs)
        loss = (scale * (mean.float() - target).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(controller.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return float(loss.detach())
