"""Other ways to say what a corpus says of a motion, to train planners and to test them.

A sentence is parsed into acts, done one after the other, and gestures, made meanwhile.
Both are reworded by the rules of `words.toml` and joined again.
"""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import cycle, product
from types import SimpleNamespace
from typing import Any, NamedTuple

from spectral_skills.config import read_table

WORDS: Mapping[str, Any] = read_table(__file__, "words.toml")
PATTERNS = SimpleNamespace(
    **{name: re.compile("".join(way)) for name, way in WORDS["patterns"].items()}
)
_PLAIN, _SHORT, _FRAMED, _MOST = 8, 3, 5, 16
"""Numbers of training sentences: without a frame, the shortest among them, in a frame,
and in total."""
_REWORDED, _JOINED, _FRAMED_OLD, _FRAMED_NEW = 3, 1, 2, 2
"""Numbers of held-out sentences: reworded, newly joined, old and new ones in frames."""
_FRAMED_GIVEN = 2
"""Number of sentences in frames for a motion whose wordings are given."""
_VARIETY = {1: 48, 2: 7, 3: 4}
"""Number of ways to say each part of a sentence, by the number of its parts."""


class Orders(NamedTuple):
    """What a sentence asks for, each part as an order."""

    acts: tuple[str, ...]
    """Acts one after the other; none for a gesture made while standing."""
    gestures: tuple[str, ...]


def _pattern(text: str) -> str:
    return re.sub(r"{(\w+)}", lambda macro: WORDS["macros"][macro[1]], text)


_RULES = [
    (re.compile(rf"\b{_pattern(rule['pattern'])}\b"), rule) for rule in WORDS["rules"]
]
_STATES = [
    (re.compile(rf",? (?:{_pattern(s['pattern'])})(?= while |,|$)"), s["order"])
    for s in WORDS["states"]
]
_FRAMES, _JOINS = WORDS["frames"], WORDS["joins"]
_TRAVEL, _DOUBLED = (
    set(WORDS["verbs"][kind].split()) for kind in ("travel", "doubled")
)


def training(sentences: Sequence[str]) -> tuple[str, ...]:
    """Ways to say a motion that planners learn, from the sentences of a corpus."""
    given = [plain(sentence) for sentence in sentences]
    orders = _trained_orders(given)
    framed = _framed(orders[::-1], _FRAMES["training"], given)[:_FRAMED]
    ways = dict.fromkeys([*given[:3], *orders[:_PLAIN], *framed, *given[3:]])
    return tuple([way for way in ways if not is_held_out(way)][:_MOST] or given)


def held_out(sentences: Sequence[str]) -> tuple[str, ...]:
    """Ways to say a motion in words that no training sentence has."""
    given = [plain(sentence) for sentence in sentences]
    orders = _trained_orders(given)
    every = _shuffled(_orders(given, ("training", "held_out")), given)
    new = [order for order in every if is_held_out(order)]
    joined = _orders(given, joins=_JOINS["held_out"])
    joined = [order for order in _shuffled(joined, given) if order not in orders]
    ways = new[:_REWORDED] + joined[:_JOINED]
    ways += _framed(orders, _FRAMES["held_out"], given)[:_FRAMED_OLD]
    ways += _framed(new[::-1], _FRAMES["held_out"], [*given, "new"])[:_FRAMED_NEW]
    return tuple(dict.fromkeys(ways or [f"show me how {one}" for one in given]))


