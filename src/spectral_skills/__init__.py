"""Spectral Skills: a skill space for humanoids, with knobs that add.

The functions of `spectral_skills.api` are the product in Python. They are imported when
they are first used, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectral_skills.api import bundle as bundle
    from spectral_skills.api import chain as chain
    from spectral_skills.api import evaluate as evaluate
    from spectral_skills.api import export as export
    from spectral_skills.api import film as film
    from spectral_skills.api import find_directions as find_directions
    from spectral_skills.api import follow as follow
    from spectral_skills.api import ingest as ingest
    from spectral_skills.api import load as load
    from spectral_skills.api import open_corpus as open_corpus
    from spectral_skills.api import pretrain as pretrain
    from spectral_skills.api import retarget as retarget
    from spectral_skills.api import say as say
    from spectral_skills.api import steer as steer
    from spectral_skills.api import synth as synth
    from spectral_skills.api import track as track
    from spectral_skills.control.session import Session as Session

__all__ = [
    "Session",
    "bundle",
    "chain",
    "evaluate",
    "export",
    "film",
    "find_directions",
    "follow",
    "ingest",
    "load",
    "open_corpus",
    "pretrain",
    "retarget",
    "say",
    "steer",
    "synth",
    "track",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spectral_skills import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
