"""Other ways to say what a corpus says of a motion, to train planners and to try them.

A sentence is taken apart into acts, done one after the other, and gestures, made
meanwhile; both are reworded by the rules of `wordings` and put together again. What
cannot be taken apart is reworded as it stands.
"""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import cycle, product
from typing import NamedTuple

from spectral_skills.planner import inflection
from spectral_skills.planner.wordings import (
    FRAMES,
    HELD_OUT_FRAMES,
    HELD_OUT_JOINS,
    JOINS,
    RULES,
    STATES,
    Rule,
)

_PLAIN, _SHORT, _FRAMED, _MOST = 8, 3, 5, 16
"""Training sentences without a frame, the shortest among them, those in a frame, and
all together."""
_REWORDED, _JOINED, _FRAMED_OLD, _FRAMED_NEW = 3, 1, 2, 2
"""Held-out sentences: in new words, newly joined, old and new ones in new frames."""
_SUBJECT = re.compile(
    r"^(?:(?:the|a|an|this|one) )?(?:robot|humanoid|person|human|man|woman|figure"
    r"|character|subject|someone|somebody|actor)(?: is)? "
)
_STANDING = re.compile(r"stand( still| on the spot| in place)?")
_TRAVEL = {"walk", "stand", "turn", "jog", "run", "march", "sidestep", "squat", "bow"}
_THING = re.compile(r"(?:carry|hold) (a box|a crate|something)\b.*")
_MOVED = re.compile(r"(?:walk|go|move) ((?!.*, then ).+)")
_MANNERS = {
    "crouch": ("in a crouch", "with bent knees"),
    "step high": ("with high steps", "with exaggerated steps"),
}
_SELF = {"your": "yourself", "its": "itself", "their": "themselves"}
_VARIETY = {1: 48, 2: 7, 3: 4}
"""Ways to say each part of a sentence, by the number of parts: enough in all."""


class Said(NamedTuple):
    """What a sentence tells to do, as orders."""

    acts: tuple[str, ...]
    """One after the other; none for a gesture in a stance."""
    gestures: tuple[str, ...]


def training(sentences: Sequence[str]) -> tuple[str, ...]:
    """Ways to say a motion that planners learn, from the sentences of a corpus."""
    given = [plain(sentence) for sentence in sentences]
    orders = _trained_orders(given)
    framed = _framed(orders[::-1], FRAMES, given)[:_FRAMED]
    ways = dict.fromkeys([*given[:3], *orders[:_PLAIN], *framed, *given[3:]])
    return tuple([way for way in ways if not holds_new_wording(way)][:_MOST] or given)


def held_out(sentences: Sequence[str]) -> tuple[str, ...]:
    """Ways to say it in words that no training sentence has, to try a planner with."""
    given = [plain(sentence) for sentence in sentences]
    orders = _trained_orders(given)
    told = _mixed(_orders(given, lambda rule: rule.training + rule.held_out), given)
    new = [order for order in told if holds_new_wording(order)]
    joined = _mixed(_orders(given, lambda rule: rule.training, HELD_OUT_JOINS), given)
    joined = [order for order in joined if order not in orders]
    ways = new[:_REWORDED] + joined[:_JOINED]
    ways += _framed(orders, HELD_OUT_FRAMES, given)[:_FRAMED_OLD]
    ways += _framed(new[::-1], HELD_OUT_FRAMES, [*given, "new"])[:_FRAMED_NEW]
    return tuple(dict.fromkeys(ways or [f"show me how {one}" for one in given]))


def plain(sentence: str) -> str:
    """Lower case, single spaces, no full stop."""
    return " ".join(sentence.lower().split()).rstrip(".!")


@cache
def _new_wordings() -> re.Pattern[str]:
    """Finds every wording that is held out."""
    patterns = [_heard(way) for rule in RULES for way in rule.held_out]
    patterns += [re.escape(join.split("}")[1].split("{")[0]) for join in HELD_OUT_JOINS]
    patterns += ["^" + re.escape(frame.split("{")[0]) for frame in HELD_OUT_FRAMES]
    return re.compile("|".join((*patterns, "^show me how ")))


def _heard(way: str) -> str:
    """A pattern that finds a way to say something in any form of its verb."""
    verb, _, rest = way.strip().partition(" ")
    verb, _, far = verb.partition("\\")
    forms = dict.fromkeys((verb, inflection.doing(verb), inflection.does(verb)))
    rest = re.sub(
        r"\\\\\d", r"[\\w -]*?", re.escape(f"\\{far} {rest}" if far else rest)
    )
    rest = rest.replace("yourself", r"\w+").replace("your", r"\w+")
    gap = "" if far else r"\ " if rest else ""
    return rf"\b(?:{'|'.join(map(re.escape, forms))}){gap}{rest}\b"


def holds_new_wording(sentence: str) -> bool:
    """Whether a sentence says anything in a way that is held out."""
    return _new_wordings().search(sentence) is not None


