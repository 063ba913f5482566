"""Pictures of the G1: one interface over OpenGL (EGL, OSMesa) and software.

MuJoCo and PyOpenGL bind one GL platform per process when first imported, and a broken
driver can crash or hang. So a platform is tried in a subprocess first, and contexts are
made directly instead of through MUJOCO_GL.
"""

import atexit
import contextlib
import ctypes.util
import importlib
import os
import subprocess
import sys
from functools import cache, lru_cache

import mujoco
import numpy as np

from spectral_skills.robot import g1, model, software
from spectral_skills.robot.model import Camera

__all__ = ["BACKENDS", "Camera", "RobotRenderer", "backend"]

BACKENDS = ("egl", "osmesa", "software")
MAX_ROBOTS = 64
_LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}
_PROBE_TIMEOUT_S = 20.0
_PROBE = """
import mujoco, numpy as np
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 3'/><geom size='.3' rgba='1 0 0 1'/>"
    "</worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 32, 32)
renderer.update_scene(data)
print("drawn" if np.ptp(renderer.render()) > 20 else "blank", flush=True)
"""
_LAMP_M, _FLOOR_M, _LARGE_PX = 4.0, 12.0, 512
_KEY_STRENGTH = 0.46
_KEY_JITTER = 0.025 * np.array([[0.0, 1.0], [-0.9, -0.5], [0.9, -0.5]])


@cache
def _works(name: str) -> bool:
    """Return whether a GL platform draws, tried where a crash does no harm."""
    if ctypes.util.find_library(_LIBRARIES[name]) is None:
        return False
    command, platform = [sys.executable, "-c", _PROBE], os.environ | {"MUJOCO_GL": name}
    options: dict = {"capture_output": True, "text": True, "env": platform}
    try:
        done = subprocess.run(command, timeout=_PROBE_TIMEOUT_S, **options)
    except (subprocess.TimeoutExpired, OSError):
        return False
    # The exit status does not count: some drivers fail while being torn down.
    return "drawn" in done.stdout


