"""The process that understands text: `python -m spectral_skills.desk.listener BUNDLE`.

It has torch and the language model, and neither the page nor the robot waits for it.
A line of JSON in, `{"id": 1, "text": "walk forward"}`, a line of JSON out: cues to
play, and what was understood.
"""

import json
import os
import sys
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch
from safetensors.torch import load_file

from spectral_skills.control.bundle import SENTENCES, Bundle
from spectral_skills.control.mixer import REST, Cue
from spectral_skills.experiments.spoken import LONGEST_S, SHORTEST_S
from spectral_skills.planner.knobs import Choice
from spectral_skills.planner.known import Known
from spectral_skills.planner.opposites import denies
from spectral_skills.planner.text import (
    TextEncoder,
    TextStates,
    pooled,
    text_encoder,
)
from spectral_skills.planner.understand import FarFromKnown, Step, listen

_NICER = 5
"""Control steps come first."""


class Listener:
    """Sentences that a bundle knows: of its planner, or else of its bases."""

    def __init__(self, bundle: Bundle, encoder: TextEncoder):
        self._bundle, self._encoder = bundle, encoder
        self.plans = SENTENCES in bundle.manifest.files

    @cached_property
    def _known(self) -> Known:
        """Made when the first text comes: it may need a language model, and whoever
        asked is told if there is none."""
        if self.plans:
            return _learned(self._bundle, self._encoder)
        texts = {base.name: [base.text] for base in self._bundle.bases.values()}
        return Known.of(texts, self._encoder)

    def hear(self, text: str) -> tuple[list[Cue], list[str]]:
        """What to play, and what each part of a text was taken for."""
        heard = listen(text, self._known, self._bundle.directions, self._encoder)
        cues, told = [], []
        for number, one in enumerate(heard):
            last = number == len(heard) - 1
            cue, meant = self._cue(one, last)
            told.append(meant)
            if cue is not None:
                cues.append(cue)
        understood = any(cue.name != REST or cue.planned for cue in cues)
        stands = any(not isinstance(one, FarFromKnown) for one in heard)
        return (cues if understood or stands else []), told

    def _cue(self, one: Step | FarFromKnown, last: bool) -> tuple[Cue | None, str]:
        if isinstance(one, FarFromKnown):
            return self._far(one, last)
        knobs = tuple((k.direction, k.amplitude) for k in one.knobs)
        name = one.known if self.plans else one.motion
        cue = Cue(name, self._seconds(one, last), planned=self.plans, knobs=knobs)
        added = "".join(f", {_turned(knob)}" for knob in one.knobs)
        return cue, f"{one.sentence!r} as {one.known!r} ({one.cosine:.2f}){added}"

    def _far(self, one: FarFromKnown, last: bool) -> tuple[Cue | None, str]:
        if self.plans or denies(one.text):
            # It stands meanwhile, as a robot that is told so in advance does.
            seconds = one.seconds or SHORTEST_S
            return Cue(REST, seconds), f"{one.text!r} was not understood: {one.why}"
        near = self._known.nearest(one.text)
        told = f"{one.text!r}: the nearest described skill is {near.sentence!r}"
        cue = Cue(near.motion, None if last else one.seconds or LONGEST_S)
        return cue, f"{told} ({near.cosine:.2f})"

    def _seconds(self, one: Step, last: bool) -> float | None:
        """As long as is said, else as its motion takes; the last goes on."""
        if one.seconds or last:
            return one.seconds
        usual = self._bundle.manifest.takes_s.get(one.motion, LONGEST_S)
        return min(max(usual, SHORTEST_S), LONGEST_S)


def _turned(knob: Choice) -> str:
    """What a knob is for, and how far it is turned."""
    wish = knob.told.partition(" by ")[0]
    return f"{wish} ({knob.direction} {knob.amplitude:+g})"


def _learned(bundle: Bundle, encoder: TextEncoder) -> Known:
    """The planner's sentences, whose vectors are in the bundle."""
    arrays = load_file(bundle.folder / SENTENCES)
    vectors = pooled(TextStates(arrays["states"].float(), arrays["mask"].bool()))
    motions: dict[str, list[str]] = {}
    places: dict[str, list[int]] = {}
    for place, (motion, sentence) in enumerate(bundle.manifest.sentences):
        motions.setdefault(motion, []).append(sentence)
        places.setdefault(motion, []).append(place)
    order = [place for own in places.values() for place in own]
    return Known(motions, vectors[order], encoder)


def answer(listener: Listener, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request, whatever it is."""
    number = request.get("id")
    try:
        cues, told = listener.hear(str(request.get("text", "")))
    except ModuleNotFoundError as error:
        return {"id": number, "missing": str(error)}
    except Exception as error:  # the listener stays for the next text
        return {"id": number, "error": str(error)}
    return {"id": number, "cues": [asdict(cue) for cue in cues], "told": told}


def main() -> None:
    """Answer lines until there are no more."""
    # What libraries print must not come between the answers.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.nice(_NICER)
    torch.set_num_threads(1)
    listener = Listener(Bundle.open(sys.argv[1]), text_encoder())
    for line in sys.stdin:
        out.write(json.dumps(answer(listener, json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
