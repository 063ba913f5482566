"""How long a plan takes, and how long it takes to read a new sentence.

python benchmarks/planner.py planner --device cpu
"""

import time
from collections.abc import Callable

import numpy as np
import onnxruntime
import report
import torch
from torch import Tensor

from spectral_skills.planner.model import Planner
from spectral_skills.planner.text import MiniLM, TextEncoder, TextStates
from spectral_skills.results import Result
from spectral_skills.runtime.graphs import INPUTS, planner_onnx
from spectral_skills.skill.model import SkillModel
from spectral_skills.tracking.observations import HISTORY, PROPRIO

_WORDS = 12
"""Number of tokens of a typical sentence, including the two at its ends."""
_GOALS = {"cpu": "20 on a core of a laptop", "cuda": "3"}


class GraphedPlan:
    """`Planner.plan` as one CUDA graph, for fixed numbers of robots and sentences.

    Sentences may have up to `tokens` tokens. The graph sees weights that change in
    place, but not weights that are replaced.
    """

    def __init__(
        self, planner: Planner, robots: int, sentences: int = 1, tokens: int = 32
    ):
        device = planner.chunk_mean.device
        if device.type != "cuda":
            raise ValueError(f"CUDA graphs run on cuda, and the planner is on {device}")
        head = planner.config.head
        self._noise = torch.randn(robots, head.chunk, head.action, device=device)
        self._history = torch.zeros(robots, HISTORY, PROPRIO, device=device)
        self._text = TextStates(
            torch.zeros(sentences, tokens, head.text, device=device),
            torch.ones(sentences, tokens, dtype=torch.bool, device=device),
        )
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):  # libraries initialise outside the graph
            for _ in range(3):
                planner.plan(self._history, self._text, self._noise)
        torch.cuda.current_stream(device).wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._chunk = planner.plan(self._history, self._text, self._noise)

    def __call__(
        self, history: Tensor, text: TextStates, noise: Tensor | None = None
    ) -> Tensor:
        """The same chunks as `plan`."""
        self._text.mask.zero_()
        for own, given in zip(self._text, text, strict=True):
            own[:, : given.shape[1]] = given
        self._history.copy_(history)
        self._noise.normal_() if noise is None else self._noise.copy_(noise)
        self._graph.replay()
        return self._chunk.clone()


def planner(device: str) -> list[Result]:
    """Latencies of the released planner for one robot."""
    kind = torch.device(device).type
    released = Planner.load("base", device)
    if kind == "cpu":
        found = measure(released, device, MiniLM()) | _exported(released)
    else:
        found = measure(released, device)
    rows = {
        "exported_ms": ("one plan, exported to ONNX", _GOALS[kind]),
        "plan_ms": ("one plan of 30 skills", _GOALS[kind]),
        "plan_p99_ms": ("one plan of 30 skills, 99th percentile", ""),
        "encode_ms": ("a sentence that is new", ""),
    }
    return [
        Result("Planning: latency", row, "time", found[name], "ms", paper=goal)
        for name, (row, goal) in rows.items()
        if name in found
    ]


def measure(
    planner: Planner, device: str, encoder: TextEncoder | None = None, calls: int = 50
) -> dict[str, float]:
    """Milliseconds of a plan for one robot, by one CPU thread or by a GPU.

    `plan_ms` and `plan_p99_ms` are the median and the 99th percentile of the best of
    five runs, because other programs may share the machine. `encode_ms` is the time
    for a sentence that was never read before.
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
        best = min((_milliseconds(plan, calls) for _ in range(5)), key=np.median)
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
    """The same for onnxruntime on one thread."""
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
    graph = planner_onnx(planner, SkillModel.load("base").encoder)
    session = onnxruntime.InferenceSession(
        graph, options, providers=["CPUExecutionProvider"]
    )
    runs = [_milliseconds(lambda: session.run(None, feed), 50) for _ in range(5)]
    return {"exported_ms": float(min(np.median(run) for run in runs))}


def _milliseconds(function: Callable, calls: int) -> np.ndarray:
    """Times of the calls; two calls before them are not counted."""
    times = []
    for _ in range(calls + 2):
        began = time.perf_counter()
        function()
        times.append(1e3 * (time.perf_counter() - began))
    return np.array(times[2:])


if __name__ == "__main__":
    torch.set_num_threads(1)
    report.main(planner)
