"""A simulated G1 that speaks the real one's protocol, in a process of its own.

It hangs in a gantry until an operator starts the program that drives it, as a real G1
would. Its motors follow the last command that arrived, even if the sender is gone.
"""

import io
import signal
import time
from collections import deque
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import mujoco
import numpy as np

from spectral_skills.atomic import write_file
from spectral_skills.control import safety
from spectral_skills.control.loop import ControlLoop, Timing, drive
from spectral_skills.control.rollout import FALL_M, Rollout, fallen
from spectral_skills.control.safety import HOLD_KEY, LIMITS, START_KEY, STOP_KEY, Order
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.robot import g1
from spectral_skills.runtime import unitree

if TYPE_CHECKING:  # Only a robot on the network needs DDS.
    from spectral_skills.runtime.dds import RobotLink


class Gantry:
    """Springs that hold the pelvis upright at a height."""

    HANGING_M, STANDING_M = g1.DEFAULT_HEIGHT + 0.10, g1.DEFAULT_HEIGHT
    STIFFNESS, TURN_STIFFNESS = 4000.0, 600.0
    DAMPING, TURN_DAMPING = 300.0, 60.0

    def __init__(self, robot: SimulatedRobot):
        self._model, self._data = robot.model, robot.data
        self._pelvis = self._model.body("pelvis").id
        self._weight = float(self._model.body_mass.sum()) * 9.81
        self.height_m: float | None = self.HANGING_M
        """Height at which the pelvis is held; None after it was let go."""

    def pull(self) -> None:
        """Set the forces of the next step; the integrator adds damping implicitly."""
        held = self.height_m is not None
        self._model.dof_damping[:3] = self.DAMPING * held
        self._model.dof_damping[3:6] = self.TURN_DAMPING * held
        force = np.zeros(6)
        if self.height_m is not None:
            position, quaternion = self._data.qpos[:3], self._data.qpos[3:7]
            force[:3] = self.STIFFNESS * (np.array((0, 0, self.height_m)) - position)
            # A rope pulls up, and never pushes down.
            force[2] = max(force[2] + self._weight, 0.0)
            turn = np.empty(3)
            mujoco.mju_quat2Vel(turn, quaternion, 1.0)
            force[3:] = -self.TURN_STIFFNESS * turn
        self._data.xfrc_applied[self._pelvis] = force


class Operator:
    """Somebody at the remote and at the gantry, who follows the instructions."""

    WAITED_S, PRESSED_S = 0.5, 0.3
    LOWERED_S, HELD_S = 0.5, 1.0

    def __init__(self, gantry: Gantry, stop_after_s: float | None = None):
        self._gantry, self._stop_after_s = gantry, stop_after_s
        self._reached_s: float | None = None
        self.started_s: float | None = None
        """Time at which start was pressed."""

    def keys(self, now: float, order: Order | None) -> int:
        """Return the buttons that are held now."""
        if self.started_s is None:
            self._wait(now, order)
            return 0 if self.started_s is None else int(HOLD_KEY | START_KEY)
        since = now - self.started_s
        self._lower(since)
        if self._stop_after_s is not None and since > self._stop_after_s:
            return int(HOLD_KEY | STOP_KEY)
        return int(HOLD_KEY | START_KEY if since < self.PRESSED_S else HOLD_KEY)

    def _wait(self, now: float, order: Order | None) -> None:
        """Start a while after the driver has reached the default pose."""
        if order is None or order.damped:
            self._reached_s = None
        elif self._reached_s is not None:
            if now - self._reached_s > self.WAITED_S:
                self.started_s = now
        elif abs(order.targets - g1.DEFAULT_JOINTS).max() < 0.02:
            self._reached_s = now

    def _lower(self, since: float) -> None:
        gantry = self._gantry
        if since > self.LOWERED_S + self.HELD_S:
            gantry.height_m = None
        elif gantry.height_m is not None:
            share = min(since / self.LOWERED_S, 1.0)
            lowering_m = gantry.STANDING_M - gantry.HANGING_M
            gantry.height_m = gantry.HANGING_M + share * lowering_m


PERIOD_S = g1.PHYSICS_DT_S
MODE_MACHINE = 5
"""Machine type that a G1 with 29 motors reports."""
FALLEN_M, FALLEN_RAD = 0.45, 0.8
WALKING_M_S = 0.15
_STRIDE_M = 0.2
_BEHIND_S = 0.01
"""Delay above which simulated time stands still: a burst of steps to catch up would run
without new commands."""


