"""The G1 in viser: one mesh a link and colour, hung into each other as its joints are.

Only turns of joints are sent then, half of what a place and a turn of every link would
be. Meshes are thinned to what a screen shows: a page is loaded in a second, and drawn
without a GPU as well.
"""

from dataclasses import dataclass

import mujoco
import numpy as np
import viser

from spectral_skills.robot.scene import Mesh, robot_mesh, visual_model

CELL_M = 0.012
"""Details smaller than this are not sent."""
GHOST_CELL_M = 0.03
_DECIMALS = 4
"""Of what is sent: a robot that stands still costs little then."""
_PAINT = {"dark": (38, 41, 48), "light": (168, 174, 184), "ghost": (64, 132, 255)}
_GHOST_OPACITY = 0.4


@dataclass(frozen=True)
class _Part:
    """Triangles."""

    vertices: np.ndarray
    faces: np.ndarray


class Figure:
    """A robot in a scene; a ghost is blue and can be looked through."""

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
            # The first mesh of a link is also what the next links hang on: a browser
            # takes longer over a node than over its triangles.
            for number, (paint, part) in enumerate(parts[body].items()):
                node = server.scene.add_mesh_simple(
                    f"{paths[-1]}/{paint}" if number else paths[-1],
                    part.vertices,
                    part.faces,
                    color=_PAINT[paint],
                    opacity=_GHOST_OPACITY if ghost else None,
                    side="front" if ghost else "double",  # the head is open
                    cast_shadow=False,
                    receive_shadow=False,
                    position=(0.0, 0.0, 0.0) if number else model.body_pos[body],
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
        half = 0.5 * row[7:]
        spin = np.concatenate(
            (np.cos(half)[:, None], np.sin(half)[:, None] * self._axes), axis=1
        )
        turns = _times(self._turns[1:], spin).round(_DECIMALS)
        root, *others = self._nodes
        root.wxyz, root.position = row[3:7].round(_DECIMALS), place.round(_DECIMALS)
        for node, turn in zip(others, turns, strict=True):
            node.wxyz = turn


def _times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of quaternions (n, 4), wxyz."""
    aw, ax, ay, az = a.T
    bw, bx, by, bz = b.T
    return np.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        axis=1,
    )


def _parts(
    model: mujoco.MjModel, mesh: Mesh, ghost: bool
) -> dict[int, dict[str, _Part]]:
    """Meshes of every body by their colours, in the body's own frame."""
    found: dict[int, dict[str, list[_Part]]] = {}
    for geom in np.unique(mesh.face_geom):
        dark = model.mat_rgba[model.geom_matid[geom], 0] < 0.5
        paint = "ghost" if ghost else "dark" if dark else "light"
        own = found.setdefault(int(model.geom_bodyid[geom]), {})
        own.setdefault(paint, []).append(_part(model, mesh, int(geom)))
    return {
        body: {paint: _merged(some) for paint, some in own.items()}
        for body, own in found.items()
    }


def _part(model: mujoco.MjModel, mesh: Mesh, geom: int) -> _Part:
    """The triangles of a geom; corners that are lit alike are one vertex, so that
    edges stay sharp."""
    faces = np.flatnonzero(mesh.face_geom == geom)
    lit = (100 * mesh.normal[faces].reshape(-1, 3)).round()
    corners = np.concatenate((mesh.face[faces].reshape(-1, 1), lit), axis=1)
    unique, index = np.unique(corners, axis=0, return_inverse=True)
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    vertices = mesh.vertex[unique[:, 0].astype(int)] @ turn.reshape(3, 3).T
    return _Part(vertices + model.geom_pos[geom], index.reshape(-1, 3))


def _merged(parts: list[_Part]) -> _Part:
    first = np.cumsum([0, *(len(part.vertices) for part in parts)])
    faces = [part.faces + n for part, n in zip(parts, first, strict=False)]
    vertices = np.concatenate([part.vertices for part in parts])
    return _Part(vertices.astype(np.float32), np.concatenate(faces).astype(np.uint32))
