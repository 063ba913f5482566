"""A few motions drawn by hand, for a first run that needs no download.

The robot stays on the spot: legs fold as a parallel linkage that keeps the soles
level, and the pelvis is put where the lower sole touches the floor.
"""

import numpy as np
import torch

from spectral_skills.motion.clip import Clip
from spectral_skills.motion.kinematics import Kinematics, sole_heights
from spectral_skills.robot import g1

FPS = 50.0
SOURCE = "spectral-skills generator"
LICENCE = "Apache-2.0"


def _pose(**targets: np.ndarray | float) -> dict[int, np.ndarray]:
    return {g1.joint_index(k): np.asarray(v) for k, v in targets.items()}


def _fold(side: str, amount: np.ndarray) -> dict[int, np.ndarray]:
    """Bend a leg by `amount` rad at the knee's half, the sole kept level."""
    return _pose(
        **{
            f"{side}_hip_pitch": -amount,
            f"{side}_knee": 2 * amount,
            f"{side}_ankle_pitch": -amount,
        }
    )


def _bump(t: np.ndarray, start: float, end: float, ramp: float = 0.6) -> np.ndarray:
    """Rise smoothly to one after `start` and fall back before `end`, in seconds."""

    def ease(x: np.ndarray) -> np.ndarray:
        x = np.clip(x, 0.0, 1.0)
        return x * x * x * (10 - 15 * x + 6 * x * x)

    return ease((t - start) / ramp) * ease((end - t) / ramp)


def _on_the_floor(joints: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """(T, 36) rows with the pelvis where the lower sole stands on its spot."""
    rows = np.zeros((len(joints), g1.QPOS_SIZE), dtype=np.float32)
    rows[:, 3], rows[:, 5] = np.cos(pitch / 2), np.sin(pitch / 2)
    rows[:, 7:] = joints
    feet = Kinematics(links=g1.FEET)(torch.from_numpy(rows))
    soles = sole_heights(feet).numpy()
    rows[:, 2] = -soles.min(axis=1)
    # With both soles down they must not slide; with one lifted the other is still.
    level = np.ptp(soles, axis=1) < 1e-4
    ahead = feet.position[:, 0, 0].numpy()
    rows[level, 0] = ahead[0] - ahead[level]
    return rows


def motions() -> list[Clip]:
    """Idle, squat, wave, bow and march."""
    t = np.arange(0, 6, 1 / FPS)
    once = _bump(t, 0.5, 5.5, 1.2)
    breath = np.sin(2 * np.pi * 0.3 * t)
    stand = 0.334 * np.ones_like(t)
    legs = {**_fold("left", stand), **_fold("right", stand)}
    crouch = stand + 0.6 * once
    bow = 0.5 * once
    swing = np.sin(2 * np.pi * 1.4 * t)
    lift = 0.55 * np.sin(2 * np.pi * 0.8 * t)
    drawn = {
        "idle": ("stand still", {**legs, **_pose(waist_pitch=0.02 * breath)}),
        "squat": (
            "squat down and stand up again",
            {
                **_fold("left", crouch),
                **_fold("right", crouch),
                **_pose(
                    waist_pitch=0.3 * once,
                    left_shoulder_pitch=0.2 - 1.2 * once,
                    right_shoulder_pitch=0.2 - 1.2 * once,
                ),
            },
        ),
        "wave_right": (
            "wave with the right hand",
            {
                **legs,
                **_pose(
                    right_shoulder_pitch=0.2 - 2.6 * once,
                    right_shoulder_roll=-0.2 - once * (0.2 + 0.3 * swing),
                    right_elbow=0.6 + 0.5 * once,
                ),
            },
        ),
        "bow": (
            "bow politely",
            {
                **legs,
                **_pose(
                    left_hip_pitch=-stand - bow,
                    right_hip_pitch=-stand - bow,
                    waist_pitch=0.8 * bow,
                ),
            },
        ),
        "march": (
            "march on the spot",
            {
                **_fold("left", stand + np.maximum(lift, 0) * once),
                **_fold("right", stand + np.maximum(-lift, 0) * once),
                **_pose(
                    left_shoulder_pitch=0.2 + 0.6 * lift * once,
                    right_shoulder_pitch=0.2 - 0.6 * lift * once,
                ),
            },
        ),
    }
    clips = []
    for name, (text, targets) in drawn.items():
        joints = np.tile(g1.DEFAULT_JOINTS, (len(t), 1))
        for joint, values in targets.items():
            joints[:, joint] = values
        rows = _on_the_floor(joints, bow if name == "bow" else 0 * t)
        about = {"text": text, "source": SOURCE, "licence": LICENCE}
        clips.append(Clip.from_qpos(rows, name=name, fps=FPS, **about))
    return clips