@cache
def backend() -> str:
    """Return how this process draws: by EGL or OSMesa if one works, or in software."""
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
        self, width: int, height: int, backend: str | None = None, film: bool = False
    ):
        """With `film`, pictures take half the time or less and have less detail."""
        if width < 1 or height < 1:
            raise ValueError(f"picture of {width} x {height} pixels")
        self.size, self.film = (width, height), film
        name = globals()["backend"]() if backend is None else backend
        self.backend = _checked(name, "backend")
        self._context = None
        if self.backend != "software":
            self._open()

    def _open(self) -> None:
        film, (width, height) = self.film, self.size
        large = max(self.size) > _LARGE_PX and not film
        self._jitter = 0 * _KEY_JITTER[:1] if film else _KEY_JITTER
        cell_m = model.FILM_CELL_M if film else model.CELLS_M[-1 if large else 0]
        self._model = _stage(cell_m, len(self._jitter))
        self._data = mujoco.MjData(self._model)
        vis = self._model.vis
        vis.global_.offwidth, vis.global_.offheight = width, height
        vis.quality.shadowsize = 1024 if film else 4096 if large else 2048
        vis.quality.offsamples = 4 if film else 8
        font = mujoco.mjtFontScale.mjFONTSCALE_100
        with _quiet():
            module = importlib.import_module(f"mujoco.{self.backend}")
            self._context = module.GLContext(width, height)
            self._context.make_current()
            self._mjr = mujoco.MjrContext(self._model, font)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._mjr)
        self._scene = mujoco.MjvScene(self._model, 64 * MAX_ROBOTS)
        self._option = mujoco.MjvOption()
        self._option.geomgroup[3:] = 0
        self._option.sitegroup[:] = 0
        # At exit the driver's own hook closes the display: free the context before it.
        atexit.register(self.close)

    def __enter__(self) -> "RobotRenderer":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Release the GL context; the renderer cannot draw afterwards."""
        atexit.unregister(self.close)
        if self._context is not None:
            with _quiet():
                self._context.make_current()
                self._mjr.free()
                self._context.free()
            self._context = None

    def draw(
        self, poses: np.ndarray, camera: Camera, colours: np.ndarray | None = None
    ) -> np.ndarray:
        """Return a picture (height, width, 3) uint8 of poses (36,) or (k, 36).

        `colours` (k, 4) multiply the robot's own; alpha below 1 makes a ghost.
        """
        poses = np.atleast_2d(np.asarray(poses, dtype=float))
        if poses.ndim != 2 or poses.shape[1] != g1.QPOS_SIZE or not len(poses):
            raise ValueError(f"poses of shape {poses.shape}, expected (k, 36)")
        if len(poses) > MAX_ROBOTS:
            raise ValueError(f"{len(poses)} robots, at most {MAX_ROBOTS} in a picture")
        if not np.isfinite(poses).all():
            raise ValueError("poses contain NaN or infinity")
        tints = np.ones((len(poses), 4))
        if colours is not None:
            tints[:] = colours
        if self.backend == "software":
            return software.draw(poses, camera, *self.size, tints, self.film)
        if self._context is None:
            raise ValueError("this renderer is closed")
        self._context.make_current()
        self._place(poses, camera, tints)
        self._light(camera, poses)
        width, height = self.size
        rect = mujoco.MjrRect(0, 0, width, height)
        picture = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_render(rect, self._scene, self._mjr)
        mujoco.mjr_readPixels(picture, None, rect, self._mjr)
        return picture[::-1].copy()

    def _place(self, poses, camera: Camera, tints) -> None:
        self._model.vis.global_.fovy = camera.fovy_deg
        free, start = mujoco.MjvCamera(), 0
        free.lookat[:], free.distance = camera.lookat, camera.distance
        free.azimuth, free.elevation = camera.azimuth_deg, camera.elevation_deg
        everything, moving = mujoco.mjtCatBit.mjCAT_ALL, mujoco.mjtCatBit.mjCAT_DYNAMIC
        common = self._model, self._data, self._option, mujoco.MjvPerturb()
        for i, (pose, tint) in enumerate(zip(poses, tints, strict=True)):
            self._data.qpos[:] = pose
            mujoco.mj_kinematics(self._model, self._data)
            mujoco.mj_camlight(self._model, self._data)
            if i == 0:
                mujoco.mjv_updateScene(*common, free, everything.value, self._scene)
            else:
                mujoco.mjv_addGeoms(*common, moving.value, self._scene)
            for geom in self._scene.geoms[start : self._scene.ngeom]:
                if geom.category == moving:
                    geom.rgba *= tint
                else:
                    # An infinite plane shades itself in the shadow map; a finite one
                    # follows the camera in whole squares, so its pattern stays put.
                    whole = 2 * model.CHECKER_M
                    geom.pos[:2] = whole * np.round(np.array(camera.lookat[:2]) / whole)
            start = self._scene.ngeom

    def _light(self, camera: Camera, poses) -> None:
        """Turn the lights with the camera, and fade the floor around the robots."""
        lights = [light for light in self._scene.lights if not light.headlight]
        centre = np.array([*poses[:, :2].mean(axis=0), 0.6])
        key, *others = camera.lights_w
        side = np.cross(key, [0.0, 0.0, 1.0])
        keys = [key + a * side + b * np.cross(side, key) for a, b in self._jitter]
        for light, towards in zip(lights, [*keys, *others], strict=False):
            light.dir[:], light.pos[:] = -towards, centre + _LAMP_M * towards
        # The side of the shadow map towards the lamp speckles: keep it out of sight.
        spread = np.linalg.norm(poses[:, :2] - centre[:2], axis=1).max()
        self._mjr.shadowClip = (3.0 if self.film else 6.0) + spread
        # MuJoCo sets the fog's range once per context: move it with the camera here.
        start, end = np.add(camera.distance, model.FADE_M)
        gl = importlib.import_module("OpenGL.GL")
        gl.glFogf(gl.GL_FOG_START, start)
        gl.glFogf(gl.GL_FOG_END, end)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_FOG] = True
        self._scene.flags[mujoco.mjtRndFlag.mjRND_HAZE] = False


@contextlib.contextmanager
def _quiet():
    """Drop what drivers write to the process's stderr."""
    sys.stderr.flush()
    saved, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)


