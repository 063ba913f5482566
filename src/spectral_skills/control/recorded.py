"""Bases made from recorded motions: their skills, without the motions themselves.

A file of them is like weights: 64 numbers a step, and the pose that a robot starts
from. `recorded.toml` says which frames of which clips they are.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from scipy.ndimage import uniform_filter1d
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.control.looping import (
    REST,
    headings,
    looped,
    speed_m_s,
    tilt_rad,
    turn_direction,
)
from spectral_skills.control.played import BaseFacts, PlayedBase
from spectral_skills.control.run import encode_clip
from spectral_skills.control.steering import RAMP_STEPS, chain
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import Corpus, Entry
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.skill.encoder import SkillEncoder

CHOSEN = Path(__file__).with_name("recorded.toml")
RELEASED = Path(__file__).parents[1] / "pretrained" / "bases.safetensors"
"""Recorded bases in the released skill space."""
_CUT = 60
"""Number of steps that may be cut off the end of a clip for a longer loop."""
_NEARBY, _SMOOTH = 100, 13
"""Number of steps in which a slow moment is looked for, and over which a speed is
averaged."""


@dataclass(frozen=True)
class Chosen:
    """Frames of a clip that become a base."""

    clip: str
    text: str
    frames: tuple[int, int]
    """First frame, and the one after the last."""
    once: bool = False
    """Whether it ends in standing; otherwise it is repeated."""
    straight: bool = False
    """Whether a repetition ends with the heading that it began with, which no person's
    steps do exactly."""


def chosen(path: Path = CHOSEN) -> dict[str, Chosen]:
    """Read a list of bases."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: no list of bases ({error})") from None
    return {
        name: configs.from_dict(Chosen, values, f"{path}: {name}")
        for name, values in tables.items()
    }


def make(
    encoder: SkillEncoder,
    corpus: Corpus,
    wanted: Mapping[str, Chosen],
    held_out: float = 0.05,
) -> dict[str, PlayedBase]:
    """Encode clips of a corpus; refuses those that models are tested on."""
    known = {n for n in corpus.names if motion_sets.name_hash(n, 0) >= held_out}
    made = {}
    for name, one in wanted.items():
        corpus.index(one.clip)
        if one.clip not in known:
            raise ValueError(
                f"{name}: {one.clip} is held out for tests; choose another"
            )
        if name in bases.NAMES:
            raise ValueError(f"{name}: a generated base has this name; choose another")
        made[name] = _encoded(encoder, corpus, name, one)
    return made


