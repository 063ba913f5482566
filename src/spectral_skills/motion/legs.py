"""Soles on the floor and the legs that bring them there: what every way of making
motion needs to know about the robot's own."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.robot import g1

HEEL_M = float(g1.SOLE_POINTS[:, 0].min())
TOE_M = float(g1.SOLE_POINTS[:, 0].max())
HALF_WIDTH_M = float(g1.SOLE_POINTS[:, 1].max())
ANKLE_M = -float(g1.SOLE_POINTS[0, 2])
# Of the robot, from pelvis to ankle; a leg is used almost, but not quite, stretched.
HIP_BELOW_M, HIP_OUT_M = 0.1027, 0.1185
THIGH_M, SHANK_M, LEG_M = 0.337, 0.317, 0.639
# Where soles begin to give way to ankles that are near their limits, rad.
_ANKLE_ROLL, _ANKLE_PITCH, _ANKLE_STRETCH = 0.2, 0.71, 0.38


def soften(values: np.ndarray, sigma_frames: float) -> np.ndarray:
    """Gaussian filter along time; the ends repeat."""
    radius = int(np.ceil(4 * sigma_frames))
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma_frames) ** 2)
    kernel /= kernel.sum()
    flat = values.reshape(len(values), -1)
    padded = np.pad(flat, ((radius, radius), (0, 0)), mode="edge")
    columns = [np.convolve(column, kernel, mode="valid") for column in padded.T]
    return np.stack(columns, axis=1).reshape(values.shape)


def headings(yaw) -> np.ndarray:
    """(..., 2) unit vectors ahead."""
    return np.stack((np.cos(yaw), np.sin(yaw)), axis=-1)


@dataclass(frozen=True)
class FootMotion:
    """One foot over time: the pose of its ankle."""

    position: np.ndarray  # (T, 3), m
    yaw: np.ndarray
    pitch: np.ndarray  # pitch, rad; toe down is positive
    roll: np.ndarray  # roll, rad; left edge up is positive


def rolled(pitch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ankle ahead of its print and above the floor when the sole rolls to a pitch."""
    pivot = np.where(pitch > 0, TOE_M, HEEL_M)
    c, s = np.cos(pitch), np.sin(pitch)
    ahead = pivot + g1.SOLE_RADIUS * pitch - pivot * c + ANKLE_M * s
    return ahead, g1.SOLE_RADIUS + pivot * s + ANKLE_M * c


def adapted(sole: FootMotion, tip: np.ndarray, edge: np.ndarray) -> FootMotion:
    """The same foot, its heel raised by `tip` and rolled onto its edge, unslipping."""
    before, after = rolled(sole.pitch), rolled(sole.pitch + tip)
    ahead, up = after[0] - before[0], after[1] - before[1]
    heading = np.stack((np.cos(sole.yaw), np.sin(sole.yaw), 0 * sole.yaw), axis=1)
    position = sole.position + ahead[:, None] * heading + on_edge(edge, sole.yaw)
    position[:, 2] += up
    return FootMotion(position, sole.yaw, sole.pitch + tip, edge)


def on_edge(roll: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """(T, 3) how the ankle moves when a sole rolls onto its edge without slipping."""
    pivot = -np.sign(roll) * HALF_WIDTH_M
    c, s = np.cos(roll), np.sin(roll)
    left = pivot - g1.SOLE_RADIUS * roll - pivot * c - ANKLE_M * s
    up = -pivot * s + ANKLE_M * (c - 1)
    return np.stack((-np.sin(yaw) * left, np.cos(yaw) * left, up), axis=1)


def hip_to_ankle(
    pelvis: np.ndarray, turn: Tensor, soles: list[FootMotion]
) -> list[np.ndarray]:
    """(T, 3) from each hip to its ankle."""
    lines = []
    for out, sole in zip((HIP_OUT_M, -HIP_OUT_M), soles, strict=True):
        offset = torch.tensor((0.0, out, -HIP_BELOW_M)).double()
        hip = pelvis + rotation.rotate(turn, offset.expand(len(pelvis), 3)).numpy()
        lines.append(sole.position - hip)
    return lines


def reach(height: np.ndarray, legs: list[np.ndarray], length: float) -> np.ndarray:
    """The height of the pelvis at which the longer leg is just not stretched."""
    highest = np.full(len(height), np.inf)
    for leg in legs:
        away = (leg[:, :2] ** 2).sum(axis=1)
        up = np.sqrt(np.maximum(length**2 - away, 0.3**2))
        highest = np.minimum(highest, height + leg[:, 2] + up)
    return highest


def edge(leg: np.ndarray, sole: FootMotion) -> np.ndarray:
    """Roll of a sole whose leg leans out more than the ankle can make up for."""
    out = leg[:, 1] * np.cos(sole.yaw) - leg[:, 0] * np.sin(sole.yaw)
    lean = np.arctan2(out, -leg[:, 2])
    return np.sign(lean) * beyond(np.abs(lean) - _ANKLE_ROLL)


def tip(leg: np.ndarray, sole: FootMotion) -> np.ndarray:
    """How much a heel rises where the shank leans farther than the ankle bends."""
    return beyond(shank(leg, sole) - sole.pitch - _ANKLE_PITCH)


def point(leg: np.ndarray, sole: FootMotion) -> np.ndarray:
    """How much a sole points down farther than the ankle stretches."""
    return beyond(sole.pitch - shank(leg, sole) - _ANKLE_STRETCH)


def shank(leg: np.ndarray, sole: FootMotion) -> np.ndarray:
    """How far the shank leans ahead, rad."""
    ahead = -leg[:, 0] * np.cos(sole.yaw) - leg[:, 1] * np.sin(sole.yaw)
    length = np.linalg.norm(leg, axis=1)
    # Triangle of thigh, shank and the line from hip to ankle.
    cosine = (length**2 + SHANK_M**2 - THIGH_M**2) / (2 * length * SHANK_M)
    return np.arctan2(ahead, -leg[:, 2]) + np.arccos(np.clip(cosine, -1.0, 1.0))


def beyond(excess: np.ndarray) -> np.ndarray:
    """What is positive, without a kink."""
    return soften(np.logaddexp(0.0, excess / 0.02) * 0.02, 1.5)


def lowered(heights: np.ndarray) -> np.ndarray:
    """A gentle curve that stays under the given one."""
    gentle = soften(heights, 4.0)
    return gentle - around(gentle - heights)


def around(excess: np.ndarray) -> np.ndarray:
    """A gentle curve that covers what is positive."""
    padded = np.pad(np.maximum(excess, 0.0), 10, mode="edge")
    window = np.lib.stride_tricks.sliding_window_view(padded, 21)
    return soften(window.max(axis=1), 4.0)
