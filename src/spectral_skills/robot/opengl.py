"""Pictures of the G1 by MuJoCo's OpenGL renderer on an offscreen context."""

import atexit
import contextlib
import importlib
import os
import sys
from functools import lru_cache

import mujoco
import numpy as np

from spectral_skills.robot import studio
from spectral_skills.robot.model import build_spec
from spectral_skills.robot.raster import CELLS_M, FILM_CELL_M, robot_mesh, visual_model

MAX_ROBOTS = 64
_KEY_STRENGTH = 0.46
_LAMP_M = 4.0
_FLOOR_M = 12.0
_LARGE_PX = 512
_KEY_JITTER = 0.025 * np.array([[0.0, 1.0], [-0.9, -0.5], [0.9, -0.5]])


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
    """The G1 on the same floor, under the same light as the software pictures.

    Several key lights side by side: MuJoCo's shadows are hard, their sum is soft. A
    robot is drawn once more for each.
    """
    spec = build_spec(meshes=True, floor=False)
    for light in list(spec.lights):
        spec.delete(light)  # the MJCF's spotlight rides on the robot
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=studio.ZENITH_RGB,
        rgb2=studio.HORIZON_RGB,
        width=256,
        height=1536,
    )
    spec.add_texture(
        name="checker",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=studio.FLOOR_RGB,
        rgb2=studio.CHECKER_RGB,
        width=512,
        height=512,
    )
    floor = spec.add_material(name="floor", texuniform=True, specular=0.0)
    floor.emission = 0.01  # makes up for the lamps that graze the floor
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "checker"
    floor.texrepeat = [1.0 / studio.CHECKER_M] * 2
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[_FLOOR_M, _FLOOR_M, 0.05],
        material="floor",
    )
    strengths = [_KEY_STRENGTH / keys] * keys + [0.18, 0.22]
    for i, strength in enumerate(strengths):
        spec.worldbody.add_light(
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
            castshadow=i < keys,
            diffuse=[strength] * 3,
            specular=[0.5 * strength] * 3,
        )
    model = spec.compile()
    _thin(model, cell_m)
    # Fixed-function light is summed in display colours, so the same paint looks darker.
    paint = [i for i in range(model.nmat) if model.material(i).name != "floor"]
    model.mat_rgba[paint, :3] = (1.3 * model.mat_rgba[paint, :3]).clip(0, 0.93)
    model.vis.headlight.ambient[:] = 0.50
    model.vis.headlight.diffuse[:] = 0.0
    model.vis.headlight.specular[:] = 0.0
    model.vis.rgba.fog[:3] = model.vis.rgba.haze[:3] = studio.HORIZON_RGB
    model.stat.extent = 1.0
    model.vis.map.znear, model.vis.map.zfar = 0.05, 60.0
    return model


def _thin(model: mujoco.MjModel, cell_m: float) -> None:
    """Put thinned meshes in the place of the robot's: without a GPU, drawing takes
    as long as there are triangles, and most are smaller than a pixel."""
    thin, source = robot_mesh(cell_m), visual_model()
    for geom in np.unique(thin.face_geom):
        mesh = source.geom_dataid[geom]
        faces = np.flatnonzero(thin.face_geom == geom)
        vertices = np.flatnonzero(thin.vertex_geom == geom)
        normals, corner = np.unique(
            thin.normal[faces].reshape(-1, 3), axis=0, return_inverse=True
        )
        if len(normals) > model.mesh_normalnum[mesh]:
            continue  # it would not fit
        v0, n0 = model.mesh_vertadr[mesh], model.mesh_normaladr[mesh]
        f0 = model.mesh_faceadr[mesh]
        model.mesh_vert[v0 : v0 + len(vertices)] = thin.vertex[vertices]
        model.mesh_normal[n0 : n0 + len(normals)] = normals
        model.mesh_face[f0 : f0 + len(faces)] = thin.face[faces] - vertices[0]
        model.mesh_facenormal[f0 : f0 + len(faces)] = corner.reshape(-1, 3)
        model.mesh_vertnum[mesh] = len(vertices)
        model.mesh_normalnum[mesh] = len(normals)
        model.mesh_facenum[mesh] = len(faces)


