"""`spectral skills motions`: what a planner knows, and gestures, as skills to play.

A motion that returns to a pose is repeated. All others are played once, from a slow
moment of their clip to another, and end in standing. Robots try each of them as it is
written, from standing and back, and only those are kept on which none falls.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tqdm import tqdm

from spectral_skills.control import gestures, recorded
from spectral_skills.control import played as files
from spectral_skills.control.batch import Run, Runner
from spectral_skills.control.played import PlayedBase
from spectral_skills.control.steering import chain
from spectral_skills.control.streams import FADE, FAST_M_S, GENTLE, REST
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.planner.data import Motion
from spectral_skills.planner.motions import learned
from spectral_skills.skill.encoder import SkillEncoder

ROBOTS = 4
"""Number of robots that try a motion: one as it is, the others randomised."""
_BEFORE, _AFTER = 100, 150
"""Number of steps that a robot stands before and after a motion."""


def played(
    encoder: SkillEncoder, corpora: Sequence[Corpus], motions: Sequence[Motion]
) -> Iterator[PlayedBase]:
    """Yield the motions of a planner, each called by its first sentence, and then the
    gestures that are not called like one of them."""
    clips = learned(corpora, motions)
    both = [corpus.with_mirror() for corpus in corpora]
    entries = {
        name: (corpus, i) for corpus in both for i, name in enumerate(corpus.names)
    }
    shown = zip(clips.names, clips.rows, clips.firsts, motions, strict=True)
    for name, rows, first, motion in tqdm(list(shown), "encode", disable=None):
        corpus, i = entries[name]
        part = slice(first, first + len(rows))
        text, whole = motion.sentences[0], corpus.qpos(i)
        yield recorded.of_motion(encoder, text, corpus.entry(i), whole, part)
    taken = {motion.sentences[0] for motion in motions}
    for gesture in gestures.played(encoder):
        if gesture.name not in taken:
            yield gesture


def on_their_feet(
    runner: Runner, motions: Sequence[PlayedBase], robots: int = ROBOTS
) -> list[PlayedBase]:
    """The motions on which no robot falls, as a file of them is read."""
    seeds = [None, *range(robots - 1)][:robots]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "motions.safetensors"
        files.write(path, motions, "")
        written = files.read(path, "").values()
    runs = [_trial(runner, one, seed) for seed in seeds for one in written]
    falls = {
        one.run.name for one in runner.execute(runs, "motions tried") if not one.stands
    }
    return [one for one in motions if one.name not in falls]


def _trial(runner: Runner, motion: PlayedBase, seed: int | None) -> Run:
    """A robot that stands, plays a motion to its end and stands again."""
    fade = GENTLE if motion.speed_m_s > FAST_M_S else FADE
    rest = bases.generate(REST, _BEFORE + _AFTER)
    stand = runner.skills(rest)
    skills = chain([stand[:_BEFORE], motion.skills, stand[_BEFORE:]], fade)[0]
    base = Base(motion.name, rest.rows, min(rest.fall_m, motion.fall_m))
    return Run(motion.name, base, skills.astype(np.float32), seed)
