"""Models as ONNX graphs, and the comparison of graphs with their models.

A graph contains everything that the runtime would otherwise have to repeat: the
normaliser, the anchor frame, the order of the joints, all steps of a plan.
"""

import io
import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from spectral_skills.control.bundle import JointOrder
from spectral_skills.control.run import ReferenceSource, Tracker, run
from spectral_skills.motion.windows import MotionTensors, anchor_poses
from spectral_skills.physics.base import simulate
from spectral_skills.planner.model import Planner
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking import observations
from spectral_skills.tracking.observations import HISTORY, PROPRIO
from spectral_skills.tracking.policy import PHASE, Controller
from spectral_skills.tracking.references import References

SENSES = PROPRIO - 3 * g1.NUM_JOINTS
"""Number of values in a frame before its three blocks of joints."""


class ControllerGraph(nn.Module):
    """History (n, 10, 93) and command (n, d + 2) to an action (n, 29)."""

    frame: Tensor
    action: Tensor

    def __init__(self, controller: Controller, order: JointOrder = "mujoco"):
        super().__init__()
        self.controller = controller
        self.skill = controller.config.command.width
        there, back = (torch.arange(g1.NUM_JOINTS) for _ in range(2))
        if order == "isaaclab":
            there = torch.from_numpy(g1.ISAACLAB_TO_MUJOCO)
            back = torch.from_numpy(g1.MUJOCO_TO_ISAACLAB)
        blocks = [SENSES + i * g1.NUM_JOINTS + there for i in range(3)]
        self.reordered = order == "isaaclab"
        self.register_buffer("frame", torch.cat((torch.arange(SENSES), *blocks)))
        self.register_buffer("action", back)

    def forward(self, history: Tensor, command: Tensor) -> Tensor:
        if self.reordered:
            history = history.index_select(-1, self.frame)
        skill, phase = command[:, : self.skill], command[:, self.skill :]
        controller = self.controller
        action = controller(controller.inputs(history, skill, phase))
        action = controller.smoothed(action, history)
        return action.index_select(-1, self.action) if self.reordered else action


class EncoderGraph(nn.Module):
    """Reference frames (n, k, 36) in the world, from the first that the encoder sees
    to the last, and the robot's root (n, 7), to a skill (n, d)."""

    seen: Tensor

    def __init__(self, encoder: SkillEncoder):
        super().__init__()
        self.encoder = encoder
        self.frames = encoder.last - encoder.first + 1
        self.register_buffer("seen", encoder.steps - encoder.first)

    def forward(self, rows: Tensor, robot: Tensor) -> Tensor:
        if self.encoder.poses != self.frames:
            rows = rows.index_select(1, self.seen)
        anchor = self.encoder.windows.anchor
        poses = anchor_poses(rows, robot[:, :3], robot[:, 3:7], anchor)
        return self.encoder(poses).skill


def check_exportable(controller: Controller) -> None:
    if (kind := controller.config.command.kind) != "skill":
        raise ValueError(
            f"this controller's commands are of the kind {kind!r}; only controllers of "
            "skills can be exported: give one that was trained with a skill model"
        )


def controller_onnx(controller: Controller, order: JointOrder = "mujoco") -> bytes:
    """The graph `history`, `command` to `action`."""
    check_exportable(controller)
    example = (
        torch.zeros(1, HISTORY, PROPRIO),
        torch.zeros(1, controller.config.command.width + PHASE),
    )
    graph = ControllerGraph(controller, order)
    return to_onnx(graph, example, ("history", "command"), "action")


def encoder_onnx(encoder: SkillEncoder) -> bytes:
    """The graph `rows`, `robot` to `skill`."""
    graph = EncoderGraph(encoder)
    root = torch.eye(g1.QPOS_SIZE)[3][:7]
    rows = torch.eye(g1.QPOS_SIZE)[3].expand(1, graph.frames, -1)
    return to_onnx(graph, (rows.contiguous(), root[None]), ("rows", "robot"), "skill")


INPUTS = ("history", "states", "mask", "noise")
_WORDS = 12
"""Number of tokens in the example; the graph takes any number."""


class EncodedPlanner(nn.Module):
    """A planner of poses whose chunks are skills: ten poses are encoded at every step,
    so there are nine steps less."""

    def __init__(self, planner: Planner, encoder: SkillEncoder):
        super().__init__()
        self.planner, self.encoder = planner, encoder

    def forward(
        self, history: Tensor, states: Tensor, mask: Tensor, noise: Tensor
    ) -> Tensor:
        chunk = self.planner(history, states, mask, noise)[0]
        poses = chunk.unfold(0, self.encoder.poses, 1).transpose(1, 2)
        return self.encoder.encode(poses)[None]


def skill_planner(planner: Planner, encoder: SkillEncoder) -> nn.Module:
    """What a bundle plans with: a planner of skills, or of poses that are encoded."""
    is_pose = planner.config.output == "pose"
    return EncodedPlanner(planner, encoder) if is_pose else planner


