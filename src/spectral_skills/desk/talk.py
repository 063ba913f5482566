"""The text box: text to cues, by a process that may be slow, fail or die.

A thread waits for that process while the robot continues, and the page shows the
outcome. The process is started by the first text, so that the page opens without torch
and the language model.
"""

import json
import queue
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import Cue
from spectral_skills.desk.engine import Engine, Notify

LONGEST = 1000
"""Largest number of characters of a text."""
_FIRST_S, _LATER_S = 90.0, 20.0
"""Longest times for an answer; the first text loads the language model."""


class Talk:
    """Lets the listener understand texts, and plays them."""

    def __init__(
        self,
        engine: Engine,
        notify: Notify,
        command: Sequence[str] | None = None,
        patience_s: tuple[float, float] = (_FIRST_S, _LATER_S),
    ):
        self._engine, self._notify = engine, notify
        module, folder = "spectral_skills.planner.listener", str(engine.bundle.folder)
        self._command = command or (sys.executable, "-m", module, folder)
        self._patience_s = patience_s
        self._texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._listener: _Process | None = None
        self._missing = ""
        """Reason why there is no language model, so that only words are compared."""
        self._thread = threading.Thread(target=self._work, name="talk", daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        """Play a text once it is understood, unless a newer one has come."""
        self._texts.put(text)

    def close(self) -> None:
        self._texts.put(None)
        self._kill()
        self._thread.join(timeout=5.0)

    def _work(self) -> None:
        while (text := self._texts.get()) is not None:
            if not self._texts.empty():
                continue  # a newer text has come
            text = " ".join(text.split())
            if not text:
                self._notify("Say what to do, such as `walk forward, then turn left`.")
            elif len(text) > LONGEST:
                self._notify(f"{len(text)} characters; at most {LONGEST} are read.")
            else:
                try:
                    self._understand(text)
                except Exception as error:  # the box remains for the next text
                    self._give_up(f"The listener failed: {error}")
        self._kill()

    def _understand(self, text: str) -> None:
        if self._missing:
            self._compare(text)
            return
        listener, patience_s = self._listener, self._patience_s[1]
        if listener is None or not listener.alive:
            self._notify(f"“{text}”: loading the language model, a few seconds …")
            listener = self._listener = _Process(self._command)
            patience_s = self._patience_s[0]
        found = listener.ask(text, patience_s)
        if found is None:
            self._give_up(
                f"No answer in {patience_s:g} s; the next text starts the listener "
                "again."
            )
        elif "missing" in found:
            self._missing = found["missing"]
            self._compare(text)
        elif "error" in found:
            self._notify(found["error"])
        else:
            cues = [_cue(one) for one in found["cues"]]
            self._play(cues, "; ".join(found["messages"]))

    def _compare(self, text: str) -> None:
        """Without a language model, play what shares most words with the text."""
        found = overlapping(text, self._engine.bundle, self._engine.can_plan)
        why = f" (by words alone: {self._missing})"
        if found is None:
            self._notify(f"“{text}” shares no word with anything known{why}.")
        else:
            self._play([found], f"“{text}” as {found.name!r}{why}")

    def _play(self, cues: list[Cue], message: str) -> None:
        if cues:
            self._engine.post(lambda engine: engine.play(*cues), self._notify)
        self._notify(message)

    def _give_up(self, why: str) -> None:
        self._kill()
        self._listener = None
        self._notify(f"{why} The robot continues as it was.")

    def _kill(self) -> None:
        if self._listener is not None:
            self._listener.kill()


class _Process:
    """The listener's process, and its answers."""

    def __init__(self, command: Sequence[str]):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in, self._out = self._process.stdin, self._process.stdout
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._last: deque[str] = deque(maxlen=3)
        """Last lines of its own output."""
        self._asked = 0
        threading.Thread(target=self._read, daemon=True).start()
        lines = (line.strip()[:200] for line in self._process.stderr if line.strip())
        self._errors = threading.Thread(
            target=self._last.extend, args=(lines,), daemon=True
        )
        self._errors.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, text: str, patience_s: float) -> dict[str, Any] | None:
        """Its answer, or None if there is none in time."""
        self._asked += 1
        try:
            self._in.write(json.dumps({"id": self._asked, "text": text}) + "\n")
            self._in.flush()
        except OSError:
            raise RuntimeError(self._ended()) from None
        while True:
            try:
                found = self._answers.get(timeout=patience_s)
            except queue.Empty:
                return None
            if found is None:
                raise RuntimeError(self._ended())
            if found.get("id") == self._asked:
                return found

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ended(self) -> str:
        code = self._process.wait()
        self._errors.join(timeout=1.0)  # its last output may still be on the way
        last = self._last[-1] if self._last else "without output"
        return f"its process ended with {code} ({last})."

    def _read(self) -> None:
        for line in self._out:
            try:
                self._answers.put(dict(json.loads(line)))
            except (ValueError, TypeError):
                self._last.append(line.strip()[:200])
        self._answers.put(None)


def _cue(values: dict[str, Any]) -> Cue:
    knobs = tuple((str(name), float(value)) for name, value in values.pop("knobs"))
    return Cue(**values, knobs=knobs)


def overlapping(text: str, bundle: Bundle, planned: bool) -> Cue | None:
    """What shares the largest part of its words with a text: a sentence of the planner,
    or the description of a base."""
    asked = _words(text)
    known = [(sentence, sentence) for _, sentence in bundle.manifest.sentences]
    if not planned:
        known = [(b.name, f"{b.name} {b.text}") for b in bundle.bases.values()]
    best, found = 0.0, None
    for name, sentence in known:
        words = _words(sentence)
        share = len(asked & words) / max(len(asked | words), 1)
        if share > best:
            best, found = share, name
    return None if found is None else Cue(found, planned=planned)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower())) - {"a", "an", "and", "the", "to"}
