"""The person a clip was made from, kept beside it so that both can be drawn later."""

from dataclasses import dataclass

import numpy as np

from spectral_skills.motion.human.recording import POINTS

STEP_M = 0.0005  # of the points, which are kept relative to the pelvis
ROW = np.dtype(
    [
        ("pelvis", "<f4", 3),  # m
        ("points", "<i2", (len(POINTS) - 1, 3)),
        ("contacts", "u1"),  # 1: the left foot stands, 2: the right one, 3: both
    ]
)
"""One frame: 127 bytes, precise to a millimetre wherever the person goes."""
_OTHER_SIDE = {"left": "right", "right": "left"}
_MIRROR = [
    POINTS.index("_".join(_OTHER_SIDE.get(part, part) for part in name.split("_")))
    for name in POINTS
]


@dataclass(frozen=True)
class HumanRows:
    """A person at the frames of a clip, as large as life."""

    points: np.ndarray  # (T, 20, 3) in the order of POINTS, m
    contacts: np.ndarray  # (T, 2) whether the left and the right foot stand
    skeleton: str  # whose: CMU, LAFAN1, SMPL and so on

    def packed(self) -> np.ndarray:
        """(T,) rows as a corpus stores them."""
        rows = np.zeros(len(self.points), ROW)
        rows["pelvis"] = self.points[:, 0]
        around = (self.points[:, 1:] - self.points[:, :1]) / STEP_M
        rows["points"] = np.clip(np.rint(around), -32768, 32767)
        rows["contacts"] = np.asarray(self.contacts) @ np.array([1, 2])
        return rows

    @classmethod
    def unpacked(cls, rows: np.ndarray, skeleton: str) -> "HumanRows":
        pelvis = np.asarray(rows["pelvis"])[:, None]
        points = np.concatenate((pelvis, pelvis + STEP_M * rows["points"]), axis=1)
        contacts = (rows["contacts"][:, None] & np.array([1, 2], np.uint8)) > 0
        return cls(points.astype(np.float32), np.asarray(contacts), skeleton)

    def mirrored(self) -> "HumanRows":
        """The image in a mirror: left is right, and y is negated."""
        points = self.points[:, _MIRROR] * np.array([1, -1, 1], np.float32)
        return HumanRows(points, self.contacts[:, ::-1], self.skeleton)
