"""Base clips of a bundle: generated ones, or clips of a corpus, made to be repeated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic import bases as generated
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.runtime.bundle import BaseFacts
from spectral_skills.runtime.loops import Looped, looped
from spectral_skills.skill.encoder import SkillEncoder

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
