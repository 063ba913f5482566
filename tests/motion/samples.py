"""A small synthetic motion, written in every format the readers know.

Nothing here uses the readers, so that a mistake is not made twice. The files'
frame rates differ; the frames do not.
"""

import bz2
import gzip
import io
import lzma
import pickle
import struct
import sys
import types
import zipfile
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

FRAMES = 24
XYZW = [1, 2, 3, 0]
JOINT_NAMES = [f"{name}_joint" for name in g1.JOINTS]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a corpus folder, except the lock."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def motion(frames: int = FRAMES) -> np.ndarray:
    """(T, 36) rows: a robot that stands, turned by 40 degrees, and waves."""
    phase = np.linspace(0.0, 2.0, frames)[:, None]
    joints = g1.DEFAULT_JOINTS + 0.002 * np.arange(g1.NUM_JOINTS)
    joints = np.repeat(joints[None], frames, axis=0)
    joints[:, 12:] += 0.2 * np.sin(phase + np.arange(17))
    half_yaw, half_pitch = 0.35 + 0.01 * phase, 0.02 + 0.005 * phase
    quaternion = np.concatenate(
        [
            np.cos(half_yaw) * np.cos(half_pitch),
            -np.sin(half_yaw) * np.sin(half_pitch),
            np.cos(half_yaw) * np.sin(half_pitch),
            np.sin(half_yaw) * np.cos(half_pitch),
        ],
        axis=1,
    )
    position = np.concatenate(
        [0.3 + 0.01 * phase, -0.2 * phase**0, 0.76 + 0 * phase], 1
    )
    return np.concatenate([position, quaternion, joints], axis=1)


