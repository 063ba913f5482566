"""Rows to train planners on: what robots sensed, and the commands that came next.

A folder holds `rows.json`, the origin of the rows, and `frames.safetensors`, one frame
for every robot and step. A row is a position in it. Its history is the ten frames up to
there; its chunk is the next thirty commands, or the thirty reference poses relative to
the robot, which is taken to be in its place and heading.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills.artifact import write_tensors
from spectral_skills.atomic import replacing_folder
from spectral_skills.motion.windows import POSE_SIZE, anchor_poses
from spectral_skills.tracking.observations import HISTORY, PROPRIO

VERSION = 1
CHUNK = 30
"""Number of commands that are planned at once."""
Output = Literal["skill", "pose"]
FRAMES = ("proprio", "skill", "root", "reference", "motion", "valid")
_ABOUT, _ARRAYS = "rows.json", "frames.safetensors"


@dataclass(frozen=True)
class Motion:
    name: str
    sentences: tuple[str, ...]
    """Sentences to train with."""
    held_out: tuple[str, ...] = ()
    """Sentences that only test a planner."""
    frames: int = 0
    """Length in control steps."""
    # The hash of rows is older than these.
    first: int | None = field(default=None, repr=False)
    """First frame in its clip; None where that was not noted."""
    loop: int | None = field(default=None, repr=False)
    """Frame, counted from the first, from which it continues at its end."""


@dataclass(frozen=True)
class About:
    """Origin of rows."""

    controller: str
    """Weights hash of the controller that executed the motions."""
    encoder: str
    """Fingerprint of the encoder of its skills; empty if it follows poses."""
    command: Output
    hold: int
    """Number of control steps for which a command is held."""
    corpus: str
    """Hashes of the corpora of the motions, joined by plus signs."""
    motions: tuple[Motion, ...]
    version: int = VERSION

    @property
    def sentences(self) -> tuple[str, ...]:
        """Training sentences, motion by motion."""
        return tuple(s for motion in self.motions for s in motion.sentences)


class Batch(NamedTuple):
    """The contents of some rows."""

    history: Tensor
    """(n, 10, 93) sensed frames, oldest first."""
    chunk: Tensor
    """(n, 30, a)"""
    motion: Tensor
    """(n,) index of the motion."""


class Rows:
    """Frames of robots (T, n, ...), and which of them are rows."""

    def __init__(self, about: About, frames: dict[str, Tensor]):
        self.about, self._frames = about, frames
        self.device = frames["proprio"].device
        steps, self.robots = frames["valid"].shape
        self.places = _places(frames["valid"], frames["motion"], about.hold)
        """(rows, 2) step and robot."""
        if not len(self.places):
            raise ValueError(
                f"no rows: in {steps} steps of {self.robots} robots, none is upright "
                f"for {CHUNK} steps of one motion"
            )
        # The names of `About` and `Motion` are part of it, and so must not change.
        self.hash = hashlib.blake2b(
            repr((about, steps, frames["proprio"].double().sum().item())).encode(),
            digest_size=8,
        ).hexdigest()

    def __len__(self) -> int:
        return len(self.places)

    @property
    def upright(self) -> float:
        """Share of the robots that stayed upright to the end."""
        return self._frames["valid"][-1].float().mean().item()

    def width(self, output: Output) -> int:
        """Size of one command of a chunk."""
        return POSE_SIZE if output == "pose" else self._frames["skill"].shape[-1]

    def batch(self, indices: Tensor, output: Output) -> Batch:
        """The rows of indices (n,)."""
        frames, (step, robot) = self._frames, self.places[indices].unbind(-1)
        back = torch.arange(1 - HISTORY, 1, device=self.device)
        # Before the start the first frame repeats, as in the controller's history.
        past = (step[:, None] + back).clamp_min(0)
        history = frames["proprio"][past, robot[:, None]].float()
        future = step[:, None] + torch.arange(CHUNK, device=self.device)
        if output == "skill":
            chunk = frames["skill"][future, robot[:, None]].float()
        else:
            # A controller of poses follows the next pose, an encoder begins with this.
            future = future + (self.about.command == "pose")
            root = frames["root"][step, robot]
            rows = frames["reference"][future, robot[:, None]]
            chunk = anchor_poses(rows, root[:, :3], root[:, 3:], "heading")
        return Batch(history, chunk, frames["motion"][step, robot].long())

    def split(self, share: float = 0.02) -> tuple[Tensor, Tensor]:
        """Indices of training rows and of held-out rows, by whole robots."""
        every = max(2, min(round(1 / share), self.robots))
        held = self.places[:, 1] % every == every - 1
        return (~held).nonzero()[:, 0], held.nonzero()[:, 0]

    def save(self, folder: Path) -> None:
        with replacing_folder(folder) as temporary:
            kept = {name: self._frames[name] for name in FRAMES}
            write_tensors(temporary / _ARRAYS, kept)
            (temporary / _ABOUT).write_text(configs.dumps(self.about))

    @classmethod
    def open(cls, folder: Path, device: torch.device | str = "cpu") -> "Rows":
        """Read a folder, or say what is wrong with it."""
        path = folder / _ABOUT
        if not path.is_file():
            raise FileNotFoundError(f"{folder}: no rows here ({_ABOUT} is missing)")
        about = configs.loads(About, path.read_text(), str(path))
        if about.version > VERSION:
            raise ValueError(
                f"{path}: version {about.version} is newer than this package "
                f"understands ({VERSION}); upgrade spectral-skills"
            )
        try:
            frames = load_file(folder / _ARRAYS, str(device))
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{folder / _ARRAYS}: damaged ({error})") from error
        if missing := set(FRAMES) - set(frames):
            raise ValueError(f"{folder / _ARRAYS}: {sorted(missing)[0]} is missing")
        if frames["proprio"].shape[-1] != PROPRIO:
            raise ValueError(
                f"{folder}: frames of {frames['proprio'].shape[-1]} numbers, not of "
                f"{PROPRIO}"
            )
        return cls(about, frames)


def _places(valid: Tensor, motion: Tensor, hold: int) -> Tensor:
    """(rows, 2) steps and robots at which a new command is due, and from which a chunk
    and one more frame belong to one motion of an upright robot."""
    # The motion is the same throughout if the number of changes is the same.
    changes = (motion[1:] != motion[:-1]).cumsum(dim=0)
    changes = torch.cat((torch.zeros_like(changes[:1]), changes))
    # A robot that fails never recovers, so checking the last frame is enough.
    good = (changes[:-CHUNK] == changes[CHUNK:]) & valid[CHUNK:]
    good &= (torch.arange(len(good), device=valid.device) % hold == 0)[:, None]
    return good.nonzero()
