"""The left-right mirror image of a motion and of its description."""

import re
from typing import Any, TypeVar

import numpy as np

from spectral_skills.robot import g1

Rows = TypeVar("Rows", bound=Any)

# Plain numbers: a compiler that traces this cannot look into NumPy arrays.
_ORDER = [*range(7), *(7 + g1.MIRROR_JOINTS).tolist()]
# Reflection in y = 0 negates y, and the turns about x and z.
_SIGNS = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, *g1.MIRROR_SIGNS.tolist()]
_OTHER_SIDE = {"left": "right", "right": "left"}


def mirror_rows(rows: Rows) -> Rows:
    """Reflect (..., 36) rows, a NumPy array or a tensor on any device."""
    if isinstance(rows, np.ndarray):
        return rows[..., _ORDER] * np.array(_SIGNS, rows.dtype)  # type: ignore[return-value]
    return rows[..., _ORDER] * rows.new_tensor(_SIGNS)


def mirror_name(name: str) -> str:
    """Name of a clip's mirror image."""
    return f"{name}_mirror"


def mirror_text(text: str) -> str:
    """Swap left and right in a description, upper and lower case kept."""

    def swap(match: re.Match[str]) -> str:
        word = _OTHER_SIDE[match[0].lower()]
        if match[0].isupper():
            return word.upper()
        return word.capitalize() if match[0][0].isupper() else word

    # Whole words and leftward(s): not the right in upright.
    pattern = r"(?i)(?<![a-z])(left|right)(?=(wards?)?(?![a-z]))"
    return re.sub(pattern, swap, text)
