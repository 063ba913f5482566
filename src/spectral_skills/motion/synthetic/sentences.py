"""Two or three sentences a clip, from what its acts say about themselves."""

from spectral_skills.motion.synthetic.sketch import Phrase, Sketch


def sentences(sketch: Sketch) -> str:
    """Different ways to say the same, one a line."""
    acts, overlays = sketch.acts, sketch.overlays
    ways = [
        _ordered(acts, overlays),
        _reversed(acts, overlays),
        _told(acts, overlays),
    ]
    sketch.rng.shuffle(ways)
    count = sketch.choose(2, 3)
    different = list(dict.fromkeys(ways))
    return "\n".join(different[: max(2, count)])


def _joined(parts: list[str], word: str) -> str:
    return (
        f" {word} ".join((", ".join(parts[:-1]), parts[-1])) if parts[1:] else parts[0]
    )


def _ordered(acts: list[Phrase], overlays: list[Phrase]) -> str:
    """`walk forward, then squat, while carrying a box`"""
    order = ", then ".join(act.order for act in acts)
    if not overlays:
        return order
    if all(o.holding for o in overlays):
        return f"{order} {_joined([o.holding for o in overlays], 'and')}"
    return f"{order} while {_joined([o.doing for o in overlays], 'and')}"


def _reversed(acts: list[Phrase], overlays: list[Phrase]) -> str:
    """`raise the right arm while walking forward`"""
    if not overlays:
        return _told(acts, overlays)
    doing = " and then ".join(act.doing for act in acts)
    return f"{_joined([o.order for o in overlays], 'and')} while {doing}"


def _told(acts: list[Phrase], overlays: list[Phrase]) -> str:
    """`the robot is walking forward and waving the left hand`"""
    doing = [act.doing for act in acts]
    told = "the robot is " + ", then ".join(doing)
    if overlays:
        told += " and " + _joined([o.doing for o in overlays], "and")
    return told
