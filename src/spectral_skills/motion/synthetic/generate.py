"""A corpus of generated motion, and the embedded one that is always there."""

import functools
import math
from bisect import bisect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import accumulate, combinations
from pathlib import Path

import numpy as np

from spectral_skills import cache as caches
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import FPS, HEADER
from spectral_skills.motion.corpus_writer import CorpusWriter
from spectral_skills.motion.synthetic import factors
from spectral_skills.motion.synthetic.sketch import Phrase, Score, Sketch
from spectral_skills.workers import in_order, one_torch_thread

SOURCE = "spectral-skills generator"
LICENCE = "Apache-2.0"
_SOURCE = "motion/synthetic/generate.py"
_GOLDEN = 0.6180339887498949
Act = Callable[[Sketch], None]
_HELD_POSES = frozenset(("raise", "spread", "reach", "reach_up"))


@dataclass(frozen=True)
class SynthConfig:
    """What to generate."""

    clips: int = 512
    """Number of clips; 512 are about an hour."""
    seed: int = 0
    """Seed of the corpus."""


@dataclass(frozen=True)
class Piece:
    """A clip before it is performed."""

    name: str
    text: str  # sentences, one a line
    score: Score
    crop: tuple[int, int]  # first frame that is kept and the one after the last


def repertoire() -> dict[frozenset[str], float]:
    """Every combination of factors that occurs, and its weight."""
    weight = factors.TABLES["weights"]
    weights = {
        frozenset({factor} - {""}): weight["alone"][factor]
        for factor in ("", *factors.FACTORS)
    }
    for pair, mark in factors.PAIRS.items():
        if mark == "x" and "forward" not in pair:
            weights[pair] = weight["pair"]
        elif mark == "x":
            held = "held_pose" if pair & _HELD_POSES else "pair"
            weights[pair] = weight[f"{held}_with_forward"]
    for three in combinations(factors.FACTORS, 3):
        pairs = combinations(three, 2)
        travels = len(set(three) & set(factors.TRAVELS))
        if travels == 1 and all(factors.PAIRS[frozenset(p)] == "x" for p in pairs):
            weights[frozenset(three)] = weight["triple"]
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
    factors.check(wanted)
    sketch = Sketch(rng, wanted)
    sketch.lift = sketch.uniform(0.04, 0.06)
    sketch.wait(0.4, 0.9)

    def acts(known: dict[str, Act]) -> list[Act]:
        return [act for factor, act in known.items() if factor in wanted]

    for manner in acts(factors.MANNER):
        manner(sketch)
    todo = acts(factors.TRAVEL | factors.STANDING)
    if not todo:
        todo = [factors.march if "high" in wanted else factors.stand]
    sketch.patience = 0.8 if len(todo) == 1 else 0.3
    for index in rng.permutation(len(todo)):
        todo[index](sketch)
    sketch.wait(0.1, 0.5)
    for gesture in acts(factors.GESTURE):
        gesture(sketch)
    score = sketch.score()
    name = factors.name_of(wanted, number)
    return Piece(name, sentences(sketch), score, _crop(sketch, score.frames))


def _crop(sketch: Sketch, frames: int) -> tuple[int, int]:
    """Half of the walks are shown under way, without their start and stop."""
    if len(sketch.walks) != 1 or sketch.factors & set(factors.STANDING):
        return 0, frames
    if sketch.uniform(0, 1) < 0.5:
        return 0, frames
    start, end = sketch.walks[0]
    kept = (start + sketch.uniform(0.6, 1.2), end - sketch.uniform(0.0, 0.4))
    if kept[1] - kept[0] < 3.0:
        return 0, frames
    return int(kept[0] * FPS), int(kept[1] * FPS)


def sentences(sketch: Sketch) -> str:
    """Two or three ways to say what a clip does, one a line."""
    doing, overlays = [act.doing for act in sketch.acts], sketch.overlays
    ways = [_order(sketch.acts, overlays)]
    then, meanwhile = " and then ".join(doing), _joined([o.doing for o in overlays])
    if not overlays:
        ways += [f"the robot is {then}", "a humanoid " + ", then ".join(doing)]
    else:
        many = f"the robot is {meanwhile} while {then}"
        ways.append(many if len(doing) > 1 else f"the robot is {then}, {meanwhile}")
        ways.append(f"{_joined([o.order for o in overlays])} while {then}")
    sketch.rng.shuffle(ways)
    different = list(dict.fromkeys(ways))
    return "\n".join(different[: sketch.choose(2, 3)])


def _joined(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`"""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _order(acts: list[Phrase], overlays: list[Phrase]) -> str:
    """`walk forward, then squat, carrying a box`"""
    order = ", then ".join(act.order for act in acts)
    states = [o.holding for o in overlays if o.holding]
    doing = [o.doing for o in overlays if not o.holding]
    comma = "," if len(acts) > 1 or len(states) > 1 else ""
    if states:
        order = f"{order}{comma} {', '.join(states)}"
    return f"{order}{comma} while {_joined(doing)}" if doing else order


@functools.cache
def _body():
    from spectral_skills.motion.synthetic.body import BodySolver

    return BodySolver()


def perform(piece: Piece) -> Clip:
    with one_torch_thread():
        rows = _body().perform(piece.score)[slice(*piece.crop)]
    about = {"text": piece.text, "source": SOURCE, "licence": LICENCE}
    return Clip.from_qpos(rows, name=piece.name, fps=float(FPS), **about)


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
    origin = asdict(config) | {"generator": generator_hash()}
    writer = CorpusWriter(out, origin, numbers)
    try:
        todo = [int(number) for number in numbers if number not in writer.done]
        made = in_order(partial(clip, seed=config.seed), todo, workers)
        done = config.clips - len(todo)
        look = {"unit": "clip", "desc": "synth", "disable": None}
        bar = tqdm(made, total=config.clips, initial=done, **look)
        for number, motion in zip(todo, bar, strict=True):
            writer.add(str(number), "", [motion], [])
        writer.finish()
    finally:
        writer.close()


def generator_hash() -> str:
    """Name everything that decides the motions: this code and the robot's model."""
    return caches.code_hash(_SOURCE, about=f"mjlab {version('mjlab')}")


def embedded_corpus() -> Path:
    """Return the corpus that needs no download; it is made when first asked for."""
    return caches.kept(
        f"embedded-{generator_hash()}",
        lambda folder: (folder / HEADER).exists(),
        lambda folder: synthesise(folder, SynthConfig()),
        "the embedded corpus (about two minutes)",
    )
