"""Groups of clips for tables: by their factors if generated, else by their kind."""

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.kinds import LAFAN1_CLIPS, kind
from spectral_skills.motion.synthetic.factors import (
    BODY,
    FACTORS,
    GESTURES,
    TRAVELS,
    factors_of,
)

_ALONE = {
    "forward": "walk forward",
    "backward": "walk backward",
    "sideways": "walk sideways",
    "turn": "turn",
    "arc": "walk an arc",
    "high": "march",
}
_GESTURE = "stand + gesture"
_TWO_TRAVELS, _MANNER = "travel + travel", "travel + crouch or high"
_SPOT, _TRAVEL_GESTURE = "travel + squat or bow", "travel + gesture"
_BODY_GESTURE, _THREE = "crouch, squat or high + gesture", "three factors"
ORDER: tuple[str, ...] = (
    "stand",
    *(_ALONE.get(factor, factor) for factor in (*TRAVELS, *BODY)),
    *(_GESTURE, _TWO_TRAVELS, _MANNER, _SPOT, _TRAVEL_GESTURE, _BODY_GESTURE, _THREE),
)
"""Groups of generated clips: one factor first, then several."""


def is_generated(corpus: Corpus) -> bool:
    """Whether all clips are named by their factors."""
    return all(factors_of(name) <= set(FACTORS) for name in corpus.names)


def groups(corpus: Corpus) -> list[str]:
    """The group of every clip."""
    if is_generated(corpus):
        return [factor_group(factors_of(name)) for name in corpus.names]
    entries = [corpus.entry(i) for i in range(len(corpus))]
    return [kind(entry.name, entry.text) for entry in entries]


def factor_group(factors: frozenset[str]) -> str:
    """The group of a set of factors, one of ORDER."""
    travels, body = factors & set(TRAVELS), factors & set(BODY)
    if not factors:
        return "stand"
    if len(factors) > 2:
        return _THREE
    if len(factors) == 1:
        (only,) = factors
        return _GESTURE if only in GESTURES else _ALONE.get(only, only)
    if not travels:
        return _BODY_GESTURE
    if not body:
        return _TWO_TRAVELS if len(travels) == 2 else _TRAVEL_GESTURE
    return _SPOT if body <= {"squat", "bow"} else _MANNER


def plain_gaits(corpus: Corpus) -> list[int]:
    """Clips that walk or run and do nothing else: their strides can be compared."""
    if is_generated(corpus):
        pairs = enumerate(map(factors_of, corpus.names))
        return [i for i, factors in pairs if factors and factors <= set(TRAVELS)]
    walks = ("walk", "run", "sprint")
    return [i for i, group in enumerate(groups(corpus)) if group in walks]


def corpus_label(corpus: Corpus, folder_name: str) -> str:
    """What to call a corpus in a table: a name everyone knows, else its folder's."""
    if set(corpus.names) <= set(LAFAN1_CLIPS):
        return "LAFAN1 (retargeted)"
    return folder_name
