"""Pictures of the G1 without OpenGL: a shaded triangle rasteriser in NumPy.

The robot's own visual meshes are thinned once to the size of a pixel, drawn into a
visibility buffer (which triangle owns each sample), and only the visible samples are
shaded: key, fill and rim light, shadow map, screen-space occlusion, soft floor shadow.
Suffixes: `_w` world metres, `_px` samples of the picture. Colours are linear light
until the last line.
"""

import mujoco
import numpy as np

from spectral_skills.robot import studio
from spectral_skills.robot.raster import (
    CELLS_M,
    DISC,
    FILM_CELL_M,
    LightMap,
    linear,
    mix,
    ramp,
    robot_mesh,
    spun,
    unit,
    visible,
    visual_model,
)

_SUPERSAMPLE = 2
_NEAR_M = 0.05
_OCCLUSION_M = 0.06


class _Scene:
    """One picture: posed robots, a view and the lights that follow its heading."""

    def __init__(
        self, qpos, camera: studio.Camera, width: int, height: int, film: bool
    ):
        self.camera, self.width, self.height = camera, width, height
        self.film = film
        self.focal_px = camera.focal_px(height)
        enough_m = 1.3 * camera.distance / self.focal_px  # about one pixel
        cell_m = next((c for c in CELLS_M if c < enough_m), CELLS_M[-1])
        self.mesh = robot_mesh(max(cell_m, FILM_CELL_M) if film else cell_m)
        model, posed = visual_model(), []
        data = mujoco.MjData(model)
        for q in qpos:
            data.qpos[:] = q
            mujoco.mj_kinematics(model, data)
            posed.append(
                (data.geom_xpos.copy(), data.geom_xmat.reshape(-1, 3, 3).copy())
            )
        self.rotation = np.stack([r for _, r in posed])  # (k, geoms, 3, 3)
        geom = self.mesh.vertex_geom
        vertex = [
            np.einsum("vij,vj->vi", r[geom], self.mesh.vertex) + p[geom]
            for p, r in posed
        ]
        self.vertex_w = np.stack(vertex)  # (k, V, 3)
        self.key, self.fill, self.rim = camera.lights_w

    def triangles(self, robots):
        """Vertices of some robots and the faces among them."""
        start = np.arange(len(robots))[:, None, None] * len(self.mesh.vertex)
        face = (self.mesh.face + start).reshape(-1, 3)
        return self.vertex_w[robots].reshape(-1, 3), face

    def backdrop(self, maps) -> np.ndarray:
        """Sky and floor with the robots' shadow, one sample per pixel."""
        h, w = self.height, self.width
        x = (np.arange(w) + 0.5 - w / 2) / self.focal_px
        y = (h / 2 - np.arange(h) - 0.5) / self.focal_px
        ray = np.stack(np.broadcast_arrays(x[None], y[:, None], -1.0), axis=-1)
        ray = unit(ray @ self.camera.axes_w)
        sky = mix(
            linear(studio.HORIZON_RGB),
            linear(studio.ZENITH_RGB),
            ramp(ray[..., 2:], 0.0, 0.7),
        )
        eye = self.camera.eye_w
        down = -ray[..., 2] / max(eye[2], 1e-6)
        reach_m = 1.0 / np.maximum(down, 1e-3)
        point_w = eye + reach_m[..., None] * ray
        point_w[..., 2] = 0.0
        away_m = np.linalg.norm(
            point_w - np.multiply(self.camera.lookat, (1, 1, 0)), axis=-1
        )
        fade = 1 - ramp(away_m, *studio.FADE_M)
        fade = (fade * (down > 1e-3))[..., None]
        checker = _checker(point_w[..., :2] / studio.CHECKER_M)[..., None]
        colour = mix(linear(studio.FLOOR_RGB), linear(studio.CHECKER_RGB), checker)
        if maps is not None:
            key_map, below_map = maps
            shadow = key_map.sample(key_map.floor_shadow(), point_w)[..., None]
            contact = below_map.sample(below_map.contact(), point_w)[..., None]
            # Shadows are lit by the sky alone, which is a little blue.
            colour = colour * (1 - shadow * (0.62, 0.59, 0.54)) * (1 - 0.75 * contact)
        return mix(sky, colour, fade)

    def layer(self, robots, tints, maps):
        """Robots as sample indices (row, column), depth in metres and linear colour."""
        w, h = self.width * _SUPERSAMPLE, self.height * _SUPERSAMPLE
        focal, size = self.focal_px * _SUPERSAMPLE, np.array([w, h])
        vertex_w, faces = self.triangles(robots)
        local = (vertex_w - self.camera.eye_w) @ self.camera.axes_w.T
        z_m = np.maximum(-local[:, 2], _NEAR_M)
        xy_px = size / 2 + focal * local[:, :2] * (1, -1) / z_m[:, None]
        # NaN fails every test: triangles that reach behind the eye are left out.
        xy_px[z_m <= _NEAR_M] = np.nan
        owner, depth = visible(xy_px, -1.0 / z_m, faces, w, h)
        row, column = np.nonzero(owner >= 0)
        ids = owner[row, column]
        corner = faces[ids]
        weight = _weights(xy_px[corner], np.stack([column, row], axis=1) + 0.5)
        weight = weight / z_m[corner]
        weight /= weight.sum(axis=1, keepdims=True)
        robot, face = np.divmod(ids, len(self.mesh.face))
        point_w = np.einsum("nc,nci->ni", weight, vertex_w[corner])
        normal = np.einsum("nc,nci->ni", weight, self.mesh.normal[face])
        rotation = self.rotation[np.asarray(robots)[robot], self.mesh.face_geom[face]]
        normal = unit(np.einsum("nij,nj->ni", rotation, normal))
        # Four turns of the tap disc, one per sample of a pixel, average to a fine one.
        spin = (2 * (row % 2) + column % 2) * (np.pi / 8)
        open_sky = np.ones(len(ids))
        if not self.film:
            open_sky = self._occlusion(owner, depth, row, column, normal, spin)
        lit = maps[0].lit(point_w + 0.004 * normal, spin) if maps else np.ones(len(ids))
        base = self.mesh.rgb[face] * linear(tints)[robot]
        colour = self._shade(base, normal, point_w, open_sky, lit)
        seen = (point_w[:, 2] > -1e-3) | (
            self.camera.eye_w[2] < 0
        )  # the floor is solid
        return row[seen], column[seen], -1.0 / depth[row, column][seen], colour[seen]

    def _occlusion(self, owner, depth, row, column, normal_w, spin) -> np.ndarray:
        """Share of the sky that neighbouring samples leave open (screen space)."""
        h, w = owner.shape
        focal = self.focal_px * _SUPERSAMPLE
        z_m = -1.0 / np.where(owner >= 0, depth, -1e-3)
        normal = normal_w @ self.camera.axes_w.T
        here_z = z_m[row, column]
        here = np.stack([column + 0.5 - w / 2, h / 2 - row - 0.5], axis=1)
        blocked = np.zeros(len(row))
        for tap in DISC:
            step = spun(tap, spin) * (focal * _OCCLUSION_M / here_z)[:, None]
            there = here + np.rint(step)
            c = (there[:, 0] + w / 2).astype(int).clip(0, w - 1)
            r = (h / 2 - there[:, 1]).astype(int).clip(0, h - 1)
            z = z_m[r, c]
            away = np.stack(
                [
                    (there[:, 0] * z - here[:, 0] * here_z) / focal,
                    (there[:, 1] * z - here[:, 1] * here_z) / focal,
                    here_z - z,
                ],
                axis=1,
            )
            distance = np.linalg.norm(away, axis=1) + 1e-6
            rise = np.einsum("ni,ni->n", away, normal) / distance - 0.12
            blocked += rise.clip(0) * (
                1 - ramp(distance, _OCCLUSION_M, 3 * _OCCLUSION_M)
            )
        return (1 - 1.9 * blocked / len(DISC)).clip(0.15, 1)

    def _shade(self, base, normal, point_w, open_sky, lit) -> np.ndarray:
        to_eye = unit(self.camera.eye_w - point_w)
        facing = np.einsum("ni,ni->n", normal, to_eye).clip(0, 1)
        up = 0.5 + 0.5 * normal[:, 2]
        key = (normal @ self.key).clip(0) * lit
        fill = (normal @ self.fill).clip(0) * open_sky
        grazing = (1 - facing) ** 3
        rim = grazing * (normal @ self.rim + 0.25).clip(0) * open_sky
        # Sky from above, floor light from below, less of it close to the floor.
        bounce = 0.34 * (0.35 + 0.65 * ramp(point_w[:, 2], 0.0, 0.4))
        sky = (mix(bounce, 0.55, up) * open_sky)[:, None] * (0.96, 1.0, 1.06)
        half = unit(self.key + to_eye)
        glint = (np.einsum("ni,ni->n", normal, half).clip(0) ** 38) * lit
        mirror = (0.03 + 0.35 * grazing) * open_sky * (0.25 + 0.75 * up)
        colour = base * (
            sky + key[:, None] * (1.28, 1.22, 1.14) + fill[:, None] * (0.24, 0.27, 0.32)
        )
        return colour + (0.22 * glint + 0.32 * mirror + 0.55 * rim)[:, None]


