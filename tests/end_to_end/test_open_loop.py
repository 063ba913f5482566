"""Generated motions in simulation: replayed without balancing, the robot stays up.

Every motor follows its joint of the reference and gets the torque that inverse
dynamics finds for it, within its limit; no target reacts to how the body is doing.
Walks fall after a few steps that way, so a spring and a damper turn the pelvis
towards its reference orientation. They apply a torque only: nothing holds the body
up or pushes it along, and at 100 Nm/rad they alone are too weak to keep it from
falling over, which takes its weight times the height of its mass, about 220 Nm/rad.

The motors' own gains are for a policy that closes the loop: two ankles of 28 Nm/rad
cannot hold up even a body that stands still. Ten times that can.
"""

from dataclasses import dataclass
from functools import cache

import mujoco
import numpy as np
import pytest

from spectral_skills.motion.inverse_dynamics import derivatives, inverse_dynamics
from spectral_skills.motion.synthetic import factors
from spectral_skills.motion.synthetic.body import BodySolver
from spectral_skills.motion.synthetic.sketch import Sketch
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

SECONDS = 10.0
FPS = 50
STEP_S = 0.002
GAIN = 10.0
"""Stiffness as a multiple of the robot's own; the damping ratio stays."""
ASSIST = (100.0, 20.0)
"""Stiffness in Nm/rad and damping in Nm s/rad of the torque on the pelvis."""
NO_ASSIST = (0.0, 0.0)

HEIGHT_M = 0.08
TILT = 0.3
TRAVELLED = 0.8
ASSIST_RMS = 8.0
"""Nm; a body that falls against the assist takes more than 20."""


@dataclass(frozen=True)
class Outcome:
    """How a simulated motion went."""

    seconds: float
    """When it fell, or the whole time."""
    height_error: float
    """Farthest the pelvis was above or below its reference, m."""
    tilt_error: float
    """Greatest angle between the pelvis's up and its reference, rad."""
    travelled: float
    """Distance made good, as a share of the reference's."""
    assist_rms: float
    """Nm."""

    @property
    def up(self) -> bool:
        return self.height_error < HEIGHT_M and self.tilt_error < TILT


def stand() -> np.ndarray:
    sketch = Sketch(np.random.default_rng(0))
    sketch.now_s = SECONDS + 0.1
    return BodySolver().perform(sketch.score())


def squat() -> np.ndarray:
    """Down and up until the time is over."""
    sketch = Sketch(np.random.default_rng(1))
    while sketch.now_s < SECONDS + 0.1:
        factors.squat(sketch)
    return BodySolver().perform(sketch.score())


@cache
def walk(speed: float) -> np.ndarray:
    """Stand, walk, stop; most of the time at the given speed."""
    sketch = Sketch(np.random.default_rng(2))
    sketch.now_s, ramp_s = 0.7, 1.2
    sketch.walk(SECONDS - 2.2 - 2 * ramp_s, ramp_s, forward=speed)
    sketch.now_s = SECONDS + 0.1
    return BodySolver().perform(sketch.score())


def slowed(rows: np.ndarray, factor: float) -> np.ndarray:
    """The same poses, `factor` times as long."""
    return _at(rows, np.arange(0, len(rows) - 1, 1 / factor))


def _at(rows: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Rows at fractions of frames; quaternions of neighbours are alike."""
    low = frames.astype(int)
    part = (frames - low)[:, None]
    return (1 - part) * rows[low] + part * rows[low + 1]


def replay(
    rows: np.ndarray,
    assist: tuple[float, float] = ASSIST,
    gain: float = GAIN,
    effort: float = 1.0,
) -> Outcome:
    """Simulate a reference of at least ten seconds; a fall ends it early."""
    model = build_model(meshes=False, floor=True)
    model.opt.timestep = STEP_S
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    stiffness = gain * g1.STIFFNESS
    damping = np.sqrt(gain) * g1.DAMPING
    model.actuator_gainprm[:, 0] = stiffness
    model.actuator_biasprm[:, 1:3] = -np.stack((stiffness, damping), axis=1)
    model.actuator_forcerange *= effort

    # Between the frames, the reference and its torques go straight.
    frames = np.arange(0, SECONDS, STEP_S) * FPS
    speeds, _ = derivatives(rows, FPS)
    target, speed = _at(rows, frames), _at(speeds, frames)
    torque = _at(inverse_dynamics(rows, FPS).torque, frames)
    # A position actuator is told where to be: as a place, what it shall add.
    control = target[:, 7:] + (damping * speed[:, 6:] + torque) / stiffness

    data = mujoco.MjData(model)
    data.qpos[:] = rows[0]
    height, tilt, helped = [], [], []
    turn, turned, error = np.empty(9), np.empty(9), np.empty(3)
    for goal, goal_speed, signal in zip(target, speed, control, strict=True):
        goal[3:7] /= np.linalg.norm(goal[3:7])
        mujoco.mju_quat2Mat(turn, data.qpos[3:7])
        mujoco.mju_quat2Mat(turned, goal[3:7])
        mujoco.mju_subQuat(error, goal[3:7], data.qpos[3:7])
        lag = goal_speed[3:6] - data.qvel[3:6]
        twist = turn.reshape(3, 3) @ (assist[0] * error + assist[1] * lag)
        height.append(abs(data.qpos[2] - goal[2]))
        tilt.append(np.arccos(np.clip(turn[2::3] @ turned[2::3], -1.0, 1.0)))
        helped.append(twist @ twist)
        if height[-1] > 0.3 or tilt[-1] > 1.0:
            break
        data.ctrl[:] = signal
        data.xfrc_applied[1, 3:] = twist
        mujoco.mj_step(model, data)
    way = target[len(height) - 1, :2] - target[0, :2]
    return Outcome(
        seconds=len(height) * STEP_S,
        height_error=float(max(height)),
        tilt_error=float(max(tilt)),
        travelled=float((data.qpos[:2] - rows[0, :2]) @ way / (way @ way)),
        assist_rms=float(np.sqrt(np.mean(helped))),
    )


@pytest.mark.parametrize("motion", [stand, squat])
def test_on_the_spot_it_needs_no_assist(motion):
    outcome = replay(motion(), assist=NO_ASSIST)
    assert outcome.up and outcome.seconds == SECONDS, outcome


@pytest.mark.parametrize("speed", [0.3, 0.4, 0.5])
def test_slow_walks_stay_up_and_arrive(speed):
    outcome = replay(walk(speed))
    assert outcome.up and outcome.seconds == SECONDS, outcome
    assert outcome.travelled > TRAVELLED, outcome
    assert outcome.assist_rms < ASSIST_RMS, outcome


# The check can fail: the same simulation, less or worse to go by.


def test_limp_motors_fall():
    outcome = replay(stand(), effort=0.0)
    assert not outcome.up and outcome.seconds < 1, outcome


def test_walk_at_the_wrong_time_falls():
    """No pose differs, but the weight does not sway far enough for slower steps."""
    outcome = replay(slowed(walk(0.4), 1.6))
    assert not outcome.up and outcome.seconds < SECONDS, outcome