class Kind(IntEnum):
    """Kind of the last command."""

    NONE = 0
    DAMPED = 1
    POSE = 2


@dataclass
class Tally:
    """What has happened so far."""

    seconds: float = 0.0
    states: int = 0
    commands: int = 0
    wrong_crc: int = 0
    out_of_limits: int = 0
    """Number of commands that no robot should get; they were not obeyed."""
    stood_still_s: float = 0.0
    """Time for which the machine was too busy for the simulation."""
    walked_m: float = 0.0
    """Distance that the robot walked, free of the gantry and before it was braked."""
    fell: bool = False
    """Whether it fell while it was free and not braked."""
    lowest_m: float = Gantry.STANDING_M
    """Lowest height of the pelvis in that time."""
    ended: str = "hanging"
    """State at the end: hanging, standing, walking or fallen."""
    braked_s: float | None = None
    """Time of the first command to brake after one to hold a pose."""


class RobotSim:
    """A simulated G1 in its gantry, with the commands it has received."""

    def __init__(
        self,
        link: "RobotLink",
        *,
        noise: float = 1.0,
        operator: Literal["auto", "none"] = "auto",
        stop_after_s: float | None = None,
        record: bool = True,
        seed: int = 0,
        reach: float = g1.MOST_REACH,
    ):
        """Commands are obeyed as far as a controller of this reach may give them."""
        self.robot, self._link = SimulatedRobot(noise, seed), link
        self.gantry = Gantry(self.robot)
        hanging = np.zeros(g1.NUM_JOINTS)
        self.robot.reset(np.array((0, 0, Gantry.HANGING_M, 1, 0, 0, 0, *hanging)))
        self.robot.apply(safety.damped_stop(hanging))
        self._operator = (
            Operator(self.gantry, stop_after_s) if operator == "auto" else None
        )
        self.order: Order | None = None
        self.tally, self._record, self.keys = Tally(), record, 0
        self._limits = replace(LIMITS, reach=reach)
        self.recorded: list[tuple[float, np.ndarray, Kind, int]] = []
        """Time, pose, kind of command and keys of each step."""
        self._trail: deque[np.ndarray] = deque(maxlen=round(1 / PERIOD_S))
        """Positions in the last second."""
        self._place: np.ndarray | None = None
        """Position up to which the distance was counted."""

    def step(self) -> None:
        """Simulate five milliseconds: commands in, physics, state out."""
        robot = self.robot
        self._obey()
        if self._operator is not None:
            self.keys = self._operator.keys(robot.time_s, self.order)
        self.gantry.pull()
        robot.step(PERIOD_S)
        sensed = replace(
            robot.read(), tick=round(robot.time_s / unitree.TICK_S), keys=self.keys
        )
        self._link.send(unitree.state(sensed, MODE_MACHINE))
        self._link.send_torso(self._torso())
        self._count()

    def _obey(self) -> None:
        for command in self._link.commands():
            if not unitree.intact(command):
                self.tally.wrong_crc += 1
                continue
            order = unitree.ordered(command)
            if not safety.sendable(order, self._limits):
                self.tally.out_of_limits += 1
                continue
            if order.damped and self.kind is Kind.POSE and self.tally.braked_s is None:
                self.tally.braked_s = self.robot.time_s
            self.tally.commands, self.order = self.tally.commands + 1, order
        if self.order is not None:
            self.robot.apply(self.order)

    def _torso(self) -> np.ndarray:
        data = self.robot.data
        torso = self.robot.model.body("torso_link").id
        velocity = np.empty(6)
        mujoco.mj_objectVelocity(
            self.robot.model, data, mujoco.mjtObj.mjOBJ_BODY, torso, velocity, 1
        )
        return unitree.imu(data.xquat[torso], velocity[:3])

    def _count(self) -> None:
        robot, tally = self.robot, self.tally
        qpos = robot.qpos.copy()
        tally.seconds, tally.states = robot.time_s, tally.states + 1
        self._trail.append(qpos[:2])
        if self._record:
            self.recorded.append((robot.time_s, qpos, self.kind, self.keys))
        if self.gantry.height_m is None and self.kind is Kind.POSE:
            if self._place is None:
                self._place = qpos[:2]
            stride_m = float(np.linalg.norm(qpos[:2] - self._place))
            if stride_m > _STRIDE_M:  # swaying in place is not walking
                tally.walked_m, self._place = tally.walked_m + stride_m, qpos[:2]
            tally.lowest_m = min(tally.lowest_m, float(qpos[2]))
            tally.fell |= self.lies
        tally.ended = self.doing

    @property
    def kind(self) -> Kind:
        if self.order is None:
            return Kind.NONE
        return Kind.DAMPED if self.order.damped else Kind.POSE

    @property
    def speed_m_s(self) -> float:
        """Speed over the ground in the last second."""
        moved = self._trail[-1] - self._trail[0]
        return float(np.linalg.norm(moved)) / (len(self._trail) * PERIOD_S)

    @property
    def lies(self) -> bool:
        tilt_rad = self.robot.sense().tilt_rad
        return bool(self.robot.qpos[2] < FALLEN_M or tilt_rad > FALLEN_RAD)

    @property
    def doing(self) -> str:
        if self.gantry.height_m is not None:
            return "hanging"
        if self.lies:
            return "fallen"
        return "walking" if self.speed_m_s > WALKING_M_S else "standing"

    def save(self, path: Path) -> None:
        """Write the record, one row for each step."""
        times, qpos, kinds, keys = zip(*self.recorded, strict=True)
        file = io.BytesIO()
        np.savez(
            file,
            allow_pickle=False,
            time_s=np.array(times),
            qpos=np.array(qpos, np.float32),
            kind=np.array(kinds, np.uint8),
            keys=np.array(keys, np.uint16),
        )
        write_file(path, file.getvalue())


