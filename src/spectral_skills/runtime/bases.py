"""The bases of a bundle, made to repeat for ever, and a sample of a corpus's skills.

A clip is cut where it returns to an earlier pose. Its last frames are blended into
those before that pose, and its skills are encoded as if it continued there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.atomic import write_file
from spectral_skills.control.bundle import BaseFacts
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic import bases as generated
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.skill.encoder import SkillBank, SkillEncoder, encode_rows
from spectral_skills.spectral.support import nearest

BLEND = 15
"""Number of frames that are blended; as many on either side of a jump are compared."""
SHORTEST = 25
"""Shortest loop, in steps."""
ALIKE, UNLIKE = 0.15, 0.35
"""Differences of poses (rad of a joint or of tilt, m of height) below which they count
as the same, and above which they cannot be blended."""
REST = 50
"""Number of steps at the end of a clip that may be a rest."""
STILL = 0.05
"""Largest movement of a joint or of the root during a rest."""
_MOST = 3000
"""Number of steps before the end of a clip that are compared."""


@dataclass(frozen=True)
class Looped:
    """A motion and the part of it that repeats."""

    rows: Tensor
    """(T, 36)"""
    skills: Tensor
    """(T, d)"""
    loop: tuple[int, int]
    """Steps [begin, T) that are repeated."""


def looped(encoder: SkillEncoder, rows: np.ndarray | Tensor, cut: int) -> Looped:
    """Return a clip (T, 36) with its longest loop; at most `cut` steps are cut off.

    A clip that never returns to a pose repeats its last second if it rests there, and
    otherwise starts again, which is a jump.
    """
    clip = torch.as_tensor(rows, dtype=torch.float32)
    if (found := find(clip, cut)) is None:
        begin = max(0, len(clip) - REST) if _rests(clip) else 0
        after = clip[-1:].expand(encoder.last, -1)
        return Looped(clip, _skills(encoder, clip, after), (begin, len(clip)))
    begin, end = found
    smooth = blended(clip, begin, end)
    # After its end the clip continues as it does from `begin`.
    onward = (begin + torch.arange(encoder.last)).clamp_max(len(clip) - 1)
    after = moved(clip[onward], clip[begin], clip[end])
    return Looped(smooth, _skills(encoder, smooth, after), (begin, end))


def find(clip: Tensor, cut: int) -> tuple[int, int] | None:
    """Find two similar frames of a clip (T, 36), the second among the last `cut`.

    The clip can jump from the second to the first. Of all pairs that count as the same
    the most distant is chosen, otherwise the most similar; None if none can be blended.
    """
    first = max(0, len(clip) - _MOST)
    poses = _poses(clip[first:])
    steps = len(poses)
    earliest, latest = max(steps - cut, BLEND + SHORTEST), steps - BLEND
    if earliest >= latest:
        return None
    begins, ends = torch.arange(BLEND, latest), torch.arange(earliest, latest)
    unlike = torch.zeros(len(begins), len(ends))
    for shift in range(-BLEND, BLEND + 1):
        was, now = poses[begins + shift], poses[ends + shift]
        unlike = unlike.maximum(torch.cdist(was, now, p=torch.inf))
    distance = ends - begins[:, None]
    unlike[distance < SHORTEST] = torch.inf
    if unlike.min() > UNLIKE:
        return None
    good = unlike <= max(ALIKE, float(unlike.min()))
    best = int(torch.where(good, distance, 0).argmax())
    begin, end = begins[best // len(ends)], ends[best % len(ends)]
    return first + int(begin), first + int(end)


def moved(rows: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Move rows (n, 36) along the floor so that the frame `here` stands at `there`."""
    turn = rotation.multiply(
        rotation.heading(there[3:7]), rotation.conjugate(rotation.heading(here[3:7]))
    )
    flat = torch.tensor([1.0, 1.0, 0.0])
    position = rotation.rotate(turn, rows[:, :3] - flat * here[:3]) + flat * there[:3]
    quaternion = rotation.multiply(turn, rows[:, 3:7])
    return torch.cat((position, quaternion, rows[:, 7:]), dim=1)


def blended(clip: Tensor, begin: int, end: int) -> Tensor:
    """Return the clip up to `end`, its last frames faded into those before `begin`."""
    other = moved(clip[begin - BLEND : begin], clip[begin], clip[end])
    own = clip[end - BLEND : end]
    # A rotation has two quaternions; average the two that are close.
    side = torch.sign((own[:, 3:7] * other[:, 3:7]).sum(dim=1, keepdim=True))
    other = torch.cat((other[:, :3], side * other[:, 3:7], other[:, 7:]), dim=1)
    weight = torch.arange(1, BLEND + 1)[:, None] / (BLEND + 1)
    mean = torch.lerp(own, other, weight)
    mean[:, 3:7] = rotation.normalize(mean[:, 3:7])
    return torch.cat((clip[: end - BLEND], mean))


