"""Random differences between robots and between steps, so that the controller does not
rely on details of the simulation.

The defaults are SONIC's (its preset level0_4 and the noise of its observations).
Delays, gains and the noise of the anchor are for deployment and off by default; SONIC
has none of them. All draws except the walk are uniform. A quantity without a range
draws nothing and returns its input tensors.
"""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.physics.base import Variation
from spectral_skills.physics.settings import FRICTION
from spectral_skills.robot import g1
from spectral_skills.tracking.rewards import constants

Range = tuple[float, float]
Axes = tuple[float, float, float]
_NOMINAL: Range = (1.0, 1.0)


@dataclass(frozen=True)
class RandomizationConfig:
    """Ranges of random quantities; a single number a, or one an axis, is -a to a."""

    friction: Range | None = (0.3, 1.6)
    """Friction of all the robot's geoms; None keeps the model's. SONIC's static range:
    its dynamic one, 0.3 to 1.2, has no counterpart in MuJoCo."""
    joint_offset_rad: float = 0.01
    """Offset of the zero of each joint, both as measured and as commanded."""
    torso_com_m: Axes = (0.025, 0.05, 0.05)
    mass: Range = (0.8, 2.5)
    """Factor of the mass of torso and wrists."""
    stiffness: Range = _NOMINAL
    """Factor of each joint's gain, drawn once for every robot."""
    damping: Range = _NOMINAL
    delay_substeps: tuple[int, int] = (0, 0)
    """Delay in substeps of 5 ms, drawn once for every robot."""

    push_every_s: Range = (4.0, 6.0)
    push_linear_m_s: Axes = (0.5, 0.5, 0.2)
    push_angular_rad_s: Axes = (0.52, 0.52, 0.78)
    """About the pelvis's axes."""

    start_position_m: Axes = (0.05, 0.05, 0.01)
    start_turn_rad: Axes = (0.1, 0.1, 0.2)
    """Rotation vector in the world."""
    start_joints_rad: float = 0.1
    start_linear_m_s: Axes = (0.5, 0.5, 0.2)
    start_angular_rad_s: Axes = (0.52, 0.52, 0.78)
    """About the pelvis's axes."""

    gravity_noise: float = 0.05
    angular_velocity_noise_rad_s: float = 0.2
    joint_noise_rad: float = 0.01
    joint_velocity_noise_rad_s: float = 0.5
    anchor_walk_m: float = 0.0
    """Deviation of the steps of a random walk, from 0 in every episode: the error of
    the robot's estimate of its place on the floor when it looks at its reference."""
    anchor_walk_limit_m: float = 0.1
    """Largest error of the walk on each axis."""
    anchor_jitter_m: float = 0.0
    """Further error in every step."""
    anchor_jump_m: float = 0.0
    """Further error in few steps."""
    anchor_jump_share: float = 0.02
    """Share of the steps that have a jump."""

    def __post_init__(self):
        for name in ("friction", "mass", "stiffness", "damping", "push_every_s"):
            limits = getattr(self, name)
            if limits is not None and not 0 < limits[0] <= limits[1]:
                raise ValueError(f"{name} = {limits}: not a range above 0")
        low, high = self.delay_substeps
        if not 0 <= low <= high <= (most := g1.DECIMATION):
            raise ValueError(
                f"delay_substeps = {low, high}: not a range in 0 to {most}"
            )


def scaled(config: RandomizationConfig, strength: float) -> RandomizationConfig:
    """Ranges shrunk by a factor: 0 is off, 1 the same. Pushes are as frequent."""
    if strength == 1.0:
        return config
    # Values that ranges shrink towards; all others are widths and shrink to zero.
    centres = {"friction": FRICTION, "mass": 1.0, "stiffness": 1.0, "damping": 1.0}
    shrunk = {}
    for name in {field.name for field in fields(config)} - {"push_every_s"}:
        value, centre = getattr(config, name), centres.get(name, 0.0)
        if value is None or (name == "friction" and strength == 0.0):
            shrunk[name] = None
        elif name == "delay_substeps":
            shrunk[name] = tuple(round(strength * v) for v in value)
        elif isinstance(value, tuple):
            shrunk[name] = tuple(centre + strength * (v - centre) for v in value)
        else:
            shrunk[name] = strength * value
    return replace(config, **shrunk)


