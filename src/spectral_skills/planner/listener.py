"""From text to cues, by the sentences of a bundle, and a robot that does them.

`python -m spectral_skills.planner.listener BUNDLE` is the process of the desk that has
torch and the language model. It reads lines of JSON such as
`{"id": 1, "text": "walk forward"}` and answers each with cues and messages.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectral_skills.control.bundle import SENTENCES, Bundle, said_vectors, token_states
from spectral_skills.control.mixer import REST, Cue
from spectral_skills.control.played import LONGEST_S, SHORTEST_S, lasts_s, shown
from spectral_skills.control.rollout import Rollout, fell_at
from spectral_skills.control.session import Session
from spectral_skills.control.streams import LivePlanner
from spectral_skills.planner.acts import Act, acts
from spectral_skills.planner.lookup import KnownSentences, is_order
from spectral_skills.planner.phrases import PATTERNS
from spectral_skills.planner.text import MiniLM, TextEncoder, TextStates, clean, pooled
from spectral_skills.planner.understand import Instruction, Interpreter
from spectral_skills.robot import g1

MOST_S = 120.0
"""Longest run."""
FALLEN_M = 0.35
"""Height of the pelvis below which a robot has fallen: no described motion is."""
_SAME = 0.9
"""Cosine of two sentences that mean the same."""
_NICE = 5
"""Niceness of the process: control steps come first."""


class Listener:
    """Understands texts by the planner of a bundle or, without one, by its bases.

    A motion that a base shows, or whose own skills are in the bundle, is played; all
    others are planned. Played motions may have sentences of their own.
    """

    def __init__(self, bundle: Bundle, encoder: TextEncoder):
        self._bundle, self._encoder = bundle, encoder
        self.plans = SENTENCES in bundle.manifest.files

    @cached_property
    def _acts(self) -> dict[str, Act]:
        """What is made of sentences that are known, by names of their own."""
        bundle = self._bundle
        known = {base.text for base in bundle.bases.values()}
        known |= {said for one in bundle.motions.values() for said in one.sentences}
        if self.plans:
            known |= {said for _, said in bundle.manifest.sentences}
        return dict(acts(set(filter(is_order, known))))

    @cached_property
    def _known(self) -> KnownSentences:
        """Made for the first text; its answer says if the language model is missing."""
        bundle, encoder = self._bundle, self._encoder
        texts = [(base.name, base.text) for base in bundle.bases.values() if base.text]
        motions = bundle.motions.items()
        texts += [(name, said) for name, one in motions for said in one.sentences]
        texts += [(n, said) for n, one in self._acts.items() for said in one.sentences]
        written = {*self._acts, *bundle.motions}
        vectors = self._vectors([text for _, text in texts])
        if not self.plans:
            return KnownSentences(texts, encoder, vectors, written)
        learned = map(torch.from_numpy, token_states(bundle.folder))
        states = TextStates.of([states.float() for states in learned])
        vectors = torch.cat((pooled(states), vectors))
        texts = [*bundle.manifest.sentences, *texts]
        return KnownSentences(texts, encoder, vectors, written)

    def _vectors(self, texts: Sequence[str]) -> Tensor:
        """(n, width) vectors of texts: those that the bundle has, others are read."""
        kept = said_vectors(self._bundle.folder, self._encoder.name)
        new = [text for text in dict.fromkeys(texts) if text not in kept]
        read = pooled(self._encoder.encode(new)).numpy() if new else ()
        found = kept | dict(zip(new, read, strict=True))
        vectors = [torch.from_numpy(found[text]) for text in texts]
        return torch.stack(vectors) if texts else torch.zeros(0, self._encoder.width)

    @cached_property
    def _bases(self) -> dict[str, str]:
        """What is played, by its own name and by the motions of the planner that it
        shows; a base also shows what means the same as its text."""
        known, bundle = self._known, self._bundle
        learned = bundle.manifest.sentences if self.plans else ()
        found = shown(bundle.bases, bundle.motions, learned)
        own = {name for name, one in bundle.motions.items() if one.sentences}
        own |= set(bundle.bases)
        planned = torch.tensor([motion not in own for motion in known.motions])
        for name, base in bundle.bases.items() if planned.any() else ():
            if base.text and not base.clips & set(known.motions):
                match = known.nearest(base.text, planned)
                if match.cosine >= _SAME:
                    found[match.motion] = name
        return found

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
        orders = {name: one.orders for name, one in self._acts.items()}
        known = self._known
        return Interpreter(known, self._bundle.directions, orders).interpret(text)

    def cue(self, one: Instruction, seconds: float | None = None) -> tuple[Cue, str]:
        """The cue and the message of an instruction, which lasts as long as its text
        says, else `seconds`, else as long as its motion takes."""
        seconds = one.seconds or seconds
        if one.understood:
            base = self._bases.get(one.motion)
            played = self._bundle.base(base) if base else None
            takes_s = self._bundle.manifest.takes_s.get(one.motion)
            seconds = seconds or lasts_s(takes_s, played)
            knobs = tuple((knob.direction, knob.amplitude) for knob in one.knobs)
            name = base or one.nearest
            added = "".join(f", {knob.label}" for knob in one.knobs)
            message = f"{one.sentence!r} as {one.nearest!r} ({one.cosine:.2f}){added}"
            if one.left_out:
                message += f", without {one.left_out!r}"
            return Cue(name, seconds, planned=not base, knobs=knobs), message
        if self.plans or PATTERNS.negated.search(one.sentence):
            message = f"{one.sentence!r} was not understood: {one.why}"
            return Cue(REST, seconds or SHORTEST_S), message
        # Without a planner, the base with the nearest description is played.
        shown = torch.tensor([name not in self._acts for name in self._known.motions])
        match = self._known.nearest(one.sentence, shown)
        nearest = f"the nearest described skill is {match.sentence!r}"
        message = f"{one.sentence!r}: {nearest} ({match.cosine:.2f})"
        return Cue(match.motion, seconds or LONGEST_S), message


@dataclass(frozen=True)
class SpokenStep(Instruction):
    """An instruction during a run; `motion` is `stand` if it was not understood."""

    cue: Cue = Cue(REST)
    """What the session plays."""
    begin: int = 0
    """First control step."""
    end: int = 0
    """First control step after it."""


@dataclass(frozen=True)
class Spoken:
    """A run of a robot that was instructed in words."""

    text: str
    steps: tuple[SpokenStep, ...]
    rollout: Rollout
    """Record of the one robot; `control.session.replay` runs it again."""
    fell_at_s: float | None
    refused: int
    """Number of plans that were not finite and so were not followed."""
    plans: int
    plan_ms: float
    """Median wall time of a plan; 0 if none was made."""
    encoder: str
    """Fingerprint of the encoder of the skills."""

    @property
    def fps(self) -> float:
        return self.rollout.fps

    @property
    def understood(self) -> bool:
        return any(step.understood for step in self.steps)


def speak(
    bundle: Bundle,
    encoder: TextEncoder,
    text: str,
    every: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
) -> Spoken:
    """Instruct a standing robot.

    Each step of the text lasts as long as the text says, else `seconds`, else as long
    as its motion takes. `every` is how many steps of a plan are used: all by default.
    """
    manifest, planner = bundle.manifest, bundle.planner()
    if planner is None:
        raise ValueError(f"{bundle.folder}: a bundle without a planner")
    if seconds is not None and not 0.0 < seconds <= MOST_S:
        raise ValueError(
            f"{seconds:g} s a step, must be above 0 and at most {MOST_S:g}"
        )
    longest = manifest.plan_every
    if not 1 <= (every := longest if every is None else every) <= longest:
        raise ValueError(f"a plan every {every} steps, must be 1 to {longest}")
    steps = spoken_steps(Listener(bundle, encoder), text, seconds)
    live = LivePlanner(planner, seed, inline=True)
    frequent = replace(bundle, manifest=replace(manifest, plan_every=every))
    session = Session(frequent, live)
    session.record()
    for step in steps:
        session.play(step.cue)
        for _ in range(step.end - step.begin):
            session.step()
    record = session.stop_recording()
    assert record is not None
    # A broken simulation counts as a fall.
    down = fell_at(record.robot[:, 0], FALLEN_M)
    return Spoken(
        text=clean(text),
        steps=steps,
        rollout=replace(record, names=(clean(text),)),
        fell_at_s=None if down is None else down / record.fps,
        refused=live.refused,
        plans=len(live.took_s),
        plan_ms=1000 * float(np.median(live.took_s or [0.0])),
        encoder=manifest.encoder,
    )


def spoken_steps(
    listener: Listener, text: str, seconds: float | None = None
) -> tuple[SpokenStep, ...]:
    """The steps of a text; the robot stands for what is not understood."""
    found: list[SpokenStep] = []
    total_s = 0.0
    for one in listener.instructions(text):
        cue, _ = listener.cue(one, seconds)
        lasts_s = cue.seconds or 0.0
        total_s += lasts_s
        if total_s > MOST_S:
            raise ValueError(f"that takes longer than {MOST_S:g} s; say it in parts")
        begin = found[-1].end if found else 0
        end = begin + max(2, round(lasts_s * g1.CONTROL_HZ))
        changes = {
            "motion": one.motion if one.understood else cue.name,
            "cue": replace(cue, seconds=None),
            "begin": begin,
            "end": end,
        }
        found.append(SpokenStep(**vars(one) | changes))
    return tuple(found)


def answer(listener: Listener, request: dict[str, Any]) -> dict[str, Any]:
    number = request.get("id")
    try:
        cues, messages = listener.hear(str(request.get("text", "")))
    except ModuleNotFoundError as error:
        return {"id": number, "missing": str(error)}
    except Exception as error:  # the listener stays for the next text
        return {"id": number, "error": str(error)}
    return {"id": number, "cues": [asdict(c) for c in cues], "messages": messages}


def main() -> None:
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
