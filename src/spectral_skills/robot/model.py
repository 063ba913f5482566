"""The G1 as a MuJoCo model, and what its pictures share: camera, lights, thin meshes.

The model is built from the MJCF inside the mjlab distribution.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path

import mujoco
import numpy as np

from spectral_skills.robot import g1

_MJCF = "asset_zoo/robots/unitree_g1/xmls/g1.xml"
HORIZON_RGB = np.array([0.945, 0.953, 0.965])
ZENITH_RGB = np.array([0.800, 0.850, 0.910])
FLOOR_RGB = np.array([0.895, 0.905, 0.920])
CHECKER_RGB = np.array([0.845, 0.858, 0.880])
CHECKER_M = 0.5
FADE_M = (2.0, 8.0)
"""The floor fades into the horizon between these distances from the lookat point."""
CELLS_M = (0.0055, 0.0028, 0.0015)
"""Grid sizes of thinned meshes; the coarsest one near the size of a pixel is drawn."""
FILM_CELL_M = 0.016
"""Grid size for films, whose pictures are seen only briefly."""

# Directions towards the key, fill and rim light in the camera's heading frame (right,
# ahead, up): lights turn with the camera, so every panel is lit from the same side.
_LIGHTS = np.array([[-0.48, -0.55, 0.95], [0.85, -0.45, 0.30], [0.45, 0.80, 0.55]])
_LIGHTS /= np.linalg.norm(_LIGHTS, axis=1, keepdims=True)


def mjcf_path() -> Path:
    """Return the path of the G1's MJCF; mjlab is located, never imported."""
    package = find_spec("mjlab")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError(
            "the G1 model comes with mjlab, which is not installed: "
            "pip install mjlab==1.6.0"
        )
    path = Path(package.submodule_search_locations[0]) / _MJCF
    if not path.is_file():
        raise FileNotFoundError(f"{path}: mjlab 1.6.0 has this file; reinstall it")
    return path


def build_spec(*, meshes: bool, floor: bool = True) -> mujoco.MjSpec:
    """Describe the G1 with SONIC's actuators; only pictures need the `meshes`."""
    spec = mujoco.MjSpec.from_file(str(mjcf_path()))
    spec.option.timestep = g1.PHYSICS_DT_S
    if not meshes:
        looks = [g for g in spec.geoms if g.type == mujoco.mjtGeom.mjGEOM_MESH]
        for one in (*looks, *spec.meshes):
            spec.delete(one)
    for i, name in enumerate(g1.JOINTS):
        joint, effort = spec.joint(f"{name}_joint"), g1.EFFORT_LIMIT[i]
        joint.armature = g1.ARMATURE[i]
        actuator = spec.add_actuator(name=name, target=joint.name)
        actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
        actuator.set_to_position(kp=g1.STIFFNESS[i], kv=g1.DAMPING[i])
        joint.actfrclimited = actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
        joint.actfrcrange = actuator.forcerange = [-effort, effort]
    if floor:
        spec.worldbody.add_geom(
            name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05]
        )
    spec.add_key(name="default", qpos=g1.DEFAULT_QPOS, ctrl=g1.DEFAULT_JOINTS, time=0.0)
    return spec


def build_model(*, meshes: bool = False, floor: bool = True) -> mujoco.MjModel:
    return build_spec(meshes=meshes, floor=floor).compile()


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

    @cached_property
    def axes_w(self) -> np.ndarray:
        """Rows (3, 3): the camera's right, up and back in the world."""
        azimuth, elevation = np.radians([self.azimuth_deg, self.elevation_deg])
        flat = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
        ahead = np.cos(elevation) * flat + np.sin(elevation) * np.array([0, 0, 1.0])
        right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
        return np.stack([right, np.cross(right, ahead), -ahead])

    @cached_property
    def eye_w(self) -> np.ndarray:
        return np.array(self.lookat) + self.distance * self.axes_w[2]

    @cached_property
    def lights_w(self) -> np.ndarray:
        """Directions (3, 3) towards the key, fill and rim light."""
        right, up = self.axes_w[0], np.array([0.0, 0.0, 1.0])
        return _LIGHTS @ np.stack([right, np.cross(up, right), up])

    def focal_px(self, height_px: int) -> float:
        """Pixels per unit of tangent for a picture of this height."""
        return 0.5 * height_px / np.tan(np.radians(self.fovy_deg) / 2)


