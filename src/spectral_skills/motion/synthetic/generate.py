"""Two or three sentences a clip, from what its acts say about themselves."""

import fcntl
import math
import os
import sys
import time
from bisect import bisect
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import accumulate, combinations
from pathlib import Path

import numpy as np

from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import FPS, HEADER
from spectral_skills.motion.corpus_writer import CorpusWriter
from spectral_skills.motion.synthetic import acts as gestures
from spectral_skills.motion.synthetic import acts as moves
from spectral_skills.motion.synthetic import factors
from spectral_skills.motion.synthetic.sketch import Phrase, Score, Sketch
from spectral_skills.workers import in_order, one_torch_thread


def sentences(sketch: Sketch) -> str:
    """Different ways to say the same, one a line."""
    acts, overlays = sketch.acts, sketch.overlays
    ways = [_order(acts, overlays), _told(acts, overlays)]
    ways.append(_turned_round(acts, overlays) if overlays else _seen(acts))
    sketch.rng.shuffle(ways)
    different = list(dict.fromkeys(ways))
    return "\n".join(different[: sketch.choose(2, 3)])


def _joined(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`"""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _order(acts: list[Phrase], overlays: list[Phrase]) -> str:
    """`walk forward, then squat, carrying a box`"""
    order = ", then ".join(act.order for act in acts)
    if not overlays:
        return order
    states = [o.holding for o in overlays if o.holding]
    doing = [o.doing for o in overlays if not o.holding]
    comma = "," if len(acts) > 1 or len(states) > 1 else ""
    if states:
        order = f"{order}{comma} {', '.join(states)}"
    return f"{order}{comma} while {_joined(doing)}" if doing else order


def _turned_round(acts: list[Phrase], overlays: list[Phrase]) -> str:
    """`raise the right arm while walking forward`"""
    doing = " and then ".join(act.doing for act in acts)
    return f"{_joined([o.order for o in overlays])} while {doing}"


def _told(acts: list[Phrase], overlays: list[Phrase]) -> str:
    """`the robot is walking forward, waving the left hand`"""
    doing = " and then ".join(act.doing for act in acts)
    if not overlays:
        return f"the robot is {doing}"
    meanwhile = _joined([o.doing for o in overlays])
    if len(acts) > 1:
        return f"the robot is {meanwhile} while {doing}"
    return f"the robot is {doing}, {meanwhile}"


def _seen(acts: list[Phrase]) -> str:
    """`a humanoid walking forward, then turning to the left`"""
    return "a humanoid " + ", then ".join(act.doing for act in acts)


# Piece by piece: which factors a clip combines, in which order, in which words.

_GOLDEN = 0.6180339887498949
_ALONE = {
    "": 4.0,
    "forward": 9.0,
    "backward": 4.0,
    "sideways": 4.0,
    "turn": 8.0,
    "arc": 16.0,
    "jog": 9.0,
    "high": 4.0,
    "crouch": 2.0,
    "squat": 3.0,
    "bow": 2.0,
}
"""Weight of each factor by itself; a gesture by itself has `_GESTURE`."""
_GESTURE, _PAIR, _PAIR_FORWARD, _TRIPLE = 1.8, 0.75, 2.2, 0.15
_POSE, _POSE_FORWARD = 6.0, 16.0
"""Weights of gestures of any height: by themselves, and in a walk."""


@dataclass(frozen=True)
class Piece:
    """A clip before it is performed."""

    name: str
    text: str
    """Sentences, one a line."""
    score: Score
    crop: tuple[int, int]
    """First frame that is kept and the one after the last."""


def repertoire() -> dict[frozenset[str], float]:
    """Every combination of factors that occurs, and its weight."""
    weights: dict[frozenset[str], float] = {}
    for factor in ("", *factors.FACTORS):
        usual = _POSE if factor in gestures.POSES else _GESTURE
        weights[frozenset({factor} - {""})] = _ALONE.get(factor, usual)
    for pair, mark in factors.PAIRS.items():
        if mark == "x":
            forward = _POSE_FORWARD if pair & gestures.POSES else _PAIR_FORWARD
            weights[pair] = forward if "forward" in pair else _PAIR
    for three in combinations(factors.FACTORS, 3):
        pairs = combinations(three, 2)
        travels = len(set(three) & set(factors.TRAVELS))
        if travels == 1 and all(factors.PAIRS[frozenset(p)] == "x" for p in pairs):
            weights[frozenset(three)] = _TRIPLE
    return weights


def chosen(seed: int, number: int) -> frozenset[str]:
    """Factors of clip `number`: few clips have much of the variety of many."""
    weights = repertoire()
    bounds = list(accumulate(weights.values()))
    place = ((number + 0.5) * _GOLDEN + seed / math.sqrt(2)) % 1.0 * bounds[-1]
    return list(weights)[bisect(bounds, place)]


def compose(seed: int, number: int) -> Piece:
    """Clip `number` of a corpus; the same for the same seed."""
    rng = np.random.default_rng((seed, number))
    return compose_factors(chosen(seed, number), rng, number)


def compose_factors(
    wanted: frozenset[str], rng: np.random.Generator, number: int = 0
) -> Piece:
    """A clip with the given factors."""
    sketch = Sketch(rng)
    sketch.lift = sketch.uniform(0.04, 0.06)
    for factor in sorted(wanted):
        sketch.add(factor)
    sketch.wait(0.4, 0.9)
    for factor, manner in moves.MANNER.items():
        if factor in wanted:
            manner(sketch)
    acts = [act for factor, act in moves.TRAVEL.items() if factor in wanted]
    acts += [act for factor, act in moves.STANDING.items() if factor in wanted]
    if not acts:
        acts = [moves.march if "high" in wanted else moves.stand]
    sketch.patience = 0.8 if len(acts) == 1 else 0.3
    for index in rng.permutation(len(acts)):
        acts[index](sketch)
    sketch.wait(0.1, 0.5)
    for factor, gesture in gestures.GESTURE.items():
        if factor in wanted:
            gesture(sketch)
    score = sketch.score()
    name = factors.name_of(sketch.factors, number)
    return Piece(name, sentences(sketch), score, _crop(sketch, score.frames))


def _crop(sketch: Sketch, frames: int) -> tuple[int, int]:
    """Half of the walks are shown under way, without their start and stop."""
    if len(sketch.walks) != 1 or sketch.factors & set(moves.STANDING):
        return 0, frames
    if sketch.uniform(0, 1) < 0.5:
        return 0, frames
    start, end = sketch.walks[0]
    kept = (start + sketch.uniform(0.6, 1.2), end - sketch.uniform(0.0, 0.4))
    if kept[1] - kept[0] < 3.0:
        return 0, frames
    return int(kept[0] * FPS), int(kept[1] * FPS)


# `spectral synth`: a corpus of generated motion, and the one that is always there.

SOURCE = "spectral-skills generator"
LICENCE = "Apache-2.0"
GENERATOR = 1
"""Version of the generator. Raise it whenever its motions change: caches are named
after it, and a test compares some clips with recorded numbers."""


@dataclass(frozen=True)
class SynthConfig:
    """What to generate."""

    clips: int = 512
    """Number of clips; 512 are about an hour."""
    seed: int = 0
    """Another seed, another corpus."""


@cache
def _body():
    from spectral_skills.motion.synthetic.body import Body

    return Body()


def perform(piece: Piece) -> Clip:
    """The motion of a piece."""
    with one_torch_thread():
        rows = _body().perform(piece.score)[slice(*piece.crop)]
    return Clip.from_qpos(
        rows,
        name=piece.name,
        fps=float(FPS),
        text=piece.text,
        source=SOURCE,
        licence=LICENCE,
    )


def clip(number: int, seed: int = 0) -> Clip:
    """Clip `number` of the corpus of a seed, whatever its size."""
    return perform(compose(seed, number))


def synthesise(out: Path, config: SynthConfig, workers: int | None = None) -> None:
    """Write a generated corpus to `out`; a killed run is continued."""
    from tqdm import tqdm

    if config.clips < 1:
        raise ValueError(f"--clips {config.clips}: at least 1")
    if config.seed < 0:
        raise ValueError(f"--seed {config.seed}: not negative")
    numbers = [str(number) for number in range(config.clips)]
    job = asdict(config) | {"generator": fingerprint()}
    writer = CorpusWriter(out, job, numbers)
    try:
        todo = [int(number) for number in numbers if number not in writer.done]
        made = in_order(partial(clip, seed=config.seed), todo, workers)
        bar = tqdm(
            zip(todo, made, strict=True),
            total=config.clips,
            initial=config.clips - len(todo),
            unit="clip",
            desc="synth",
            disable=None,
        )
        for number, motion in bar:
            writer.add(str(number), "", [motion], [])
        writer.finish()
    finally:
        writer.close()


def fingerprint() -> str:
    """Name of what decides the motions: the generator and the robot's model."""
    return f"{GENERATOR}-mjlab{version('mjlab')}"


def embedded_corpus() -> Path:
    """Folder of the corpus that needs no download; made when first asked for.

    It is kept in the folder that SPECTRAL_CACHE names, ~/.cache/spectral-skills by
    default.
    """
    usual = Path.home() / ".cache" / "spectral-skills"
    cache_folder = Path(os.environ.get("SPECTRAL_CACHE") or usual)
    folder = cache_folder / f"embedded-{fingerprint()}"
    if (folder / HEADER).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".making").open("w") as lock:
        message = f"making the embedded corpus in {folder}, once: about two minutes"
        print(message, file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second waits
        if not (folder / HEADER).exists():
            start = time.perf_counter()
            synthesise(folder, SynthConfig())
            print(f"made in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return folder
