"""Triangles to depth: thinned robot meshes, visibility buffer, light maps.

Most of the G1's 393,270 triangles are smaller than a pixel, so the meshes are thinned
once to a few grid sizes. Nothing here loops over triangles in Python.
"""

from dataclasses import dataclass
from functools import lru_cache

import mujoco
import numpy as np

from spectral_skills.robot.model import build_model

CELLS_M = (0.0055, 0.0028, 0.0015)
"""Thinning steps; the coarsest one near the size of a pixel is drawn."""
FILM_CELL_M = 0.016
"""For films, in which nobody looks at a picture for long."""
_EMPTY = np.iinfo(np.int64).max
_ANGLE = np.arange(10) * 2.399963  # the golden angle spreads taps evenly over a disc
DISC = np.sqrt((np.arange(10) + 0.5) / 10)[:, None] * np.stack(
    [np.cos(_ANGLE), np.sin(_ANGLE)], axis=1
)


@dataclass(frozen=True)
class Mesh:
    """All visual triangles of the robot in their geoms' frames."""

    vertex: np.ndarray  # (V, 3)
    vertex_geom: np.ndarray  # (V,)
    face: np.ndarray  # (F, 3)
    normal: np.ndarray  # (F, 3, 3), one per corner so that creases stay sharp
    face_geom: np.ndarray  # (F,)
    rgb: np.ndarray  # (F, 3) linear


@lru_cache(maxsize=1)
def visual_model() -> mujoco.MjModel:
    return build_model(meshes=True, floor=False)


def linear(srgb: np.ndarray) -> np.ndarray:
    return np.asarray(srgb) ** 2.2


def mix(a, b, t):
    return a + (b - a) * t


def ramp(x, low, high):
    """Smooth step from 0 at `low` to 1 at `high`."""
    t = ((x - low) / (high - low)).clip(0, 1)
    return t * t * (3 - 2 * t)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def _thin(vertex, face, cell_m):
    """Merge vertices by grid cell; return vertices, faces and corner normals."""
    cell = np.floor(vertex / cell_m).astype(np.int64) + (1 << 19)
    key = (cell[:, 0] << 40) | (cell[:, 1] << 20) | cell[:, 2]
    _, owner, count = np.unique(key, return_inverse=True, return_counts=True)
    centre = np.stack(
        [np.bincount(owner, vertex[:, i]) / count for i in range(3)], axis=1
    )
    # Area-weighted normals, averaged only among corners that face the same way: the
    # dominant axis is part of the key, or a merged edge would be shaded as a bevel.
    a, b, c = (vertex[face[:, i]] for i in range(3))
    area_normal = np.cross(b - a, c - a)
    axis = np.abs(area_normal).argmax(axis=1)
    sign = np.take_along_axis(area_normal, axis[:, None], axis=1)[:, 0] > 0
    corner = owner[face] * 6 + (2 * axis + sign)[:, None]
    _, group = np.unique(corner, return_inverse=True)
    group = group.reshape(corner.shape)
    total = np.zeros((group.max() + 1, 3))
    for i in range(3):
        for j in range(3):
            total[:, j] += np.bincount(group[:, i], area_normal[:, j], len(total))
    face = owner[face]
    real = (
        (face[:, 0] != face[:, 1])
        & (face[:, 1] != face[:, 2])
        & (face[:, 2] != face[:, 0])
    )
    face, group = face[real], group[real]
    # The same triangle often survives many times; rotate its least index to the front.
    turn = (face.argmin(axis=1)[:, None] + np.arange(3)) % 3
    face = np.take_along_axis(face, turn, axis=1)
    group = np.take_along_axis(group, turn, axis=1)
    face, first = np.unique(face, axis=0, return_index=True)
    return centre, face, unit(total)[group[first]]


@lru_cache(maxsize=len(CELLS_M) + 1)
def robot_mesh(cell_m: float) -> Mesh:
    """The robot's visual meshes, thinned."""
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