def with_frames(
    say: Sequence[str], test: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Given wordings to train and to test with, and some of both in frames."""
    learned = [*say, *_framed(say, _FRAMES["training"], say)[:_FRAMED_GIVEN]]
    others = _framed([*test, *say], _FRAMES["held_out"], test)[:_FRAMED_GIVEN]
    return tuple(dict.fromkeys(learned)), tuple(dict.fromkeys((*test, *others)))


def plain(sentence: str) -> str:
    """A sentence in lower case, with single spaces and no full stop."""
    return " ".join(sentence.lower().split()).rstrip(".!")


def is_held_out(sentence: str) -> bool:
    """Whether a sentence says anything in a wording that is held out."""
    return _held_out_wordings().search(sentence) is not None


@cache
def _held_out_wordings() -> re.Pattern[str]:
    patterns = [_any_form(way) for _, rule in _RULES for way in rule["held_out"]]
    joins = [join.split("}")[1].split("{")[0] for join in _JOINS["held_out"]]
    frames = ["^" + re.escape(frame.split("{")[0]) for frame in _FRAMES["held_out"]]
    return re.compile(
        "|".join((*patterns, *map(re.escape, joins), *frames, "^show me how "))
    )


def _any_form(way: str) -> str:
    """A pattern that finds a wording with its verb in any form."""
    verb, _, rest = way.strip().partition(" ")
    verb, _, group = verb.partition("\\")
    forms = dict.fromkeys((verb, doing(verb), does(verb)))
    rest = re.escape(f"\\{group} {rest}" if group else rest)
    rest = re.sub(r"\\\\\d", r"[\\w -]*?", rest)
    rest = rest.replace("yourself", r"\w+").replace("your", r"\w+")
    gap = "" if group else r"\ " if rest else ""
    return rf"\b(?:{'|'.join(map(re.escape, forms))}){gap}{rest}\b"


def parse(sentence: str) -> Orders | None:
    """What a plain sentence asks for; None if it does not begin with a verb."""
    bare, subject = PATTERNS.subject.sub("", sentence), PATTERNS.subject.match(sentence)
    if subject and (comma := re.search(r", (?=\w+ing\b)", bare)):
        bare = f"{bare[: comma.start()]} while {bare[comma.end() :]}"
    text = as_order(bare)
    if text is None:
        return None
    gestures = []
    for pattern, gesture in _STATES:
        if found := pattern.search(text):
            gestures.append(found.expand(gesture))
            text = text[: found.start()] + text[found.end() :]
    first, _, second = text.partition(" while ")
    meanwhile = (as_order(second) or second) if second else ""
    leads, follows = first.split(" ")[0], meanwhile.split(" ")[0]
    if meanwhile and (follows in _TRAVEL or leads not in _TRAVEL):
        first, meanwhile = meanwhile, first
    gestures += _gestures(meanwhile)
    acts = re.split(r",? (?:and )?then ", first.rstrip(","))
    if gestures and PATTERNS.standing.fullmatch(first):
        acts = []
    if gestures and first.startswith("march"):
        gestures = [g for g in gestures if g not in ("step high", "lift the feet high")]
    return Orders(tuple(acts), tuple(gestures))


def _gestures(meanwhile: str) -> list[str]:
    """Gestures that are made together, each as an order."""
    found: list[str] = []
    for part in re.split(r", | and ", meanwhile):
        order = as_order(part)
        if order is None and found:
            found[-1] += f" and {part}"
        elif part:
            found.append(order or part)
    return found


def _trained_orders(given: Sequence[str]) -> list[str]:
    """Training wordings without a frame, some short ones first."""
    orders = _shuffled(_orders(given), given)
    orders = [order for order in orders if not is_held_out(order)]
    short = sorted(orders, key=len)[:_SHORT]
    return short + [order for order in orders if order not in short]


def _reworded(order: str, kinds: Sequence[str]) -> list[str]:
    """An order with everything that a rule matches in each of its wordings."""
    spans: list[tuple[re.Match[str], list[str]]] = []
    for pattern, rule in _RULES:
        ways = [way for kind in kinds for way in rule[kind]]
        for found in pattern.finditer(order):
            begin, end = found.span()
            if all(end <= m.start() or m.end() <= begin for m, _ in spans):
                spans.append((found, ways))
    spans.sort(key=lambda span: span[0].start())
    reworded = []
    for chosen in product(*(ways for _, ways in spans)):
        text, at = "", 0
        for (found, _), way in zip(spans, chosen, strict=True):
            text += order[at : found.start()] + found.expand(way)
            at = found.end()
        reworded.append(" ".join((text + order[at:]).split()))
    return reworded


def _orders(
    given: Iterable[str],
    kinds: Sequence[str] = ("training",),
    joins: Sequence[str] = _JOINS["training"],
) -> list[str]:
    """Orders that say what sentences say: all of them, or many."""
    orders: list[str] = []
    for asked in filter(None, dict.fromkeys(map(parse, given))):
        parts = [*asked.acts, *asked.gestures]
        most = _VARIETY[min(len(parts), 3)]
        choices = [_shuffled(_reworded(part, kinds), [part])[:most] for part in parts]
        for chosen in product(*choices):
            acts, gestures = chosen[: len(asked.acts)], chosen[len(asked.acts) :]
            orders += _joined(", then ".join(acts), " and ".join(gestures), joins)
    return list(dict.fromkeys(orders))


def _joined(act: str, gesture: str, joins: Sequence[str]) -> list[str]:
    """An act and a gesture as one order, in each way of `joins`."""
    if not act or not gesture:
        return [act or gesture]
    if " while " in act:
        return []
    parts = {"act": act, "order": gesture}
    parts |= {"doing": inflected(gesture, doing), "acting": inflected(act, doing)}
    found = [join.format(**parts) for join in joins]
    if joins is _JOINS["training"]:
        found += [f"{act} {state}" for state in WORDS["manners"].get(gesture, ())]
        thing, moved = PATTERNS.thing.fullmatch(gesture), PATTERNS.moved.fullmatch(act)
        if thing:
            found.append(f"{act} carrying {thing[1]}")
        if thing and moved:
            found.append(f"carry {thing[1]} {moved[1]}")
    return found


def _framed(
    orders: Sequence[str], frames: Mapping[str, str], seed: Sequence[str]
) -> list[str]:
    found = []
    for frame, order in zip(_shuffled(list(frames), seed), cycle(orders), strict=False):
        whose = frames[frame]
        own = re.sub(
            r"\byour\b", whose, order.replace("yourself", WORDS["self"][whose])
        )
        forms = {"doing": inflected(own, doing), "does": inflected(own, does)}
        found.append(frame.format(do=own, **forms))
    return found


def _shuffled(ways: Sequence[str], seed: Sequence[str]) -> list[str]:
    """The distinct ways in an order that looks random and is always the same."""
    mixed = list(dict.fromkeys(ways))
    random.Random("\n".join(seed)).shuffle(mixed)
    return mixed


# Verbs and their forms.


_IRREGULAR = {"be": ("being", "is"), "have": ("having", "has")}
_SHORT_VOWEL = re.compile("[^aeiou]*(?:qu)?[aeiou][^aeiouwxy]")
"""A verb of one syllable whose last letter doubles: `stop`, but not `walk` or `row`."""


def doing(verb: str) -> str:
    """`walk` becomes `walking`."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb][0]
    if verb in _DOUBLED or _SHORT_VOWEL.fullmatch(verb):
        return f"{verb}{verb[-1]}ing"
    return re.sub("ie$", "y", re.sub("(?<=[^eio])e$", "", verb)) + "ing"


def does(verb: str) -> str:
    """`walk` becomes `walks`."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb][1]
    if re.search("(s|sh|ch|x|z|[^o]o)$", verb):
        return f"{verb}es"
    return re.sub("(?<=[^aeiou])y$", "ie", verb) + "s"


PLAIN_VERBS = {
    form: verb
    for verb in reversed(WORDS["verbs"]["plain"].split())
    for form in (verb, doing(verb), does(verb))
}
"""Maps every form of a verb to its plain form: `putting` to `put`, not to `putt`."""


def as_order(clause: str) -> str | None:
    """`walking forward and waving` as `walk forward and wave`; None without a verb."""
    if clause.split(" ")[0] not in PLAIN_VERBS:
        return None
    return PATTERNS.verbs.sub(lambda m: m[1] + PLAIN_VERBS.get(m[2], m[2]), clause)


def inflected(clause: str, form: Callable[[str], str]) -> str:
    """An order with its verbs in the form `doing` or `does`."""

    def change(m: re.Match[str]) -> str:
        leads = m[1] in ("", "just ")
        is_plain = PLAIN_VERBS.get(m[2]) == m[2]
        return m[1] + (form(m[2]) if leads or is_plain else m[2])

    return PATTERNS.verbs.sub(change, clause)
