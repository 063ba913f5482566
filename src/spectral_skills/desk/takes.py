"""Takes: what a robot was commanded and where it was, to run again exactly.

A take holds the whole state it begins with and every skill that was commanded, so that
it needs no mixer, no directions and no planner, only the controller it was made with.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import Mixed
from spectral_skills.control.schedules import TIME_COLUMN
from spectral_skills.desk.walker import Walker
from spectral_skills.robot import g1

VERSION = 1
LONGEST_S = 600.0
"""A longer take ends by itself."""
_STATE = "state."
_PUSH, _PUT = 0, 1


@dataclass(frozen=True)
class Take:
    """One recorded run of T control steps."""

    controller: str
    """Hash of the controller's weights."""
    encoder: str
    """Fingerprint of the encoder whose skills these are."""
    state: Mapping[str, np.ndarray]
    """Of the robot and its controller before the first step."""
    skills: np.ndarray
    """(T, d) commanded."""
    amplitudes: np.ndarray
    """(T, k) of the directions."""
    directions: tuple[str, ...]
    rows: np.ndarray
    """(T + 1, 36) where the robot was, the first before the first step."""
    ghosts: np.ndarray
    """(T + 1, 36) the base's pose at the robot's place; the robot's own where none
    was."""
    heard: tuple[str, ...]
    """(T,) what was playing."""
    events: np.ndarray
    """(n, 2) step before which, and whether the robot was pushed or put."""
    values: np.ndarray
    """(n, 36) velocity (6,) or row of each event."""

    @property
    def seconds(self) -> float:
        return len(self.skills) / g1.CONTROL_HZ

    def save(self, path: Path) -> None:
        """Write one .npz file, without pickle."""
        arrays = {f"{_STATE}{name}": value for name, value in self.state.items()}
        file = io.BytesIO()
        np.savez_compressed(
            file,
            allow_pickle=False,
            version=np.array(VERSION),
            controller=np.array(self.controller),
            encoder=np.array(self.encoder),
            skills=self.skills,
            amplitudes=self.amplitudes,
            directions=np.array(self.directions, dtype=np.str_),
            rows=self.rows,
            ghosts=self.ghosts,
            heard=np.array(self.heard, dtype=np.str_),
            events=self.events,
            values=self.values,
            **arrays,
        )
        write_file(path, file.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Take":
        """Read a take; says what is wrong with it."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = dict(stored)
            version = int(arrays["version"])
        except (ValueError, KeyError, EOFError, TypeError, BadZipFile) as error:
            raise ValueError(f"{path}: not a take ({error})") from None
        if version != VERSION:
            raise ValueError(
                f"{path}: a take of version {version}, this package reads {VERSION}"
            )
        begin = len(_STATE)
        state = {n[begin:]: v for n, v in arrays.items() if n.startswith(_STATE)}
        try:
            take = cls(
                controller=str(arrays["controller"]),
                encoder=str(arrays["encoder"]),
                state=state,
                directions=tuple(arrays["directions"].tolist()),
                heard=tuple(arrays["heard"].tolist()),
                **{name: arrays[name] for name in _ARRAYS},
            )
        except KeyError as missing:
            raise ValueError(f"{path}: damaged, {missing} is missing") from None
        take.check(str(path))
        return take

    def check(self, where: str) -> None:
        """Refuse arrays that do not belong together."""
        steps, events = len(self.skills), len(self.events)
        expected = {
            "amplitudes": (steps, len(self.directions)),
            "rows": (steps + 1, g1.QPOS_SIZE),
            "ghosts": (steps + 1, g1.QPOS_SIZE),
            "events": (events, 2),
            "values": (events, g1.QPOS_SIZE),
        }
        for name, shape in expected.items():
            found = getattr(self, name).shape
            if found != shape:
                raise ValueError(f"{where}: {name} has shape {found}, not {shape}")
        if len(self.heard) != steps or not steps:
            raise ValueError(
                f"{where}: a take of {steps} steps, {len(self.heard)} told"
            )

    def automation(self) -> str:
        """Amplitudes over time as CSV, as `steering.read_automation` reads them.

        Directions that were never up are left away, and so are rows among their likes.
        """
        used = np.flatnonzero(self.amplitudes.any(axis=0))
        names = [self.directions[i].split(" ")[0] for i in used]
        values = self.amplitudes[:, used]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([TIME_COLUMN, *names])
        for step in _bends(values):
            row = [repr(float(value)) for value in values[step]]
            writer.writerow([repr(step / g1.CONTROL_HZ), *row])
        return out.getvalue()


_ARRAYS = ("skills", "amplitudes", "rows", "ghosts", "events", "values")


def _bends(values: np.ndarray) -> list[int]:
    """Rows (T, k) that are not the same as those on both sides."""
    kept = [0]
    for step in range(1, len(values) - 1):
        before, here, after = values[step - 1 : step + 2]
        if not (np.array_equal(before, here) and np.array_equal(here, after)):
            kept.append(step)
    return [*kept, len(values) - 1] if len(values) > 1 else kept


class Recorder:
    """A take in the making."""

    def __init__(
        self, bundle: Bundle, state: Mapping[str, np.ndarray], row: np.ndarray
    ):
        manifest = bundle.manifest
        self._made_with = manifest.controller, manifest.encoder
        directions = bundle.directions
        self._directions = () if directions is None else directions.names
        self._state, self._rows, self._ghosts = state, [row], [row]
        self._skills: list[np.ndarray] = []
        self._amplitudes: list[np.ndarray] = []
        self._heard: list[str] = []
        self._events: list[tuple[int, int]] = []
        self._values: list[np.ndarray] = []

    @property
    def seconds(self) -> float:
        return len(self._skills) / g1.CONTROL_HZ

    @property
    def full(self) -> bool:
        """Whether it is as long as takes get."""
        return self.seconds >= LONGEST_S

    def add(self, mixed: Mixed, row: np.ndarray, ghost: np.ndarray | None) -> None:
        """One control step, and where the robot is after it."""
        if self.full:
            return
        self._skills.append(mixed.skill)
        self._amplitudes.append(mixed.amplitudes)
        self._heard.append(mixed.name)
        self._rows.append(row)
        self._ghosts.append(row if ghost is None else ghost)

    def push(self, velocity: np.ndarray) -> None:
        """The robot was pushed before the next step."""
        self._note(_PUSH, velocity)

    def put(self, row: np.ndarray) -> None:
        """The robot was put somewhere before the next step."""
        self._note(_PUT, row)

    def take(self) -> Take | None:
        """What was recorded; nothing, before the first step."""
        if not self._skills:
            return None
        count = len(self._events)
        return Take(
            *self._made_with,
            self._state,
            np.stack(self._skills),
            np.stack(self._amplitudes),
            self._directions,
            np.stack(self._rows),
            np.stack(self._ghosts),
            tuple(self._heard),
            np.array(self._events, np.int64).reshape(count, 2),
            np.array(self._values, np.float64).reshape(count, g1.QPOS_SIZE),
        )

    def _note(self, kind: int, value: np.ndarray) -> None:
        if self.full:
            return
        padded = np.zeros(g1.QPOS_SIZE)
        padded[: len(value)] = value
        self._events.append((len(self._skills), kind))
        self._values.append(padded)


def replay(bundle: Bundle, take: Take) -> np.ndarray:
    """(T + 1, 36) where the robot is when the same is commanded again."""
    found = bundle.manifest.controller
    if found != take.controller:
        raise ValueError(
            f"{bundle.folder}: the take was made with another controller "
            f"({take.controller}, this is {found}); give the bundle it was made with"
        )
    walker = Walker(bundle)
    walker.restore(take.state)
    rows = [walker.row]
    at = 0
    for step, skill in enumerate(take.skills):
        while at < len(take.events) and take.events[at, 0] <= step:
            value = take.values[at]
            if take.events[at, 1] == _PUSH:
                walker.push(value[:6])
            else:
                walker.put(value)
            at += 1
        walker.sense()
        walker.act(skill)
        rows.append(walker.row)
    return np.stack(rows)
