"""The whole body of a score: targets for pelvis, trunk, arms, feet and mass, then
inverse kinematics, then corrections for what a pendulum does not know about limbs."""

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion import legs, momentum
from spectral_skills.motion.ik import InverseKinematics
from spectral_skills.motion.legs import FootMotion, soften
from spectral_skills.motion.momentum import Momentum
from spectral_skills.motion.synthetic import factors, footsteps, pendulum
from spectral_skills.motion.synthetic.footsteps import Path
from spectral_skills.motion.synthetic.pendulum import Support
from spectral_skills.motion.synthetic.sketch import (
    FPS,
    LEFT,
    PARTS,
    RIGHT,
    SIDES,
    Score,
    Stroke,
    ease,
    wander,
)
from spectral_skills.motion.targets import PoseTarget
from spectral_skills.robot import g1

POSES = {
    name: np.array([pose.get(part, 0.0) for part in PARTS])
    for name, pose in factors.TABLES["poses"].items()
}
_ARMS = tuple(tuple(f"{side}_{part}" for part in PARTS) for side in SIDES)
_COLUMNS = tuple([g1.joint_index(joint) for joint in arm] for arm in _ARMS)
_FREE = tuple(joint for joint in g1.JOINTS if joint not in (*_ARMS[0], *_ARMS[1]))
_MIRROR = np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
_MARGIN = 0.01
_FIRST_STEPS, _ROUGH_STEPS, _FINE_STEPS = 4, 3, 15
_FEWEST_PASSES, _MOST_PASSES = 3, 9
_CLOSE_M = 0.02  # the zero-moment point is where it should be: no further pass
_GAIN, _LIMBS_M = 0.8, 0.25  # most that one pass corrects: in a flight it is wild


def perform_stroke(arm: np.ndarray, stroke: Stroke) -> None:
    """Blend a stroke into a (T, 7) arm, in place."""
    t = np.arange(len(arm)) / FPS
    ramp = stroke.ramp_s
    # The elbow follows the shoulder a little later, as people's do.
    late = np.array([0.0, 0.0, 0.05, 0.12, 0.15, 0.15, 0.15]) * ramp
    weights = [
        ease((t - (stroke.start_s + x)) / ramp)
        * ease(((stroke.end_s + x) - t) / ramp)
        * stroke.height(t - x)
        for x in late
    ]
    beat = np.zeros((len(t), len(PARTS)))
    if stroke.pose == "wave":
        since = t - stroke.start_s - 0.6 * ramp
        sideways = np.sin(2 * np.pi * stroke.beats * since) * ease(since / 0.4)
        beat[:, :4] = sideways[:, None] * (0.17, 0.06, 0.2, 0.23)
    elif stroke.pose == "guard":
        beat = stroke.blows(t)[:, None] * (POSES["punch"] - POSES["guard"])
    target = POSES[stroke.pose] + stroke.offset + beat
    arm += np.stack(weights, axis=1) * (target - arm)


