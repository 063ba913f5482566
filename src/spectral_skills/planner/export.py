"""A whole plan of one robot as an ONNX graph: for run times without torch."""

import io
import logging
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import torch

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
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    # The exporter tells of every stage, and of what will change in torch.
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            planner.cpu().eval(),
            example,
            input_names=INPUTS,
            output_names=("chunk",),
            dynamic_shapes=shapes,
            dynamo=True,
        )
    assert program is not None
    write_file(path, program.model_proto.SerializeToString())