def visible(xy_px, depth, face, width: int, height: int):
    """Nearest front-facing triangle at each sample centre (-1: none), and its depth.

    `xy_px` (V, 2) has y down; `depth` (V,) is affine over the picture.
    """
    x, y = xy_px[:, 0][face.T], xy_px[:, 1][face.T]
    area = (x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0])
    # y points down, so a counter-clockwise (front) face has a negative area.
    keep = np.flatnonzero(area < -1e-6)
    x, y = x[:, keep], y[:, keep]
    left, top = (np.ceil(_least(v) - 0.5).clip(0) for v in (x, y))
    right = np.floor(-_least(-x) - 0.5).clip(max=width - 1)
    bottom = np.floor(-_least(-y) - 0.5).clip(max=height - 1)
    # Most triangles are smaller than a sample and cover no centre: dropped here.
    some = (right >= left) & (bottom >= top)
    keep, x, y, left, top = keep[some], x[:, some], y[:, some], left[some], top[some]
    if not len(keep):
        return np.full((height, width), -1), np.full((height, width), np.inf)
    span = np.maximum(right[some] - left, bottom[some] - top) + 1
    z = depth[face[keep].T]
    near, reach = z.min(), max(np.ptp(z), 1e-12)
    corners = np.stack([x - left, y - top, (z - near) / reach]).astype(np.float32)
    sizes = np.unique(np.ceil(1.5 ** np.arange(24)).clip(max=span.max())).astype(int)
    bucket = np.searchsorted(sizes, span)
    origin = np.stack([left, top]).astype(int)
    buffer = np.full(width * height, _EMPTY)
    for i, size in enumerate(sizes):
        members = np.flatnonzero(bucket == i)
        step = max(1, 400_000 // (size * size))
        for start in range(0, len(members), step):
            ids = members[start : start + step]
            _splat(buffer, width, size, ids, corners[:, :, ids], origin[:, ids])
    hit = buffer != _EMPTY
    owner = np.where(hit, keep[np.where(hit, buffer & 0xFFFFFFFF, 0)], -1)
    depth = np.where(hit, near + reach * (buffer >> 32) / 2**30, np.inf)
    return owner.reshape(height, width), depth.reshape(height, width)


def _least(corners: np.ndarray) -> np.ndarray:
    # Three rows: two calls of minimum are far quicker than a reduction.
    return np.minimum(np.minimum(corners[0], corners[1]), corners[2])


def _splat(buffer, width, size, ids, corners, origin):
    """Draw triangles of one size class, all their bounding boxes at once."""
    (x, y, level), (left, top) = corners, origin
    grid = np.arange(size, dtype=np.float32) + 0.5
    gain = 1.0 / ((x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]))
    inside = np.ones((len(ids), size, size), dtype=bool)
    z = np.zeros(inside.shape, dtype=np.float32)
    for i in range(3):
        a, b = (i + 1) % 3, (i + 2) % 3
        # Barycentric weight of corner i, split into its row and column parts.
        row = ((x[b] - x[a]) * gain)[:, None] * (grid - y[a][:, None])
        column = ((y[b] - y[a]) * gain)[:, None] * (grid - x[a][:, None])
        weight = row[:, :, None] - column[:, None, :]
        inside &= weight >= 0
        z += weight * level[i][:, None, None]
    which, row, column = np.nonzero(inside)
    row, column = row + top[which], column + left[which]
    # Boxes are as large as their class, so some hang over the picture's edge.
    ok = (column < width) & (row < len(buffer) // width)
    # Depth above, triangle below: one integer minimum resolves both.
    order = (z[inside].clip(0, 1).astype(float) * 2**30).astype(np.int64) << 32
    np.minimum.at(buffer, (row * width + column)[ok], (order | ids[which])[ok])


def _blur(image: np.ndarray, sigma_px: float) -> np.ndarray:
    """Gaussian blur by Fourier transform; the maps have empty borders to wrap into."""
    fy = np.fft.fftfreq(image.shape[0])[:, None]
    fx = np.fft.rfftfreq(image.shape[1])[None]
    gain = np.exp(-2 * (np.pi * sigma_px) ** 2 * (fx**2 + fy**2))
    return np.fft.irfft2(np.fft.rfft2(image) * gain, image.shape)


class LightMap:
    """Depth of the robots as seen along a direction, for shadows."""

    def __init__(self, vertex_w, face, to_light_w, texel_m: float):
        side = unit(np.cross([0.3, 1.0, 0.0], to_light_w))
        self.axes = np.stack([side, np.cross(to_light_w, side), to_light_w])
        local = vertex_w @ self.axes.T
        low, high = local.min(axis=0), local.max(axis=0)
        extent_m = (high - low)[:2].max() + 0.5
        self.size = int(np.clip(extent_m / texel_m, 64, 1024))
        self.texel_m = extent_m / self.size
        self.centre = (low + high)[:2] / 2
        xy, height_m = self._texels(vertex_w)
        _, depth = visible(xy, -height_m, face, self.size, self.size)
        self.hit = np.isfinite(depth)
        self.height_m = np.where(self.hit, -depth, -1e3)

    def _texels(self, point_w):
        """Column and row (y down) in the map, and height towards the light."""
        local = point_w @ self.axes.T
        xy = (local[..., :2] - self.centre) / self.texel_m * (1, -1) + self.size / 2
        return xy, local[..., 2]

    def lit(self, point_w: np.ndarray, spin: np.ndarray) -> np.ndarray:
        """Share of the light that reaches points of the robots."""
        xy, height_m = self._texels(point_w)
        radius, bias_m, total = 2.5, 2.5 * self.texel_m, np.zeros(len(point_w))
        for tap in DISC:
            column, row = (xy + radius * spun(tap, spin)).astype(int).T
            column, row = column.clip(0, self.size - 1), row.clip(0, self.size - 1)
            total += self.height_m[row, column] <= height_m + bias_m
        return total / len(DISC)

    def floor_shadow(self) -> np.ndarray:
        """Shadow on the floor: sharp under the feet, softer under high parts."""
        at = (np.arange(self.size) + 0.5 - self.size / 2) * self.texel_m
        u, v = self.centre[0] + at[None, :], self.centre[1] - at[:, None]
        floor_m = -(self.axes[0, 2] * u + self.axes[1, 2] * v) / self.axes[2, 2]
        mask = self.hit.astype(float)
        drop_m = np.where(self.hit, self.height_m - floor_m, 0.0).clip(0)
        wide_px = 0.03 / self.texel_m
        want_m = 0.03 * _blur(drop_m, wide_px) / (_blur(mask, wide_px) + 1e-3)
        sigmas_m = (0.005, 0.014, 0.04)
        soft = [_blur(mask, s / self.texel_m) for s in sigmas_m]
        low = ramp(want_m, sigmas_m[0], sigmas_m[1])
        high = ramp(want_m, sigmas_m[1], sigmas_m[2])
        return mix(mix(soft[0], soft[1], low), soft[2], high)

    def contact(self) -> np.ndarray:
        """Darkening under what nearly touches the floor, for a map from below."""
        gap_m = np.where(self.hit, -self.height_m, 1e3).clip(0)
        near = _blur(np.exp(-gap_m / 0.03), 0.012 / self.texel_m)
        wide = _blur(np.exp(-gap_m / 0.30), 0.07 / self.texel_m)
        return 0.55 * near + 0.45 * wide

    def sample(self, image: np.ndarray, point_w: np.ndarray) -> np.ndarray:
        """Read an image of this map, bilinearly, at world points; zero outside."""
        xy = self._texels(point_w)[0] - 0.5
        ok = ((xy > 0) & (xy < self.size - 2)).all(axis=-1)
        xy = xy.clip(0, self.size - 2)
        (c, r), (fc, fr) = (
            np.moveaxis(xy.astype(int), -1, 0),
            np.moveaxis(xy % 1, -1, 0),
        )
        top = mix(image[r, c], image[r, c + 1], fc)
        return ok * mix(top, mix(image[r + 1, c], image[r + 1, c + 1], fc), fr)


def spun(tap: np.ndarray, spin: np.ndarray) -> np.ndarray:
    """One disc tap turned by each sample's own angle."""
    cos, sin = np.cos(spin), np.sin(spin)
    return np.stack([cos * tap[0] - sin * tap[1], sin * tap[0] + cos * tap[1]], axis=-1)
