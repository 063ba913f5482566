"""Whether graphs compute what the models compute, on what robots really observe."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.control.run import Tracker, run
from spectral_skills.control.source import ReferenceSource
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import simulate
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking import observations
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.references import References

TOLERANCE = 1e-5
STEPS = 100
_AWAY = torch.tensor([0.1, -0.05, 0.0])
"""Where robots begin, m from the reference."""
_PUSH_AT, _PUSH = 50, (0.4, 0.3, 0.0, 0.0, 0.0, 0.5)


@dataclass(frozen=True)
class Observed:
    """What robots observed and what the models made of it, joints in MuJoCo order."""

    history: np.ndarray
    """(n, 10, 93)"""
    command: np.ndarray
    """(n, d + 2)"""
    action: np.ndarray
    """(n, 29)"""
    rows: np.ndarray
    """(n, k, 36) reference frames that the encoder sees."""
    robot: np.ndarray
    """(n, 7) roots."""
    skill: np.ndarray
    """(n, d)"""


class _Tracker(Tracker):
    """Keeps what the controller is given, and what it gives."""

    def __init__(self, controller: Controller):
        super().__init__(controller)
        self.seen: list[tuple[Tensor, ...]] = []

    def act(self, source: Tensor) -> Tensor:
        since = torch.full((len(source),), self._step % self.command.hold)
        action = super().act(source)
        phase = observations.phase(since, self.command.hold)
        command = torch.cat((self.source, phase), dim=-1)
        self.seen.append((self.history, command, action))
        return action


class _Source(ReferenceSource):
    """Keeps what the encoder is given, and what it gives."""

    def __init__(self, references: References, clips: Tensor, encoder: SkillEncoder):
        super().__init__(references, clips, encoder)
        self._window = torch.arange(encoder.first, encoder.last + 1)
        self.seen: list[tuple[Tensor, ...]] = []

    def source(self, step: int, qpos: Tensor) -> Tensor:
        skill = super().source(step, qpos)
        rows = self.references.rows_at(self.clips, step + self._window[None])
        self.seen.append((rows, qpos[:, :7].clone(), skill))
        return skill


def as_references(clips: Sequence[Tensor]) -> tuple[References, Tensor]:
    """Clips (T, 36) to be followed, and their numbers."""
    lengths = torch.tensor([len(rows) for rows in clips])
    motions = MotionTensors(
        rows=torch.cat(list(clips)),
        starts=lengths.cumsum(0) - lengths,
        lengths=lengths,
        mirrored=torch.zeros(len(clips), dtype=torch.bool),
        has_mirrored=False,
    )
    return References.build(motions), torch.arange(len(clips))


def observe(
    controller: Controller, encoder: SkillEncoder, clips: Sequence[Tensor]
) -> Observed:
    """Let robots follow clips (T, 36), at least two robots, some way off and pushed."""
    clips = list(clips) if len(clips) > 1 else [*clips, *clips]
    references, chosen = as_references(clips)
    source, tracker = _Source(references, chosen, encoder), _Tracker(controller)
    begin = references.at(chosen, torch.zeros_like(chosen))
    qpos = begin.rows.clone()
    qpos[:, :3] += _AWAY * torch.linspace(-1, 1, len(clips))[:, None]
    pushes = {_PUSH_AT: torch.tensor(_PUSH).expand(len(clips), -1)}
    with tqdm(disable=True) as bar:
        physics = simulate("cpu", len(clips))
        run(
            *(physics, tracker, source, (qpos, begin.qvel), STEPS),
            pushes=pushes,
            bar=bar,
        )
    parts = (*zip(*tracker.seen, strict=True), *zip(*source.seen, strict=True))
    return Observed(*(torch.cat(part).numpy() for part in parts))


def largest_difference(
    graph: Callable[..., np.ndarray],
    inputs: Iterable[tuple[np.ndarray, ...]],
    expected: Iterable[np.ndarray],
) -> float:
    """Between what a graph gives and what it should; as a share of the largest number
    of a row where that is above 1, since rounding grows with what is rounded."""
    pairs = zip(inputs, expected, strict=True)
    found = [
        np.abs(graph(*given) - right).max() / max(1.0, np.abs(right).max())
        for given, right in pairs
    ]
    return float(np.max(found))  # unlike Python's, not a number if one is not


def check(differences: dict[str, float]) -> None:
    """Refuse graphs that are not what they were made of."""
    for name, found in differences.items():
        if not found <= TOLERANCE:
            raise ValueError(
                f"{name}: differs from its model by {found:.1e} on what robots observe,"
                f" more than {TOLERANCE:g}; nothing was written"
            )
