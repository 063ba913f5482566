"""How long it takes to plan, and to read a sentence."""

import importlib.util
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from spectral_skills.planner.model import GraphedPlan, Planner
from spectral_skills.planner.text import MiniLM, TextEncoder, TextStates
from spectral_skills.results import Result, hardware
from spectral_skills.tracking.observations import HISTORY, PROPRIO

_WORDS = 12
"""Tokens of a usual sentence, with those at its ends."""

_GOALS = {"cpu": "20 on a core of a laptop", "cuda": "3"}


def planner(device: str) -> list[Result]:
    """What the released planner takes for one robot, and to read a new sentence."""
    kind = torch.device(device).type
    encoder = MiniLM() if kind == "cpu" else None
    machine = hardware(device)
    if kind == "cpu":
        machine = f"{machine.rpartition(',')[0]}, 1 thread"
    found = measure(Planner.load("base", device), device, encoder)
    if kind == "cpu":
        found |= _exported(Planner.load("base"))
    told = {
        "exported_ms": ("one plan, exported to ONNX", _GOALS[kind]),
        "plan_ms": ("one plan of 30 skills", _GOALS[kind]),
        "plan_p99_ms": ("one plan of 30 skills, 99th percentile", ""),
        "encode_ms": ("a sentence that is new", ""),
    }
    return [
        Result(
            "Planning: latency",
            row,
            "time",
            found[name],
            "ms",
            paper=goal,
            command=f"spectral bench planner --device {kind}",
            hardware=machine,
        )
        for name, (row, goal) in told.items()
        if name in found
    ]


def measure(
    planner: Planner,
    device: str,
    encoder: TextEncoder | None = None,
    calls: int = 50,
) -> dict[str, float]:
    """Milliseconds of a plan for one robot, by one CPU thread or by a GPU, where the
    planner then is.

    `plan_ms` and `plan_p99_ms` are the median and the 99th percentile of so many
    calls in the best of five runs: other programs may share the machine. `encode_ms`
    is what a sentence costs that was never read before.
    """
    threads = torch.get_num_threads()
    planner = planner.to(device).eval()
    size = planner.config.head.text
    text = TextStates(torch.randn(1, _WORDS, size), torch.ones(1, _WORDS).bool())
    text, history = text.to(device), torch.randn(1, HISTORY, PROPRIO, device=device)
    plan: Callable[[], Tensor] = lambda: planner.plan(history, text)  # noqa: E731
    if history.device.type == "cuda":
        graphed = GraphedPlan(planner, robots=1)
        plan = lambda: graphed(history, text).cpu()  # noqa: E731
    torch.set_num_threads(1)
    try:
        runs = [_milliseconds(plan, calls) for _ in range(5)]
        best = min(runs, key=np.median)
        found = {
            "plan_ms": float(np.median(best)),
            "plan_p99_ms": float(np.percentile(best, 99)),
        }
        if encoder is not None:
            sentences = iter(f"walk forward and count to {i}" for i in range(1000))
            read = _milliseconds(lambda: encoder.encode([next(sentences)]), 9)
            found["encode_ms"] = float(np.median(read))
    finally:
        torch.set_num_threads(threads)
    return found


def _exported(planner: Planner) -> dict[str, float]:
    """What onnxruntime takes on one thread, where it is installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return {}
    import onnxruntime

    from spectral_skills.planner.export import INPUTS, export

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    head = planner.config.head
    given = (
        torch.randn(1, HISTORY, PROPRIO),
        torch.randn(1, _WORDS, head.text),
        torch.ones(1, _WORDS, dtype=torch.bool),
        torch.randn(1, head.chunk, head.action),
    )
    feed = {n: v.numpy() for n, v in zip(INPUTS, given, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "planner.onnx"
        export(planner, path)
        session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        runs = [_milliseconds(lambda: session.run(None, feed), 50) for _ in range(5)]
    return {"exported_ms": float(min(np.median(run) for run in runs))}


def _milliseconds(function: Callable, calls: int) -> np.ndarray:
    """Of each call, after two that do not count."""
    times = []
    for _ in range(calls + 2):
        began = time.perf_counter()
        function()
        times.append(1e3 * (time.perf_counter() - began))
    return np.array(times[2:])
