"""Pictures of the G1: one interface over OpenGL (EGL, OSMesa) and software.

MuJoCo and PyOpenGL bind one GL platform per process when first imported, and a broken
driver can crash or hang. So a platform is tried in a subprocess first, and contexts are
made directly instead of through MUJOCO_GL.
"""

import ctypes.util
import os
import subprocess
import sys
from functools import lru_cache

import numpy as np

from spectral_skills.robot import g1, opengl, software
from spectral_skills.robot.studio import Camera

__all__ = ["BACKENDS", "Camera", "RobotRenderer", "backend"]

BACKENDS = ("egl", "osmesa", "software")
_LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}
_PROBE_TIMEOUT_S = 20.0

_PROBE = """
import sys
import mujoco, numpy as np
from importlib import import_module
context = import_module("mujoco." + sys.argv[1]).GLContext(32, 32)
context.make_current()
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 3'/><geom size='.3' rgba='1 0 0 1'/>"
    "</worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
scene, camera = mujoco.MjvScene(model, 10), mujoco.MjvCamera()
camera.distance = 2.0
mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, camera, 7, scene)
mjr = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, mjr)
rect, rgb = mujoco.MjrRect(0, 0, 32, 32), np.zeros((32, 32, 3), np.uint8)
mujoco.mjr_render(rect, scene, mjr)
mujoco.mjr_readPixels(rgb, None, rect, mjr)
print("drawn" if np.ptp(rgb) > 20 else "blank", flush=True)
"""


def _works(name: str) -> bool:
    """Whether a GL platform draws a picture, tried where a crash does no harm."""
    if ctypes.util.find_library(_LIBRARIES[name]) is None:
        return False
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE, name],
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            text=True,
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    # The exit status is not asked: some drivers fail while being torn down.
    return "drawn" in done.stdout


@lru_cache(maxsize=1)
def backend() -> str:
    """How this process draws: the first of EGL and OSMesa that works, or software."""
    forced = os.environ.get("SPECTRAL_GL", "").lower()
    if forced:
        return _checked(forced, "SPECTRAL_GL")
    return next((name for name in _LIBRARIES if _works(name)), "software")


def _checked(name: str, source: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"{source}={name!r}: expected one of {', '.join(BACKENDS)}")
    return name


class RobotRenderer:
    """Draws one or several G1s standing on a floor."""

    def __init__(
        self,
        width: int,
        height: int,
        backend: str | None = None,
        film: bool = False,
    ):
        """`film`: pictures in half the time or less, plainer when looked at closely."""
        if width < 1 or height < 1:
            raise ValueError(f"picture of {width} x {height} pixels")
        self.width, self.height, self.film = width, height, film
        name = globals()["backend"]() if backend is None else backend
        self.backend = _checked(name, "backend")
        self._gl = None
        if self.backend != "software":
            self._gl = opengl.GlScene(self.backend, width, height, film)

    def __enter__(self) -> "RobotRenderer":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Give the GL context back; the renderer cannot draw afterwards."""
        if self._gl is not None:
            self._gl.close()

    def draw(
        self,
        poses: np.ndarray,
        camera: Camera,
        colours: np.ndarray | None = None,
    ) -> np.ndarray:
        """Picture (height, width, 3) uint8 of poses (36,) or (k, 36).

        `colours` (k, 4) multiply the robot's own; alpha below 1 makes a ghost.
        """
        poses = np.atleast_2d(np.asarray(poses, dtype=float))
        if poses.ndim != 2 or poses.shape[1] != g1.QPOS_SIZE or not len(poses):
            raise ValueError(f"poses of shape {poses.shape}, expected (k, 36)")
        if len(poses) > opengl.MAX_ROBOTS:
            raise ValueError(
                f"{len(poses)} robots, at most {opengl.MAX_ROBOTS} in a picture"
            )
        if not np.isfinite(poses).all():
            raise ValueError("poses contain NaN or infinity")
        tints = np.ones((len(poses), 4))
        if colours is not None:
            tints[:] = colours
        if self._gl is not None:
            return self._gl.draw(poses, camera, tints)
        size = self.width, self.height
        return software.draw(poses, camera, *size, tints, self.film)
