"""The text box: text to cues, by a process that may be slow, fail or die.

A thread of its own waits for that process; the robot goes on meanwhile, and the page
is told what became of the text. The process is started by the first text, so that the
page opens without torch and the language model.
"""

import json
import queue
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import Cue
from spectral_skills.desk.engine import Engine

LONGEST = 1000
"""Characters of a text."""
_FIRST_S, _LATER_S = 90.0, 20.0
"""How long an answer may take: the first text loads the language model."""


class Talk:
    """Listens to text and has the engine play it."""

    def __init__(
        self,
        engine: Engine,
        tell: Callable[[str], None],
        command: Sequence[str] | None = None,
        patience_s: tuple[float, float] = (_FIRST_S, _LATER_S),
    ):
        """`tell` is called with what is to be shown, from several threads."""
        self._engine, self._tell = engine, tell
        module = "spectral_skills.desk.listener"
        folder = str(engine.bundle.folder)
        self._command = command or (sys.executable, "-m", module, folder)
        self._patience_s = patience_s
        self._texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._listener: _Process | None = None
        self._missing = ""
        """Why only words are compared, if the language model is not there."""
        self._thread = threading.Thread(target=self._work, name="talk", daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        """Have a text played when it is understood; only the newest counts."""
        self._texts.put(text)

    def close(self) -> None:
        """End the thread and the process."""
        self._texts.put(None)
        if self._listener is not None:
            self._listener.kill()
        self._thread.join(timeout=5.0)

    def _work(self) -> None:
        while (text := self._newest()) is not None:
            text = " ".join(text.split())
            if not text:
                self._tell("Say what to do, such as `walk forward, then turn left`.")
                continue
            if len(text) > LONGEST:
                self._tell(f"{len(text)} characters; at most {LONGEST} are read.")
                continue
            try:
                self._understand(text)
            except Exception as error:  # the box stays for the next text
                self._give_up(f"The listener failed: {error}")
        if self._listener is not None:
            self._listener.kill()

    def _newest(self) -> str | None:
        text = self._texts.get()
        while text is not None and not self._texts.empty():
            text = self._texts.get()
        return text

    def _understand(self, text: str) -> None:
        if self._missing:
            self._compare(text)
            return
        fresh = self._listener is None or not self._listener.alive
        if fresh:
            self._tell(f"“{text}”: loading the language model, a few seconds …")
            self._listener = _Process(self._command)
        listener = self._listener
        assert listener is not None
        waited_s = self._patience_s[0 if fresh else 1]
        found = listener.ask(text, waited_s)
        if found is None:
            listener.kill()
            self._give_up(
                f"No answer in {waited_s:g} s; the listener is begun anew by the next "
                "text."
            )
        elif "missing" in found:
            self._missing = found["missing"]
            self._compare(text)
        elif "error" in found:
            self._tell(found["error"])
        else:
            self._play(
                [_cue(one) for one in found["cues"]], "; ".join(found["messages"])
            )

    def _compare(self, text: str) -> None:
        """Without a language model: what shares most words with the text."""
        found = overlapping(text, self._engine.bundle, self._engine.can_plan)
        why = f" (by words alone: {self._missing})"
        if found is None:
            self._tell(f"“{text}” shares no word with anything known{why}.")
        else:
            self._play([found], f"“{text}” as {found.name!r}{why}")

    def _play(self, cues: list[Cue], told: str) -> None:
        if cues:
            self._engine.post(lambda engine: engine.play(*cues), self._tell)
        self._tell(told)

    def _give_up(self, why: str) -> None:
        if self._listener is not None:
            self._listener.kill()
        self._listener = None
        self._tell(f"{why} The robot goes on as it was.")


class _Process:
    """The listener's process, and its answers."""

    def __init__(self, command: Sequence[str]):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._last: deque[str] = deque(maxlen=3)
        """Of what it wrote about itself."""
        self._asked = 0
        self._listens = threading.Thread(target=self._overhear, daemon=True)
        self._listens.start()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, text: str, patience_s: float) -> dict[str, Any] | None:
        """Its answer; None if there is none in time."""
        self._asked += 1
        assert self._process.stdin is not None
        request = {"id": self._asked, "text": text}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
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
        self._listens.join(timeout=1.0)  # its last words may still be on their way
        said = self._last[-1] if self._last else "it said nothing"
        return f"its process ended with {code} ({said})."

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._answers.put(dict(json.loads(line)))
            except (ValueError, TypeError):
                self._last.append(line.strip()[:200])
        self._answers.put(None)

    def _overhear(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.strip():
                self._last.append(line.strip()[:200])


def _cue(values: dict[str, Any]) -> Cue:
    knobs = tuple((str(name), float(value)) for name, value in values.pop("knobs"))
    return Cue(**values, knobs=knobs)


def overlapping(text: str, bundle: Bundle, planned: bool) -> Cue | None:
    """What shares the largest part of its words with a text: of the sentences that the
    planner has learned, or of the bases' descriptions."""
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