def robots(
    config: RandomizationConfig,
    count: int,
    device: torch.device | str,
    generator: torch.Generator,
) -> tuple[Variation, Tensor, Tensor]:
    """What is drawn once for every robot: differences of its model from the nominal
    one, offsets (n, 29) of the zeros of its joints, rad, and the delay (n,) int32 of
    its targets in substeps."""

    def drawn(limits: Range, *shape: int) -> Tensor:
        low, high = limits
        draw = torch.rand((count, *shape), generator=generator, device=generator.device)
        return (low + (high - low) * draw).clamp(low, high).to(device)

    friction = None if config.friction is None else drawn(config.friction)
    mass = com = stiffness = damping = None
    if config.mass != _NOMINAL:
        mass = torch.ones((count, len(g1.LINKS)), device=device)
        loaded = [g1.LINKS.index(name) for name in ("torso_link", *g1.WRISTS)]
        mass[:, loaded] = drawn(config.mass, len(loaded))
    if any(config.torso_com_m):
        com = torch.stack([drawn((-a, a)) for a in config.torso_com_m], dim=1)
    if config.stiffness != _NOMINAL:
        stiffness = drawn(config.stiffness, g1.NUM_JOINTS)
    if config.damping != _NOMINAL:
        damping = drawn(config.damping, g1.NUM_JOINTS)
    width, (least, most) = config.joint_offset_rad, config.delay_substeps
    offset = drawn((-width, width), g1.NUM_JOINTS)
    on = {"generator": generator, "device": generator.device}
    delay = torch.randint(least, most + 1, (count,), **on).to(device, torch.int32)
    return Variation(friction, mass, com, stiffness, damping), offset, delay


# Drawn in every step.


def start(
    config: RandomizationConfig, rows: Tensor, qvel: Tensor
) -> tuple[Tensor, Tensor]:
    """A start near the reference: (n, 36) and (n, 35)."""
    qvel = _shoved(qvel, config.start_linear_m_s, config.start_angular_rad_s)
    position, quaternion, joints = rows[:, :3], rows[:, 3:7], rows[:, 7:]
    moved, turned = config.start_position_m, config.start_turn_rad
    width = config.start_joints_rad
    if not (any(moved) or any(turned) or width):
        return rows, qvel
    if any(moved):
        position = position + _symmetric(rows, moved)
    if any(turned):
        turn = rotation.exp(_symmetric(rows, turned))
        quaternion = rotation.normalize(rotation.multiply(turn, quaternion))
    if width:
        low, high = constants(rows.device).soft
        # A reference past a soft limit stays there: only the noise is limited.
        low, high = torch.minimum(low, joints), torch.maximum(high, joints)
        joints = joints + width * (2 * torch.rand_like(joints) - 1)
        joints = torch.minimum(torch.maximum(joints, low), high)
    return torch.cat((position, quaternion, joints), dim=1), qvel


def kick(config: RandomizationConfig, qvel: Tensor) -> Tensor:
    """(n, 35) velocities right after a push."""
    return _shoved(qvel, config.push_linear_m_s, config.push_angular_rad_s)


def next_push(config: RandomizationConfig, like: Tensor) -> Tensor:
    """(n,) control steps to the next push."""
    low, high = (round(s * g1.CONTROL_HZ) for s in config.push_every_s)
    return torch.randint(low, high + 1, like.shape, device=like.device)


def noisy(config: RandomizationConfig, frame: Tensor) -> Tensor:
    """(n, 93) proprioception as sensed; the last action is known exactly."""
    widths = (config.gravity_noise, config.angular_velocity_noise_rad_s)
    widths += (config.joint_noise_rad, config.joint_velocity_noise_rad_s, 0.0)
    if not any(widths):
        return frame
    columns = (3, 3, *(g1.NUM_JOINTS,) * 3)
    noise = (2 * torch.rand_like(frame) - 1).split(columns, dim=1)
    parts = zip(frame.split(columns, dim=1), widths, noise, strict=True)
    sensed = [part + width * error if width else part for part, width, error in parts]
    return torch.cat(sensed, dim=1)


def walked(config: RandomizationConfig, walk: Tensor, fresh: Tensor) -> Tensor:
    """(n, 2) the anchor's walk a step later; fresh (n,) robots start at zero."""
    if not config.anchor_walk_m:
        return walk
    limit = config.anchor_walk_limit_m
    walk = walk + config.anchor_walk_m * torch.randn_like(walk)
    return torch.where(fresh[:, None], 0.0, walk.clamp(-limit, limit))


def noisy_anchor(config: RandomizationConfig, position: Tensor, walk: Tensor) -> Tensor:
    """The robot's estimate (n, 3) of its pelvis position; the height is exact."""
    jitter, jump = config.anchor_jitter_m, config.anchor_jump_m
    if not (config.anchor_walk_m or jitter or jump):
        return position
    shift = walk
    if jitter:
        shift = shift + _symmetric(position, (jitter, jitter))
    if jump:
        jumps = torch.rand_like(position[:, :1]) < config.anchor_jump_share
        shift = shift + jumps * _symmetric(position, (jump, jump))
    return torch.cat((position[:, :2] + shift, position[:, 2:]), dim=1)


def _shoved(qvel: Tensor, linear: Axes, angular: Axes) -> Tensor:
    if not (any(linear) or any(angular)):
        return qvel
    root = qvel[:, :6] + _symmetric(qvel, (*linear, *angular))
    return torch.cat((root, qvel[:, 6:]), dim=1)


def _symmetric(like: Tensor, widths: tuple[float, ...]) -> Tensor:
    """(n, widths) each from -width to width."""
    draw = 2 * torch.rand((len(like), len(widths)), device=like.device) - 1
    # Column by column: a tensor of the widths would be copied to the device.
    return torch.stack([draw[:, i] * width for i, width in enumerate(widths)], dim=1)
