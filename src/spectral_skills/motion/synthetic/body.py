"""The whole body of a score: targets for pelvis, trunk, feet and mass, then inverse
kinematics, then corrections for what a pendulum does not know about limbs."""

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.ik import (
    IkConfig,
    InverseKinematics,
    LinkTarget,
    MassTarget,
)
from spectral_skills.motion.momentum import Momentum
from spectral_skills.motion.synthetic import feet, pendulum
from spectral_skills.motion.synthetic.arms import PARTS, SIDES
from spectral_skills.motion.synthetic.curves import FPS, soften
from spectral_skills.motion.synthetic.footsteps import LEFT, RIGHT, Path, plan
from spectral_skills.motion.synthetic.score import Score
from spectral_skills.motion.synthetic.trunk import Trunk, turned
from spectral_skills.robot import g1

_ARMS = tuple(f"{side}_{part}" for side in SIDES for part in PARTS)
_FREE = tuple(joint for joint in g1.JOINTS if joint not in _ARMS)
_FIRST_STEPS, _ROUGH_STEPS, _FINE_STEPS = 4, 3, 15
_FEWEST_PASSES, _MOST_PASSES = 3, 9
_CLOSE_M = 0.02
"""The zero-moment point is where it should be: no further pass."""
_GAIN, _LIMBS_M = 0.8, 0.25
"""Most that one pass corrects: next to a flight the point is wild."""
# Of the robot, from pelvis to ankle; a leg is used almost, but not quite, stretched.
_HIP_BELOW_M, _HIP_OUT_M = 0.1027, 0.1185
_THIGH_M, _SHANK_M, _LEG_M = 0.337, 0.317, 0.639
_ANKLE_ROLL, _ANKLE_PITCH = 0.2, 0.71
"""Where soles begin to give way to ankles that are near their limits, rad."""


class Body:
    """Solvers that many scores share."""

    def __init__(self):
        def solver(steps: int) -> InverseKinematics:
            return InverseKinematics(_FREE, config=IkConfig(steps, posture=1e-7))

        self._first, self._rough = solver(_FIRST_STEPS), solver(_ROUGH_STEPS)
        self._fine = solver(_FINE_STEPS)
        self._momentum = Momentum()

    def perform(self, score: Score) -> np.ndarray:
        """(T, 36) rows of a score."""
        path = Path.along(score)
        steps = plan(score, path)
        support = pendulum.support(score, steps)
        soles = [feet.move(steps, side, score.frames) for side in (LEFT, RIGHT)]
        trunk = Trunk(score, path, support, soles)
        start = np.zeros((score.frames, g1.QPOS_SIZE))
        start[:, 3:7], start[:, 7:] = trunk.pelvis.numpy(), trunk.posture()
        nominal, heights = trunk.nominal_height(), pendulum.Height(support.airborne)
        # With the pelvis at the origin: where the mass is, seen from there.
        centre = self._momentum.centre(torch.from_numpy(start)).numpy()
        above = centre[:, 2]
        rate = pendulum.stiffness(nominal + above)
        start[:, :2] = pendulum.follow(support.zmp, rate) - centre[:, :2]
        start[:, 2] = nominal
        rows, limbs = torch.from_numpy(start), np.zeros((score.frames, 2))
        last = False
        for number in range(_MOST_PASSES):
            # Before the first pass the place of the pelvis is a guess.
            length = _LEG_M if number else _LEG_M - 0.008
            legs = _legs(rows[:, :3].numpy(), trunk.pelvis, soles)
            reach = _reach(rows[:, 2].numpy(), legs, length)
            placed = [
                feet.adapted(sole, _tip(leg, sole), _edge(leg, sole))
                for leg, sole in zip(legs, soles, strict=True)
            ]
            low = _lowered(np.minimum(nominal, reach))
            tall = heights.near(low + above)
            if support.airborne.any() and number < _FEWEST_PASSES:
                # Landing from a flight the pelvis may still be too high: next time.
                nominal = nominal - _around(tall - above - reach)
            rate = pendulum.stiffness(tall)
            zmp = feet.kept_on_soles(support.zmp, placed, score.flight)
            mass = pendulum.follow(zmp + limbs, rate)
            solver = self._fine if last else self._rough if number else self._first
            rows = _solve(solver, last, rows, trunk, placed, mass, tall - above)
            if last:
                break
            # What swinging limbs do to the zero-moment point, the mass makes up for.
            dynamics = self._momentum.dynamics(rows, FPS)
            error = zmp - dynamics.zmp.numpy()
            carried = np.clip(dynamics.force.numpy() / 0.7, 0.0, 1.0)[:, None]
            limbs += soften(_GAIN * carried * np.clip(error, -_LIMBS_M, _LIMBS_M), 0.45)
            above = (dynamics.centre[:, 2] - rows[:, 2]).numpy()
            close = np.abs(carried * error).max() < _CLOSE_M
            last = close and number + 2 >= _FEWEST_PASSES or number + 2 >= _MOST_PASSES
        return rows.numpy()


