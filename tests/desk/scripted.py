"""Scripts: what is done to an engine, and when.

{"at": 1.0, "do": "move", "name": "right_arm", "position": 2.0}
{"at": 4.0, "do": "push", "left": 0.6}
"""

from collections.abc import Iterable, Mapping
from typing import Any

from spectral_skills.control.mixer import Cue
from spectral_skills.desk.engine import Engine, Frame
from spectral_skills.robot import g1


def do(engine: Engine, action: str, given: dict[str, Any]) -> None:
    """Call a method of an engine or of its mixer; cues are given by their fields."""
    if action in ("play", "enqueue"):
        getattr(engine, action)(Cue(**given))
    else:
        where = engine if hasattr(engine, action) else engine.mixer
        getattr(where, action)(**given)


def run(
    engine: Engine, lines: Iterable[Mapping[str, Any]], seconds: float
) -> list[Frame]:
    """All frames of a run, as fast as they come."""
    waiting = sorted(lines, key=lambda line: line["at"])
    frames = []
    for step in range(round(seconds * g1.CONTROL_HZ)):
        while waiting and waiting[0]["at"] * g1.CONTROL_HZ <= step:
            given = dict(waiting.pop(0))
            given.pop("at")
            action = given.pop("do")
            engine.post(lambda e, action=action, given=given: do(e, action, given))
        engine.step()
        frames.append(engine.frame)
    return frames
