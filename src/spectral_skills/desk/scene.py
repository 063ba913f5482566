"""The 3D view: the robot, the ghost of its base, its trail, the floor under it.

The robot stays in the middle and the floor moves, so that the camera of every browser
follows it. Links hang in each other as the robot's joints do, so that only the
rotations of joints are sent. Meshes are thinned to what a screen shows: a page loads in
a second, and draws without a GPU.
"""

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import viser

from spectral_skills.desk.engine import Frame
from spectral_skills.quaternion import multiply_planes
from spectral_skills.robot.model import Mesh, robot_mesh, visual_model

CELL_M, GHOST_CELL_M = 0.012, 0.03
"""Size of the smallest details of the robot and of its ghost."""
_DECIMALS = 4
"""Decimals of what is sent: a robot that stands still then costs little."""
_PAINT = {"dark": (38, 41, 48), "light": (168, 174, 184), "ghost": (64, 132, 255)}
_GHOST_OPACITY = 0.4
_TILE_M, _TILES = 0.5, 40
_TRAIL_POINTS, _TRAIL_M, _TRAIL_Z = 160, 0.08, 0.006
_WHITE, _SHADE = (255, 255, 255), (40, 46, 56)
_TRAIL, _PUSH = (235, 120, 30), (220, 50, 40)
_PUSH_S, _PUSH_M, _CHEST_M = 0.7, 0.55, 0.25
_CAMERA, _LOOK_AT, _FOV = (3.4, -2.6, 1.5), (0.0, 0.0, 0.7), 0.62
_UNLIT: Any = {"cast_shadow": False, "receive_shadow": False}
Triangles = tuple[np.ndarray, np.ndarray]
"""Vertices (n, 3) and faces (m, 3)."""


def aim(server: viser.ViserServer) -> None:
    """Let every new browser look at the robot."""
    camera = server.initial_camera
    camera.position, camera.look_at = _CAMERA, _LOOK_AT
    # Browsers ignore the server's initial field of view.
    server.on_client_connect(lambda client: setattr(client.camera, "fov", _FOV))


@dataclass
class View:
    """What people want to see."""

    ghost: bool = True
    follow: bool = True


class SceneView:
    """The 3D view, shared by all browsers."""

    def __init__(self, server: viser.ViserServer):
        self._server, scene = server, server.scene
        self._floor = _floor(server)
        scene.configure_environment_map(None)
        scene.configure_default_lights(False)
        scene.add_light_hemisphere(
            "/lights/sky", sky_color=_WHITE, ground_color=(150, 156, 166), intensity=1.1
        )
        scene.add_light_directional(
            "/lights/key", intensity=1.9, position=(2.0, -1.4, 4.0)
        )
        self._shade = _shade(server)
        self.robot = Figure(server, "/robot")
        self.ghost = Figure(server, "/ghost", ghost=True)
        none = np.zeros((1, 2, 3), np.float32)
        self._trail = scene.add_line_segments("/trail", none, _TRAIL, thickness=0.025)
        self._arrow = scene.add_arrows("/push", none, _PUSH, visible=False)
        self._arrow_until = 0.0
        self._points: deque[np.ndarray] = deque(maxlen=_TRAIL_POINTS)

    @property
    def pushing(self) -> bool:
        """Whether an arrow is visible, which will have to be hidden."""
        return self._arrow.visible

    def clear_trail(self) -> None:
        self._points.clear()

    def draw(self, frame: Frame, view: View) -> None:
        row = frame.row
        if not np.isfinite(row).all():
            return
        away = np.array((row[0], row[1], 0.0)) if view.follow else np.zeros(3)
        with self._server.atomic():
            self.robot.pose(row, row[:3] - away)
            ghost = frame.ghost if view.ghost else None
            self.ghost.visible = ghost is not None
            if ghost is not None:
                self.ghost.pose(ghost, ghost[:3] - away)
            # The pattern repeats, so the floor never has to move far.
            self._floor.position = -np.remainder(away, 2 * _TILE_M).round(3)
            self._shade.position = row[:3] * (1.0, 1.0, 0.0) - away
            self._trail.position = -away.round(3)
            self._arrow.visible = time.monotonic() < self._arrow_until
            if self._arrow.visible:
                self._arrow.position = row[:3] - away
        last = self._points[-1] if self._points else None
        if last is None or np.linalg.norm(row[:2] - last[:2]) > _TRAIL_M:
            self._points.append(np.array((row[0], row[1], _TRAIL_Z), np.float32))

    def draw_trail(self) -> None:
        """Show where the robot was; this costs more than a frame."""
        points = np.array(self._points)
        lines = np.zeros((1, 2, 3), np.float32)
        if len(points) > 1:
            lines = np.stack((points[:-1], points[1:]), axis=1)
        self._trail.points = lines

    def show_push(self, direction: np.ndarray) -> None:
        """Show an arrow that hits the robot; direction (2,) is in the world."""
        towards = np.array((*direction, 0.0)) / max(np.linalg.norm(direction), 1e-9)
        chest = np.array((0.0, 0.0, _CHEST_M)) - 0.12 * towards
        self._arrow.points = np.array([[chest - _PUSH_M * towards, chest]], np.float32)
        self._arrow_until = time.monotonic() + _PUSH_S


