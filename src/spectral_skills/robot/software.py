"""Pictures of the G1 without OpenGL: a shaded triangle rasteriser in NumPy.

Triangles are drawn into a visibility buffer (which triangle owns each sample), and
only visible samples are shaded: key, fill and rim light, with shadows by a depth map
seen from the key light. Nothing loops over triangles in Python. Suffixes: `_w` world
metres, `_px` samples of the picture. Colours are linear light until the last line.
"""

from functools import cache

import mujoco
import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from spectral_skills.robot import model
from spectral_skills.robot.model import Camera, Capsules, linear, unit

_SUPERSAMPLE = 2
_NEAR_M = 0.05
_TEXEL_M, _FILM_TEXEL_M = 0.004, 0.008
_AROUND, _ALONG = 18, 6
"""Corners of a capsule around its axis, and from its middle to its tip."""
_EMPTY = np.iinfo(np.int64).max
_TAP = np.arange(10)
_DISC = np.sqrt((_TAP + 0.5) / 10) * np.exp(2.399963j * _TAP)
"""Taps in the complex plane; the golden angle spreads them evenly over a disc."""


def _mix(a, b, t):
    return a + (b - a) * t


def _ramp(x, low, high):
    """Smooth step from 0 at `low` to 1 at `high`."""
    t = ((x - low) / (high - low)).clip(0, 1)
    return t * t * (3 - 2 * t)


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


class _ShadowMap:
    """Depth of the robots as seen from the key light."""

    def __init__(self, surfaces: "list[_Robots | _Figure]", to_light_w, film: bool):
        vertex_w = np.concatenate([one.vertex_w for one in surfaces])
        starts = np.cumsum([0] + [len(one.vertex_w) for one in surfaces[:-1]])
        faces = [one.face + i for one, i in zip(surfaces, starts, strict=True)]
        face = np.concatenate(faces)
        side = unit(np.cross([0.3, 1.0, 0.0], to_light_w))
        self.axes = np.stack([side, np.cross(to_light_w, side), to_light_w])
        local = vertex_w @ self.axes.T
        low, high = local.min(axis=0), local.max(axis=0)
        extent_m = (high - low)[:2].max() + 0.5
        texel_m = _FILM_TEXEL_M if film else _TEXEL_M
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
        bias_m, total = 2.5 * self.texel_m, np.zeros(len(point_w))
        # Each sample turns the disc of taps by an angle of its own.
        turn = np.exp(1j * spin)
        for tap in _DISC:
            moved = xy + 2.5 * (tap * turn)[:, None].view(float)
            column, row = moved.astype(int).clip(0, self.size - 1).T
            total += self.height_m[row, column] <= height_m + bias_m
        return total / len(_DISC)

    def on_floor(self, point_w: np.ndarray) -> np.ndarray:
        """Shadow at points of the floor: sharp under low parts, soft under others."""
        at = (np.arange(self.size) + 0.5 - self.size / 2) * self.texel_m
        u, v = self.centre[0] + at[None, :], self.centre[1] - at[:, None]
        floor_m = -(self.axes[0, 2] * u + self.axes[1, 2] * v) / self.axes[2, 2]
        low = self.hit & (self.height_m - floor_m < 0.25)
        soft = gaussian_filter(1.0 * self.hit, 0.02 / self.texel_m)
        image = np.maximum(soft, gaussian_filter(1.0 * low, 1.5))
        row_column = np.moveaxis(self._texels(point_w)[0][..., ::-1] - 0.5, -1, 0)
        return map_coordinates(image, row_column, order=1)