@lru_cache(maxsize=3)
def _stage(cell_m: float, keys: int) -> mujoco.MjModel:
    """Build the G1 on the same floor and under the same light as in software.

    Several key lights stand side by side: MuJoCo's shadows are hard, their sum is soft.
    The robot is drawn once more for each.
    """
    spec = model.build_spec(meshes=True, floor=False)
    for light in list(spec.lights):
        spec.delete(light)  # the MJCF's spotlight rides on the robot
    for name, kind, builtin, size, first, second in (
        ("sky", "SKYBOX", "GRADIENT", (256, 1536), model.ZENITH_RGB, model.HORIZON_RGB),
        ("checker", "2D", "CHECKER", (512, 512), model.FLOOR_RGB, model.CHECKER_RGB),
    ):
        texture = spec.add_texture(name=name, rgb1=first, rgb2=second)
        texture.type = getattr(mujoco.mjtTexture, f"mjTEXTURE_{kind}")
        texture.builtin = getattr(mujoco.mjtBuiltin, f"mjBUILTIN_{builtin}")
        texture.width, texture.height = size
    floor = spec.add_material(name="floor", texuniform=True, specular=0.0)
    floor.emission = 0.01  # makes up for the lamps that graze the floor
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "checker"
    floor.texrepeat = [1.0 / model.CHECKER_M] * 2
    plane = {"type": mujoco.mjtGeom.mjGEOM_PLANE, "size": [_FLOOR_M, _FLOOR_M, 0.05]}
    spec.worldbody.add_geom(name="floor", material="floor", **plane)
    for i, strength in enumerate([_KEY_STRENGTH / keys] * keys + [0.18, 0.22]):
        spec.worldbody.add_light(
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
            castshadow=i < keys,
            diffuse=[strength] * 3,
            specular=[0.5 * strength] * 3,
        )
    built = spec.compile()
    _thin(built, cell_m)
    # Fixed-function light is summed in display colours, so the same paint looks darker.
    paint = [i for i in range(built.nmat) if built.material(i).name != "floor"]
    built.mat_rgba[paint, :3] = (1.3 * built.mat_rgba[paint, :3]).clip(0, 0.93)
    built.vis.headlight.ambient[:] = 0.50
    built.vis.headlight.diffuse[:] = built.vis.headlight.specular[:] = 0.0
    built.vis.rgba.fog[:3] = built.vis.rgba.haze[:3] = model.HORIZON_RGB
    built.stat.extent = 1.0
    built.vis.map.znear, built.vis.map.zfar = 0.05, 60.0
    return built


def _thin(built: mujoco.MjModel, cell_m: float) -> None:
    """Replace the robot's meshes by thinned ones.

    Without a GPU, drawing takes time per triangle, and most are smaller than a pixel.
    """
    thin, source = model.robot_mesh(cell_m), model.visual_model()
    for geom in np.unique(thin.face_geom):
        mesh = source.geom_dataid[geom]
        faces = np.flatnonzero(thin.face_geom == geom)
        vertices = np.flatnonzero(thin.vertex_geom == geom)
        corners = thin.normal[faces].reshape(-1, 3)
        normals, corner = np.unique(corners, axis=0, return_inverse=True)
        if len(normals) > built.mesh_normalnum[mesh]:
            continue  # it would not fit
        for name, number, first, values in (
            ("vert", "vertnum", "vertadr", thin.vertex[vertices]),
            ("normal", "normalnum", "normaladr", normals),
            ("face", "facenum", "faceadr", thin.face[faces] - vertices[0]),
            ("facenormal", "facenum", "faceadr", corner.reshape(-1, 3)),
        ):
            start = getattr(built, f"mesh_{first}")[mesh]
            getattr(built, f"mesh_{name}")[start : start + len(values)] = values
            getattr(built, f"mesh_{number}")[mesh] = len(values)