def _shade(server: viser.ViserServer) -> viser.FrameHandle:
    """A darker floor under the robot: without a GPU, a real shadow takes longer to
    draw than everything else."""
    node = server.scene.add_frame("/shade", show_axes=False)
    angles = np.linspace(0.0, 2 * np.pi, 25)[:-1]
    rim = np.stack((np.cos(angles), np.sin(angles), 0.0 * angles), axis=1)
    faces = [(0, i + 1, (i + 1) % 24 + 1) for i in range(24)]
    for number, radius in enumerate((0.1, 0.15, 0.2, 0.25, 0.3)):
        server.scene.add_mesh_simple(
            f"/shade/{number}",
            np.vstack((np.zeros(3), radius * rim)).astype(np.float32),
            np.array(faces),
            color=_SHADE,
            opacity=0.08,
            position=(0.0, 0.0, 0.002 + 0.001 * number),
            **_UNLIT,
        )
    return node


def _floor(server: viser.ViserServer) -> viser.MeshHandle:
    """Tiles to the horizon."""
    half = _TILES // 2
    tiles = [(i, j) for i in range(-half, half) for j in range(-half, half)]
    corners = np.array(((0, 0), (1, 0), (1, 1), (0, 1)))
    dark = np.array([tile for tile in tiles if sum(tile) % 2 == 0])
    flat = _TILE_M * (dark[:, None] + corners).reshape(-1, 2)
    first = 4 * np.arange(len(dark))[:, None, None]
    return server.scene.add_mesh_simple(
        "/floor",
        np.column_stack((flat, np.zeros(len(flat)))).astype(np.float32),
        (first + np.array(((0, 1, 2), (0, 2, 3)))).reshape(-1, 3),
        color=_WHITE,
        **_UNLIT,
    )


class Figure:
    """The G1, one mesh per link and colour; a ghost is blue and translucent."""

    def __init__(self, server: viser.ViserServer, name: str, ghost: bool = False):
        model = visual_model()
        parts = _parts(model, robot_mesh(GHOST_CELL_M if ghost else CELL_M), ghost)
        self._turns = model.body_quat[1:].copy()
        self._axes = model.jnt_axis[1:]
        self._nodes: list[viser.SceneNodeHandle] = []
        paths = [name]
        for body in range(1, model.nbody):
            above = paths[int(model.body_parentid[body])]
            paths.append(f"{above}/{model.body(body).name}" if body > 1 else name)
            # The first mesh of a link also carries the next links: a browser takes
            # longer over a node than over its triangles.
            for number, (paint, (vertices, faces)) in enumerate(parts[body].items()):
                node = server.scene.add_mesh_simple(
                    f"{paths[-1]}/{paint}" if number else paths[-1],
                    vertices,
                    faces,
                    color=_PAINT[paint],
                    opacity=_GHOST_OPACITY if ghost else None,
                    side="front" if ghost else "double",  # the head is open
                    position=(0.0, 0.0, 0.0) if number else model.body_pos[body],
                    **_UNLIT,
                )
                if not number:
                    self._nodes.append(node)

    @property
    def visible(self) -> bool:
        return self._nodes[0].visible

    @visible.setter
    def visible(self, value: bool) -> None:
        self._nodes[0].visible = value

    def pose(self, row: np.ndarray, place: np.ndarray) -> None:
        """Show a row (36,) with its root at a place (3,)."""
        half = 0.5 * row[7:, None]
        spin = np.concatenate((np.cos(half), np.sin(half) * self._axes), axis=1)
        turns = np.stack(multiply_planes([*self._turns[1:].T], [*spin.T]), axis=1)
        root, *others = self._nodes
        root.wxyz, root.position = row[3:7].round(_DECIMALS), place.round(_DECIMALS)
        for node, turn in zip(others, turns.round(_DECIMALS), strict=True):
            node.wxyz = turn


def _parts(
    model: mujoco.MjModel, mesh: Mesh, ghost: bool
) -> dict[int, dict[str, Triangles]]:
    """Meshes of every body by their colours, in the body's own frame."""
    found: dict[int, dict[str, list[Triangles]]] = {}
    for geom in np.unique(mesh.face_geom):
        dark = model.mat_rgba[model.geom_matid[geom], 0] < 0.5
        paint = "ghost" if ghost else "dark" if dark else "light"
        own = found.setdefault(int(model.geom_bodyid[geom]), {})
        own.setdefault(paint, []).append(_triangles(model, mesh, int(geom)))
    return {
        body: {paint: _merged(some) for paint, some in own.items()}
        for body, own in found.items()
    }


def _triangles(model: mujoco.MjModel, mesh: Mesh, geom: int) -> Triangles:
    """The triangles of a geom. Corners with the same normal share a vertex, so that
    edges stay sharp."""
    faces = np.flatnonzero(mesh.face_geom == geom)
    normals = (100 * mesh.normal[faces].reshape(-1, 3)).round()
    corners = np.concatenate((mesh.face[faces].reshape(-1, 1), normals), axis=1)
    unique, index = np.unique(corners, axis=0, return_inverse=True)
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    vertices = mesh.vertex[unique[:, 0].astype(int)] @ turn.reshape(3, 3).T
    return vertices + model.geom_pos[geom], index.reshape(-1, 3)


def _merged(parts: list[Triangles]) -> Triangles:
    first = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    faces = [faces + n for (_, faces), n in zip(parts, first, strict=False)]
    vertices = np.concatenate([vertices for vertices, _ in parts])
    return vertices.astype(np.float32), np.concatenate(faces).astype(np.uint32)
