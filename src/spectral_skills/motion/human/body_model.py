"""AMASS archives: turns of a body model's joints, and the user's model that has bones.

A model says where the joints of a body of some shape are. It is never part of this
package: people get SMPL, SMPL-H or SMPL-X from their makers.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human.chains import forward, from_vector
from spectral_skills.motion.readers.archives import ZippedArrays, texts
from spectral_skills.motion.readers.assemble import numbers, printable

BODY_JOINTS = 22
"""What SMPL, SMPL-H and SMPL-X have in common; the others are hands and faces."""
# Where the fingers begin: by the number of joints, the left one and the right one.
HANDS = {24: (22, 23), 52: (25, 40), 55: (28, 43)}
_KEYS = ("J_regressor", "v_template", "shapedirs", "kintree_table")
_WHERE = "a file or folder of SMPL, SMPL-H or SMPL-X models as .npz, from their makers"


class BodyJoints(NamedTuple):
    template: np.ndarray  # (J, 3) joints of the mean shape
    shapes: np.ndarray  # (J, 3, B) how they move with the shape
    parents: tuple[int, ...]

    def joints(self, betas: np.ndarray) -> np.ndarray:
        """(J, 3) of a body of this shape."""
        count = min(len(betas), self.shapes.shape[2])
        return self.template + self.shapes[..., :count] @ betas[:count]


def positions(
    arrays: Mapping[str, np.ndarray], model: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Joints (T, 24, 3) in SMPL's order, hands last, and turns (T, 4) of the pelvis."""
    poses = numbers(arrays["poses"], "poses")
    trans = numbers(arrays["trans"], "trans")
    if trans.shape != (len(poses), 3) or poses.shape[1] < 3 * BODY_JOINTS:
        shapes = f"poses {poses.shape} and trans {trans.shape}"
        raise ClipError("columns", f"{shapes}; expected (T, 66 or more) and (T, 3)")
    body = load(_file(model, texts(arrays, "gender")))
    betas = arrays["betas"] if "betas" in arrays else np.zeros(1)
    betas = np.atleast_2d(numbers(betas, "betas", betas.ndim)).astype(float)[0]
    rest = body.joints(betas)
    turns = np.zeros((4, len(poses), len(rest)))
    turns[0] = 1.0
    vectors = poses[:, : 3 * BODY_JOINTS].reshape(len(poses), BODY_JOINTS, 3)
    turns[:, :, :BODY_JOINTS] = from_vector(vectors.astype(np.float64))
    offsets = rest - rest[list(body.parents)]
    places, world = forward(body.parents, offsets, turns, rest[0] + trans)
    return places[:, [*range(BODY_JOINTS), *HANDS[len(rest)]]], world[:, 0]


def _file(model: str | None, gender: list[str]) -> Path:
    """The model of a folder for a person's gender, which archives state."""
    if model is None:
        reason = (
            f"an AMASS archive has turns without bones; pass --body-model: {_WHERE}"
        )
        raise ClipError("body model", reason)
    path = Path(model)
    if path.is_file():
        return path
    files = sorted(path.rglob("*.npz")) if path.is_dir() else []
    wanted = (gender[0] if gender else "neutral").lower().strip("b'\" ")
    for name in (wanted, "neutral"):
        word = re.compile(rf"(?<![a-z]){re.escape(name)}(?![a-z])")
        for file in files:
            if word.search(str(file.relative_to(path)).lower()):
                return file
    if len(files) == 1:
        return files[0]
    reason = f"{path}: no model for gender {printable(wanted, 20)!r} among {len(files)}"
    raise ClipError("body model", f"{reason} .npz files; --body-model takes {_WHERE}")


@lru_cache(maxsize=4)
def load(path: Path) -> BodyJoints:
    """The joints of a model's file; nothing in it is run."""
    if path.suffix.lower() != ".npz":
        reason = f"{path}: save it as .npz with the arrays {', '.join(_KEYS)}"
        raise ClipError("body model", reason)
    with path.open("rb") as file:
        arrays = ZippedArrays(file)
        missing = [key for key in _KEYS if key not in arrays]
        if missing:
            reason = f"{path}: no body model, it lacks {', '.join(missing)}"
            raise ClipError("body model", reason)
        dims = {"J_regressor": 2, "v_template": 2, "shapedirs": 3, "kintree_table": 2}
        regressor, template, shapes, tree = (
            numbers(arrays[key], f"{path}: {key}", dims[key]) for key in _KEYS
        )
    joints, vertices = regressor.shape
    whole = template.shape == (vertices, 3) and shapes.shape[:2] == (vertices, 3)
    if joints not in HANDS or not whole or tree.shape != (2, joints):
        known = " or ".join(map(str, HANDS))
        reason = f"{path}: {joints} joints of {vertices} vertices; expected {known}"
        raise ClipError("body model", reason)
    parents = [int(p) for p in tree[0]]
    parents[0] = 0  # written as -1 or as the largest integer
    if any(not 0 <= p < max(1, j) for j, p in enumerate(parents)):
        raise ClipError("body model", f"{path}: kintree_table is no tree of joints")
    regressor = regressor.astype(np.float64)
    moves = np.einsum("jv,vxb->jxb", regressor, shapes.astype(np.float64))
    return BodyJoints(regressor @ template, moves, tuple(parents))
