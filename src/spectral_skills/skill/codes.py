"""Skills of whole motions: a stream for one clip, or a bank for a whole corpus.

At time t the encoder sees the reference from where the reference itself is at t, as in
pretraining, so nothing depends on a robot.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.atomic import write_file
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder

VERSION = 1
_BATCH = 4096
"""Number of windows encoded at once."""


def encode_rows(encoder: SkillEncoder, rows: Tensor | np.ndarray) -> Tensor:
    """Skills (T', d) of rows (T, 36), one for each time whose window fits the clip.

    The first skill belongs to frame `-encoder.first`; T' = T - (last - first).
    """
    if rows.ndim != 2 or rows.shape[1] != g1.QPOS_SIZE:
        shape = tuple(rows.shape)
        raise ValueError(f"rows of shape {shape}, expected (T, {g1.QPOS_SIZE})")
    device = encoder.steps.device
    rows = torch.as_tensor(rows, dtype=torch.float32, device=device)
    if len(rows) < _need(encoder):
        raise ValueError(
            f"a clip of {len(rows)} frames has no skill: the encoder sees "
            f"{_need(encoder)} frames at once"
        )
    motions = MotionTensors.of_clips([rows])
    times = torch.arange(-encoder.first, len(rows) - encoder.last, device=device)
    return encoder.encode_at(motions, torch.zeros_like(times), times)


@dataclass(frozen=True)
class SkillStream:
    """The skills of one clip."""

    skills: np.ndarray
    """(T', d)"""
    name: str
    fps: float
    encoder: str
    """Fingerprint of the encoder, since skills of another mean something else."""


def save_stream(path: Path, stream: SkillStream) -> None:
    """Write a stream as .npz, without pickle."""
    file = io.BytesIO()
    np.savez(
        file,
        allow_pickle=False,
        version=np.array(VERSION),
        skills=stream.skills,
        name=np.array(stream.name),
        fps=np.array(stream.fps, dtype=np.float64),
        encoder=np.array(stream.encoder),
    )
    write_file(path, file.getvalue())


def load_stream(path: Path, encoder: str | None = None) -> SkillStream:
    """Read a stream; refuse one of another encoder, if a fingerprint is given."""
    try:
        # Opened here, because NumPy would leave a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
        version = int(arrays["version"])
    except (ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
        raise ValueError(f"{path}: not a skill stream ({error})") from error
    if version > VERSION:
        raise ValueError(
            f"{path}: version {version} is newer than this package understands "
            f"({VERSION}); upgrade spectral-skills"
        )
    stream = SkillStream(
        skills=arrays["skills"],
        name=str(arrays["name"]),
        fps=float(arrays["fps"]),
        encoder=str(arrays["encoder"]),
    )
    if encoder is not None and stream.encoder != encoder:
        raise ValueError(
            f"{path}: skills of another encoder ({stream.encoder}, expected {encoder})"
            "; encode the clip again"
        )
    return stream


@dataclass(frozen=True)
class SkillBank:
    """Skills of a whole corpus, clip after clip, on the encoder's device."""

    skills: Tensor
    """(n, d)"""
    clips: Tensor
    """(n,) position of the clip in the corpus; clips that are too short have none."""
    times: Tensor
    """(n,) time of the skill, in frames from the clip's start."""

    @classmethod
    def build(
        cls, encoder: SkillEncoder, corpus: Corpus, every: int = 5
    ) -> "SkillBank":
        """Encode every clip at every `every`-th time that has a complete window."""
        if every < 1:
            raise ValueError(f"every is {every}, must be at least 1")
        motions = corpus.to(encoder.steps.device)
        valid = (motions.lengths - (_need(encoder) - 1)).clamp_min(0)
        counts = (valid + every - 1) // every
        total = int(counts.sum())
        if total == 0:
            longest = int(corpus.lengths.max()) if len(corpus) else 0
            raise ValueError(
                f"no clip has the {_need(encoder)} frames that one skill needs; "
                f"the longest has {longest}"
            )
        order = torch.arange(len(counts), device=motions.device)
        clips = order.repeat_interleave(counts)
        first = (counts.cumsum(0) - counts)[clips]
        number = torch.arange(total, device=motions.device) - first
        times = number * every - encoder.first
        skills = torch.empty((total, encoder.width), device=motions.device)
        # disable=None: no bar where there is no terminal.
        with tqdm(total=total, desc="encoding", unit="skill", disable=None) as bar:
            for some in torch.arange(total, device=motions.device).split(_BATCH):
                skills[some] = encoder.encode_at(motions, clips[some], times[some])
                bar.update(len(some))
        return cls(skills, clips, times)

    def clip_means(self) -> tuple[Tensor, Tensor]:
        """The clips (m,) that have skills, and the mean skill (m, d) of each."""
        clips, group, counts = self.clips.unique(
            return_inverse=True, return_counts=True
        )
        # In double, so that the order of a parallel sum has no effect.
        shape = (len(clips), self.skills.shape[1])
        total = torch.zeros(shape, dtype=torch.double, device=self.skills.device)
        total.index_add_(0, group, self.skills.double())
        return clips, (total / counts[:, None]).to(self.skills.dtype)

    def spread(self) -> float:
        """Standard deviation of the skills, averaged over dimensions."""
        return float(self.skills.std(dim=0, correction=0).mean())


def _need(encoder: SkillEncoder) -> int:
    """Number of frames from the first to the last that the encoder sees."""
    return encoder.last - encoder.first + 1
