"""A session: one robot, its pilot and a mixer, running together.

    session = Session(bundle)
    session.play("walk")
    session.move("right_arm", 2.0)
    rollout = session.run(4.0)

The same calls before the same steps give the same run, to the last bit on the same
machine. The simulated robot needs MuJoCo; nothing here needs torch.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import REST, Cue, Mixed, Mixer
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.safety import Order, Sensed
from spectral_skills.control.streams import LivePlanner
from spectral_skills.quaternion import heading, turned
from spectral_skills.robot import g1

if TYPE_CHECKING:
    from spectral_skills.control.simulated import SimulatedRobot

LONGEST_S = 600.0
"""Length at which a recording ends by itself."""
_STATE, _SIMULATION = "state.", "simulation"
_PILOT = ("history", "command", "last_action", "steps")
_PUSH, _PUT = 0, 1


class Pilot:
    """The history of one robot and the controller that reads it."""

    def __init__(self, bundle: Bundle):
        robot, self.layout = bundle.manifest.robot, bundle.manifest.layout
        self.default = np.array(robot.default_rad)
        self.stiffness = np.array(robot.stiffness)
        self.damping = np.array(robot.damping)
        self._scale = np.array(robot.action_scale_rad)
        beyond = robot.reach * np.outer(self._scale, (-1.0, 1.0))
        self.limits = np.array(robot.limits_rad) + beyond
        """(29, 2) lowest and highest targets of the joints."""
        self._limit = robot.action_limit
        self._controller = bundle.controller()
        self.history = np.zeros((self.layout.history, 0))
        """(10, 93) sensed frames, oldest first."""
        self.command = np.zeros(self.layout.skill)
        """(d,) skill that is followed."""
        self.last_action, self.steps = np.zeros(len(self.default)), 0
        self.heading: float | None = None
        """Heading by the robot's own orientation sensor, rad."""

    def reset(self, sensed: Sensed) -> None:
        """Begin with a robot that has stood as it does now for a while."""
        action = (sensed.joints - self.default) / self._scale
        self.last_action = np.clip(action, -self._limit, self._limit)
        self.history = np.tile(self._frame(sensed), (self.layout.history, 1))
        self.steps = 0

    def sense(self, sensed: Sensed) -> None:
        """Take in what was sensed before the next step."""
        self.heading = heading(sensed.quaternion)
        if self.steps == 0:
            self.reset(sensed)
        else:
            self.history = np.vstack((self.history[1:], self._frame(sensed)))

    def act(self, skill: np.ndarray) -> np.ndarray:
        """An action (29,); a new skill counts when the held one expires."""
        since = self.steps % self.layout.hold
        if since == 0:
            self.command = np.asarray(skill, np.float64)
        angle = since * (2 * math.pi / self.layout.hold)
        command = np.append(self.command, (math.sin(angle), math.cos(angle)))
        action = self._controller(self.history, command).astype(np.float64)
        if np.isfinite(action).all():
            self.last_action = action
        self.steps += 1
        return action

    def order(self, action: np.ndarray) -> Order:
        """The order that carries out an action."""
        limited = np.clip(action, -self._limit, self._limit)
        return self.hold(self.default + self._scale * limited)

    def hold(self, targets: np.ndarray) -> Order:
        """The order that holds a pose, as far as its targets may go."""
        return Order(np.clip(targets, *self.limits.T), self.stiffness, self.damping)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that actions depend on besides what is sensed next."""
        return {name: np.array(getattr(self, name)) for name in _PILOT}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.history, self.command, self.last_action, steps = (
            state[name].copy() for name in _PILOT
        )
        self.steps = int(steps)

    def _frame(self, sensed: Sensed) -> np.ndarray:
        joints = sensed.joints - self.default
        return np.concatenate(
            (sensed.gravity, sensed.gyro, joints, sensed.velocities, self.last_action)
        )


class Session:
    """One robot under control, simulated unless somebody else moves it."""

    def __init__(
        self,
        bundle: Bundle | Path | str,
        planner: LivePlanner | None = None,
        robot: "SimulatedRobot | None" = None,
    ):
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle.open(bundle)
        self.mixer = Mixer(self.bundle, planner)
        self.pilot = Pilot(self.bundle)
        self.mixed: Mixed | None = None
        """Last step of the mixer."""
        self.recorder: Recorder | None = None
        self._given = robot

    @cached_property
    def robot(self) -> "SimulatedRobot":
        """The simulated robot, standing at first."""
        from spectral_skills.control.simulated import SimulatedRobot

        robot = self._given or SimulatedRobot()
        robot.reset(self.bundle.base(REST).rows[0].astype(np.float64))
        self.pilot.reset(robot.sense())
        return robot

    @property
    def row(self) -> np.ndarray:
        """(36,) a copy of the robot's pose."""
        return self.robot.qpos.copy()

    def control(self, sensed: Sensed, skill: np.ndarray | None = None) -> Order | None:
        """The control step: sense, mix a skill unless one is given, act.

        None if the controller's action is not finite.
        """
        self.pilot.sense(sensed)
        if skill is None:
            self.mixed = self.mix()
            skill = self.mixed.skill
        action = self.pilot.act(skill)
        return self.pilot.order(action) if np.isfinite(action).all() else None

    def mix(self) -> Mixed:
        """The mixer's next step."""
        return self.mixer.step(self.pilot.history, self.pilot.heading)

    def step(self, skill: np.ndarray | None = None) -> None:
        """One control step of the simulated robot."""
        order = self.control(self.robot.read(), skill)
        if order is not None:  # Otherwise the motors keep to their last order.
            self.robot.apply(order)
        self.robot.step()
        if self.recorder is not None and self.mixed is not None:
            self.recorder.add(self.mixed, self.row)

    def run(self, seconds: float) -> Rollout:
        """Step for some seconds; gives their record."""
        self.record()
        for _ in range(round(seconds * g1.CONTROL_HZ)):
            self.step()
        found = self.stop_recording()
        if found is None:
            raise ValueError(f"a run of {seconds} s has no step")
        return found

    def play(self, cue: Cue | str, *others: Cue) -> None:
        """Cross-fade to something now, then play others after it."""
        self.mixer.play(cue, *others)

    def enqueue(self, *cues: Cue) -> None:
        """Play more after what is playing."""
        self.mixer.enqueue(cues)

    def move(self, name: str, position: float) -> None:
        """Move the fader of a direction."""
        self.mixer.move(name, position)

    def put(self, row: np.ndarray, velocity: np.ndarray | None = None) -> None:
        """Place the robot in a pose, at rest or moving."""
        self.robot.reset(row, velocity)
        self.pilot.reset(self.robot.sense())
        if self.recorder is not None:
            self.recorder.note(_PUT, self.row)

    def reset(self) -> None:
        """Put the robot on its feet where it began; what is playing goes on."""
        self.put(self.bundle.base(REST).rows[0].astype(np.float64))

    def push(self, forward: float = 0.0, left: float = 0.0) -> np.ndarray:
        """Add a velocity in the pelvis' heading, m/s; gives it (6,) in the world."""
        if not (math.isfinite(forward) and math.isfinite(left)):
            raise ValueError(f"a push of {forward}, {left} m/s")
        angle = heading(self.row[3:7])
        c, s = math.cos(angle), math.sin(angle)
        velocity = np.zeros(6)
        velocity[:2] = c * forward - s * left, s * forward + c * left
        self.robot.push(velocity)
        if self.recorder is not None:
            self.recorder.note(_PUSH, velocity)
        return velocity

    def record(self) -> None:
        """Begin a recording; one that is under way is dropped."""
        self.recorder = Recorder(self)

    def stop_recording(self) -> Rollout | None:
        """End the recording; gives a rollout that `replay` runs again."""
        recorder, self.recorder = self.recorder, None
        return None if recorder is None else recorder.rollout()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that the next steps depend on besides the mixer."""
        return self.pilot.snapshot() | {_SIMULATION: self.robot.snapshot()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.robot.restore(state[_SIMULATION])
        self.pilot.restore(state)


class Recorder:
    """A recording in the making: with its state, enough to run it again exactly."""

    def __init__(self, session: Session):
        manifest = session.bundle.manifest
        self._about = {
            "controller": np.array(manifest.controller),
            "encoder": np.array(manifest.encoder),
            "directions": np.array(session.mixer.names, dtype=np.str_),
            **{f"{_STATE}{name}": value for name, value in session.snapshot().items()},
        }
        self._rows = [session.row]
        self._steps: list[Mixed] = []
        self._events: list[tuple[int, int]] = []
        self._values: list[np.ndarray] = []

    @property
    def seconds(self) -> float:
        return len(self._steps) / g1.CONTROL_HZ

    def add(self, mixed: Mixed, row: np.ndarray) -> None:
        """Add a control step, and the robot's pose after it."""
        if self.seconds < LONGEST_S:
            self._steps.append(mixed)
            self._rows.append(row)

    def note(self, kind: int, value: np.ndarray) -> None:
        """Note that the robot was pushed or put somewhere before the next step."""
        if self.seconds < LONGEST_S:
            self._events.append((len(self._steps), kind))
            self._values.append(np.pad(value, (0, g1.QPOS_SIZE - len(value))))

    def rollout(self) -> Rollout | None:
        """What was recorded; None before the first step."""
        if not self._steps:
            return None
        count, rows = len(self._events), self._rows
        bases = [None, *(mixed.row for mixed in self._steps)]
        pairs = zip(bases, rows, strict=True)
        references = [r if base is None else placed(base, r) for base, r in pairs]
        columns = {
            "amplitudes": np.stack([mixed.amplitudes for mixed in self._steps]),
            "playing": np.array([mixed.name for mixed in self._steps], dtype=np.str_),
            "events": np.array(self._events, np.int64).reshape(count, 2),
            "values": np.array(self._values, np.float64).reshape(count, g1.QPOS_SIZE),
        }
        return Rollout.of_rows(
            self._steps[0].name,
            np.stack(rows),
            np.stack(references),
            np.stack([mixed.skill for mixed in self._steps]),
            self._about | columns,
        )


