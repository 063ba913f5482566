"""What is asked in what people say: orders, without the talk around them.

People greet, give reasons and speak of others before they ask for something. A text is
cut into pieces. Those that only tell, greet or forbid are left out where another piece
asks. What might be an order and is not understood is kept, so that it is refused.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from spectral_skills.planner.lookup import traits
from spectral_skills.planner.phrases import PATTERNS, PLAIN_VERBS, WORDS, as_order

_ASKED, _ACTS = WORDS["asked"], WORDS["acts"]
_STRANGE = set(WORDS["verbs"]["strange"].split())
_LISTS = {"acts": _ACTS, "verbs": {*PLAIN_VERBS, *_STRANGE}}
"""Words that are no lists of patterns; the longest is tried first."""


def _lines(name: str) -> list[str]:
    """Patterns of a list, with other lists where their names stand in braces."""
    if name in _LISTS:
        return ["|".join(sorted(_LISTS[name], key=len, reverse=True))]
    found = _ASKED[name].strip("\n").split("\n")
    return [re.sub("{([a-z_]+)}", lambda m: _any(m[1]).pattern, line) for line in found]


def _any(name: str, begin: str = "", end: str = "") -> re.Pattern[str]:
    return re.compile(f"{begin}(?:{'|'.join(_lines(name))}){end}")


_ORDER = rf"(?:\w+ly )?(?:{_lines('verbs')[0]})(?![\w'-])"
_LEAD = _any("leads", "(?:", rf"{_ASKED['softened']} )+(?={_ORDER})")
_WISH = _any("leads")
_OFFER = _any("offers", end=r" (?=(?:an?|one|another|some|your|that|the)\b)")
_CUT, _TOLD = _any("cuts"), _any("told", "(?:(?:and|but|so|because) )*")
_GREETING, _ATTENTION = (
    _any("greetings", "(?:(?:and|but|so|oh|well) )*", r"\b"),
    _any("attention"),
)
_ASKS = re.compile(r"(?:how|what|where|who|which|why)\b")
_ABOUT = _any("before_nouns", end=r"\b")
_QUESTION, _CONDITION = _any("questions"), _any("condition")
_UNLISTED, _NAMED = _any("unlisted"), re.compile(_lines("named")[0])
_ENDINGS = [re.compile(rf"{line}$") for line in _lines("endings")]
_AGAINST, _FORBIDDEN, _COMPARED = (
    re.compile(_ASKED[name]) for name in ("against", "forbidden", "compared")
)
_TAIL = _any("tails", " *")
_MARKS = " ,.!?"
_LIKE = re.compile(r" (?:like|as if|as though)\b")
_ONLY_SIDE = re.compile(r"(?:(?:to|towards) )?(?:(?:the|your) )?(left|right)(?: side)?")
_NOUN_FIRST = re.compile(r"[\w-]+ (?:[\w-]+ )?(?:is|are|was|were|has)\b")


class _Piece(NamedTuple):
    kind: Literal["order", "talk", "not to do", "other"]
    text: str

    @property
    def may_ask(self) -> bool:
        """Whether it may be a part of an order, though it does not begin with one."""
        named = any(traits(self.text).values())
        first = self.text.split(" ")[0]
        lasts = re.search(r"\b(?:seconds?|minutes?|secs?|min|s)\b", self.text)
        strange = _UNLISTED.match(self.text)
        return named or first in PLAIN_VERBS or bool(lasts or strange)


def asked(text: str) -> list[str]:
    """What a plain text asks for, one after the other; all of it if nothing asks."""
    said = PATTERNS.then.split(_as_orders(text.replace("’", "'")))
    for i in range(1, len(said)):
        if side := _ONLY_SIDE.fullmatch(said[i].strip(_MARKS)):
            said[i] = re.sub(r"\b(?:left|right)\b", side[1], said[i - 1])
    clauses = [list(_pieces(clause)) for clause in said]
    kinds = [piece.kind for pieces in clauses for piece in pieces]
    if not {"order", "other"} & set(kinds):
        return said
    found: list[str] = []
    leads = "order" in kinds
    for pieces in clauses:
        found += _kept(pieces, leads)
        leads = leads and all(piece.kind != "order" for piece in pieces)
    return found or said


def _as_orders(text: str) -> str:
    """A description as orders: `a person walks forward, turns and waves`."""
    subject = PATTERNS.subject.match(text)
    if not subject or re.split("[ ,]", text[subject.end() :])[0] not in PLAIN_VERBS:
        return text
    orders = re.sub(
        r"((?:^|, |\b(?:and|then) )(?:then )?)([\w-]+)",
        lambda found: found[1] + PLAIN_VERBS.get(found[2], found[2]),
        re.sub(r", (?=\w+ing\b)", " while ", text[subject.end() :]),
    )
    return re.sub(r"\b(?:his|her|its|their)\b", "the", orders)


def _kept(pieces: list[_Piece], leads: bool) -> list[str]:
    """What a clause asks for; `leads` if the first order of its text is yet to come."""
    found: list[str] = []
    told, forbids = "", False
    for piece in pieces:
        goes_on = piece.kind == "other" or bool(found and traits(piece.text)["side"])
        if piece.kind == "order":
            if found and needs_signal(found[-1]):
                found[-1] = f"{found[-1]}, {piece.text}"
            elif not _lists(told, piece.text):
                found.append(piece.text)
                forbids = False
        elif piece.kind == "not to do":
            forbids = True
        elif not goes_on:
            told = piece.text if tells(piece.text) else ""
        elif found and not forbids:
            found[-1] = f"{found[-1]}, {piece.text}"
        elif not (forbids or (told and _ABOUT.match(piece.text))):
            if piece.may_ask or not (leads or found):
                found.append(piece.text)
    return found


def _lists(told: str, piece: str) -> bool:
    """Whether an order is none, but goes on in a list: `he can jump, run and dance`."""
    last = told.split(" ")[-1]
    return PLAIN_VERBS.get(last) == last and bool(re.search(r"\b(?:and|or)\b", piece))


def tells(clause: str) -> bool:
    """Whether a clause speaks of others or asks a question, and gives no order."""
    plain = _COMPARED.split(clause, maxsplit=1)[0]
    told = _TOLD.match(plain) and not begins_order(clause)
    return bool(told or _QUESTION.match(clause))


def needs_signal(clause: str) -> bool:
    """Whether a clause says upon what something is to be done: `when I clap, jump`."""
    return bool(_CONDITION.match(clause)) and not _TOLD.match(clause)


def without_comparison(clause: str) -> str:
    """`shrug like you do not care` as `shrug`."""
    return _LIKE.split(clause, maxsplit=1)[0]


def bare(clause: str) -> str:
    """A clause without the words that people put around an order."""
    inner = PATTERNS.wrapped.sub("", clause.strip(_MARKS))
    return PATTERNS.polite.sub("", inner).strip(_MARKS)


def shorter(clause: str) -> list[str]:
    """An order, and the same without what changes nothing of it."""
    found = [clause]
    for ending in _ENDINGS:
        found.append(ending.sub(lambda m: "".join(m.groups()), found[-1]))
    for one in tuple(found):
        if act := _NAMED.fullmatch(one):
            found.append(_ACTS[act[2]] + act[3])
            found.append(f"do a {act[1]}{act[2]}{act[3]}")
    # A reason may name another side than its order, which then is the one that counts.
    named, side = traits(found[1]), traits(clause)["side"]
    if named["side"] != side:
        found = found[1:] if named["side"] else [clause]
    sides = named["side"], named["limb"]
    same = [s for s in found if (traits(s)["side"], traits(s)["limb"]) == sides]
    return list(dict.fromkeys((*found[:1], *same)))


def within(clause: str) -> Iterator[tuple[str, str]]:
    """Orders within a clause that does not begin with one, and what stands before."""
    if begins_order(clause) or _AGAINST.search(clause):
        return
    for word in re.finditer(r"(?<= )[\w-]+", clause):
        if order := as_order(clause[word.start() :]):
            yield order, clause[: word.start()].strip(_MARKS)


def without_tail(clause: str) -> Iterator[tuple[str, str]]:
    """A clause with less and less of what is said last of how it is done, and what is
    left out. A height is left out only where another one is named before, and a limb or
    a side never: another one would be moved."""
    whole, left = traits(clause), clause
    while cuts := list(_TAIL.finditer(left)):
        left, rest = clause[: cuts[-1].start()], clause[cuts[-1].start() :]
        less, before = left.strip(_MARKS), traits(left)
        keeps = all(
            before[t] == whole[t] or (before[t] and t not in ("limb", "side"))
            for t in whole.keys() - {"pace"}
        )
        if less and keeps and (not _AGAINST.search(rest) or _LIKE.match(rest)):
            yield less, rest.strip(_MARKS)


def _pieces(clause: str) -> Iterator[_Piece]:
    """The pieces of a clause; none of them is empty."""
    begin = _FORBIDDEN.match(clause)
    if begin and " or " in clause and not PATTERNS.stop.match(clause):
        yield _Piece("not to do", clause)
        return
    for piece in _CUT.split(clause):
        yield from _led(bare(piece))


def _led(piece: str) -> Iterator[_Piece]:
    """A piece, in two where words that lead to an order stand within it."""
    if _ATTENTION.fullmatch(piece):
        yield _Piece("talk", piece)
        return
    offer = _OFFER.search(piece)
    if offer and _NAMED.fullmatch(piece, offer.end()):
        piece = f"{piece[: offer.start()]}please give {piece[offer.end() :]}"
    lead = _LEAD.search(piece)
    if not lead:
        if re.search("[a-z]", piece):
            yield _Piece(_kind(piece), piece)
        return
    head, order = re.sub(r"[ ,]*(?:\band)?$", "", piece[: lead.start()]), lead[0]
    if _AGAINST.search(head) and re.match("you|see|hear|how|if|the", order):
        yield _Piece("not to do", piece)
        return
    if _ASKS.match(head) and re.match("can|could|would|will", order):
        yield _Piece("talk", piece)
        return
    if head:
        yield _Piece(_kind(head), head)
    first, *others = _led(piece[lead.end() :])
    # It need not begin with the plain form of a verb: `would you mind waving`.
    kind = "order" if first.kind == "other" else first.kind
    yield _Piece(kind, as_order(first.text) or first.text)
    yield from others


def _kind(piece: str) -> Literal["order", "talk", "not to do", "other"]:
    if _ATTENTION.fullmatch(piece) or _GREETING.match(piece):
        return "talk"
    if PATTERNS.stop.match(piece):
        return "order"
    if _FORBIDDEN.match(piece):
        return "not to do"
    if _QUESTION.match(piece):
        return "talk"
    if begins_order(piece) or _WISH.match(piece):
        return "order"
    if tells(piece):
        return "talk"
    is_named = re.match("(?:an?|one|another|some) ", piece) and _NAMED.fullmatch(piece)
    return "order" if is_named else "other"


def begins_order(piece: str) -> bool:
    """Whether it begins with a verb that is no noun: `work is fun` gives no order."""
    first = re.split("[ ,]", piece, maxsplit=1)[0]
    is_verb = PLAIN_VERBS.get(first) == first or first in _STRANGE
    return is_verb and not _NOUN_FIRST.match(piece)