@dataclass(frozen=True)
class Mesh:
    """All visual triangles of the robot in the frames of their geoms."""

    vertex: np.ndarray  # (V, 3)
    vertex_geom: np.ndarray  # (V,)
    face: np.ndarray  # (F, 3)
    normal: np.ndarray  # (F, 3, 3), one per corner so that creases stay sharp
    face_geom: np.ndarray  # (F,)
    rgb: np.ndarray  # (F, 3) linear


@dataclass(frozen=True)
class Capsules:
    """Rods with round ends, of which figures beside the robot are made."""

    ends_w: np.ndarray  # (n, 2, 3), m
    radii: np.ndarray  # (n, 2) at the two ends, m
    rgb: np.ndarray  # (n, 3) as displayed


def linear(srgb: np.ndarray) -> np.ndarray:
    return np.asarray(srgb) ** 2.2


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


@lru_cache(maxsize=1)
def visual_model() -> mujoco.MjModel:
    return build_model(meshes=True, floor=False)


@lru_cache(maxsize=len(CELLS_M) + 1)
def robot_mesh(cell_m: float) -> Mesh:
    """Return the robot's visual meshes, thinned: most of 393,270 triangles are tiny."""
    m = visual_model()
    parts, offset = [], 0
    for geom in np.flatnonzero(m.geom_group == 2):
        mesh = m.geom_dataid[geom]
        v0, vn = m.mesh_vertadr[mesh], m.mesh_vertnum[mesh]
        f0, fn = m.mesh_faceadr[mesh], m.mesh_facenum[mesh]
        vertex, face, normal = _thin(
            m.mesh_vert[v0 : v0 + vn].astype(float), m.mesh_face[f0 : f0 + fn], cell_m
        )
        rgb = np.broadcast_to(linear(m.mat_rgba[m.geom_matid[geom], :3]), face.shape)
        geoms = [np.full(len(x), geom) for x in (vertex, face)]
        parts.append((vertex, geoms[0], face + offset, normal, geoms[1], rgb))
        offset += len(vertex)
    return Mesh(*(np.concatenate(p) for p in zip(*parts, strict=True)))


def _thin(vertex, face, cell_m):
    """Merge vertices by grid cell; return vertices, faces and corner normals."""
    cell = np.floor(vertex / cell_m).astype(np.int64) + (1 << 19)
    key = (cell[:, 0] << 40) | (cell[:, 1] << 20) | cell[:, 2]
    _, owner, count = np.unique(key, return_inverse=True, return_counts=True)
    columns = [np.bincount(owner, vertex[:, i]) / count for i in range(3)]
    # Area-weighted normals are averaged only among corners that face the same way: the
    # dominant axis is part of the key, or a merged edge would be shaded as a bevel.
    a, b, c = (vertex[face[:, i]] for i in range(3))
    area_normal = np.cross(b - a, c - a)
    axis = np.abs(area_normal).argmax(axis=1)
    sign = np.take_along_axis(area_normal, axis[:, None], axis=1)[:, 0] > 0
    corner = owner[face] * 6 + (2 * axis + sign)[:, None]
    group = np.unique(corner, return_inverse=True)[1].reshape(corner.shape)
    total = np.zeros((group.max() + 1, 3))
    for i in range(3):
        np.add.at(total, group[:, i], area_normal)
    face = owner[face]
    real = (face != np.roll(face, 1, axis=1)).all(axis=1)
    face, group = face[real], group[real]
    # The same triangle often survives many times; rotate its least index to the front.
    turn = (face.argmin(axis=1)[:, None] + np.arange(3)) % 3
    face, group = (np.take_along_axis(x, turn, axis=1) for x in (face, group))
    face, first = np.unique(face, axis=0, return_index=True)
    return np.stack(columns, axis=1), face, unit(total)[group[first]]
