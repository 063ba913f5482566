"""Motions in pickles: GMR, TWIST and GMT clips; ASAP, PBHC and SONIC libraries."""

from typing import BinaryIO

import numpy as np

from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.readers import unpickle
from spectral_skills.motion.readers.assemble import (
    MAX_SENTENCES,
    NAME_LENGTH,
    TEXT_LENGTH,
    ReadOptions,
    build,
    frame_rate,
    numbers,
    plain,
    sentences,
    wxyz,
)
from spectral_skills.motion.readers.pickled_arrays import SHARED_BYTES
from spectral_skills.motion.readers.stream import Stream

_LAYOUTS = {
    "gmr pkl": ("root_pos", "root_rot", "dof_pos"),
    "motion library pkl": ("root_trans_offset", "root_rot", "dof"),
}


def read(file: BinaryIO, name: str, options: ReadOptions) -> list[Clip | ClipError]:
    """All motions of a pickle; a library's bad entries are errors in the list."""
    stream = Stream(file)
    root = unpickle.load(stream)
    if not isinstance(root, dict):
        raise ClipError(
            "unknown format", f"a pickled {type(root).__name__}, not a dict"
        )
    if not root:
        raise ClipError("empty", "an empty library")
    if _layout(root):
        return [_clip(root, name, options)]
    if not any(_layout(entry) for entry in root.values()):
        raise ClipError("unknown format", f"a pickled dict with keys {_keys(root)}")
    return _library(root, stream.total + SHARED_BYTES, options)


def _library(
    root: dict, limit_bytes: int, options: ReadOptions
) -> list[Clip | ClipError]:
    found: list[Clip | ClipError] = []
    used = 0
    for key, entry in root.items():
        named = isinstance(key, str | int)
        name = (plain(key, NAME_LENGTH) if named else "") or "unnamed"
        try:
            used += sum(a.nbytes for a in _arrays(entry))
            # A thousand names for one array would fill the memory with copies.
            if used > limit_bytes:
                raise ClipError("too large", "entries repeat each other's arrays")
            found.append(_clip(entry, name, options))
        except ClipError as error:
            reason = f"{plain(name)}: {error.reason}"
            found.append(ClipError(error.kind, reason, error.frame))
            if used > limit_bytes:
                break
    return found


def _layout(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    return next((n for n, keys in _LAYOUTS.items() if set(keys) <= set(entry)), None)


def _arrays(entry: object) -> list[np.ndarray]:
    values = entry.values() if isinstance(entry, dict) else ()
    return [value for value in values if isinstance(value, np.ndarray)]


def _clip(entry: object, name: str, options: ReadOptions) -> Clip:
    layout = _layout(entry)
    if layout is None or not isinstance(entry, dict):
        what = f"keys {_keys(entry)}" if isinstance(entry, dict) else "no motion"
        raise ClipError("unknown format", f"an entry with {what}")
    position, rotation, joints = (numbers(entry[k], k) for k in _LAYOUTS[layout])
    return build(
        position,
        wxyz(rotation),
        joints,
        options,
        name=name,
        fps=frame_rate(entry.get("fps"), options),
        text=_sentences(entry.get("text")),
        source=_text(entry, "source") or layout,
        licence=_text(entry, "licence") or _text(entry, "license") or "unknown",
    )


def _text(entry: dict, key: str) -> str:
    value = entry.get(key)
    return plain(value, TEXT_LENGTH) if isinstance(value, str) else ""


def _sentences(value: object) -> str:
    texts = value[:MAX_SENTENCES] if isinstance(value, list) else [value]
    # Strings only: a nest of lists may be endless when written out.
    return sentences(text for text in texts if isinstance(text, str))


def _keys(entry: dict) -> str:
    return plain(", ".join(plain(k, 30) for k in list(entry)[:8] if isinstance(k, str)))
