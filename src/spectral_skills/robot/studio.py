"""Camera, lights and colours shared by the OpenGL and the software pictures."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

HORIZON_RGB = np.array([0.945, 0.953, 0.965])
ZENITH_RGB = np.array([0.800, 0.850, 0.910])
FLOOR_RGB = np.array([0.895, 0.905, 0.920])
CHECKER_RGB = np.array([0.845, 0.858, 0.880])
CHECKER_M = 0.5
FADE_M = (2.0, 8.0)
"""The floor melts into the horizon between these distances from the lookat point."""

# Towards the key, fill and rim light in the camera's heading frame (right, ahead, up):
# the studio turns with the camera, so every panel is lit from the same side.
_LIGHTS = np.array([[-0.48, -0.55, 0.95], [0.85, -0.45, 0.30], [0.45, 0.80, 0.55]])
_LIGHTS /= np.linalg.norm(_LIGHTS, axis=1, keepdims=True)


@dataclass(frozen=True)
class Camera:
    """MuJoCo's free camera: it looks at a point along azimuth and elevation."""

    lookat: tuple[float, float, float] = (0.0, 0.0, 0.68)
    """World point in the middle of the picture, m."""
    distance: float = 3.0
    azimuth_deg: float = 150.0
    """Heading of the line of sight; 180 faces a robot that faces +x."""
    elevation_deg: float = -12.0
    fovy_deg: float = 32.0

    @classmethod
    def following(
        cls, qpos: np.ndarray, *, height_m: float = 0.68, **options: float
    ) -> "Camera":
        """Look at a robot's pelvis, at a height that does not bob with it."""
        return cls(lookat=(float(qpos[0]), float(qpos[1]), height_m), **options)

    @cached_property
    def axes_w(self) -> np.ndarray:
        """Rows: the camera's right, up and back in the world, (3, 3)."""
        azimuth, elevation = np.radians([self.azimuth_deg, self.elevation_deg])
        flat = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
        ahead = np.cos(elevation) * flat + np.sin(elevation) * np.array([0, 0, 1.0])
        right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
        return np.stack([right, np.cross(right, ahead), -ahead])

    @cached_property
    def eye_w(self) -> np.ndarray:
        """Position of the camera, m."""
        return np.array(self.lookat) + self.distance * self.axes_w[2]

    @cached_property
    def lights_w(self) -> np.ndarray:
        """Directions towards the key, fill and rim light, (3, 3)."""
        right, up = self.axes_w[0], np.array([0.0, 0.0, 1.0])
        return _LIGHTS @ np.stack([right, np.cross(up, right), up])

    def focal_px(self, height_px: int) -> float:
        """Pixels per unit of tangent for a picture of this height."""
        return 0.5 * height_px / np.tan(np.radians(self.fovy_deg) / 2)
