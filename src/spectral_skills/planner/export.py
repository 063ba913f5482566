"""Networks as ONNX graphs, for run times without torch; a whole plan is one graph."""

import io
import logging
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spectral_skills.atomic import write_file
from spectral_skills.planner.model import Planner
from spectral_skills.tracking.observations import HISTORY, PROPRIO

INPUTS = ("history", "states", "mask", "noise")
_WORDS = 12
"""Tokens of the example; the graph takes any number."""


def export(planner: Planner, path: Path) -> None:
    """Write a planner: history (1, 10, 93), token states (1, k, 384), their mask (1, k)
    and noise (1, 30, a) to a chunk (1, 30, a), all four steps of the flow inside."""
    head = planner.config.head
    example = (
        torch.zeros(1, HISTORY, PROPRIO),
        torch.zeros(1, _WORDS, head.text),
        torch.ones(1, _WORDS, dtype=torch.bool),
        torch.zeros(1, head.chunk, head.action),
    )
    tokens = torch.export.Dim("tokens", min=1, max=256)
    shapes = {name: {} for name in INPUTS} | {
        "states": {1: tokens},
        "mask": {1: tokens},
    }
    write_file(path, to_onnx(planner, example, INPUTS, "chunk", shapes))


def to_onnx(
    module: nn.Module,
    example: tuple[Tensor, ...],
    inputs: Sequence[str],
    output: str,
    shapes: dict[str, Any] | None = None,
) -> bytes:
    """A module with one output as a graph; `shapes` are those that may vary."""
    from onnxscript import optimizer

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    # The exporter tells of every stage, and of what will change in torch.
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
    # All that the exporter's own optimisation does to a plan takes ten times as long,
    # and the graph is no faster for it.
    optimizer.fold_constants(program.model, onnx_shape_inference=True)
    optimizer.remove_unused_nodes(program.model)
    return program.model_proto.SerializeToString()
