"""Verbs of motion in the forms that sentences have them in."""

import re
from collections.abc import Callable

_PLAIN = """
advance approach back balance bear bend bounce bow box break bring carry catch check
circle clap climb close clutch come cradle crawl cross crouch dance do drag drop duck
extend face fall fight flap follow freeze get give go grab greet hang head hit hold hop
hunker jab jog jump keep kick kneel land lay lean let lie lift look lower lunge make
march move nod open parade perform pick pivot place play point proceed pull punch push
put raise reach remain rest retreat return rise roll rotate run say set shake shift
shoot shuffle sidestep sink sit skip slide sneak spin spread squat stagger stand start
stay step stick stomp stop strafe stretch stroll strike swing swivel take tap
throw thrust tilt tiptoe touch transport trot turn twist use wait walk wave yawn
shadow-box
""".split()
_DOUBLED = {
    *("clap", "drag", "drop", "flap", "get", "grab", "hit", "hop", "jab", "jog", "let"),
    *("nod", "put", "run", "set", "sidestep", "sit", "skip", "spin", "squat", "step"),
    *("stop", "swim", "tap", "trot"),
}


def doing(verb: str) -> str:
    """`walk` is `walking`."""
    if verb in _DOUBLED:
        return f"{verb}{verb[-1]}ing"
    if verb == "lie":
        return "lying"
    return re.sub("(?<=[^eo])e$", "", verb) + "ing"


def does(verb: str) -> str:
    """`walk` is `walks`."""
    if re.search("(s|sh|ch|x|o)$", verb):
        return f"{verb}es"
    return re.sub("(?<=[^aeiou])y$", "ie", verb) + "s"


ORDERS = {form: verb for verb in _PLAIN for form in (verb, doing(verb), does(verb))}
"""The order of every form of a verb."""
_VERBS = re.compile(r"(^(?:just )?|, then |,? and then |,? and )([\w-]+)")


def order(clause: str) -> str | None:
    """`walking forward and waving` as `walk forward and wave`; None without a verb."""
    if clause.split(" ")[0] not in ORDERS:
        return None
    return _VERBS.sub(lambda m: m[1] + ORDERS.get(m[2], m[2]), clause)


def inflected(clause: str, form: Callable[[str], str]) -> str:
    """An order with its verbs in a form: `doing` or `does`."""

    def change(m: re.Match[str]) -> str:
        leads = m[1] in ("", "just ")
        return m[1] + (form(m[2]) if leads or ORDERS.get(m[2]) == m[2] else m[2])

    return _VERBS.sub(change, clause)