class Trunk:
    """Pelvis, torso and arms of a score over time: what the body adds to its steps."""

    def __init__(
        self, score: Score, path: Path, support: Support, soles: list[FootMotion]
    ):
        self._score = score
        t = np.arange(score.frames) / FPS
        rng = np.random.default_rng(score.seed)
        yaw = soften(path.yaw, 5.0)
        between = soles[RIGHT].position[:, :2] - soles[LEFT].position[:, :2]
        # How far the right foot is ahead of the left one.
        lead = soften((between * legs.headings(yaw)).sum(axis=1), 2.0)
        side = soften(2.0 * support.load - 1.0, 4.0)
        # Also steps that lead nowhere ahead move the arms a little.
        self._lead = lead + 0.09 * side * (1.0 - support.standing)
        self._pace = np.clip(np.abs(score.forward) / 1.2, 0.0, 1.3)
        pace, flight = self._pace, score.flight
        shared = 1.0 - soften(np.abs(2.0 * support.load - 1.0), 3.0)
        self._shared = shared * (1.0 - support.standing)
        drift = [0.012 * wander(rng, t) for _ in range(4)]
        # The hip of the leg ahead is ahead; the shoulders turn the other way.
        later = np.concatenate((np.repeat(self._lead[:1], 3), self._lead[:-3]))
        pelvis_yaw = yaw + 0.18 * score.pelvis_turn * later + 0.4 * drift[3]
        torso_yaw = yaw - 0.16 * score.torso_turn * lead + score.twist + drift[0]
        tilt = 0.05 * score.pelvis_tilt * (0.3 + 0.7 * pace) * side
        pitch = 0.02 + 0.01 * pace + 0.03 * flight + 0.5 * score.lean
        upright = 0.03 + 0.03 * pace + 0.08 * flight + score.lean
        self.pelvis = turned(pelvis_yaw, pitch + 0.5 * drift[1], tilt)
        self.torso = turned(torso_yaw, upright + drift[1], -0.15 * tilt + drift[2])
        self._rng = rng

    def posture(self) -> np.ndarray:
        """(T, 29) arms, and legs for the solver to begin with."""
        score, rng = self._score, self._rng
        t = np.arange(score.frames) / FPS
        arms = self._swing()
        for stroke in score.strokes:
            perform_stroke(arms[stroke.side], stroke)
        # Nobody holds an arm quite still; hands that carry stay together.
        shared = np.stack([wander(rng, t) for _ in PARTS], axis=1)
        for arm in arms:
            own = np.stack([wander(rng, t) for _ in PARTS], axis=1)
            arm += 0.02 * shared + 0.01 * own
            arm[:, 4:] += 0.04 * shared[:, 4:]
        joints = np.tile(g1.DEFAULT_JOINTS, (score.frames, 1))
        joints[:, _COLUMNS[LEFT]] = arms[LEFT]
        joints[:, _COLUMNS[RIGHT]] = arms[RIGHT] * _MIRROR
        low, high = g1.SOFT_LIMITS.T
        return joints.clip(low + _MARGIN, high - _MARGIN)

    def _swing(self) -> list[np.ndarray]:
        """(T, 7) left and right arm that swing against the legs."""
        score, arms = self._score, []
        flight = score.flight
        # Arms hang away from hips that bend or drop.
        out = score.shoulder_roll + 0.05 * self._pace + 0.1 * flight
        out = out + 0.25 * np.maximum(score.lean, 0.0)
        out = out + 0.8 * np.maximum(score.drop, 0.0)
        for sign, hang in zip((1.0, -1.0), score.hang, strict=True):
            # The left arm goes forward (negative pitch) with the right leg.
            forward = sign * self._lead * score.arm_swing
            arm = np.zeros((score.frames, len(PARTS)))
            arm[:, 0] = 0.18 + hang + 0.25 * flight - (0.62 + 0.2 * flight) * forward
            arm[:, 1] = out
            arm[:, 2] = 0.05 - 0.15 * flight
            arm[:, 3] = score.elbow - 0.95 * flight - 0.35 * np.maximum(forward, 0.0)
            arms.append(arm)
        return arms

    def nominal_height(self) -> np.ndarray:
        """Pelvis height that a person of this style would have."""
        score = self._score
        usual = 0.78 + score.height - 0.008 * self._pace - 0.035 * score.flight
        # Highest over one leg, lowest between two steps.
        dip = 0.016 * (1 - 0.6 * np.minimum(self._pace, 1.0)) * (1 - score.flight)
        return usual - score.drop - dip * self._shared


def turned(yaw: np.ndarray, pitch: np.ndarray, roll: np.ndarray) -> Tensor:
    """(T, 4) quaternions of roll, then pitch, then yaw."""
    axes = torch.eye(3, dtype=torch.float64)[:, None].expand(3, len(yaw), 3)
    angles = map(torch.from_numpy, (roll, pitch, yaw))
    x, y, z = map(rotation.from_axis_angle, axes, angles)
    return rotation.multiply(rotation.multiply(z, y), x)