def planner_onnx(planner: Planner, encoder: SkillEncoder) -> bytes:
    """The graph of history (1, 10, 93), token states (1, k, 384), their mask (1, k) and
    noise (1, 30, a) to a chunk of skills (1, n, d), with all steps of the flow."""
    head = planner.config.head
    example = (
        torch.zeros(1, HISTORY, PROPRIO),
        torch.zeros(1, _WORDS, head.text),
        torch.ones(1, _WORDS, dtype=torch.bool),
        torch.zeros(1, head.chunk, head.action),
    )
    tokens = torch.export.Dim("tokens", min=1, max=256)
    varying = {"states": {1: tokens}, "mask": {1: tokens}}
    shapes = {name: varying.get(name, {}) for name in INPUTS}
    graph = skill_planner(planner, encoder)
    return to_onnx(graph, example, INPUTS, "chunk", shapes)


def to_onnx(
    module: nn.Module,
    example: tuple[Tensor, ...],
    inputs: Sequence[str],
    output: str,
    shapes: dict[str, Any] | None = None,
) -> bytes:
    """Convert a module with one output; `shapes` names the dimensions that may vary."""
    from onnxscript import optimizer

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    # The exporter prints every stage, and warns of future changes in torch.
    silence = redirect_stdout(io.StringIO())
    with silence, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module.cpu().eval(),
            example,
            input_names=inputs,
            output_names=(output,),
            dynamic_shapes=shapes,
            dynamo=True,
            optimize=False,
        )
    assert program is not None
    # The exporter's own optimisation takes ten times as long, and the graph is no
    # faster for it.
    optimizer.fold_constants(program.model, onnx_shape_inference=True)
    optimizer.remove_unused_nodes(program.model)
    return program.model_proto.SerializeToString()


TOLERANCE = 1e-5
STEPS = 100
_AWAY = torch.tensor([0.1, -0.05, 0.0])
"""Offset of the robots from their references at the start, m."""
_PUSH_AT, _PUSH = 50, (0.4, 0.3, 0.0, 0.0, 0.0, 0.5)


class Observed(NamedTuple):
    """What n robots observe and the models' outputs, joints in MuJoCo order: histories
    (n, 10, 93) and commands (n, d + 2) to actions (n, 29); reference frames (n, k, 36)
    and roots (n, 7) to skills (n, d)."""

    history: np.ndarray
    command: np.ndarray
    action: np.ndarray
    rows: np.ndarray
    robot: np.ndarray
    skill: np.ndarray


class _Observer(ReferenceSource):
    """Keeps the history of the robots, and what the encoder sees and gives."""

    def __init__(
        self,
        tracker: Tracker,
        references: References,
        clips: Tensor,
        encoder: SkillEncoder,
    ):
        super().__init__(references, clips, encoder)
        self._tracker = tracker
        self._window = torch.arange(encoder.first, encoder.last + 1)
        self.seen: list[tuple[Tensor, ...]] = []

    def source(self, step: int, qpos: Tensor) -> Tensor:
        skill = super().source(step, qpos)
        rows = self.references.rows_at(self.clips, step + self._window[None])
        self.seen.append((self._tracker.history, rows, qpos[:, :7].clone(), skill))
        return skill


def observe(
    controller: Controller, encoder: SkillEncoder, clips: Sequence[Tensor]
) -> Observed:
    """Let at least two robots follow clips (T, 36), off their places and pushed."""
    clips = list(clips) if len(clips) > 1 else [*clips, *clips]
    n, tracker = len(clips), Tracker(controller)
    references = References.build(MotionTensors.of_clips(clips))
    source = _Observer(tracker, references, torch.arange(n), encoder)
    qpos, qvel = source.start
    qpos = qpos.clone()
    qpos[:, :3] += _AWAY * torch.linspace(-1, 1, n)[:, None]
    pushes = {_PUSH_AT: torch.tensor(_PUSH).expand(n, -1)}
    record = run(
        *(simulate("cpu", n), tracker, source, (qpos, qvel), STEPS),
        pushes=pushes,
        bar=tqdm(disable=True),
    )
    hold = controller.config.command.hold
    phase = observations.phase(torch.arange(STEPS) % hold, hold)
    phase = phase[:, None].expand(-1, n, -1)
    command = torch.cat((record.skills, phase), dim=-1).flatten(0, 1)
    history, *seen = (torch.cat(part) for part in zip(*source.seen, strict=True))
    parts = history, command, record.actions.flatten(0, 1), *seen
    return Observed(*(part.numpy() for part in parts))


def largest_difference(
    graph: Callable[..., np.ndarray],
    inputs: Iterable[tuple[np.ndarray, ...]],
    expected: Iterable[np.ndarray],
) -> float:
    """Return the largest difference of a graph's outputs from those expected.

    It is relative to the largest number of a row where that is above 1, since rounding
    errors grow with the numbers.
    """
    pairs = zip(inputs, expected, strict=True)
    found = [
        np.abs(graph(*given) - right).max() / max(1.0, np.abs(right).max())
        for given, right in pairs
    ]
    return float(np.max(found))  # unlike Python's max, NaN if any is NaN


def check(differences: dict[str, float]) -> None:
    """Refuse graphs that differ from their models."""
    for name, found in differences.items():
        if not found <= TOLERANCE:
            raise ValueError(
                f"{name}: differs from its model by {found:.1e} on what robots observe,"
                f" more than {TOLERANCE:g}; nothing was written"
            )
