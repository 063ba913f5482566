"""`spectral export --sonic`: the files that SONIC's C++ runtime reads.

    model_decoder.onnx        `obs_dict` (1, 996) to `action` (1, 29)
    observation_config.yaml   the parts of `obs_dict`
    reference/CLIP/           a base clip, one CSV file for each quantity
    tokens/CLIP.npy, .csv     its commands (T, 66), one for each control step

Joints are in IsaacLab's order. The runtime runs the policy without an encoder, on
tokens that another program streams to it (`sonic_stream`). It sends actions to motors
as they are, so here actions are clipped to those whose targets are in limits, and that
is what the next observation has as the last action. The layouts are those of
gear_sonic_deploy in NVlabs/GR00T-WholeBodyControl, as of August 2026.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from spectral_skills.atomic import replacing_folder, write_file
from spectral_skills.control.bundle import Graph
from spectral_skills.control.played import PlayedBase
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import (
    Kinematics,
    joint_velocities,
    link_velocities,
)
from spectral_skills.robot import g1
from spectral_skills.runtime import graphs
from spectral_skills.runtime.export import NAMES, observe, played_bases
from spectral_skills.runtime.graphs import Observed, to_onnx
from spectral_skills.tracking.observations import HISTORY, phase
from spectral_skills.tracking.policy import PHASE, Controller

POLICY, LAYOUT = "model_decoder.onnx", "observation_config.yaml"
REFERENCE, TOKENS = "reference", "tokens"
OPSET = 13
_TERMS = (
    ("his_base_angular_velocity", 3, 3),
    ("his_body_joint_positions", 6, g1.NUM_JOINTS),
    ("his_body_joint_velocities", 6 + g1.NUM_JOINTS, g1.NUM_JOINTS),
    ("his_last_actions", 6 + 2 * g1.NUM_JOINTS, g1.NUM_JOINTS),
    ("his_gravity_dir", 0, 3),
)
"""Terms after the token, each with all its frames: name, offset in our frame, size."""
_SAME_SINCE_13 = {
    *("Add", "Clip", "Concat", "Constant", "Div", "Gather", "Gemm", "Max", "Min"),
    *("Mul", "Reshape", "Sigmoid", "Slice", "Sub", "Tanh"),
}
"""Operators that mean the same in opset 13 as in those that torch writes."""


def action_limits(controller: Controller) -> np.ndarray:
    """(2, 29) lowest and highest actions, in MuJoCo order."""
    limits = g1.target_limits(controller.config.reach)
    return (limits.T - g1.DEFAULT_JOINTS) / g1.ACTION_SCALE


class PolicyGraph(nn.Module):
    """Maps observations (n, 996), as the runtime lays them out, to actions (n, 29)."""

    limits: Tensor

    def __init__(self, controller: Controller):
        super().__init__()
        self.inner = graphs.ControllerGraph(controller, "isaaclab")
        self.token = controller.config.command.width + PHASE
        self.width = self.token + HISTORY * sum(size for _, _, size in _TERMS)
        limits = action_limits(controller)[:, g1.MUJOCO_TO_ISAACLAB]
        self.register_buffer("limits", torch.tensor(limits, dtype=torch.float32))

    def forward(self, obs_dict: Tensor) -> Tensor:
        found, at = {}, self.token
        for name, _, size in _TERMS:
            end = at + HISTORY * size
            found[name] = obs_dict[:, at:end].reshape(-1, HISTORY, size)
            at = end
        ours = sorted(_TERMS, key=lambda term: term[1])
        history = torch.cat([found[name] for name, _, _ in ours], dim=-1)
        return self.inner(history, obs_dict[:, : self.token]).clamp(*self.limits)


def export(
    models: Models,
    out: Path,
    bases: Sequence[str] = NAMES,
    corpora: Sequence[Corpus] = (),
) -> dict[str, float]:
    """Write the files to a new folder; return how far the graph is from its model."""
    if out.is_file() or (out.exists() and any(out.iterdir())):
        raise ValueError(f"{out}: there already; name a new folder")
    wanted = played_bases(models.skill_encoder, bases, corpora)
    with replacing_folder(out) as folder:
        played = list(wanted)
        for base in played:
            _write_base(folder, base, models.controller.config.command.hold)
        write_file(folder / POLICY, policy_onnx(models.controller))
        write_file(folder / LAYOUT, layout(models.controller))
        seen = observe(models, played)
        limits = action_limits(models.controller)
        differences = {POLICY: _difference(folder / POLICY, seen, limits)}
        graphs.check(differences)
    return differences


def policy_onnx(controller: Controller) -> bytes:
    """Return the graph from `obs_dict` to `action`, in the opset that SONIC uses."""
    import onnx

    graphs.check_exportable(controller)
    graph = PolicyGraph(controller)
    example = (torch.zeros(1, graph.width),)
    model = onnx.load_from_string(to_onnx(graph, example, ("obs_dict",), "action"))
    # No converter goes back to an opset this old, and none is needed here.
    unknown = {node.op_type for node in model.graph.node} - _SAME_SINCE_13
    assert not unknown, f"operators that may have changed since opset 13: {unknown}"
    for node in model.graph.node:
        if node.op_type == "Reshape":  # no shape of ours has a zero
            del node.attribute[:]
    model.ir_version, model.opset_import[0].version = 7, OPSET
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def layout(controller: Controller) -> str:
    """Return the runtime's description of `obs_dict`, in the YAML that it can read."""
    suffix = f"_{HISTORY}frame_step1"
    names = ["token_state", *(f"{name}{suffix}" for name, _, _ in _TERMS)]
    terms = "".join(f'  - name: "{name}"\n    enabled: true\n' for name in names)
    size = controller.config.command.width + PHASE
    return f"observations:\n{terms}\nencoder:\n  dimension: {size}\n  use_fp16: false\n"


