"""What became of a drive: where the robot was, what it was told, how time was kept."""

from dataclasses import dataclass, field

import numpy as np

from spectral_skills.control.loop import Event, Robot, Runtime, Timing, drive
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.runtime.gantry import Gantry

HELD_STEPS = 25
"""Under control, before the gantry lets go."""


@dataclass
class Journey:
    """A drive of a simulated robot, one entry for every control step."""

    rows: list[np.ndarray] = field(default_factory=list)
    """(36,) where it was."""
    reference: list[np.ndarray | None] = field(default_factory=list)
    """(36,) of the base that was played."""
    distance: list[float] = field(default_factory=list)
    """Of the commanded skill to the corpus."""
    names: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    timing: Timing = field(default_factory=lambda: Timing([], []))
    fell_at_s: float | None = None

    @property
    def walked_m(self) -> float:
        """Length of the root's path on the floor."""
        steps = np.diff(np.array(self.rows)[:, :2], axis=0)
        return float(np.linalg.norm(steps, axis=1).sum())


def simulate(
    runtime: Runtime, robot: SimulatedRobot, seconds: float, paced: bool
) -> Journey:
    """Drive a simulated robot, which a gantry holds until it is under control.

    Its own time counts.
    """
    journey, gantry = Journey(events=runtime.events), Gantry(robot)
    gantry.height_m = Gantry.STANDING_M

    def note(runtime: Runtime) -> bool:
        mixed = runtime.mixed
        if len(journey.distance) > HELD_STEPS:
            gantry.height_m = None
        gantry.pull()
        journey.rows.append(robot.qpos.copy())
        journey.reference.append(None if mixed is None else mixed.row)
        journey.names.append(str(runtime.state) if mixed is None else mixed.name)
        bundle = runtime.mixer.bundle
        if mixed is not None:
            journey.distance.append(bundle.support.distance(mixed.skill))
        base = bundle.bases.get(journey.names[-1])
        if robot.qpos[2] < (0.4 if base is None else base.fall_m):
            journey.fell_at_s = robot.time_s
        return journey.fell_at_s is not None

    def clock() -> float:
        return robot.time_s

    taken: Robot = robot
    journey.timing = drive(runtime, taken, seconds, note, clock, paced)
    return journey
