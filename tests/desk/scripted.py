"""Scripts: what is done to a desk, and when. For runs without a page, as tests are.

    {"at": 1.0, "do": "move", "name": "right_arm_1", "position": 2.0}
    {"at": 4.0, "do": "push", "left": 0.6}

One JSON object a line. Times are seconds, and need not be in order.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectral_skills.control.mixer import Cue
from spectral_skills.desk.engine import Engine, Frame
from spectral_skills.robot import g1


def _play(engine: Engine, name: str, **more: Any) -> None:
    engine.play(Cue(name, **more))


def _enqueue(engine: Engine, name: str, **more: Any) -> None:
    engine.enqueue(Cue(name, **more))


def _move(engine: Engine, name: str, position: float) -> None:
    engine.mixer.move(name, position)


def _hear(engine: Engine, name: str, **more: bool) -> None:
    engine.mixer.hear(name, **more)


def _ramp(engine: Engine, name: str, steps: int) -> None:
    engine.mixer.ramp(name, steps)


def _release(engine: Engine) -> None:
    engine.mixer.release()


ACTIONS: dict[str, Callable[..., Any]] = {
    "play": _play,
    "enqueue": _enqueue,
    "load": Engine.load,
    "cross": Engine.cross,
    "fade": Engine.fade,
    "loop": Engine.loop,
    "move": _move,
    "hear": _hear,
    "ramp": _ramp,
    "release": _release,
    "push": Engine.push,
    "reset": Engine.reset,
    "record": Engine.record,
}


@dataclass(frozen=True)
class Line:
    """One thing to do."""

    at_s: float
    do: str
    given: Mapping[str, Any]

    def __call__(self, engine: Engine) -> None:
        ACTIONS[self.do](engine, **self.given)


def script(lines: Iterable[Mapping[str, Any]], where: str = "script") -> list[Line]:
    """Lines of a script, checked as far as they can be without a robot."""
    found = []
    for number, line in enumerate(lines, 1):
        given = dict(line)
        at, do = given.pop("at", None), given.pop("do", None)
        about = f"{where}, line {number}"
        if not isinstance(at, int | float) or isinstance(at, bool) or not 0 <= at < 1e6:
            raise ValueError(f"{about}: `at` is {at!r}; write seconds from 0 on")
        if do not in ACTIONS:
            raise ValueError(
                f"{about}: no action {do!r}; there are {', '.join(ACTIONS)}"
            )
        try:
            inspect.signature(ACTIONS[do]).bind(None, **given)
        except TypeError as error:
            raise ValueError(f"{about}: {do}: {error}") from None
        found.append(Line(float(at), do, given))
    return sorted(found, key=lambda line: line.at_s)


def read_script(path: Path) -> list[Line]:
    """A script from a file of JSON lines."""
    lines = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if not text.strip():
            continue
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if not isinstance(lines[-1], dict):
            raise ValueError(f"{path}, line {number}: write a JSON object")
    return script(lines, str(path))


def run(engine: Engine, lines: Iterable[Line], seconds: float) -> list[Frame]:
    """All frames of a run, as fast as they come."""
    waiting = sorted(lines, key=lambda line: line.at_s)
    frames = []
    for step in range(round(seconds * g1.CONTROL_HZ)):
        while waiting and waiting[0].at_s * g1.CONTROL_HZ <= step:
            engine.post(waiting.pop(0))
        engine.step()
        frames.append(engine.frame)
    return frames
