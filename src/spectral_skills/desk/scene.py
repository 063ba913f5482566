"""What is seen: the robot, the ghost of its base, its trail, the floor under it.

The robot stays in the middle and the floor moves, so that every browser's camera
follows without being told.
"""

import time
from collections import deque
from dataclasses import dataclass

import numpy as np
import viser

from spectral_skills.desk.engine import Frame
from spectral_skills.desk.figure import Figure

_TILE_M, _TILES = 0.5, 40
_TILE = (255, 255, 255)
_TRAIL_POINTS, _TRAIL_M, _TRAIL_Z = 160, 0.08, 0.006
_TRAIL = (235, 120, 30)
_PUSH = (220, 50, 40)
_PUSH_S, _PUSH_M, _CHEST_M = 0.7, 0.55, 0.25
_CAMERA, _LOOK_AT, _FOV = (3.4, -2.6, 1.5), (0.0, 0.0, 0.7), 0.62


def aim(server: viser.ViserServer) -> None:
    """Let every new browser look at the robot."""
    camera = server.initial_camera
    camera.position, camera.look_at = _CAMERA, _LOOK_AT
    # What the server holds for the first field of view, browsers do not take.
    server.on_client_connect(lambda client: setattr(client.camera, "fov", _FOV))


@dataclass
class View:
    """What people want to see."""

    ghost: bool = True
    follow: bool = True


class Stage:
    """The 3D view, shared by all browsers."""

    def __init__(self, server: viser.ViserServer):
        self._server, scene = server, server.scene
        self._floor = _floor(server)
        scene.configure_environment_map(None)
        scene.configure_default_lights(False)
        scene.add_light_hemisphere(
            "/lights/sky",
            sky_color=(255, 255, 255),
            ground_color=(150, 156, 166),
            intensity=1.1,
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
        """Whether an arrow is seen, which will have to go."""
        return self._arrow.visible

    def clear_trail(self) -> None:
        """Forget where the robot was."""
        self._points.clear()

    def draw(self, frame: Frame, view: View) -> None:
        """Show a frame."""
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
            # The pattern repeats: the floor never has to move far.
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
        """Show where the robot was; dearer than a frame, so less often."""
        points = np.array(self._points)
        lines = np.zeros((1, 2, 3), np.float32)
        if len(points) > 1:
            lines = np.stack((points[:-1], points[1:]), axis=1)
        self._trail.points = lines

    def show_push(self, direction: np.ndarray) -> None:
        """An arrow that hits the robot, for a moment; direction (2,) in the world."""
        towards = np.array((*direction, 0.0)) / max(np.linalg.norm(direction), 1e-9)
        chest = np.array((0.0, 0.0, _CHEST_M)) - 0.12 * towards
        self._arrow.points = np.array([[chest - _PUSH_M * towards, chest]], np.float32)
        self._arrow_until = time.monotonic() + _PUSH_S


def _shade(server: viser.ViserServer) -> viser.FrameHandle:
    """Darker floor under the robot: a real shadow takes longer to draw than all else
    where there is no GPU."""
    node = server.scene.add_frame("/shade", show_axes=False)
    angles = np.linspace(0.0, 2 * np.pi, 25)[:-1]
    rim = np.stack((np.cos(angles), np.sin(angles), 0.0 * angles), axis=1)
    faces = [(0, i + 1, (i + 1) % 24 + 1) for i in range(24)]
    for number, radius in enumerate((0.1, 0.15, 0.2, 0.25, 0.3)):
        server.scene.add_mesh_simple(
            f"/shade/{number}",
            np.vstack((np.zeros(3), radius * rim)).astype(np.float32),
            np.array(faces),
            color=(40, 46, 56),
            opacity=0.08,
            position=(0.0, 0.0, 0.002 + 0.001 * number),
            cast_shadow=False,
            receive_shadow=False,
        )
    return node


def _floor(server: viser.ViserServer) -> viser.MeshHandle:
    """Tiles as far as one sees."""
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
        color=_TILE,
        cast_shadow=False,
        receive_shadow=False,
    )