class GlScene:
    """MuJoCo's OpenGL renderer on an offscreen context."""

    def __init__(self, platform: str, width: int, height: int, film: bool = False):
        large = max(width, height) > _LARGE_PX and not film
        self.jitter = 0 * _KEY_JITTER[:1] if film else _KEY_JITTER
        cell_m = FILM_CELL_M if film else CELLS_M[-1 if large else 0]
        self.model = _stage(cell_m, len(self.jitter))
        self.size = width, height
        self.data = mujoco.MjData(self.model)
        self.model.vis.global_.offwidth = width
        self.model.vis.global_.offheight = height
        quality = self.model.vis.quality
        quality.shadowsize = 1024 if film else 4096 if large else 2048
        quality.offsamples = 4 if film else 8
        self.clip_m = 3.0 if film else 6.0
        with _quiet():
            self.context = importlib.import_module(f"mujoco.{platform}").GLContext(
                width, height
            )
            self.context.make_current()
            self.mjr = mujoco.MjrContext(
                self.model, mujoco.mjtFontScale.mjFONTSCALE_100
            )
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self.mjr)
        self.scene = mujoco.MjvScene(self.model, 64 * MAX_ROBOTS)
        self.option = mujoco.MjvOption()
        self.option.geomgroup[3:] = 0
        self.option.sitegroup[:] = 0
        # At exit the driver's own hook takes the display away: be earlier than that.
        atexit.register(self.close)

    def close(self) -> None:
        atexit.unregister(self.close)
        if self.context is not None:
            with _quiet():
                self.context.make_current()
                self.mjr.free()
                self.context.free()
            self.context = None

    def draw(self, poses, camera: studio.Camera, tints) -> np.ndarray:
        if self.context is None:
            raise ValueError("this renderer is closed")
        self.context.make_current()
        m, scene, everything = self.model, self.scene, mujoco.mjtCatBit.mjCAT_ALL.value
        m.vis.global_.fovy = camera.fovy_deg
        free = mujoco.MjvCamera()
        free.lookat[:], free.distance = camera.lookat, camera.distance
        free.azimuth, free.elevation = camera.azimuth_deg, camera.elevation_deg
        perturb, start = mujoco.MjvPerturb(), 0
        for i, (pose, tint) in enumerate(zip(poses, tints, strict=True)):
            self.data.qpos[:] = pose
            mujoco.mj_kinematics(m, self.data)
            mujoco.mj_camlight(m, self.data)
            if i == 0:
                mujoco.mjv_updateScene(
                    m, self.data, self.option, perturb, free, everything, scene
                )
            else:
                mujoco.mjv_addGeoms(
                    m,
                    self.data,
                    self.option,
                    perturb,
                    mujoco.mjtCatBit.mjCAT_DYNAMIC.value,
                    scene,
                )
            for geom in scene.geoms[start : scene.ngeom]:
                if geom.category == mujoco.mjtCatBit.mjCAT_DYNAMIC:
                    geom.rgba *= tint
                else:
                    # An infinite plane shades itself in the shadow map; a finite one
                    # follows the camera in whole squares, so its pattern stays put.
                    whole = 2 * studio.CHECKER_M
                    geom.pos[:2] = whole * np.round(np.array(camera.lookat[:2]) / whole)
            start = scene.ngeom
        self._light(camera, poses)
        width, height = self.size
        rect = mujoco.MjrRect(0, 0, width, height)
        picture = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_render(rect, scene, self.mjr)
        mujoco.mjr_readPixels(picture, None, rect, self.mjr)
        return picture[::-1].copy()

    def _light(self, camera: studio.Camera, poses) -> None:
        """Turn the lights with the camera, and fade the floor around the robots."""
        lights = [light for light in self.scene.lights if not light.headlight]
        centre = np.array([*poses[:, :2].mean(axis=0), 0.6])
        key, *others = camera.lights_w
        side = np.cross(key, [0.0, 0.0, 1.0])
        keys = [key + a * side + b * np.cross(side, key) for a, b in self.jitter]
        for light, towards in zip(lights, [*keys, *others], strict=False):
            light.dir[:], light.pos[:] = -towards, centre + _LAMP_M * towards
        # The side of the shadow map towards the lamp speckles: keep it out of sight.
        spread = np.linalg.norm(poses[:, :2] - centre[:2], axis=1).max()
        self.mjr.shadowClip = self.clip_m + spread
        # MuJoCo sets the fog's range once per context: move it with the camera here.
        start, end = np.add(camera.distance, studio.FADE_M)
        gl = importlib.import_module("OpenGL.GL")
        gl.glFogf(gl.GL_FOG_START, start)
        gl.glFogf(gl.GL_FOG_END, end)
        self.scene.flags[mujoco.mjtRndFlag.mjRND_FOG] = True
        self.scene.flags[mujoco.mjtRndFlag.mjRND_HAZE] = False
