"""Targets as people type them: `right_elbow=-0.5`, or `speed=0.2,turn=0.3`.

A name is an attribute of attributes.toml, such as `right_hand_z`, or one of its
targets, such as `foot_clearance`: then the size replaces that of the target's goals,
whose signs stay. What belongs to the part of the body that is asked to change may
change freely.
"""

import math
from collections.abc import Sequence

from spectral_skills.spectral.directions import TARGETS, Target, attributes_of
from spectral_skills.spectral.response import ATTRIBUTES, NAMES, Contexts

_KNOWN = {target.name: target for target in TARGETS}
_LEGS = ("left_leg", "right_leg")
_GAIT = (*_LEGS, "left_foot", "right_foot")
_FREE = {
    **dict.fromkeys(("shoulder", "elbow", "wrist", "hand"), ("arm", "hand")),
    **dict.fromkeys(("hip", "knee", "ankle"), ("leg", "foot")),
    "foot": ("leg",),
}
"""Parts of a side of the body that may change with an attribute of that side."""
_FREE_WHOLE = {
    "waist": ("waist",),
    "root": _LEGS,
    "lean": ("waist", *_LEGS),
    **dict.fromkeys(("forward", "ahead"), (*_GAIT, "forward_speed", "ahead")),
    **dict.fromkeys(("sideways", "aside"), (*_GAIT, "sideways_speed", "aside")),
    **dict.fromkeys(("yaw", "facing"), (*_GAIT, "yaw_rate", "facing")),
}
"""The same for attributes without a side."""


def wished(words: Sequence[str]) -> list[Target]:
    """The target of every word; refuses unknown names with a list of all."""
    found = {target.name: target for target in map(_target, words)}
    if len(found) < len(words):
        raise ValueError(f"two targets of the same name: {', '.join(words)}")
    return list(found.values())


def _target(word: str) -> Target:
    goals: dict[str, float] = {}
    free, names, contexts = frozenset(), [], set[Contexts]()
    for wish in word.split(","):
        name, _, text = wish.partition("=")
        name = name.strip()
        size = _size(text, wish)
        if name in _KNOWN:
            target = _KNOWN[name]
            most = max(map(abs, target.goals.values()))
            found = {n: size * (goal / most) for n, goal in target.goals.items()}
            free |= target.free
            contexts.add(target.contexts)
        elif name in NAMES:
            found, free = {name: size}, free | attributes_of(*_free(name))
        else:
            raise ValueError(f"no attribute or target {name!r}\n{listed()}")
        if twice := sorted(goals.keys() & found.keys()):
            raise ValueError(f"{word!r} asks twice for {twice[0]}")
        goals |= found
        names.append(name)
    # Wishes of different kinds are asked of all contexts that are upright.
    own = contexts.pop() if len(contexts) == 1 else "upright"
    return Target("+".join(names), goals, free, own)


def _size(text: str, wish: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not math.isfinite(size) or size == 0:
        raise ValueError(
            f"{wish!r}: write a name, = and how much it should change, other than 0, "
            "such as right_elbow=-0.5"
        )
    return size


def _free(name: str) -> tuple[str, ...]:
    side, *part = name.split("_")
    if side in ("left", "right"):
        return tuple(f"{side}_{one}" for one in _FREE[part[0]])
    return _FREE_WHOLE[side]


def listed() -> str:
    """All names, with their units and what a positive change is."""
    lines = ["targets (the size is in the unit of what changes):"]
    for target in TARGETS:
        goals = ", ".join(f"{n} {goal:+.2g}" for n, goal in target.goals.items())
        lines.append(f"  {target.name:<22} {goals}")
    lines.append("attributes:")
    for one in ATTRIBUTES:
        sign = "+" if one.sense > 0 else "-"
        lines.append(f"  {one.name:<22} {one.unit:<5} {sign} is {one.action}")
    return "\n".join(lines)