class BodySolver:
    """Solvers that many scores share."""

    def __init__(self):
        def solver(steps: int) -> InverseKinematics:
            return InverseKinematics(_FREE, iterations=steps, posture=1e-7)

        self._first, self._rough = solver(_FIRST_STEPS), solver(_ROUGH_STEPS)
        self._fine = solver(_FINE_STEPS)
        self._momentum = Momentum()

    def perform(self, score: Score) -> np.ndarray:
        """(T, 36) rows of a score."""
        path = Path.along(score)
        steps = footsteps.plan(score, path)
        support = pendulum.support(score, steps)
        soles = [footsteps.move(steps, side, score.frames) for side in (LEFT, RIGHT)]
        trunk = Trunk(score, path, support, soles)
        start = np.zeros((score.frames, g1.QPOS_SIZE))
        start[:, 3:7], start[:, 7:] = trunk.pelvis.numpy(), trunk.posture()
        nominal, heights = trunk.nominal_height(), pendulum.Height(support.airborne)
        # With the pelvis at the origin: where the mass is, seen from there.
        centre = self._momentum.centre(torch.from_numpy(start)).numpy()
        above = centre[:, 2]
        rate = momentum.stiffness(nominal + above)
        start[:, :2] = momentum.follow(support.zmp, rate) - centre[:, :2]
        start[:, 2] = nominal
        rows, limbs = torch.from_numpy(start), np.zeros((score.frames, 2))
        last = False
        for number in range(_MOST_PASSES):
            # Before the first pass the place of the pelvis is a guess.
            length = legs.LEG_M if number else legs.LEG_M - 0.008
            lines = legs.hip_to_ankle(rows[:, :3].numpy(), trunk.pelvis, soles)
            reach = legs.reach(rows[:, 2].numpy(), lines, length)
            placed = [
                legs.adapted(sole, legs.tip(leg, sole), legs.edge(leg, sole))
                for leg, sole in zip(lines, soles, strict=True)
            ]
            low = legs.lowered(np.minimum(nominal, reach))
            tall = heights.near(low + above)
            if support.airborne.any() and number < _FEWEST_PASSES:
                # Landing from a flight the pelvis may still be too high: next time.
                nominal = nominal - legs.around(tall - above - reach)
            rate = momentum.stiffness(tall)
            zmp = footsteps.kept_on_soles(support.zmp, placed, score.flight)
            mass = momentum.follow(zmp + limbs, rate)
            solver = self._fine if last else self._rough if number else self._first
            rows = _solve(solver, last, rows, trunk, placed, mass, tall - above)
            if last:
                break
            # What swinging limbs do to the zero-moment point, the mass makes up for.
            demand = self._momentum.dynamics(rows, FPS)
            error = zmp - demand.zmp.numpy()
            carried = np.clip(demand.force.numpy() / 0.7, 0.0, 1.0)[:, None]
            limbs += soften(_GAIN * carried * np.clip(error, -_LIMBS_M, _LIMBS_M), 0.45)
            above = (demand.centre[:, 2] - rows[:, 2]).numpy()
            close = np.abs(carried * error).max() < _CLOSE_M
            last = close and number + 2 >= _FEWEST_PASSES or number + 2 >= _MOST_PASSES
        return rows.numpy()


def _solve(
    solver: InverseKinematics,
    whole: bool,
    rows: Tensor,
    trunk: Trunk,
    soles: list[FootMotion],
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
        PoseTarget(
            "pelvis",
            position=each(place),
            position_weight=torch.tensor((0.0, 0.0, 0.3)),
            quaternion=each(trunk.pelvis),
            orientation_weight=0.1,
        ),
        PoseTarget("torso_link", quaternion=each(trunk.torso), orientation_weight=0.1),
    ]
    targets += [
        PoseTarget(
            link,
            position=each(sole.position),
            quaternion=each(turned(sole.yaw, sole.pitch, sole.roll)),
            # Where the ankle's roll ends, the sole tilts before it moves.
            orientation_weight=0.03,
        )
        for link, sole in zip(g1.FEET, soles, strict=True)
    ]
    over_the_feet = torch.tensor((1.0, 1.0, 0.0))
    targets.append(PoseTarget(None, each(goal), position_weight=over_the_feet))
    return solver.solve(each(rows), targets).qpos.view_as(rows)