def _weights(corner_px: np.ndarray, at_px: np.ndarray) -> np.ndarray:
    """Barycentric weights of points in triangles of the picture, (n, 3)."""
    (ax, ay), (bx, by), (cx, cy) = (
        np.moveaxis(corner_px[:, i], -1, 0) for i in range(3)
    )
    x, y = at_px.T
    area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    b = ((x - ax) * (cy - ay) - (cx - ax) * (y - ay)) / area
    c = ((bx - ax) * (y - ay) - (x - ax) * (by - ay)) / area
    return np.stack([1 - b - c, b, c], axis=1)


def _checker(at: np.ndarray) -> np.ndarray:
    """Checkerboard of unit squares, averaged over each pixel's footprint."""
    down, across = np.gradient(at, axis=(0, 1))
    width = (np.abs(down) + np.abs(across)).clip(1e-4)

    def wave(x):
        return np.abs(x / 2 - np.floor(x / 2) - 0.5)

    stripe = 2 * (wave(at - width / 2) - wave(at + width / 2)) / width
    return 0.5 - 0.5 * stripe[..., 0] * stripe[..., 1]


def draw(
    qpos,
    camera: studio.Camera,
    width: int,
    height: int,
    colours,
    film: bool = False,
) -> np.ndarray:
    """Picture of robots at `qpos` (k, 36) tinted by `colours` (k, 4), uint8.

    For a `film` without occlusion, which takes as long as all the rest.
    """
    scene = _Scene(qpos, camera, width, height, film)
    solid = np.flatnonzero(colours[:, 3] >= 1.0)
    maps = None
    if len(solid):
        casting = scene.triangles(solid)
        below = np.array([0.0, 0.0, -1.0])
        maps = LightMap(*casting, scene.key, 0.004), LightMap(*casting, below, 0.008)
    picture = scene.backdrop(maps).reshape(-1, 3)
    nearest_m = np.full((height * _SUPERSAMPLE, width * _SUPERSAMPLE), np.inf)
    middle_w = scene.vertex_w.mean(axis=1)
    ghosts = [i for i in range(len(qpos)) if i not in solid]
    ghosts.sort(key=lambda i: -np.linalg.norm(middle_w[i] - camera.eye_w))
    for robots in ([solid] if len(solid) else []) + [[i] for i in ghosts]:
        row, column, depth_m, colour = scene.layer(robots, colours[robots, :3], maps)
        front = depth_m < nearest_m[row, column]
        row, column, depth_m = row[front], column[front], depth_m[front]
        alpha = colours[robots[0], 3]
        if alpha >= 1.0:
            nearest_m[row, column] = depth_m
        pixel = row // _SUPERSAMPLE * width + column // _SUPERSAMPLE
        share = alpha / _SUPERSAMPLE**2
        cover = share * np.bincount(pixel, minlength=len(picture))[:, None]
        light = [np.bincount(pixel, colour[front, i], len(picture)) for i in range(3)]
        picture = picture * (1 - cover) + share * np.stack(light, axis=1)
    # A soft shoulder keeps highlights from clipping to flat white.
    picture = np.where(
        picture > 0.8, 0.8 + 0.2 * np.tanh((picture - 0.8) / 0.2), picture
    )
    return (
        (255 * picture.clip(0, 1) ** (1 / 2.2) + 0.5)
        .astype(np.uint8)
        .reshape(height, width, 3)
    )
