"""Motions as streams of skills, and a small file of many of them, read without torch.

Of each motion in such a file every third skill is kept, in numbers of 8 bits that are
scaled motion by motion; those between are interpolated. Of the motion itself it holds
no more than the pose where a robot begins.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import read_arrays

RELEASED = Path(__file__).parents[1] / "pretrained" / "motions.safetensors"
"""Motions that the released planner knows, in the released skill space."""
SHORTEST_S, LONGEST_S = 2.0, 6.0
"""Shortest and longest duration of what repeats itself, if nobody says how long."""
_EVERY = 3
"""Number of control steps between two kept skills."""
_LARGEST = 127


@dataclass(frozen=True)
class BaseFacts:
    """A base without its arrays."""

    name: str
    text: str
    loop: tuple[int, int]
    """Steps [begin, end) that may be repeated without a jump."""
    fall_m: float
    """Height of the root below which the robot has fallen."""
    tilt_rad: float = field(default=0.0, kw_only=True)
    """Largest tilt of the pelvis from upright in the motion."""
    speed_m_s: float = field(default=0.0, kw_only=True)
    """Largest speed over the ground in the motion, mean of half a second."""
    origin: str = field(default="", kw_only=True)
    """Clip that it was made from, and its licence; empty for a generated base."""
    sentences: tuple[str, ...] = field(default=(), kw_only=True)
    """What people say for it; empty if a planner knows that."""

    @property
    def clips(self) -> set[str]:
        """Words of its origin, of which one is the name of its clip."""
        return set(self.origin.split(",")[0].split())


@dataclass(frozen=True)
class PlayedBase(BaseFacts):
    """A motion as a stream of skills."""

    skills: np.ndarray
    """(T, d) float32"""
    rows: np.ndarray
    """(T, 36) float32 reference at the same steps. Of a recorded motion only the first
    two are kept, where a robot starts."""
    turn: np.ndarray | None = None
    """(d,) change of the skill for each radian that the robot is turned to the left of
    the motion; None: its heading is not kept."""
    headings: np.ndarray | None = None
    """(T,) heading of the motion itself, rad."""

    @property
    def has_motion(self) -> bool:
        """Whether all of its rows are known."""
        return len(self.rows) == len(self.skills)

    @property
    def facts(self) -> BaseFacts:
        """What a manifest holds."""
        return BaseFacts(**{f.name: getattr(self, f.name) for f in fields(BaseFacts)})

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays, by the names that they have in a file of bases."""
        found = {part: getattr(self, part) for part in _PARTS}
        return {f"{self.name}.{p}": a for p, a in found.items() if a is not None}

    @classmethod
    def of(cls, facts: BaseFacts, arrays: dict[str, np.ndarray]) -> "PlayedBase":
        """A base of a file's arrays."""
        found = {part: arrays.get(f"{facts.name}.{part}") for part in _PARTS}
        if found["skills"] is None or found["rows"] is None:
            raise ValueError(f"the base {facts.name!r} has no skills or no start")
        return cls(**vars(facts), **found)  # type: ignore[arg-type]


def shown(
    bases: Mapping[str, PlayedBase],
    motions: Mapping[str, PlayedBase],
    learned: Iterable[tuple[str, str]],
) -> dict[str, str]:
    """What is played, by its own name and by the motions of a planner that it shows:
    those of its clip or, of a base, those that are called the same. `learned` are pairs
    of a motion and a sentence."""
    learned = list(learned)
    known = {motion for motion, _ in learned}
    found = {clip: name for name, one in motions.items() for clip in one.clips}
    found |= {name: name for name, one in motions.items() if one.sentences}
    for name, base in bases.items():
        same = {motion for motion, said in learned if said == base.text}
        found |= dict.fromkeys({name} | (base.clips & known or same), name)
    return found


def lasts_s(takes_s: float | None, base: PlayedBase | None) -> float:
    """How long a motion lasts if nobody says: as long as it takes, within limits, but
    what is played at least until it ends or repeats itself."""
    usual = min(max(takes_s or LONGEST_S, SHORTEST_S), LONGEST_S)
    return usual if base is None else max(usual, base.loop[0] / g1.CONTROL_HZ)


_PARTS = ("skills", "rows", "turn", "headings")


def write(path: Path, motions: Sequence[PlayedBase], encoder: str) -> None:
    """Write motions; `encoder` is the fingerprint of that of their skills."""
    arrays = {name: [] for name in ("skills", "scale", "turn", "headings", "rows")}
    counts = Counter(one.name for one in motions)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise ValueError(f"several motions are called {twice[0]!r}")
    for one in motions:
        if one.turn is None or one.headings is None:
            raise ValueError(f"{one.name}: a motion without a heading")
        if not all(np.isfinite(array).all() for array in one.arrays.values()):
            raise ValueError(f"{one.name}: a motion with numbers that are not finite")
        scale = np.abs(one.skills).max(axis=0).clip(min=1e-6) / _LARGEST
        arrays["skills"].append(np.rint(one.skills[::_EVERY] / scale).astype(np.int8))
        arrays["scale"].append(scale[None].astype(np.float32))
        arrays["turn"].append(one.turn[None].astype(np.float16))
        arrays["headings"].append(one.headings[::_EVERY].astype(np.float32))
        arrays["rows"].append(one.rows[None, :2].astype(np.float32))
    joined = {name: np.concatenate(parts) for name, parts in arrays.items()}
    facts = json.dumps([asdict(one.facts) for one in motions])
    write_file(path, save(joined, {"motions": facts, "encoder": encoder}))


def read(path: Path, encoder: str) -> dict[str, PlayedBase]:
    """Read motions by their names; refuses skills of another encoder."""
    arrays, about = read_arrays(path)
    try:
        facts = [
            configs.from_dict(BaseFacts, one, str(path))
            for one in json.loads(about["motions"])
        ]
        lengths = [-(-one.loop[1] // _EVERY) for one in facts]
        if sum(lengths) != len(arrays["skills"]):
            raise ValueError(
                f"{len(arrays['skills'])} skills for {sum(lengths)}, as in files of "
                "older versions; make it anew with `spectral skills motions`"
            )
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("numbers that are not finite")
        found, first = {}, 0
        for i, (one, length) in enumerate(zip(facts, lengths, strict=True)):
            part = slice(first, first + length)
            skills = arrays["skills"][part] * arrays["scale"][i]
            found[one.name] = PlayedBase(
                **vars(one),
                skills=_between(skills, one.loop[1]),
                rows=arrays["rows"][i],
                turn=arrays["turn"][i].astype(np.float32),
                headings=_between(arrays["headings"][part], one.loop[1]),
            )
            first += length
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(f"{path}: damaged or no file of motions ({error})") from None
    if about["encoder"] != encoder:
        raise ValueError(
            f"{path}: skills of the encoder {about['encoder']}, this one is {encoder}; "
            "make them anew with `spectral skills motions`"
        )
    return found


def released(encoder: str) -> Path | None:
    """The file that comes with the package; None for another encoder."""
    try:
        about = read_arrays(RELEASED)[1]
    except (OSError, ValueError):
        return None
    return RELEASED if about.get("encoder") == encoder else None


def _between(kept: np.ndarray, steps: int) -> np.ndarray:
    """Values (steps, ...) of which every third is kept; the last is held."""
    at = np.arange(steps) / _EVERY
    low = at.astype(int)
    high = np.minimum(low + 1, len(kept) - 1)
    weight = (at - low).reshape(-1, *(1,) * (kept.ndim - 1))
    return (kept[low] + weight * (kept[high] - kept[low])).astype(np.float32)