class _Picture:
    """One picture: posed robots, a view and the lights that follow its heading."""

    def __init__(self, qpos, camera: Camera, width: int, height: int, film: bool):
        self.camera, self.width, self.height = camera, width, height
        self.focal_px = camera.focal_px(height)
        enough_m = 1.3 * camera.distance / self.focal_px  # about one pixel
        cell_m = next((c for c in model.CELLS_M if c < enough_m), model.CELLS_M[-1])
        self.mesh = model.robot_mesh(max(cell_m, model.FILM_CELL_M) if film else cell_m)
        visual, rotations, vertices = model.visual_model(), [], []
        data, geom = mujoco.MjData(visual), self.mesh.vertex_geom
        for row in qpos:
            data.qpos[:] = row
            mujoco.mj_kinematics(visual, data)
            rotations.append(data.geom_xmat.reshape(-1, 3, 3).copy())
            turned = np.einsum("vij,vj->vi", rotations[-1][geom], self.mesh.vertex)
            vertices.append(turned + data.geom_xpos[geom])
        self.rotation = np.reshape(rotations, (len(qpos), visual.ngeom, 3, 3))
        self.vertex_w = np.reshape(vertices, (len(qpos), len(geom), 3))

    def backdrop(self, shadows: _ShadowMap | None) -> np.ndarray:
        """Sky and floor with the robots' shadow, one sample per pixel."""
        h, w = self.height, self.width
        x = (np.arange(w) + 0.5 - w / 2) / self.focal_px
        y = (h / 2 - np.arange(h) - 0.5) / self.focal_px
        ray = np.stack(np.broadcast_arrays(x[None], y[:, None], -1.0), axis=-1)
        ray = unit(ray @ self.camera.axes_w)
        horizon, zenith = linear(model.HORIZON_RGB), linear(model.ZENITH_RGB)
        sky = _mix(horizon, zenith, _ramp(ray[..., 2:], 0.0, 0.7))
        eye = self.camera.eye_w
        down = -ray[..., 2] / max(eye[2], 1e-6)
        point_w = eye + ray / np.maximum(down, 1e-3)[..., None]
        point_w[..., 2] = 0.0
        below = np.multiply(self.camera.lookat, (1, 1, 0))
        away_m = np.linalg.norm(point_w - below, axis=-1)
        fade = (1 - _ramp(away_m, *model.FADE_M)) * (down > 1e-3)
        checker = _checker(point_w[..., :2] / model.CHECKER_M)[..., None]
        colour = _mix(linear(model.FLOOR_RGB), linear(model.CHECKER_RGB), checker)
        if shadows is not None:
            # Shadows are lit by the sky alone, which is a little blue.
            colour *= 1 - shadows.on_floor(point_w)[..., None] * (0.66, 0.63, 0.58)
        return _mix(sky, colour, fade[..., None])

    def layer(self, surface: "_Robots | _Figure", shadows: _ShadowMap | None):
        """A surface as indices of samples, its depth in metres and linear colour."""
        w, h = self.width * _SUPERSAMPLE, self.height * _SUPERSAMPLE
        vertex_w, faces = surface.vertex_w, surface.face
        local = (vertex_w - self.camera.eye_w) @ self.camera.axes_w.T
        z_m = np.maximum(-local[:, 2], _NEAR_M)
        flat = local[:, :2] * (1, -1) / z_m[:, None]
        xy_px = np.array([w, h]) / 2 + self.focal_px * _SUPERSAMPLE * flat
        # NaN fails every test: triangles that reach behind the eye are dropped.
        xy_px[z_m <= _NEAR_M] = np.nan
        owner, depth = visible(xy_px, -1.0 / z_m, faces, w, h)
        row, column = np.nonzero(owner >= 0)
        ids = owner[row, column]
        corner = faces[ids]
        weight = _weights(xy_px[corner], np.stack([column, row], axis=1) + 0.5)
        weight = weight / z_m[corner]
        weight /= weight.sum(axis=1, keepdims=True)
        point_w = np.einsum("nc,nci->ni", weight, vertex_w[corner])
        normal, base = surface.look(ids, weight)
        lit = np.ones(len(ids))
        if shadows is not None:
            # Four turns of the taps, one per sample of a pixel, average to a fine disc.
            spin = (2 * (row % 2) + column % 2) * (np.pi / 8)
            lit = shadows.lit(point_w + 0.004 * normal, spin)
        colour = self._shade(base, normal, point_w, lit)
        # The floor hides what is below it.
        seen = (point_w[:, 2] > -1e-3) | (self.camera.eye_w[2] < 0)
        return row[seen], column[seen], -1.0 / depth[row, column][seen], colour[seen]

    def _shade(self, base, normal, point_w, lit) -> np.ndarray:
        key_w, fill_w, rim_w = self.camera.lights_w
        to_eye = unit(self.camera.eye_w - point_w)
        grazing = (1 - np.einsum("ni,ni->n", normal, to_eye).clip(0, 1)) ** 3
        up = 0.5 + 0.5 * normal[:, 2]
        key = (normal @ key_w).clip(0) * lit
        fill, rim = (normal @ fill_w).clip(0), grazing * (normal @ rim_w + 0.25).clip(0)
        # Sky from above, floor light from below, less of it close to the floor.
        bounce = 0.34 * (0.35 + 0.65 * _ramp(point_w[:, 2], 0.0, 0.4))
        sky = _mix(bounce, 0.55, up)[:, None] * (0.88, 0.92, 0.98)
        half = unit(key_w + to_eye)
        glint = (np.einsum("ni,ni->n", normal, half).clip(0) ** 38) * lit
        mirror = (0.03 + 0.35 * grazing) * (0.25 + 0.75 * up)
        warm = key[:, None] * (1.28, 1.22, 1.14)
        cool = fill[:, None] * (0.2, 0.23, 0.28)
        shine = 0.22 * glint + 0.28 * mirror + 0.5 * rim
        return base * (sky + warm + cool) + shine[:, None]


class _Robots:
    """Triangles of some robots of a picture."""

    def __init__(self, picture: _Picture, robots, tints):
        self.mesh, self.tints = picture.mesh, linear(tints)
        self.rotation = picture.rotation[robots]
        self.vertex_w = picture.vertex_w[robots].reshape(-1, 3)
        start = np.arange(len(robots))[:, None, None] * len(self.mesh.vertex)
        self.face = (self.mesh.face + start).reshape(-1, 3)

    def look(self, ids, weight):
        """Normals and colours at samples of triangles."""
        robot, face = np.divmod(ids, len(self.mesh.face))
        normal = np.einsum("nc,nci->ni", weight, self.mesh.normal[face])
        rotation = self.rotation[robot, self.mesh.face_geom[face]]
        normal = unit(np.einsum("nij,nj->ni", rotation, normal))
        return normal, self.mesh.rgb[face] * self.tints[robot]


