"""How a change of the skill changes the predicted future, exactly, and attributes of it
that people would name; sums over many contexts, from which directions are computed.

One denoising step at a fixed query xi = (X, y_tau, tau) estimates the future

    Yhat(z) = m_Y + S / alpha_tau (y_tau - sigma_tau D(xi, z))

in motion coordinates. D is affine in z, so

    J = dYhat / dz = -(sigma_tau / alpha_tau) S M(y_tau, tau)^T F(X)^T A / sqrt(e)

is the same for every z. This is a statement about one step at a fixed query, not
about the sampler or the robot. Over contexts,

    C = 1/N sum_i J_i^T J_i          by part of the body; the parts add up
    E_i = rows_i J_i                 effect on each attribute, (a, d)

Responses are summed in float64, batch by batch. For effects the first and second
moments are kept, which means, spreads and least squares need. At the lowest noise level
y_tau nearly shows the future and leaves the skill little to change; responses grow with
the level. Their sizes compare directions, but do not say how far the robot will move.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Literal, Self

import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills import rotation
from spectral_skills.config import read_table
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.windows import (
    POSE_SIZE,
    WindowConfig,
    Windows,
    WindowSampler,
)
from spectral_skills.robot import g1
from spectral_skills.skill.model import SkillModel
from spectral_skills.skill.predictor import AffineFeatures

TABLES = read_table(__file__, "attributes.toml")
ENOUGH = 32
"""Least number of contexts of a kind; with fewer, all upright ones are used."""
WALKING_M_S = 0.3
"""Speed from which a context walks."""
SWINGING_M = 0.08
"""Mean height of the ankle, 4 cm off the floor, from which its foot swings."""
_LEG, _ARM = ("hip", "knee", "ankle"), ("shoulder", "elbow", "wrist")


def _columns(side: str, parts: tuple[str, ...]) -> tuple[int, ...]:
    starts = tuple(f"{side}{part}" for part in parts)
    return tuple(i for i, joint in enumerate(g1.JOINTS) if joint.startswith(starts))


GROUPS: dict[str, tuple[int, ...]] = {
    "left_leg": _columns("left_", _LEG),
    "right_leg": _columns("right_", _LEG),
    "left_arm": _columns("left_", _ARM),
    "right_arm": _columns("right_", _ARM),
    "waist": _columns("", ("waist",)),
    "root_position": tuple(range(29, 32)),
    "root_rotation": tuple(range(32, POSE_SIZE)),
}
"""Columns of a pose by part of the body; each column belongs to one group."""


@dataclass(frozen=True)
class Attribute:
    """One property of a motion."""

    name: str
    unit: str
    scale: float
    """Noticeable change, by which attributes are compared."""
    action: str
    """Name of a change."""
    sense: int
    """Sign of the change with that name."""


ATTRIBUTES = tuple(Attribute(n, *about) for n, about in TABLES["attributes"].items())
NAMES: tuple[str, ...] = tuple(a.name for a in ATTRIBUTES)
UNITS: tuple[str, ...] = tuple(a.unit for a in ATTRIBUTES)


def scales() -> Tensor:
    """(a,) noticeable change of each attribute."""
    return torch.tensor([a.scale for a in ATTRIBUTES], dtype=torch.float64)


class Attributes:
    """Measures futures (n, k, 38) by averages over their poses, and their gradients.

    joints         mean angle
    root_height    mean height of the pelvis
    lean_*         mean lean of the pelvis, relative to its heading
    *_speed        mean speed of the pelvis, each frame in its own heading
    yaw_rate       turn of the heading from the first pose to the last, per second
    *_foot_height  mean height of the ankle roll link: smooth, where a maximum is not
    *_hand_xyz     mean place of the wrist yaw link, relative to pelvis and heading
    ahead, aside   mean place of the pelvis, from where the robot stands at t
    facing         mean heading, from the robot's own at t

    The last three say how far the robot is off: skills that were learned from windows
    seen by robots that had drifted hold them, and a controller answers them.

    Up is that of the window's frame: with the anchor `pose`, the robot's own at t.
    """

    def __init__(
        self,
        windows: WindowConfig,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        if windows.future < 2:
            raise ValueError(
                "a future of one pose has no speed; two or more are needed"
            )
        self.poses, self._step_s = windows.future, windows.stride / FPS
        self._links = Kinematics((*g1.FEET, *g1.WRISTS), device, dtype)

    def __call__(self, poses: Tensor) -> Tensor:
        """Attributes (n, a) of futures (n, k, 38)."""
        joints, position, rot6d = poses.split((g1.NUM_JOINTS, 3, 6), dim=-1)
        quaternion = rotation.from_rot6d(rot6d)
        links = self._links(torch.cat((position, quaternion, joints), dim=-1)).position
        heading = rotation.heading(quaternion)
        up = rotation.rotate(quaternion, poses.new_tensor((0.0, 0.0, 1.0)))
        # For a robot lying flat, rounding may make a component of `up` exceed 1.
        lean = rotation.rotate_inverse(heading, up)[..., :2].clamp(-1, 1).asin()
        velocity = position.diff(dim=1) / self._step_s
        velocity = rotation.rotate_inverse(heading[:, :-1], velocity)
        first, last = heading[:, 0], heading[:, -1]
        turn = rotation.yaw(rotation.multiply(last, rotation.conjugate(first)))
        feet, wrists = links[..., :2, 2], links[..., 2:, :] - position[..., None, :]
        hands = rotation.rotate_inverse(heading[..., None, :], wrists)
        parts = (
            joints.mean(1),
            position[..., 2:].mean(1),
            lean.mean(1),
            velocity[..., :2].mean(1),
            turn[:, None] / (self._step_s * (self.poses - 1)),
            feet.mean(1),
            hands.mean(1).flatten(1),
            position[..., :2].mean(1),
            rotation.yaw(heading).mean(1, keepdim=True),
        )
        return torch.cat(parts, dim=1)

    def rows(self, poses: Tensor) -> Tensor:
        """Gradients (n, a, m): change of each attribute per number of the future.

        Leaning, turning, feet and hands are not linear: theirs are first order.
        """
        n, k, _ = poses.shape
        rows = poses.new_zeros(n, len(ATTRIBUTES), k, POSE_SIZE)
        joints = torch.arange(g1.NUM_JOINTS)
        rows[:, joints, :, joints] = 1 / k
        with torch.enable_grad():
            poses = poses.detach().requires_grad_()
            # Futures are independent, so the gradient of the sum holds all of theirs.
            totals = self(poses).sum(0)
            for i in range(g1.NUM_JOINTS, len(ATTRIBUTES)):
                (rows[:, i],) = torch.autograd.grad(totals[i], poses, retain_graph=True)
        return rows.flatten(2)


def upright(poses: Tensor) -> Tensor:
    """(n,) whether the pelvis stays within 60 degrees of upright.

    Beyond that, heading and lean are no longer what people mean by them, and their
    gradients are unbounded.
    """
    r00, r01, r10, r11, _, _ = poses[..., 32:].unbind(-1)
    # The third column of a rotation is the product of the first two; this is R22.
    return ((r00 * r11 - r01 * r10) > 0.5).all(dim=1)


def standing(poses: Tensor, windows: WindowConfig) -> Tensor:
    """(n,) whether the pelvis moves slower than 0.1 m/s on average."""
    position = poses[..., g1.NUM_JOINTS : g1.NUM_JOINTS + 3]
    speed = position.diff(dim=1).norm(dim=-1).mean(1) * FPS / windows.stride
    return speed < 0.1


def kinds(poses: Tensor, values: Tensor, windows: WindowConfig) -> dict[str, Tensor]:
    """Masks (n,) of futures (n, k, 38), whose attributes are (n, a), by what the robot
    does in them."""
    still = standing(poses, windows)
    way = [NAMES.index("forward_speed"), NAMES.index("sideways_speed")]
    found = {"effects": upright(poses)}
    found["standing"] = found["effects"] & still
    found["walking"] = found["effects"] & (values[:, way].norm(dim=1) > WALKING_M_S)
    for side in ("left", "right"):
        height = values[:, NAMES.index(f"{side}_foot_height")]
        found[f"{side}_swing"] = found["walking"] & (height > SWINGING_M)
    return found


@dataclass(frozen=True)
class Query:
    """The point xi = (X, y_tau, tau) of a response, normalised and flat."""

    context: Tensor
    """(n, context * 38)"""
    noisy: Tensor
    """(n, m)"""
    level: Tensor
    """(n,) noise levels, 0 the lowest."""


def query(
    model: SkillModel, windows: Windows, level: int = 0, noise: Tensor | None = None
) -> Query:
    """The query of recorded windows; without noise y_tau = alpha_tau y."""
    _features(model)
    context = windows.context.to(model.context_mean)
    target = model.normalize_future(windows.future.to(model.future_mean))
    levels = torch.full((len(target),), level, device=target.device)
    noise = torch.zeros_like(target) if noise is None else noise
    noisy = model.predictor.schedule.add_noise(target, levels, noise)
    return Query(model.normalize_context(context), noisy, levels)


def response(model: SkillModel, query: Query) -> Tensor:
    """J (n, m, d): change of the predicted future per unit of each skill number."""
    F_A, _ = _features(model).response(query.context)  # (n, d, r), has 1 / sqrt(e)
    M = model.predictor.target_matrix(query.noisy, query.level)  # (n, r, m)
    schedule, level = model.predictor.schedule, query.level
    alpha, sigma = schedule.alpha[level, None], schedule.sigma[level, None]
    G = torch.bmm(F_A, M)  # (n, d, m)
    return (-(sigma / alpha * model.future_std)[:, None] * G).transpose(1, 2)


def _features(model: SkillModel) -> AffineFeatures:
    """The affine part of a model's predictor; refuses a model without one."""
    predictor = model.predictor
    if not isinstance(predictor.features, AffineFeatures):
        raise ValueError(
            f"this predictor is of the kind {predictor.config.kind!r}, which is not "
            "affine in the skill: its response depends on the skill, and there are "
            "no directions"
        )
    if predictor.target != len(model.future_mean):
        raise ValueError(
            f"this predictor predicts {predictor.target} of the "
            f"{len(model.future_mean)} numbers of the future; responses need all"
        )
    return predictor.features