def placed(row: np.ndarray, robot: np.ndarray) -> np.ndarray:
    """A row (36,) moved to the place and heading of a robot; its height is its own."""
    found = np.asarray(row, np.float64).copy()
    found[3:7] = turned(found[3:7], heading(robot[3:7]) - heading(found[3:7]))
    found[:2] = robot[:2]
    return found


def replay(bundle: Bundle, take: Rollout) -> np.ndarray:
    """(T + 1, 36) poses of the robot when the skills of a recording are commanded
    again; it needs no mixer, directions or planner, only the same controller."""
    _check_take(take)
    found, made_with = bundle.manifest.controller, str(take.extra["controller"])
    if found != made_with:
        raise ValueError(
            f"{bundle.folder}: the take was made with another controller "
            f"({made_with}, this is {found}); give the bundle it was made with"
        )
    session, size = Session(bundle), len(_STATE)
    states = (name for name in take.extra if name.startswith(_STATE))
    session.restore({name[size:]: take.extra[name] for name in states})
    events = list(zip(take.extra["events"], take.extra["values"], strict=True))
    rows = [session.row]
    for step, skill in enumerate(take.skills[:, 0]):
        for (at, kind), value in events:
            if at == step and kind == _PUSH:
                session.robot.push(value[:6])
            elif at == step:
                session.put(value)
        session.step(skill)
        rows.append(session.row)
    return np.stack(rows)


