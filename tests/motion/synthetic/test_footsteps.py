"""Paths, footprints, rolling soles and the pendulum, each against its own rule."""

import numpy as np
import pytest

from spectral_skills.motion import legs, momentum
from spectral_skills.motion.legs import soften
from spectral_skills.motion.synthetic import footsteps, pendulum
from spectral_skills.motion.synthetic.footsteps import (
    LEFT,
    RIGHT,
    SOLE_CENTRE_M,
    Path,
    plan,
)
from spectral_skills.motion.synthetic.sketch import FPS, Sketch, ease, wander
from spectral_skills.robot import g1


def walking(seconds=4.0, **speeds):
    sketch = Sketch(np.random.default_rng(0))
    sketch.wait(0.5, 0.5)
    sketch.walk(seconds, 1.2, **speeds)
    return sketch.score()


@pytest.fixture(scope="module")
def walk():
    score = walking(forward=0.9)
    path = Path.along(score)
    return score, path, plan(score, path)


def test_ease_is_smooth_and_ends_flat():
    x = np.linspace(-0.2, 1.2, 1401)
    y = ease(x)
    assert y[0] == 0 and y[-1] == 1 and (np.diff(y) >= 0).all()
    assert np.abs(np.diff(y, 2)).max() * 1e6 < 6.0


def test_wandering_has_unit_size_and_no_period():
    t = np.arange(20000) / FPS
    curve = wander(np.random.default_rng(1), t)
    assert 0.9 < curve.std() < 1.1 and np.abs(np.diff(curve)).max() < 0.15


def test_softening_keeps_constants_and_lowers_peaks():
    flat = np.full((30, 2), 2.5)
    assert np.allclose(soften(flat, 2.0), 2.5)
    peak = np.zeros(31)
    peak[15] = 1.0
    assert soften(peak, 2.0).max() < 0.25 and np.isclose(soften(peak, 2.0).sum(), 1.0)


def test_feet_alternate_and_never_both_lift_in_a_walk(walk):
    _, _, steps = walk
    made = steps.prints[2:]
    assert all(a.side != b.side for a, b in zip(made, made[1:], strict=False))
    for now, following in zip(made, made[1:], strict=False):
        assert now.lift_s > following.touchdown_s


def test_a_walk_ends_with_the_feet_side_by_side(walk):
    score, path, steps = walk
    for side, sign in ((LEFT, 1), (RIGHT, -1)):
        last = steps.of(side)[-1]
        ahead = last.position[0] - (path.position[-1, 0] - SOLE_CENTRE_M)
        assert abs(ahead) < 0.01
        assert np.isclose(last.position[1], sign * score.width[-1] / 2, atol=1e-6)


def test_steps_cover_the_path(walk):
    """Footprints advance at the speed of the body."""
    score, path, steps = walk
    middle = [p for p in steps.prints if 2.5 < p.touchdown_s < 4.0]
    distance = middle[-1].position[0] - middle[0].position[0]
    seconds = middle[-1].touchdown_s - middle[0].touchdown_s
    speed = score.forward[int(2.5 * FPS) : int(4.2 * FPS)].mean()
    assert np.isclose(distance / seconds, speed, rtol=0.05)


@pytest.mark.parametrize(
    "speeds",
    [{"forward": 1.2}, {"forward": -0.6}, {"sideways": 0.35}, {"turning": 0.8}],
)
def test_soles_roll_without_slipping_or_sinking(speeds):
    """Any sphere that touches the floor in two frames rolls on the spot."""
    score = walking(**speeds)
    steps = plan(score, Path.along(score))
    for side in (LEFT, RIGHT):
        motion = footsteps.move(steps, side, score.frames)
        c, s = np.cos(motion.pitch), np.sin(motion.pitch)
        points = g1.SOLE_POINTS
        ahead = c[:, None] * points[:, 0] + s[:, None] * points[:, 2]
        up = -s[:, None] * points[:, 0] + c[:, None] * points[:, 2]
        height = motion.position[:, 2, None] + up - g1.SOLE_RADIUS
        assert height.min() > -1e-9
        touching = (height[1:] < 1e-6) & (height[:-1] < 1e-6)
        heading = np.stack((np.cos(motion.yaw), np.sin(motion.yaw)), axis=1)
        along = (np.diff(motion.position[:, :2], axis=0) * heading[1:]).sum(axis=1)
        centre = along[:, None] + np.diff(ahead, axis=0)
        slip = centre - g1.SOLE_RADIUS * np.diff(motion.pitch)[:, None]
        assert touching.any() and np.abs(slip[touching]).max() * FPS < 1e-3


def test_a_sole_on_its_edge_keeps_the_edge_on_the_floor():
    roll = np.linspace(0.0, 0.15, 20)
    moved = legs.on_edge(roll, np.zeros(20))
    edge = np.array((-legs.HALF_WIDTH_M, -legs.ANKLE_M))  # the right one goes down
    y = moved[:, 1] + np.cos(roll) * edge[0] - np.sin(roll) * edge[1]
    z = moved[:, 2] + np.sin(roll) * edge[0] + np.cos(roll) * edge[1]
    assert np.allclose(z, edge[1], atol=1e-12)
    assert np.allclose(np.diff(y), -g1.SOLE_RADIUS * np.diff(roll), atol=1e-12)


def test_the_mass_follows_the_zero_moment_point():
    rng = np.random.default_rng(2)
    zmp = soften(rng.normal(size=(200, 2)), 3.0)
    rate = 14.0 + rng.uniform(-3, 3, 200)
    mass = momentum.follow(zmp, rate)
    acceleration = np.diff(mass, 2, axis=0) * FPS**2
    back = mass[1:-1] - acceleration / rate[1:-1, None]
    assert np.allclose(back, zmp[1:-1], atol=1e-9)
    assert np.allclose(mass[[0, -1]], zmp[[0, -1]])


def test_the_mass_moves_before_the_foot_lifts(walk):
    """Preview: the weight is over the standing foot when the other one lifts."""
    score, _, steps = walk
    support = pendulum.support(score, steps)
    mass = momentum.follow(support.zmp, np.full(score.frames, 14.0))
    first = steps.prints[2]
    frame = int(steps.of(first.side)[0].lift_s * FPS)
    towards = -1 if first.side == LEFT else 1
    assert towards * mass[frame, 1] > 0.03
    assert np.abs(mass[0, 1]) < 0.02


def test_without_force_the_mass_keeps_its_speed():
    rate = np.full(100, 14.0)
    rate[40:50] = 0.0
    zmp = np.stack((np.linspace(0, 2, 100), np.zeros(100)), axis=1)
    mass = momentum.follow(zmp, rate)
    assert np.abs(np.diff(mass[40:50], 2, axis=0)).max() < 1e-12


def test_flight_is_ballistic_and_the_push_holds_the_weight():
    airborne = np.zeros(200, dtype=bool)
    for start in range(40, 160, 19):
        airborne[start : start + 5] = True
    height = pendulum.Height(airborne).near(np.full(200, 0.66))
    acceleration = np.diff(height, 2) * FPS**2
    assert np.abs(acceleration[airborne[1:-1]] + momentum.GRAVITY).max() < 0.05
    assert 0.55 < height.min() and height.max() < 0.75
    force = 1 + acceleration[58:134] / momentum.GRAVITY
    assert 0.9 < force.mean() < 1.1 and force.max() < 2.2


def test_who_does_not_fly_keeps_the_nominal_height():
    nominal = np.linspace(0.7, 0.6, 50)
    assert pendulum.Height(np.zeros(50, dtype=bool)).near(nominal) is nominal