def _solve(
    solver: InverseKinematics,
    whole: bool,
    rows: Tensor,
    trunk: Trunk,
    soles: list[feet.FootMotion],
    mass: np.ndarray,
    tall: np.ndarray,
) -> Tensor:
    """Legs and waist under a trunk, feet on their soles, mass and pelvis in place."""
    place, goal = np.zeros((len(tall), 3)), np.zeros((len(tall), 3))
    place[:, 2], goal[:, :2] = tall, mass

    # Unless solved as a whole, every frame is a problem of its own: one that cannot
    # be solved yet does not hold up the others.
    def each(values: Tensor | np.ndarray) -> Tensor:
        tensor = torch.as_tensor(values)
        return tensor if whole else tensor[:, None]

    targets = [
        LinkTarget(
            "pelvis",
            position=each(place),
            position_weight=torch.tensor((0.0, 0.0, 0.3)),
            quaternion=each(trunk.pelvis),
            orientation_weight=0.1,
        ),
        LinkTarget("torso_link", quaternion=each(trunk.torso), orientation_weight=0.1),
    ]
    targets += [
        LinkTarget(
            link,
            position=each(sole.position),
            quaternion=each(turned(sole.yaw, sole.pitch, sole.roll)),
            # Where the ankle's roll ends, the sole tilts before it moves.
            orientation_weight=0.03,
        )
        for link, sole in zip(g1.FEET, soles, strict=True)
    ]
    over_the_feet = MassTarget(each(goal), torch.tensor((1.0, 1.0, 0.0)))
    return solver.solve(each(rows), targets, over_the_feet).qpos.view_as(rows)


def _legs(pelvis: np.ndarray, turn: Tensor, soles) -> list[np.ndarray]:
    """(T, 3) from each hip to its ankle."""
    legs = []
    for out, sole in zip((_HIP_OUT_M, -_HIP_OUT_M), soles, strict=True):
        offset = torch.tensor((0.0, out, -_HIP_BELOW_M)).double()
        hip = pelvis + rotation.rotate(turn, offset.expand(len(pelvis), 3)).numpy()
        legs.append(sole.position - hip)
    return legs


def _reach(height: np.ndarray, legs: list[np.ndarray], length: float) -> np.ndarray:
    """The height of the pelvis at which the longer leg is just not stretched."""
    highest = np.full(len(height), np.inf)
    for leg in legs:
        away = (leg[:, :2] ** 2).sum(axis=1)
        up = np.sqrt(np.maximum(length**2 - away, 0.3**2))
        highest = np.minimum(highest, height + leg[:, 2] + up)
    return highest


def _edge(leg: np.ndarray, sole: feet.FootMotion) -> np.ndarray:
    """Roll of a sole whose leg leans out more than the ankle can make up for."""
    out = leg[:, 1] * np.cos(sole.yaw) - leg[:, 0] * np.sin(sole.yaw)
    lean = np.arctan2(out, -leg[:, 2])
    return np.sign(lean) * _beyond(np.abs(lean) - _ANKLE_ROLL)


def _tip(leg: np.ndarray, sole: feet.FootMotion) -> np.ndarray:
    """How much a heel rises where the shank leans farther than the ankle bends."""
    ahead = -leg[:, 0] * np.cos(sole.yaw) - leg[:, 1] * np.sin(sole.yaw)
    length = np.linalg.norm(leg, axis=1)
    # Triangle of thigh, shank and the line from hip to ankle.
    cosine = (length**2 + _SHANK_M**2 - _THIGH_M**2) / (2 * length * _SHANK_M)
    shank = np.arctan2(ahead, -leg[:, 2]) + np.arccos(np.clip(cosine, -1.0, 1.0))
    return _beyond(shank - sole.pitch - _ANKLE_PITCH)


def _beyond(excess: np.ndarray) -> np.ndarray:
    """What is positive, without a kink."""
    return soften(np.logaddexp(0.0, excess / 0.02) * 0.02, 1.5)


def _lowered(heights: np.ndarray) -> np.ndarray:
    """A gentle curve that stays under the given one."""
    gentle = soften(heights, 4.0)
    return gentle - _around(gentle - heights)


def _around(excess: np.ndarray) -> np.ndarray:
    """A gentle curve that covers what is positive."""
    padded = np.pad(np.maximum(excess, 0.0), 10, mode="edge")
    window = np.lib.stride_tricks.sliding_window_view(padded, 21)
    return soften(window.max(axis=1), 4.0)