@dataclass(frozen=True)
class _Sums:
    """Sums over contexts; those of two sets of contexts add up."""

    contexts: int

    def __add__(self, other: Self) -> Self:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return type(self)(*(ours + theirs for ours, theirs in pairs))


@dataclass(frozen=True)
class Effects(_Sums):
    """Sums over contexts of effects E_i and of their squares."""

    total: Tensor
    """(a, d) float64: sum of E_i."""
    square: Tensor
    """(a, d, d) float64: for each attribute the sum of its rows' e e^T."""

    @classmethod
    def of(cls, effects: Tensor) -> "Effects":
        """Sums over a batch (n, a, d)."""
        by_attribute = effects.double().transpose(0, 1)  # (a, n, d)
        square = by_attribute.transpose(1, 2) @ by_attribute
        return cls(len(effects), by_attribute.sum(1), square)

    @property
    def mean(self) -> Tensor:
        """(a, d) mean effect."""
        return self.total / max(1, self.contexts)

    @property
    def mean_square(self) -> Tensor:
        """(a, d, d) mean of e e^T."""
        return self.square / max(1, self.contexts)

    def along(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation over contexts (k, a) of the effects of vectors (k, d)."""
        mean = vectors @ self.mean.T
        square = torch.einsum("kd,ade,ke->ka", vectors, self.mean_square, vectors)
        return mean, (square - mean.square()).clamp_min(0).sqrt()

    def beside(self, other: "Effects", weight: float) -> "Effects":
        """One context of these effects and others, whose weight is relative to ours."""
        ours, theirs = 1 / (1 + weight), weight / (1 + weight)
        total = ours * self.mean.to(other.total) + theirs * other.mean
        square = ours * self.mean_square.to(total) + theirs * other.mean_square
        return Effects(1, total, square)

    def with_row(self, name: str, other: "Effects") -> "Effects":
        """The same with an attribute's moments from other contexts."""
        row, total, square = NAMES.index(name), self.total.clone(), self.square.clone()
        total[row] = other.mean[row] * self.contexts
        square[row] = other.mean_square[row] * self.contexts
        return Effects(self.contexts, total, square)


Contexts = Literal["upright", "standing", "walking", "left_swing", "right_swing"]
"""Kinds of contexts."""


@dataclass(frozen=True)
class Responses(_Sums):
    """Sums over contexts of their responses."""

    groups: Tensor
    """(groups, d, d) float64: sums of J^T J over the rows of each group."""
    total: Tensor
    """(m, d) float64: sum of J."""
    effects: Effects
    """Effects of upright contexts."""
    standing: Effects
    """Effects of upright contexts that also stand still."""
    walking: Effects
    """Effects of upright contexts that go somewhere."""
    left_swing: Effects
    """Effects of walking contexts in which the left foot swings."""
    right_swing: Effects

    def among(self, kind: Contexts) -> Effects:
        """Effects of the contexts of a kind if there are enough, else of all."""
        some: Effects = self.effects if kind == "upright" else getattr(self, kind)
        return some if some.contexts >= ENOUGH else self.effects

    @property
    def group_grams(self) -> Tensor:
        """(groups, d, d) response Gram of each group, in the order of GROUPS."""
        return self.groups / self.contexts

    @property
    def response_gram(self) -> Tensor:
        """C, (d, d)."""
        return self.group_grams.sum(0)

    @property
    def mean_response(self) -> Tensor:
        """(m, d) mean of J."""
        return self.total / self.contexts


@torch.no_grad()
def accumulate(
    model: SkillModel, attributes: Attributes, windows: Windows, level: int = 0
) -> Responses:
    """Sums of one batch, at a noise level without added noise."""
    J = response(model, query(model, windows, level))
    by_pose = J.unflatten(1, (attributes.poses, -1)).double()
    grams = []
    for columns in GROUPS.values():
        J_g = by_pose[:, :, list(columns)].flatten(0, 2)
        grams.append(J_g.T @ J_g)
    future = windows.future.to(J)
    E = attributes.rows(future) @ J
    masks = kinds(future, attributes(future), model.config.windows)
    return Responses(
        contexts=len(J),
        groups=torch.stack(grams),
        total=by_pose.sum(0).flatten(0, 1),
        **{kind: Effects.of(E[mask]) for kind, mask in masks.items()},
    )


def measure(
    model: SkillModel,
    sampler: WindowSampler,
    contexts: int,
    seed: int = 0,
    batch: int = 256,
    level: int = 0,
) -> tuple[Responses, Responses]:
    """Sums of two independent halves of random contexts, at a noise level."""
    if contexts < 2:
        raise ValueError(f"{contexts} contexts; two halves need at least 2")
    if not 0 <= level < (levels := model.predictor.config.levels):
        raise ValueError(f"noise level {level}; this predictor has 0 to {levels - 1}")
    device, dtype = model.future_mean.device, model.future_mean.dtype
    attributes = Attributes(model.config.windows, device, dtype)
    # Drawn on the CPU and all at once, so that device and batch size do not matter.
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(sampler.total, (contexts,), generator=generator)
    draws = draws.to(sampler.motions.device)
    middle = (contexts + 1) // 2

    def batches(half: Tensor) -> Iterator[Responses]:
        for numbers in half.split(batch):
            windows = sampler.at(*sampler.locate(numbers))
            yield accumulate(model, attributes, windows, level)
            bar.update(len(numbers))

    with tqdm(total=contexts, desc="responses", unit="context", disable=None) as bar:
        first, second = (
            reduce(operator.add, batches(half))
            for half in (draws[:middle], draws[middle:])
        )
    return first, second