def bodies(qpos: np.ndarray, links: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """World positions (T, B, 3) and quaternions (T, B, 4) of links."""
    model = build_model(meshes=False)
    data = mujoco.MjData(model)
    ids = [model.body(name).id for name in links]
    position, quaternion = [], []
    for row in qpos:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        position.append(data.xpos[ids].copy())
        quaternion.append(data.xquat[ids].copy())
    return np.array(position), np.array(quaternion)


def csv(values: np.ndarray, header: str = "", end: str = "\n") -> bytes:
    rows = [",".join(f"{v:.9f}" for v in row) for row in values]
    return (end.join([header] * bool(header) + rows) + end).encode()


def xyzw_rows(qpos: np.ndarray) -> np.ndarray:
    return np.concatenate([qpos[:, :3], qpos[:, 3:7][:, XYZW], qpos[:, 7:]], axis=1)


def unitree(qpos: np.ndarray) -> bytes:
    return csv(xyzw_rows(qpos))


def named(qpos: np.ndarray) -> bytes:
    """Named columns, in an order of their own."""
    names = ["root_x", "root_y", "root_z", "root_qw", "root_qx", "root_qy", "root_qz"]
    order = np.random.default_rng(5).permutation(g1.QPOS_SIZE)
    header = [(names + JOINT_NAMES)[i] for i in order]
    return csv(qpos[:, order], ",".join(header))


def indexed(qpos: np.ndarray) -> bytes:
    """38 columns: frame and time in front."""
    frame = np.arange(len(qpos), dtype=float)
    return csv(np.column_stack([frame, frame / 60, xyzw_rows(qpos)]))


def trailed(qpos: np.ndarray) -> bytes:
    """38 columns: two contact flags after the joints."""
    flags = np.tile([[1.0, 0.0]], (len(qpos), 1))
    return csv(np.column_stack([xyzw_rows(qpos), flags]))


def bones_seed(qpos: np.ndarray) -> bytes:
    w, x, y, z = qpos[:, 3:7].T
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(2 * (w * y - z * x))
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    header = ["Frame", *(f"root_translate{a}" for a in "XYZ")]
    header += [*(f"root_rotate{a}" for a in "XYZ"), *(f"{n}_dof" for n in JOINT_NAMES)]
    root = np.column_stack([np.arange(len(qpos)), 100 * qpos[:, :3]])
    angles = np.degrees(np.column_stack([roll, pitch, yaw, qpos[:, 7:]]))
    return csv(np.column_stack([root, angles]), ",".join(header))


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npz_member(header: str, content: bytes) -> bytes:
    """An archive whose qpos says about itself what it likes."""
    text = header.encode() + b"\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("qpos.npy", start + text + content)
    return buffer.getvalue()


def zip_bomb(size: int) -> bytes:
    """An archive whose directory promises `size` bytes of deflated zeros."""
    data = bytearray(npz_member("", zlib.compress(bytes(1 << 20))))
    entry = data.index(b"PK\x01\x02")
    struct.pack_into("<H", data, entry + 10, zipfile.ZIP_DEFLATED)
    struct.pack_into("<I", data, entry + 24, size)
    return bytes(data)


def own(qpos: np.ndarray) -> bytes:
    said = {"text": "a robot waves", "source": "made up", "licence": "CC0"}
    return npz(qpos=qpos, fps=50.0, **said)


def mjlab(qpos: np.ndarray, links: tuple[str, ...] = g1.LINKS) -> bytes:
    position, quaternion = bodies(qpos, links)
    return npz(
        fps=np.array([50.0]),
        joint_pos=qpos[:, 7:].astype(np.float32),
        body_pos_w=position.astype(np.float32),
        body_quat_w=quaternion.astype(np.float32),
    )


def beyondmimic(qpos: np.ndarray) -> bytes:
    """IsaacLab order of joints and bodies."""
    position, quaternion = bodies(qpos, g1.LINKS)
    order = [0, *(g1.MUJOCO_TO_ISAACLAB + 1)]
    return npz(
        fps=np.array([50]),
        joint_pos=qpos[:, 7:][:, g1.MUJOCO_TO_ISAACLAB],
        body_pos_w=position[:, order],
        body_quat_w=quaternion[:, order],
    )


def holosoma(qpos: np.ndarray) -> bytes:
    """Full qpos, joints in an order that joint_names tells."""
    order = g1.MUJOCO_TO_ISAACLAB
    joint_pos = np.concatenate([qpos[:, :7], qpos[:, 7:][:, order]], axis=1)
    names = np.array(JOINT_NAMES)[order]
    return npz(joint_pos=joint_pos, joint_names=names, fps=50)


def gmr_dict(qpos: np.ndarray, joints: int = 29) -> dict[str, object]:
    kept = g1.WITHOUT_WRISTS if joints == 23 else np.arange(29)
    return {
        "fps": 30.0,
        "root_pos": qpos[:, :3],
        "root_rot": qpos[:, 3:7][:, XYZW],
        "dof_pos": qpos[:, 7:][:, kept],
        "local_body_pos": None,
        "link_body_list": ["pelvis", "torso_link"],
    }


def library_dict(qpos: np.ndarray, joints: int = 29) -> dict[str, object]:
    entry = gmr_dict(qpos, joints)
    return {
        "root_trans_offset": entry["root_pos"],
        "root_rot": entry["root_rot"],
        "dof": np.asfortranarray(entry["dof_pos"]),
        "pose_aa": np.zeros((len(qpos), 2, 3), np.float32),
        "fps": 30,
    }


def gmr(qpos: np.ndarray, protocol: int = 4, joints: int = 29) -> bytes:
    return pickle.dumps(gmr_dict(qpos, joints), protocol=protocol)


def library(qpos: np.ndarray, joints: int = 29, **changes: Any) -> bytes:
    return joblib({"wave": library_dict(qpos, joints) | changes})


class NumpyArrayWrapper:
    """joblib's class of this name, as far as its pickles show."""


@contextmanager
def _fake_joblib():
    """The pickler looks classes up by module before it writes their names."""
    module = types.ModuleType("joblib.numpy_pickle")
    vars(module)["NumpyArrayWrapper"] = NumpyArrayWrapper
    saved = {name: sys.modules.get(name) for name in ("joblib", module.__name__)}
    sys.modules["joblib"] = types.ModuleType("joblib")
    sys.modules[module.__name__] = module
    NumpyArrayWrapper.__module__ = module.__name__
    try:
        yield
    finally:
        NumpyArrayWrapper.__module__ = __name__
        for name, old in saved.items():
            sys.modules.pop(name)
            if old is not None:
                sys.modules[name] = old


_private: Any = pickle


class _JoblibPickler(_private._Pickler):
    """Arrays as joblib writes them: a description, padding, then the bytes."""

    alignment: int | None = 16

    def __init__(self, file: io.BytesIO, protocol: int):
        super().__init__(file, protocol=protocol)
        self.file = file

    def save(self, obj: object, save_persistent_id: bool = True) -> None:
        if type(obj) is not np.ndarray:
            super().save(obj, save_persistent_id)
            return
        wrapper = NumpyArrayWrapper()
        fortran = obj.flags.f_contiguous and not obj.flags.c_contiguous
        state = {"subclass": np.ndarray, "shape": obj.shape, "dtype": obj.dtype}
        vars(wrapper).update(state, order="F" if fortran else "C", allow_mmap=True)
        if self.alignment is not None:
            vars(wrapper)["numpy_array_alignment_bytes"] = self.alignment
        super().save(wrapper)
        if self.proto >= 4:
            self.framer.commit_frame(force=True)
        if self.alignment is not None:
            padding = self.alignment - (self.file.tell() + 1) % self.alignment
            self.file.write(bytes([padding]) + b"\xff" * padding)
        self.file.write(obj.tobytes("F" if fortran else "C"))


def joblib(value: object, protocol: int = 4, alignment: int | None = 16) -> bytes:
    """What `joblib.dump(value, file)` writes."""
    buffer = io.BytesIO()
    pickler = _JoblibPickler(buffer, protocol)
    pickler.alignment = alignment
    with _fake_joblib():
        pickler.dump(value)
    return buffer.getvalue()


def reference(qpos: np.ndarray) -> dict[str, bytes]:
    """Files of a SONIC reference folder; a second body follows the root."""
    position, quaternion = bodies(qpos, ("pelvis", "torso_link"))
    frames = len(qpos)

    def header(name: str, parts: str) -> str:
        return ",".join(f"body_{b}_{name}{p}" for b in range(2) for p in parts)

    joints = qpos[:, 7:][:, g1.MUJOCO_TO_ISAACLAB]
    return {
        "joint_pos.csv": csv(joints, ",".join(f"joint_{i}" for i in range(29))),
        "body_pos.csv": csv(position.reshape(frames, -1), header("", "xyz")),
        "body_quat.csv": csv(quaternion.reshape(frames, -1), header("", "wxyz")),
        "metadata.txt": (
            f"Motion: wave\nBody part indexes:\n[0 15]\nTotal timesteps: {frames}\n"
        ).encode(),
    }


FORMATS: dict[str, tuple[Callable[[np.ndarray], bytes], float, str]] = {
    "unitree.csv": (unitree, 30, "unitree csv"),
    "unitree_crlf.csv": (lambda q: csv(xyzw_rows(q), end="\r\n"), 30, "unitree csv"),
    "unitree_bom.csv": (lambda q: b"\xef\xbb\xbf" + unitree(q), 30, "unitree csv"),
    "semicolons.csv": (lambda q: unitree(q).replace(b",", b";"), 30, "unitree csv"),
    "spaces.csv": (lambda q: unitree(q).replace(b",", b" "), 30, "unitree csv"),
    "walk_60hz.csv": (unitree, 60, "unitree csv"),
    "walk-25fps.csv": (unitree, 25, "unitree csv"),
    "kimodo.csv": (csv, 30, "kimodo csv"),
    "named.csv": (named, 30, "unitree csv"),
    "indexed.csv": (indexed, 60, "unitree csv"),
    "trailed.csv": (trailed, 30, "unitree csv"),
    "bones.csv": (bones_seed, 120, "bones-seed csv"),
    "own.npz": (own, 50, "made up"),
    "mjlab.npz": (mjlab, 50, "mjlab npz"),
    "tracked.npz": (lambda q: mjlab(q, g1.TRACKED_LINKS), 50, "mjlab npz"),
    "beyondmimic.npz": (beyondmimic, 50, "beyondmimic npz"),
    "holosoma.npz": (holosoma, 50, "holosoma npz"),
    **{
        f"gmr{p}.pkl": (lambda q, p=p: gmr(q, protocol=p), 30, "gmr pkl")
        for p in range(6)
    },
    "old_numpy.pkl": (
        lambda q: gmr(q, protocol=2).replace(b"numpy._core", b"numpy.core"),
        30,
        "gmr pkl",
    ),
    "library.pkl": (library, 30, "motion library pkl"),
    "library_old.pkl": (
        lambda q: joblib({"wave": library_dict(q)}, protocol=2, alignment=None),
        30,
        "motion library pkl",
    ),
    "library_zlib.pkl": (lambda q: zlib.compress(library(q)), 30, "motion library pkl"),
    "library_gzip.pkl": (lambda q: gzip.compress(library(q)), 30, "motion library pkl"),
    "library_bz2.pkl": (lambda q: bz2.compress(library(q)), 30, "motion library pkl"),
    "library_xz.pkl": (lambda q: lzma.compress(library(q)), 30, "motion library pkl"),
    "library_lzma.pkl": (
        lambda q: lzma.compress(library(q), format=lzma.FORMAT_ALONE),
        30,
        "motion library pkl",
    ),
}
"""File name -> writer, frame rate and source that a reader must find."""


def write_reference(folder: Path, qpos: np.ndarray) -> Path:
    folder.mkdir(parents=True)
    for name, data in reference(qpos).items():
        (folder / name).write_bytes(data)
    return folder
