"""Pelvis, shoulders and arms of a score: what the body adds to its steps."""

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.synthetic import arms
from spectral_skills.motion.synthetic.arms import LEFT, RIGHT
from spectral_skills.motion.synthetic.curves import FPS, soften, wander
from spectral_skills.motion.synthetic.feet import FootMotion
from spectral_skills.motion.synthetic.footsteps import Path
from spectral_skills.motion.synthetic.pendulum import Support
from spectral_skills.motion.synthetic.score import Score
from spectral_skills.robot import g1


class Trunk:
    """Pelvis, torso and arms of a score, over time."""

    def __init__(
        self, score: Score, path: Path, support: Support, soles: list[FootMotion]
    ):
        self._score = score
        t = np.arange(score.frames) / FPS
        rng = np.random.default_rng(score.style.seed)
        self.yaw = soften(path.yaw, 5.0)
        apart = soles[RIGHT].position[:, :2] - soles[LEFT].position[:, :2]
        heading = np.stack((np.cos(self.yaw), np.sin(self.yaw)), axis=1)
        # How far the right foot is ahead of the left one.
        lead = soften((apart * heading).sum(axis=1), 2.0)
        side = soften(2.0 * support.load - 1.0, 4.0)
        # Also steps that lead nowhere ahead move the arms a little.
        self._lead = lead + 0.09 * side * (1.0 - support.standing)
        self._pace = np.clip(np.abs(score.forward) / 1.2, 0.0, 1.3)
        pace, style, flight = self._pace, score.style, score.flight
        between = 1.0 - soften(np.abs(2.0 * support.load - 1.0), 3.0)
        self._shared = between * (1.0 - support.standing)
        drift = [0.012 * wander(rng, t) for _ in range(4)]
        # The hip of the leg ahead is ahead; the shoulders turn the other way.
        later = _delayed(self._lead, 3)
        pelvis_yaw = self.yaw + 0.18 * style.pelvis_turn * later + 0.4 * drift[3]
        torso_yaw = self.yaw - 0.16 * style.torso_turn * lead + score.twist + drift[0]
        tilt = 0.05 * style.pelvis_tilt * (0.3 + 0.7 * pace) * side
        pitch = 0.02 + 0.01 * pace + 0.03 * flight + 0.5 * score.lean
        upright = 0.03 + 0.03 * pace + 0.08 * flight + score.lean
        self.pelvis = turned(pelvis_yaw, pitch + 0.5 * drift[1], tilt)
        self.torso = turned(torso_yaw, upright + drift[1], -0.15 * tilt + drift[2])
        self._rng = rng

    def posture(self) -> np.ndarray:
        """(T, 29) arms, and legs for the solver to begin with."""
        score, rng = self._score, self._rng
        t = np.arange(score.frames) / FPS
        swung = _swing(self._lead, score, self._pace)
        arms.perform(swung, score.strokes)
        # Nobody holds an arm quite still; hands that carry stay together.
        shared = np.stack([wander(rng, t) for _ in arms.PARTS], axis=1)
        for arm in swung:
            own = np.stack([wander(rng, t) for _ in arms.PARTS], axis=1)
            arm += 0.02 * shared + 0.01 * own
            arm[:, 4:] += 0.04 * shared[:, 4:]
        return arms.as_joints(np.tile(g1.DEFAULT_JOINTS, (score.frames, 1)), swung)

    def nominal_height(self) -> np.ndarray:
        """Pelvis height that a person of this style would have."""
        score = self._score
        usual = 0.78 + score.style.height - 0.008 * self._pace - 0.035 * score.flight
        # Highest over one leg, lowest between two steps.
        dip = 0.016 * (1 - 0.6 * np.minimum(self._pace, 1.0)) * (1 - score.flight)
        return usual - score.drop - dip * self._shared


def _swing(lead: np.ndarray, score: Score, pace: np.ndarray) -> list[np.ndarray]:
    """(T, 7) left and right arm that swing against the legs.

    `lead` is how far the right foot is ahead of the left one, m.
    """
    both, flight, style = [], score.flight, score.style
    # Arms hang away from hips that bend or drop.
    out = style.shoulder_roll + 0.05 * pace + 0.1 * flight
    out = out + 0.25 * np.maximum(score.lean, 0.0) + 0.8 * np.maximum(score.drop, 0.0)
    for sign, hang in zip((1.0, -1.0), style.hang, strict=True):
        # The left arm goes forward (negative pitch) with the right leg.
        forward = sign * lead * style.arm_swing
        arm = np.zeros((score.frames, len(arms.PARTS)))
        arm[:, 0] = 0.18 + hang + 0.25 * flight - (0.62 + 0.2 * flight) * forward
        arm[:, 1] = out
        arm[:, 2] = 0.05 - 0.15 * flight
        arm[:, 3] = style.elbow - 0.95 * flight - 0.35 * np.maximum(forward, 0.0)
        both.append(arm)
    return both


def _delayed(values: np.ndarray, frames: int) -> np.ndarray:
    return np.concatenate((np.repeat(values[:1], frames), values[:-frames]))


def turned(yaw: np.ndarray, pitch: np.ndarray, roll: np.ndarray) -> Tensor:
    """(T, 4) quaternions of roll, then pitch, then yaw."""

    def about(axis: int, angle: np.ndarray) -> Tensor:
        unit = torch.zeros(3, dtype=torch.float64)
        unit[axis] = 1.0
        return rotation.from_axis_angle(
            unit.expand(len(angle), 3), torch.from_numpy(angle)
        )

    turn = rotation.multiply(about(2, yaw), about(1, pitch))
    return rotation.multiply(turn, about(0, roll))