def _poses(clip: Tensor) -> Tensor:
    """Return (T, 33) height, tilt and joints, which do not depend on the place."""
    down = torch.tensor([0.0, 0.0, -1.0])
    tilt = rotation.rotate_inverse(clip[:, 3:7], down.expand(len(clip), 3))
    return torch.cat((clip[:, 2:3], tilt, clip[:, 7:]), dim=1)


def _rests(clip: Tensor) -> bool:
    """Return whether nothing moves at the end."""
    end = clip[-REST:, [0, 1, 2, *range(7, clip.shape[1])]]
    return bool((end.amax(dim=0) - end.amin(dim=0)).max() <= STILL)


def _skills(encoder: SkillEncoder, clip: Tensor, after: Tensor) -> Tensor:
    """Encode a skill for every frame of a clip that continues as `after`."""
    before = clip[:1].expand(-encoder.first, -1)
    return encode_rows(encoder, torch.cat((before, clip, after)))


NAMES = generated.NAMES
_STEPS, _CUT = 750, 150
"""Length of a generated base, and how much of its end may be cut for a longer loop."""
_CUT_OF_CLIP = 50
_TEXT = {
    "walk": "walk forward",
    "jog": "jog forward",
    "squat": "squat down and stand up again",
    "carry": "carry something while walking forward",
    "backward": "walk backward",
    "stand": "stand still",
    "turn-left": "turn in place to the left",
    "turn-right": "turn in place to the right",
}


@dataclass(frozen=True)
class BaseClip:
    """A base, ready to be played."""

    facts: BaseFacts
    motion: Looped


def base_clips(
    encoder: SkillEncoder, names: Sequence[str] = NAMES, corpus: Corpus | None = None
) -> Iterator[BaseClip]:
    """Yield generated bases, or clips of the corpus, by their names."""
    if not names:
        raise ValueError(f"no bases; there are {', '.join(NAMES)}, and clips")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"the base {twice[0]!r} is named twice")
    if corpus is None and not set(names) <= set(NAMES):
        corpus = Corpus.open(embedded_corpus())
    return (_base_clip(encoder, name, corpus) for name in names)


def _base_clip(encoder: SkillEncoder, name: str, corpus: Corpus | None) -> BaseClip:
    if name in NAMES:
        base, text, cut = generated.generate(name, _STEPS), _TEXT[name], _CUT
    else:
        assert corpus is not None
        base, cut = generated.of_clip(corpus, name), _CUT_OF_CLIP
        text = next(iter(corpus.entry(corpus.index(name)).text.splitlines()), "")
    motion = looped(encoder, base.rows, cut)
    return BaseClip(BaseFacts(name, text, motion.loop, base.fall_m), motion)


RELEASED_FILE = Path(__file__).parents[1] / "pretrained" / "support.safetensors"
"""Skills of the embedded corpus in the released skill space."""
SKILLS = 8192
_EVERY = 10
"""Number of frames between two skills of the corpus."""
_MEASURED = 20_000
"""Number of skills whose distance is measured."""


@dataclass(frozen=True)
class CorpusBank:
    """A sample of the skills of a corpus, to measure distances to."""

    skills: np.ndarray
    """(n, d) float16"""
    typical: float
    """Median distance of the corpus's skills to the nearest of another clip here."""
    far: float
    """99th percentile of that distance."""
    encoder: str
    """Fingerprint of the encoder of the skills."""

    @classmethod
    def build(cls, encoder: SkillEncoder, corpus: Corpus) -> "CorpusBank":
        """Random skills of a corpus and its mirror image."""
        bank = SkillBank.build(encoder, corpus.with_mirror(), _EVERY)
        skills, clips = bank.skills.cpu(), bank.clips.cpu()
        order = torch.randperm(len(skills), generator=torch.Generator().manual_seed(0))
        kept, rest = order[:SKILLS], order[SKILLS : SKILLS + _MEASURED]
        if not len(rest):  # a small corpus is kept whole
            rest = kept
        half = skills[kept].half()
        found = nearest(half.float(), skills[rest], clips[kept], clips[rest])
        typical, far = np.quantile(found.numpy(), (0.5, 0.99)).tolist()
        return cls(half.numpy(), typical, far, encoder.fingerprint())

    def save(self, path: Path) -> None:
        """Write the sample to one file."""
        about = {"typical": repr(self.typical), "far": repr(self.far)}
        data = save({"bank": self.skills}, about | {"encoder": self.encoder})
        write_file(path, data)

    @classmethod
    def load(cls, path: Path) -> "CorpusBank":
        """Read a file, or say what is wrong with it."""
        try:
            with safe_open(path, framework="numpy") as file:
                about = file.metadata() or {}
                skills = file.get_tensor("bank")
            typical, far = (float(about[name]) for name in ("typical", "far"))
            return cls(skills, typical, far, about["encoder"])
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise ValueError(f"{path}: damaged or no skill bank ({error})") from None