def cut(
    encoder: SkillEncoder, corpus: Corpus, name: str, one: Chosen
) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Return the motion (T, 36) of a base, its skills and the steps that are repeated;
    what ends in standing has more skills than frames."""
    index, (first, last) = corpus.index(one.clip), one.frames
    entry = corpus.entry(index)
    if not 0 <= first < last <= entry.length:
        raise ValueError(
            f"{name}: frames {first} to {last} of {one.clip}, which has {entry.length}"
        )
    clip = torch.tensor(np.asarray(corpus.qpos(index)[first:last], np.float32))
    if one.once:
        return _once(encoder, clip)
    rows, skills, loop = looped(encoder, clip, _CUT)
    if loop == (0, len(clip)):
        raise ValueError(
            f"{name}: {one.clip} never returns to a pose between its frames {first} "
            f"and {last}; choose others, or play it `once`"
        )
    return rows, skills, loop


def _encoded(
    encoder: SkillEncoder, corpus: Corpus, name: str, one: Chosen
) -> PlayedBase:
    place = origin(corpus.entry(corpus.index(one.clip)), one.clip, one.frames)
    parts = cut(encoder, corpus, name, one)
    return _played(encoder, name, one.text, *parts, place, one.straight)


def of_motion(
    encoder: SkillEncoder, name: str, entry: Entry, rows: np.ndarray, part: slice
) -> PlayedBase:
    """A part of a clip (T, 36), which is repeated if it returns to a pose or ends at
    rest; else it begins and ends where the clip is slowest nearby, and then stands."""
    parts = looped(encoder, _clip(rows, part), _CUT)
    if parts[2] == (0, part.stop - part.start):
        part = _from_rest_to_rest(rows, part)
        parts = _once(encoder, _clip(rows, part))
    place = origin(entry, entry.name, (part.start, part.stop))
    return _played(encoder, name, name, *parts, place)


def _clip(rows: np.ndarray, part: slice) -> Tensor:
    return torch.tensor(np.asarray(rows[part], np.float32))


def _from_rest_to_rest(rows: np.ndarray, part: slice) -> slice:
    """A part of a clip and what comes before and after it, up to where the pelvis is
    slowest within two seconds."""
    speed = np.linalg.norm(np.gradient(rows[:, :3], axis=0), axis=1)
    smooth = uniform_filter1d(speed, _SMOOTH)
    before = max(0, part.start - _NEARBY)
    first = before + int(smooth[before : part.start + 1].argmin())
    after = smooth[part.stop - 1 : part.stop + _NEARBY]
    return slice(first, part.stop + int(after.argmin()))


def origin(entry: Entry, clip: str, frames: tuple[int, int]) -> str:
    """Where frames of a clip are from, for people to read."""
    first, last = frames
    return f"{entry.source} {clip}, frames {first} to {last} ({entry.licence})"


def _once(
    encoder: SkillEncoder, clip: Tensor
) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """A clip, its skills that fade into those of standing, and the steps of these."""
    skills = _ending(encoder, encode_clip(encoder, clip))
    return clip, skills, (len(skills) - REST, len(skills))


def _played(
    encoder: SkillEncoder,
    name: str,
    text: str,
    rows: Tensor,
    skills: Tensor,
    loop: tuple[int, int],
    origin: str,
    straight: bool = False,
) -> PlayedBase:
    own, (begin, end) = headings(rows), loop
    if straight:
        share = np.arange(1, end - begin + 1) / (end - begin)
        own[begin:end] -= share * (own[end - 1] - own[begin - 1])
    return PlayedBase(
        name,
        text,
        loop,
        bases.fall_m(rows.numpy()),
        skills.numpy(),
        rows[:2].numpy(),
        turn_direction(encoder, rows).numpy(),
        np.pad(own, (0, len(skills) - len(own)), mode="edge"),
        tilt_rad=tilt_rad(rows),
        speed_m_s=speed_m_s(rows),
        origin=origin,
    )


def _ending(encoder: SkillEncoder, skills: Tensor) -> Tensor:
    """Skills that fade into those of standing, which are repeated."""
    rows = torch.from_numpy(bases.generate("stand", RAMP_STEPS + REST).rows)
    stand = encode_clip(encoder, rows)[: RAMP_STEPS + REST]
    return torch.from_numpy(chain([skills.numpy(), stand.numpy()], RAMP_STEPS)[0])


def write(path: Path, made: Mapping[str, PlayedBase], encoder: str) -> None:
    """Write bases in half precision, but for poses; `encoder` is its fingerprint."""
    arrays = {}
    for base in made.values():
        for key, array in base.arrays.items():
            exact = key.endswith((".rows", ".headings"))
            kind = torch.float32 if exact else torch.bfloat16
            arrays[key] = torch.tensor(array).to(kind)
    facts = json.dumps([asdict(base.facts) for base in made.values()])
    write_file(path, save(arrays, {"bases": facts, "encoder": encoder}))


def read(path: Path, encoder: str) -> dict[str, PlayedBase]:
    """Read bases; refuses those of another encoder, whose skills mean other things."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            arrays = {k: file.get_tensor(k).float().numpy() for k in file.keys()}
        facts = json.loads(about["bases"])
        found = [configs.from_dict(BaseFacts, one, str(path)) for one in facts]
        made = {one.name: PlayedBase.of(one, arrays) for one in found}
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: damaged or no file of bases ({error})") from None
    if about["encoder"] != encoder:
        raise ValueError(
            f"{path}: skills of the encoder {about['encoder']}, this one is {encoder}; "
            "make them anew with `spectral skills bases`"
        )
    return made


def released(encoder: str) -> dict[str, PlayedBase]:
    """Bases that come with the package; none for another encoder than the released."""
    try:
        return read(RELEASED, encoder)
    except ValueError:
        return {}


def as_base(played: PlayedBase, steps: int) -> Base:
    """A base of so many control steps, repeated where it may be."""
    (begin, end), at = played.loop, np.arange(steps)
    at = np.where(at < end, at, begin + (at - begin) % (end - begin))
    rows = played.rows[np.arange(steps + 1).clip(max=1)]
    return Base(played.name, rows, played.fall_m, played.skills[at])