def run(sim: RobotSim, seconds: float | None) -> None:
    """Simulate in real time until the end or an interrupt, with a line every second."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    second = round(1 / PERIOD_S)
    due, since, tally = time.monotonic(), time.monotonic(), sim.tally
    commands = 0
    try:
        while seconds is None or tally.states * PERIOD_S < seconds:
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            sim.step()
            due += PERIOD_S
            if (behind := time.monotonic() - due) > _BEHIND_S:
                due, tally.stood_still_s = due + behind, tally.stood_still_s + behind
            if tally.states % second == 0:
                took = time.monotonic() - since
                rates = second / took, (tally.commands - commands) / took
                since, commands = time.monotonic(), tally.commands
                print(_line(sim, *rates), flush=True)
    except KeyboardInterrupt:
        pass


def _line(sim: RobotSim, states_hz: float, commands_hz: float) -> str:
    doing = {Kind.NONE: "nothing", Kind.DAMPED: "brake", Kind.POSE: "hold"}[sim.kind]
    return (
        f"{sim.tally.seconds:6.1f} s  {sim.doing:8}  height {sim.robot.qpos[2]:.2f} m  "
        f"speed {sim.speed_m_s:.2f} m/s  walked {sim.tally.walked_m:5.1f} m  "
        f"states {states_hz:3.0f} Hz  commands {commands_hz:3.0f} Hz ({doing})"
    )


HELD_STEPS = 25
"""Number of steps under control before the gantry lets go."""


class Journey(NamedTuple):
    """The record of a drive, which ends with a fall."""

    rollout: Rollout
    """One row for every step, with what was `playing`, and from control on the
    `distance` of the commanded skill to the corpus."""
    timing: Timing
    fell_at_s: float | None

    @property
    def walked_m(self) -> float:
        """Length of the root's path on the floor."""
        steps = np.diff(self.rollout.robot[:, 0, :2], axis=0)
        return float(np.linalg.norm(steps, axis=1).sum())


def simulate(
    loop: ControlLoop, robot: SimulatedRobot, seconds: float, paced: bool
) -> Journey:
    """Drive a simulated robot by its own time; a gantry holds it until it is under
    control."""
    gantry = Gantry(robot)
    gantry.height_m = Gantry.STANDING_M
    rows, references, playing, distance, falls = [], [], [], [], []

    def note(loop: ControlLoop) -> bool:
        mixed, row = loop.mixed, robot.qpos.copy()
        if len(distance) > HELD_STEPS:
            gantry.height_m = None
        gantry.pull()
        rows.append(row)
        references.append(row if mixed is None or mixed.row is None else mixed.row)
        playing.append(str(loop.state) if mixed is None else mixed.name)
        if mixed is not None:
            distance.append(loop.bundle.support.distance(mixed.skill))
        base = loop.bundle.bases.get(playing[-1])
        if fallen(row, FALL_M if base is None else base.fall_m):
            falls.append(robot.time_s)
        return bool(falls)

    timing = drive(loop, robot, seconds, note, lambda: robot.time_s, paced)
    extra = {"playing": np.array(playing), "distance": np.array(distance)}
    record = Rollout.of_rows("drive", np.array(rows), np.array(references), extra=extra)
    return Journey(record, timing, falls[0] if falls else None)