class _Figure:
    """Triangles of capsules."""

    def __init__(self, capsules: Capsules):
        ball, face = _ball()
        axis = unit(np.diff(capsules.ends_w, axis=1)[:, 0] + (0, 0, 1e-9))
        helper = np.eye(3)[np.abs(axis).argmin(axis=1)]
        side = unit(np.cross(helper, axis))
        turn = np.stack([side, np.cross(axis, side), axis], axis=1)
        normal = ball @ turn  # (n, corners, 3)
        half = len(ball) // 2
        middle_w = np.repeat(capsules.ends_w, half, axis=1)
        radius = np.repeat(capsules.radii, half, axis=1)[..., None]
        self.vertex_w = (middle_w + radius * normal).reshape(-1, 3)
        start = np.arange(len(axis))[:, None, None] * len(ball)
        self.face, self.normal = (face + start).reshape(-1, 3), normal.reshape(-1, 3)
        self.rgb = np.repeat(linear(capsules.rgb), len(face), axis=0)

    def look(self, ids, weight):
        """Normals and colours at samples of triangles."""
        corners = self.normal[self.face[ids]]
        return unit(np.einsum("nc,nci->ni", weight, corners)), self.rgb[ids]


@cache
def _ball() -> tuple[np.ndarray, np.ndarray]:
    """Corners of a unit ball, its lower half first, and its triangles.

    Both halves have a ring at the equator: apart from each other they are a capsule.
    """
    rise = np.linspace(0, np.pi / 2, _ALONG)
    rise = np.concatenate((-rise[::-1], rise))[:, None]
    turn = np.linspace(0, 2 * np.pi, _AROUND, endpoint=False)[None]
    flat = np.cos(rise)
    ball = np.stack(
        np.broadcast_arrays(flat * np.cos(turn), flat * np.sin(turn), np.sin(rise)), -1
    )
    a = np.arange(_AROUND * (2 * _ALONG - 1)).reshape(-1, _AROUND)
    b = np.roll(a, -1, axis=1)
    up = _AROUND
    faces = np.stack([[a, b, b + up], [a, b + up, a + up]])
    return ball.reshape(-1, 3), np.moveaxis(faces, 1, -1).reshape(-1, 3)


def _weights(corner_px: np.ndarray, at_px: np.ndarray) -> np.ndarray:
    """Barycentric weights (n, 3) of points in triangles of the picture."""
    (ax, ay), (bx, by), (cx, cy) = np.moveaxis(corner_px, 0, -1)
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
    camera: Camera,
    width: int,
    height: int,
    colours,
    film: bool = False,
    figures: Capsules | None = None,
):
    """Picture (uint8) of robots at `qpos` (k, 36), tinted by `colours` (k, 4).

    `figures` stand on the same floor, also where there is no robot.
    """
    picture = _Picture(qpos, camera, width, height, film)
    solid = np.flatnonzero(colours[:, 3] >= 1.0)
    surfaces: list[_Robots | _Figure] = []
    if len(solid):
        surfaces.append(_Robots(picture, solid, colours[solid, :3]))
    if figures is not None:
        surfaces.append(_Figure(figures))
    shadows = _ShadowMap(surfaces, camera.lights_w[0], film) if surfaces else None
    light = picture.backdrop(shadows).reshape(-1, 3)
    nearest_m = np.full((height * _SUPERSAMPLE, width * _SUPERSAMPLE), np.inf)
    middle_w = picture.vertex_w.mean(axis=1)
    ghosts = [i for i in range(len(qpos)) if i not in solid]
    ghosts.sort(key=lambda i: -np.linalg.norm(middle_w[i] - camera.eye_w))
    seen_through = [_Robots(picture, [i], colours[[i], :3]) for i in ghosts]
    alphas = [1.0] * len(surfaces) + [colours[i, 3] for i in ghosts]
    for surface, alpha in zip(surfaces + seen_through, alphas, strict=True):
        row, column, depth_m, colour = picture.layer(surface, shadows)
        front = depth_m < nearest_m[row, column]
        row, column, depth_m = row[front], column[front], depth_m[front]
        if alpha >= 1.0:
            nearest_m[row, column] = depth_m
        pixel = row // _SUPERSAMPLE * width + column // _SUPERSAMPLE
        share = alpha / _SUPERSAMPLE**2
        cover = share * np.bincount(pixel, minlength=len(light))[:, None]
        added = [np.bincount(pixel, colour[front, i], len(light)) for i in range(3)]
        light = light * (1 - cover) + share * np.stack(added, axis=1)
    # A soft shoulder keeps highlights from clipping to flat white.
    light = np.where(light > 0.8, 0.8 + 0.2 * np.tanh((light - 0.8) / 0.2), light)
    display = 255 * light.clip(0, 1) ** (1 / 2.2) + 0.5
    return display.astype(np.uint8).reshape(height, width, 3)