def take_apart(sentence: str) -> Said | None:
    """What a plain sentence tells to do; None where it does not begin with a verb."""
    bare, subject = _SUBJECT.sub("", sentence), _SUBJECT.match(sentence)
    if subject and (comma := re.search(r", (?=\w+ing\b)", bare)):
        bare = f"{bare[: comma.start()]} while {bare[comma.end() :]}"
    told = inflection.order(bare)
    if told is None:
        return None
    gestures = []
    for pattern, what in STATES:
        if found := re.search(rf",? (?:{pattern})(?= while |,|$)", told):
            gestures.append(_gesture(what, found.groups()))
            told = told[: found.start()] + told[found.end() :]
    first, _, second = told.partition(" while ")
    meanwhile = (inflection.order(second) or second) if second else ""
    if meanwhile and (_verb(meanwhile) in _TRAVEL or _verb(first) not in _TRAVEL):
        first, meanwhile = meanwhile, first
    gestures += _gestures(meanwhile)
    acts = re.split(r",? (?:and )?then ", first.rstrip(","))
    if gestures and _STANDING.fullmatch(first):
        acts = []
    if gestures and first.startswith("march"):
        gestures = [g for g in gestures if g not in ("step high", "lift the feet high")]
    return Said(tuple(acts), tuple(gestures))


def _verb(order: str) -> str:
    return order.split(" ")[0]


def _gesture(what: str, groups: tuple[str | None, ...]) -> str:
    """The order that leads to a state."""
    whom, far = (*(g or "" for g in groups), "", "")[:2]
    orders = {
        "raise": f"raise {whom}{far}",
        "spread": f"spread the arms{whom}",
        "reach": f"reach forward{far} with {whom}",
        "carry": f"carry {whom} with both hands",
    }
    return orders.get(what, what)


def _gestures(meanwhile: str) -> list[str]:
    """Gestures that are made together, each as an order."""
    found: list[str] = []
    for part in re.split(r", | and ", meanwhile):
        told = inflection.order(part)
        if told is None and found:
            found[-1] += f" and {part}"
        elif part:
            found.append(told or part)
    return found


def _trained_orders(given: Sequence[str]) -> list[str]:
    """Ways to say it without a frame, some short ones first."""
    orders = _mixed(_orders(given, lambda rule: rule.training), given)
    orders = [order for order in orders if not holds_new_wording(order)]
    short = sorted(orders, key=len)[:_SHORT]
    return short + [order for order in orders if order not in short]


def _reworded(order: str, ways: Callable[[Rule], tuple[str, ...]]) -> list[str]:
    """An order with everything that rules know said in each of some ways."""
    spans: list[tuple[re.Match[str], Rule]] = []
    for rule in RULES:
        for found in rule.pattern.finditer(order):
            if all(
                found.end() <= m.start() or m.end() <= found.start() for m, _ in spans
            ):
                spans.append((found, rule))
    spans.sort(key=lambda span: span[0].start())
    made = []
    for chosen in product(*(ways(rule) for _, rule in spans)):
        told, at = "", 0
        for (found, _), way in zip(spans, chosen, strict=True):
            told += order[at : found.start()] + found.expand(way)
            at = found.end()
        made.append(" ".join((told + order[at:]).split()))
    return made


def _orders(
    given: Iterable[str],
    ways: Callable[[Rule], tuple[str, ...]],
    joins: Sequence[str] = JOINS,
) -> list[str]:
    """All orders that say what sentences say, or many of them."""
    orders: list[str] = []
    for said in filter(None, dict.fromkeys(map(take_apart, given))):
        parts = [*said.acts, *said.gestures]
        most = _VARIETY[min(len(parts), 3)]
        choices = [_mixed(_reworded(part, ways), [part])[:most] for part in parts]
        for chosen in product(*choices):
            acts, gestures = chosen[: len(said.acts)], chosen[len(said.acts) :]
            orders += _together(", then ".join(acts), " and ".join(gestures), joins)
    return list(dict.fromkeys(orders))


def _together(act: str, gesture: str, joins: Sequence[str]) -> list[str]:
    """An act and a gesture as one order, in the ways of `joins`."""
    if not act or not gesture:
        return [act or gesture]
    if " while " in act:
        return []
    doing, acting = (inflection.inflected(o, inflection.doing) for o in (gesture, act))
    parts = {"act": act, "order": gesture, "doing": doing, "acting": acting}
    made = [join.format(**parts) for join in joins]
    if joins is JOINS:
        made += [f"{act} {state}" for state in _MANNERS.get(gesture, ())]
        thing = _THING.fullmatch(gesture)
        moved = _MOVED.fullmatch(act)
        if thing:
            made.append(f"{act} carrying {thing[1]}")
        if thing and moved:
            made.append(f"carry {thing[1]} {moved[1]}")
    return made


def _framed(
    orders: Sequence[str], frames: dict[str, str], seed: Sequence[str]
) -> list[str]:
    """Orders in frames, each in another one."""
    found = []
    for frame, order in zip(_mixed(list(frames), seed), cycle(orders), strict=False):
        whose = frames[frame]
        own = order.replace("yourself", _SELF[whose])
        own = re.sub(r"\byour\b", whose, own)
        doing, does = (
            inflection.inflected(own, form)
            for form in (inflection.doing, inflection.does)
        )
        found.append(frame.format(do=own, doing=doing, does=does))
    return found


def _mixed(ways: Sequence[str], seed: Sequence[str]) -> list[str]:
    """In an order that looks random and is always the same."""
    mixed = list(dict.fromkeys(ways))
    random.Random("\n".join(seed)).shuffle(mixed)
    return mixed
