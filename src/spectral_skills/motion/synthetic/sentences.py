"""Two or three sentences a clip, from what its acts say about themselves."""

from spectral_skills.motion.synthetic.sketch import Phrase, Sketch


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
