"""How many wordings of a planner's motions are understood as their motion.

Looked up are the sentences that a planner has learned, each of them where it is not
known itself (every eighth of a motion is left out in turn), and the wordings that it
never saw: among its own sentences, and as `spectral say` does, where bases, gestures
and acts compete. A wording is found if it is one instruction, understood, and that is
its motion or is played as it. Of those that are another motion, counted as alike are
those whose first sentence the language model takes for that of the right one.

    python benchmarks/wordings.py wordings
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from report import main

from spectral_skills import api
from spectral_skills.control.bundle import Bundle
from spectral_skills.models import Models
from spectral_skills.planner.listener import Listener
from spectral_skills.planner.lookup import KnownSentences
from spectral_skills.planner.text import MiniLM, TextEncoder, pooled
from spectral_skills.planner.understand import Instruction, Interpreter
from spectral_skills.results import Result, model_hashes

TABLE = "Planning: wordings"
PARTS = 8
"""Number of parts of a motion's sentences, each of which is left out once."""
ALIKE = 0.9
"""Cosine of two sentences from which they are alike."""

Pairs = Sequence[tuple[str, str]]
"""Motions and sentences."""
Answers = Iterator[tuple[str, str, list[Instruction]]]
"""The same, and how the sentences are understood."""


def answer(
    motion: str, found: Sequence[Instruction], played: Callable[[Instruction], str]
) -> str:
    """What a wording of a motion became."""
    if not all(one.understood for one in found):
        return "refused"
    if len(found) > 1:
        return "several"
    right = replace(found[0], motion=motion)
    return "found" if played(found[0]) == played(right) else "other"


def left_out(pairs: Pairs, encoder: TextEncoder) -> Answers:
    """Sentences where they are not known themselves."""
    seen, part = Counter(), []
    for motion, _ in pairs:
        part.append(seen[motion] % PARTS)
        seen[motion] += 1
    for number in range(PARTS):
        out = {s for (_, s), own in zip(pairs, part, strict=True) if own == number}
        known = KnownSentences([one for one in pairs if one[1] not in out], encoder)
        for motion, sentence in pairs:
            if sentence in out:
                yield motion, sentence, Interpreter(known).interpret(sentence)


def counted(
    row: str,
    asked: Answers,
    played: Callable[[Instruction], str],
    encoder: TextEncoder,
    first: dict[str, str],
) -> list[Result]:
    """One row of the table; `first` has the first sentence of each motion."""
    counts = Counter()
    for motion, _, found in asked:
        became = answer(motion, found, played)
        counts[became] += 1
        if became == "other":
            both = first[motion], first.get(found[0].motion, found[0].nearest)
            one, other = pooled(encoder.encode(both))
            counts["alike"] += float(one @ other) >= ALIKE
    total = counts.total() - counts["alike"]
    kinds = ("found", "refused", "several", "other", "alike")
    values = {"found, %": 100 * counts["found"] / total} | {k: counts[k] for k in kinds}
    return [Result(TABLE, row, name, one, n=total) for name, one in values.items()]


def wordings(device: str) -> list[Result]:
    """The table of the released models; the language model reads on the CPU."""
    models, encoder = Models.load(planner="base", device=device), MiniLM()
    listener = Listener(Bundle.open(api.bundle()), encoder)
    motions = models.skill_planner.config.about.motions
    learned = [(one.name, said) for one in motions for said in one.sentences]
    held_out = [(one.name, said) for one in motions for said in one.held_out]
    known = Interpreter(KnownSentences(learned, encoder))

    def asked(pairs: Pairs, understand: Callable[[str], list[Instruction]]) -> Answers:
        return ((name, said, understand(said)) for name, said in pairs)

    def named(one: Instruction) -> str:
        return one.motion

    def played(one: Instruction) -> str:
        cue, _ = listener.cue(one)
        return one.motion if cue.planned else cue.name

    say, first = listener.instructions, {m.name: m.sentences[0] for m in motions}
    rows = {
        "learned": (asked(learned, known.interpret), named),
        "learned, left out": (left_out(learned, encoder), named),
        "held out": (asked(held_out, known.interpret), named),
        "learned, as `say`": (asked(learned, say), played),
        "held out, as `say`": (asked(held_out, say), played),
    }
    results = [r for k, row in rows.items() for r in counted(k, *row, encoder, first)]
    used = model_hashes(planner=models.hashes["planner"])
    return [replace(one, models=used) for one in results]


if __name__ == "__main__":
    main(wordings)