def automation(take: Rollout) -> str:
    """The faders of a recording over time, as a table of comma-separated values.

    Directions that were never up are omitted, and so are rows between equal rows.
    """
    _check_take(take)
    amplitudes, names = take.extra["amplitudes"], take.extra["directions"].tolist()
    used = np.flatnonzero(amplitudes.any(axis=0))
    values = amplitudes[:, used]
    changed = (values[1:] != values[:-1]).any(axis=1)
    kept = np.flatnonzero(np.r_[True, changed] | np.r_[changed, True])
    columns = ["time_s", *(names[i].split(" ")[0] for i in used.tolist())]
    rows = [(step / g1.CONTROL_HZ, *values[step].tolist()) for step in kept.tolist()]
    lines = [columns, *(map(repr, row) for row in rows)]
    return "".join(",".join(line) + "\n" for line in lines)


def _check_take(take: Rollout) -> None:
    """Refuse a rollout that is not the recording of a session."""
    missing = {"controller", "amplitudes", "events", "values"} - set(take.extra)
    if missing or take.skills is None:
        raise ValueError(
            f"{take.names[0]}: not a take, {min(missing, default='skills')} is missing"
        )
    if len(take.extra["amplitudes"]) != take.steps:
        raise ValueError(f"{take.names[0]}: a damaged take, its columns differ")


def follow(bundle: Bundle, name: str) -> Rollout:
    """Follow a base as a reference, seen from where the simulated robot is."""
    base = bundle.base(name)
    if not base.has_motion:
        raise ValueError(
            f"{name}: only its skills are kept, not the motion; it can be played, but "
            "not followed"
        )
    rows = base.rows.astype(np.float64)
    session, encoder = Session(bundle), bundle.encoder()
    session.put(rows[0], session.robot.velocity_between(rows[0], rows[1]))
    first, last = bundle.manifest.layout.window
    done = [session.row]
    for step in range(len(rows) - 1):
        seen = np.clip(np.arange(step + first, step + last + 1), 0, len(rows) - 1)
        session.step(encoder(rows[seen], session.robot.qpos[:7]))
        done.append(session.row)
    return Rollout.of_rows(name, np.stack(done), bundle.base(name).rows)
