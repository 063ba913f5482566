"""From text to cues, by the sentences of a bundle.

`python -m spectral_skills.planner.listener BUNDLE` is the process of the desk that has
torch and the language model. It reads lines of JSON such as
`{"id": 1, "text": "walk forward"}` and answers each with cues and messages.
"""

import json
import os
import sys
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import torch
from safetensors.torch import load_file

from spectral_skills.control.bundle import SENTENCES, Bundle
from spectral_skills.control.mixer import REST, Cue
from spectral_skills.planner.phrases import PATTERNS
from spectral_skills.planner.text import MiniLM, TextEncoder, TextStates, pooled
from spectral_skills.planner.understand import (
    Instruction,
    Interpreter,
    KnownSentences,
)

SHORTEST_S, LONGEST_S = 2.0, 6.0
"""Shortest and longest duration of an instruction that does not say how long."""
_NICE = 5
"""Niceness of the process: control steps come first."""


class Listener:
    """Understands texts by the planner of a bundle or, without one, by its bases."""

    def __init__(self, bundle: Bundle, encoder: TextEncoder):
        self._bundle, self._encoder = bundle, encoder
        self.plans = SENTENCES in bundle.manifest.files

    @cached_property
    def _known(self) -> KnownSentences:
        """Made for the first text; its answer says if the language model is missing."""
        bundle, encoder = self._bundle, self._encoder
        if not self.plans:
            texts = [(base.name, base.text) for base in bundle.bases.values()]
            return KnownSentences(texts, encoder)
        arrays = load_file(bundle.folder / SENTENCES)
        states = TextStates(arrays["states"].float(), arrays["mask"].bool())
        return KnownSentences(bundle.manifest.sentences, encoder, pooled(states))

    def hear(self, text: str) -> tuple[list[Cue], list[str]]:
        """Cues to play, and a message for each part of a text; the last continues."""
        found = self.instructions(text)
        cues, messages = map(list, zip(*map(self.cue, found), strict=True))
        cues[-1] = replace(cues[-1], seconds=found[-1].seconds)
        rests = all(cue.name == REST and not cue.planned for cue in cues)
        plays = not rests or any(one.understood for one in found)
        return (cues if plays else []), messages

    def instructions(self, text: str) -> list[Instruction]:
        """What a text asks for, part by part."""
        return Interpreter(self._known, self._bundle.directions).interpret(text)

    def cue(self, one: Instruction, seconds: float | None = None) -> tuple[Cue, str]:
        """The cue and the message of an instruction, which lasts as long as its text
        says, else `seconds`, else as long as its motion takes."""
        seconds = one.seconds or seconds
        if one.understood:
            takes_s = self._bundle.manifest.takes_s.get(one.motion, LONGEST_S)
            seconds = seconds or min(max(takes_s, SHORTEST_S), LONGEST_S)
            knobs = tuple((knob.direction, knob.amplitude) for knob in one.knobs)
            name = one.nearest if self.plans else one.motion
            added = "".join(f", {knob.label}" for knob in one.knobs)
            message = f"{one.sentence!r} as {one.nearest!r} ({one.cosine:.2f}){added}"
            return Cue(name, seconds, planned=self.plans, knobs=knobs), message
        if self.plans or PATTERNS.negated.search(one.sentence):
            message = f"{one.sentence!r} was not understood: {one.why}"
            return Cue(REST, seconds or SHORTEST_S), message
        # Without a planner, the base with the nearest description is played.
        match = self._known.nearest(one.sentence)
        nearest = f"the nearest described skill is {match.sentence!r}"
        message = f"{one.sentence!r}: {nearest} ({match.cosine:.2f})"
        return Cue(match.motion, seconds or LONGEST_S), message


def answer(listener: Listener, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to any request."""
    number = request.get("id")
    try:
        cues, messages = listener.hear(str(request.get("text", "")))
    except ModuleNotFoundError as error:
        return {"id": number, "missing": str(error)}
    except Exception as error:  # the listener stays for the next text
        return {"id": number, "error": str(error)}
    return {"id": number, "cues": [asdict(c) for c in cues], "messages": messages}


def main() -> None:
    """Answer lines until there are no more."""
    # What libraries print must not come between the answers.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.nice(_NICE)
    torch.set_num_threads(1)
    listener = Listener(Bundle.open(sys.argv[1]), MiniLM())
    for line in sys.stdin:
        out.write(json.dumps(answer(listener, json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
