"""Motions that can be repeated for ever: where to jump back, and how it is not felt.

A clip is cut where it comes to a pose that it had before, its last frames are blended
into those before that pose, and skills are encoded as if it went on there.
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
from spectral_skills.skill.codes import SkillBank, encode_rows
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.spectral.support import nearest

BLEND = 15
"""Frames that are blended into those before the loop begins; as many on either side of
a jump are compared."""
SHORTEST = 25
"""Steps of a loop at least."""
ALIKE, UNLIKE = 0.15, 0.35
"""Poses that differ by less, in rad of a joint or of tilt or in m of height, are as
good as the same; those that differ by more cannot be blended."""
REST = 50
"""Steps at the end of a clip that may be a rest."""
STILL = 0.05
"""A rest moves no joint and the root no farther."""
_MOST = 3000
"""Steps before the end of a clip that are compared."""


@dataclass(frozen=True)
class Looped:
    """A motion as it is played."""

    rows: Tensor
    """(T, 36)"""
    skills: Tensor
    """(T, d)"""
    loop: tuple[int, int]
    """Steps [begin, T) that are repeated."""


def looped(encoder: SkillEncoder, rows: np.ndarray | Tensor, cut: int) -> Looped:
    """A clip (T, 36) with the longest loop there is, blended; at most `cut` steps of
    its end are lost.

    One that never comes back to a pose repeats its last second if it rests then, and
    else begins anew, which is a jump.
    """
    clip = torch.as_tensor(rows, dtype=torch.float32)
    if (found := find(clip, cut)) is None:
        begin = max(0, len(clip) - REST) if _rests(clip) else 0
        after = clip[-1:].expand(encoder.last, -1)
        return Looped(clip, _skills(encoder, clip, after), (begin, len(clip)))
    begin, end = found
    smooth = blended(clip, begin, end)
    # Past its end it goes on as it does from `begin`.
    onward = (begin + torch.arange(encoder.last)).clamp_max(len(clip) - 1)
    after = moved(clip[onward], clip[begin], clip[end])
    return Looped(smooth, _skills(encoder, smooth, after), (begin, end))


def find(clip: Tensor, cut: int) -> tuple[int, int] | None:
    """Two frames of a clip (T, 36) from the second of which it could go on from the
    first; the second is one of the last `cut`. None if there are none.

    Of all pairs of frames that are alike the most distant, else the most alike.
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
    apart = ends - begins[:, None]
    unlike[apart < SHORTEST] = torch.inf
    if unlike.min() > UNLIKE:
        return None
    good = unlike <= max(ALIKE, float(unlike.min()))
    best = int(torch.where(good, apart, 0).argmax())
    begin, end = begins[best // len(ends)], ends[best % len(ends)]
    return first + int(begin), first + int(end)


def moved(rows: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Rows (n, 36), put on the floor so that the frame `here` stands as `there`."""
    turn = rotation.multiply(
        rotation.heading(there[3:7]), rotation.conjugate(rotation.heading(here[3:7]))
    )
    flat = torch.tensor([1.0, 1.0, 0.0])
    position = rotation.rotate(turn, rows[:, :3] - flat * here[:3]) + flat * there[:3]
    quaternion = rotation.multiply(turn, rows[:, 3:7])
    return torch.cat((position, quaternion, rows[:, 7:]), dim=1)


def blended(clip: Tensor, begin: int, end: int) -> Tensor:
    """The clip up to `end`, its last frames more and more those before `begin`."""
    other = moved(clip[begin - BLEND : begin], clip[begin], clip[end])
    own = clip[end - BLEND : end]
    # The same rotation has two signs; the mean is of the two that are near.
    side = torch.sign((own[:, 3:7] * other[:, 3:7]).sum(dim=1, keepdim=True))
    other = torch.cat((other[:, :3], side * other[:, 3:7], other[:, 7:]), dim=1)
    weight = torch.arange(1, BLEND + 1)[:, None] / (BLEND + 1)
    mean = torch.lerp(own, other, weight)
    mean[:, 3:7] = rotation.normalize(mean[:, 3:7])
    return torch.cat((clip[: end - BLEND], mean))


def _poses(clip: Tensor) -> Tensor:
    """(T, 33) height, tilt and joints: what does not depend on where a robot is."""
    down = torch.tensor([0.0, 0.0, -1.0])
    tilt = rotation.rotate_inverse(clip[:, 3:7], down.expand(len(clip), 3))
    return torch.cat((clip[:, 2:3], tilt, clip[:, 7:]), dim=1)


def _rests(clip: Tensor) -> bool:
    """Whether nothing moves at the end."""
    end = clip[-REST:, [0, 1, 2, *range(7, clip.shape[1])]]
    return bool((end.amax(dim=0) - end.amin(dim=0)).max() <= STILL)


def _skills(encoder: SkillEncoder, clip: Tensor, after: Tensor) -> Tensor:
    """A skill for every frame of a clip that goes on as `after`."""
    before = clip[:1].expand(-encoder.first, -1)
    return encode_rows(encoder, torch.cat((before, clip, after)))


NAMES = generated.NAMES
_STEPS, _CUT = 750, 150
"""Of a generated base; so many of its end may be cut where a loop is longer."""
_CUT_OF_CLIP = 50
_SAID = {
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
    """A motion, ready to be played."""

    facts: BaseFacts
    motion: Looped


def base_clips(
    encoder: SkillEncoder, names: Sequence[str] = NAMES, corpus: Corpus | None = None
) -> Iterator[BaseClip]:
    """Bases by their names, else clips of the corpus: the embedded one by default."""
    if not names:
        raise ValueError(f"no bases; there are {', '.join(NAMES)}, and clips")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"the base {twice[0]!r} is named twice")
    if corpus is None and not set(names) <= set(NAMES):
        corpus = Corpus.open(embedded_corpus())
    return (_base_clip(encoder, name, corpus) for name in names)


def _base_clip(encoder: SkillEncoder, name: str, corpus: Corpus | None) -> BaseClip:
    if name in NAMES:
        base, text, cut = generated.generate(name, _STEPS), _SAID[name], _CUT
    else:
        assert corpus is not None
        base, cut = generated.of_clip(corpus, name), _CUT_OF_CLIP
        text = next(iter(corpus.entry(corpus.index(name)).text.splitlines()), "")
    motion = looped(encoder, base.rows, cut)
    return BaseClip(BaseFacts(name, text, motion.loop, base.fall_m), motion)


# Skills of a corpus, few enough to carry along, and how far others are from them.

RELEASED_FILE = Path(__file__).parents[1] / "pretrained" / "support.safetensors"
"""Of the embedded corpus, in the skill space that comes with the package; written by
`spectral export` with that corpus."""
SKILLS = 8192
_EVERY = 10
"""Frames between skills of the corpus."""
_MEASURED = 20_000
"""Skills whose distance is measured."""


@dataclass(frozen=True)
class CorpusBank:
    """Some skills of a corpus."""

    skills: np.ndarray
    """(n, d) float16"""
    typical: float
    """Median distance of the corpus's skills to the nearest of another clip here."""
    far: float
    """Its 99th percentile."""
    encoder: str
    """Fingerprint of the encoder of the skills."""

    @classmethod
    def build(cls, encoder: SkillEncoder, corpus: Corpus) -> "CorpusBank":
        """Random skills of a corpus and its mirror image."""
        bank = SkillBank.build(encoder, corpus.with_mirror(), _EVERY)
        skills, clips = bank.skills.cpu(), bank.clips.cpu()
        order = torch.randperm(len(skills), generator=torch.Generator().manual_seed(0))
        kept, rest = order[:SKILLS], order[SKILLS : SKILLS + _MEASURED]
        if not len(rest):  # a small corpus is carried along whole
            rest = kept
        half = skills[kept].half()
        found = nearest(half.float(), skills[rest], clips[kept], clips[rest])
        typical, far = np.quantile(found.numpy(), (0.5, 0.99)).tolist()
        return cls(half.numpy(), typical, far, encoder.fingerprint())

    def save(self, path: Path) -> None:
        """Write one file."""
        told = {"typical": repr(self.typical), "far": repr(self.far)}
        data = save({"bank": self.skills}, told | {"encoder": self.encoder})
        write_file(path, data)

    @classmethod
    def load(cls, path: Path) -> "CorpusBank":
        """Read a file; says what is wrong with it."""
        try:
            with safe_open(path, framework="numpy") as file:
                told = file.metadata() or {}
                skills = file.get_tensor("bank")
            typical, far = (float(told[name]) for name in ("typical", "far"))
            return cls(skills, typical, far, told["encoder"])
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise ValueError(f"{path}: damaged or no skill bank ({error})") from None