def observation(history: np.ndarray, command: np.ndarray) -> np.ndarray:
    """Lay out a history (10, 93) in MuJoCo order and a command (66,) as (996,)."""
    parts = [command]
    for _, at, size in _TERMS:
        part = history[:, at : at + size]
        if size == g1.NUM_JOINTS:
            part = part[:, g1.MUJOCO_TO_ISAACLAB]
        parts.append(part.ravel())
    return np.concatenate(parts)


def tokens(skills: Tensor, hold: int) -> np.ndarray:
    """Return skills (T, d) as they are followed, with their phase: (T, d + 2)."""
    step = torch.arange(len(skills))
    since = step % hold
    return torch.cat((skills[step - since], phase(since, hold)), dim=1).numpy()


def _difference(path: Path, seen: Observed, limits: np.ndarray) -> float:
    policy = Graph(path)

    def act(history: np.ndarray, command: np.ndarray) -> np.ndarray:
        return policy(observation(history, command))[g1.ISAACLAB_TO_MUJOCO]

    senses = zip(seen.history, seen.command, strict=True)
    return graphs.largest_difference(act, senses, seen.action.clip(*limits))


def _write_base(folder: Path, base: PlayedBase, hold: int) -> None:
    """Write a base as a reference and as tokens."""
    name = base.name.replace("/", "_")
    stream = tokens(torch.from_numpy(base.skills), hold)
    file = io.BytesIO()
    np.save(file, stream, allow_pickle=False)
    write_file(folder / TOKENS / f"{name}.npy", file.getvalue())
    columns = [f"token_{i}" for i in range(stream.shape[1])]
    write_file(folder / TOKENS / f"{name}.csv", _csv(columns, stream))
    write_reference(folder / REFERENCE / name, torch.from_numpy(base.rows))


def write_reference(folder: Path, rows: Tensor) -> None:
    """Write a motion (T, 36) for the runtime, with the 14 links that SONIC tracks."""
    links, count = g1.TRACKED_LINKS, len(rows)
    poses = Kinematics(links)(rows)
    speeds = link_velocities(poses, FPS)
    joints = rows[:, 7:][:, torch.from_numpy(g1.MUJOCO_TO_ISAACLAB)]
    each = {
        "joint_pos": ("joint_{i}", "", joints),
        "joint_vel": ("joint_vel_{i}", "", joint_velocities(joints, FPS)),
        "body_pos": ("body_{i}_", "xyz", poses.position),
        "body_quat": ("body_{i}_", "wxyz", poses.quaternion),
        "body_lin_vel": ("body_{i}_vel_", "xyz", speeds.linear),
        "body_ang_vel": ("body_{i}_angvel_", "xyz", speeds.angular),
    }
    for name, (column, axes, values) in each.items():
        stems = [column.format(i=i) for i in range(values.shape[1])]
        columns = [f"{s}{axis}" for s in stems for axis in axes] if axes else stems
        flat = values.reshape(count, -1).numpy()
        write_file(folder / f"{name}.csv", _csv(columns, flat))
    # IsaacLab numbers links as it does joints, after the pelvis.
    order = [g1.LINKS.index(link) for link in links]
    numbers = [1 + g1.ISAACLAB_TO_MUJOCO[i - 1] if i else 0 for i in order]
    listed = " ".join(str(number) for number in numbers)
    header = f"Metadata for: {folder.name}\n\nBody part indexes:\n[{listed}]\n\n"
    write_file(folder / "metadata.txt", f"{header}Total timesteps: {count}\n")
    seconds = count / FPS
    info = f"{folder.name}: {count} frames at {FPS} Hz, {seconds:.1f} s\n"
    write_file(folder / "info.txt", info)


def _csv(columns: Sequence[str], values: np.ndarray) -> str:
    """Return a table with all the digits that float32 has."""
    lines = [",".join(f"{value:.9g}" for value in row) for row in values.tolist()]
    return "\n".join((",".join(columns), *lines)) + "\n"
