"""Draws stay in their ranges and fill them; what is off changes nothing."""

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from spectral_skills import config as configs
from spectral_skills import rotation
from spectral_skills.robot import g1
from spectral_skills.tracking import randomization
from spectral_skills.tracking.randomization import RandomizationConfig, scaled

OFF = scaled(RandomizationConfig(), 0.0)
N = 4000
DEPLOYMENT = RandomizationConfig(
    stiffness=(0.9, 1.1),
    damping=(0.8, 1.3),
    delay_substeps=(1, 4),
    anchor_walk_m=0.002,
    anchor_jitter_m=0.005,
    anchor_jump_m=0.03,
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def fills(values: Tensor, low: float, high: float) -> None:
    """All of a column's draws are inside, and leave less than 1 % free at each end."""
    columns = values.reshape(N, -1)
    slack = 1e-6  # of adding in float32
    free = 0.01 * (high - low)
    assert columns.min() >= low - slack and columns.max() <= high + slack
    assert columns.amin(0).max() <= low + free
    assert columns.amax(0).min() >= high - free
    mean = (low + high) / 2
    assert (columns.mean(0) - mean).abs().max() < 0.04 * (high - low)


def fill_around(values: Tensor, *widths: float) -> None:
    for column, width in zip(values.unbind(1), widths, strict=True):
        fills(column, -width, width)


def still() -> tuple[Tensor, Tensor]:
    """Rows (N, 36) of robots that stand somewhere, and some velocities (N, 35)."""
    rows = torch.tensor(g1.DEFAULT_QPOS).float().repeat(N, 1)
    rows[:, :3] += torch.randn(N, 3)
    rows[:, 3:7] = rotation.normalize(torch.randn(N, 4))
    return rows, torch.randn(N, 35)


def test_every_robot_is_another():
    """Ranges of the model, and which links and fields they touch."""
    drawn, offsets, _ = randomization.robots(DEPLOYMENT, N, "cpu", generator())
    friction, mass, com, stiffness, damping = (
        getattr(drawn, field.name) for field in fields(drawn)
    )
    fills(friction, 0.3, 1.6)
    fill_around(com, 0.025, 0.05, 0.05)
    loaded = torch.tensor(
        [n in ("torso_link", *g1.WRISTS) for n in g1.LINKS], dtype=torch.bool
    )
    assert loaded.sum() == 3
    fills(mass[:, loaded], 0.8, 2.5)
    assert torch.equal(mass[:, ~loaded], torch.ones(N, 27))
    fills(stiffness, 0.9, 1.1)
    fills(damping, 0.8, 1.3)
    assert stiffness.shape == damping.shape == (N, 29)
    fills(offsets, -0.01, 0.01)


def test_a_generator_makes_it_repeatable():
    first, again = (
        randomization.robots(DEPLOYMENT, 5, "cpu", generator())[0] for _ in range(2)
    )
    for field in fields(first):
        assert torch.equal(getattr(first, field.name), getattr(again, field.name))


def test_gains_and_delays_are_off_by_default():
    """SONIC has none."""
    config = RandomizationConfig()
    drawn, _, delays = randomization.robots(config, N, "cpu", generator())
    assert drawn.stiffness_scale is None and drawn.damping_scale is None
    assert torch.equal(delays, torch.zeros(N, dtype=torch.int32))


def test_delays_include_both_ends():
    *_, found = randomization.robots(DEPLOYMENT, N, "cpu", generator())
    assert found.dtype == torch.int32
    counts = found.bincount(minlength=5)
    assert counts[0] == 0 and (counts[1:] - N / 4).abs().max() < 0.1 * N / 4


def test_starts_are_near_the_reference():
    rows, qvel = still()
    config = RandomizationConfig()
    begun, velocity = randomization.start(config, rows, qvel)
    fill_around(begun[:, :3] - rows[:, :3], 0.05, 0.05, 0.01)
    turn = rotation.multiply(begun[:, 3:7], rotation.conjugate(rows[:, 3:7]))
    fill_around(rotation.log(turn), 0.1, 0.1, 0.2)
    torch.testing.assert_close(begun[:, 3:7].norm(dim=-1), torch.ones(N))
    fill_around(velocity[:, :6] - qvel[:, :6], *(0.5, 0.5, 0.2, 0.52, 0.52, 0.78))
    assert torch.equal(velocity[:, 6:], qvel[:, 6:])
    change = begun[:, 7:] - rows[:, 7:]
    fills(change[:, g1.joint_index("left_knee")], -0.1, 0.1)


def test_start_joints_are_clipped_towards_the_reference_only():
    """Within the soft limits, or where the reference is when that is beyond them."""
    rows, qvel = still()
    knee, elbow = g1.joint_index("left_knee"), g1.joint_index("left_elbow")
    high, low = float(g1.SOFT_LIMITS[knee, 1]), float(g1.SOFT_LIMITS[elbow, 0])
    rows[:, 7 + knee] = high + 0.03
    rows[:, 7 + elbow] = low + 0.04
    begun, _ = randomization.start(RandomizationConfig(), rows, qvel)
    bent, straight = begun[:, 7 + knee], begun[:, 7 + elbow]
    # Beyond: never farther out than the reference, and half of all exactly on it.
    assert bent.max() == rows[0, 7 + knee] and bent.min() < high - 0.069
    assert (bent == rows[0, 7 + knee]).float().mean() == pytest.approx(0.5, abs=0.05)
    rows[:, 7 + knee] = float(g1.SOFT_LIMITS[knee, 0]) - 0.03
    begun, _ = randomization.start(RandomizationConfig(), rows, qvel)
    assert begun[:, 7 + knee].min() == rows[0, 7 + knee]
    # Inside: up to the limit, where 0.06 of 0.2 of the draws end.
    assert straight.min() == pytest.approx(low, abs=1e-6)
    assert (straight < low + 1e-6).float().mean() == pytest.approx(0.3, abs=0.05)
    assert straight.max() > low + 0.139


def test_pushes():
    _, qvel = still()
    pushed = randomization.kick(RandomizationConfig(), qvel)
    fill_around(pushed[:, :6] - qvel[:, :6], *(0.5, 0.5, 0.2, 0.52, 0.52, 0.78))
    assert torch.equal(pushed[:, 6:], qvel[:, 6:])
    steps = randomization.next_push(RandomizationConfig(), torch.zeros(N))
    assert steps.dtype == torch.long
    assert steps.min() == 200 and steps.max() == 300


def test_noise_of_the_senses():
    """Gravity, angular velocity, joints, velocities; the last action is exact."""
    frame = torch.randn(N, 93)
    noise = randomization.noisy(RandomizationConfig(), frame) - frame
    parts = noise[:, :64].split((3, 3, 29, 29), dim=1)
    for part, width in zip(parts, (0.05, 0.2, 0.01, 0.5), strict=True):
        fills(part, -width, width)
    assert torch.equal(noise[:, 64:], torch.zeros(N, 29))


def test_the_anchor_walks_within_its_limits():
    """2 mm a step, so 20 mm after 100; never beyond 10 cm; new episodes from zero."""
    walk, nobody = torch.zeros(N, 2), torch.zeros(N, dtype=torch.bool)
    for _ in range(100):
        walk = randomization.walked(DEPLOYMENT, walk, nobody)
    assert (walk.std(0) - 0.02).abs().max() < 0.001 and walk.mean().abs() < 0.001
    for _ in range(100):
        walk = randomization.walked(
            replace(DEPLOYMENT, anchor_walk_m=0.05), walk, nobody
        )
    assert walk.abs().max() == pytest.approx(0.1)
    first = nobody.clone()
    first[0] = True
    walk = randomization.walked(DEPLOYMENT, walk, first)
    assert walk[0].tolist() == [0.0, 0.0] and walk[1:].abs().min() > 0


def test_the_anchor_jitters_along_the_floor_and_jumps_now_and_then():
    """5 mm in every step, 3 cm more in 2 % of them; heights are known."""
    position, walk = still()[0][:, :3], torch.full((N, 2), 0.01)
    calm = replace(DEPLOYMENT, anchor_jump_m=0.0)
    found = randomization.noisy_anchor(calm, position, walk) - position
    fills(found[:, :2], 0.005, 0.015)
    found = randomization.noisy_anchor(DEPLOYMENT, position, walk) - position
    assert found[:, 2].abs().max() == 0
    away = (found[:, :2] - 0.01).abs()
    assert away.max() <= 0.035 + 1e-6 and away.max() > 0.025
    # A jump may hide in the jitter; nearly all of the 2 % do not.
    jumped = (away > 0.005 + 1e-6).any(dim=1).float().mean().item()
    assert 0.01 < jumped < 0.03


def test_off_changes_nothing_to_the_bit():
    rows, qvel = still()
    frame = torch.randn(N, 93)
    config = OFF
    drawn, offsets, delays = randomization.robots(config, N, "cpu", generator())
    assert all(getattr(drawn, field.name) is None for field in fields(drawn))
    assert torch.equal(offsets, torch.zeros(N, 29))
    assert delays.abs().max() == 0
    begun = randomization.start(config, rows, qvel)
    assert torch.equal(begun[0], rows) and torch.equal(begun[1], qvel)
    assert torch.equal(randomization.kick(config, qvel), qvel)
    assert torch.equal(randomization.noisy(config, frame), frame)
    walk, everyone = torch.zeros(N, 2), torch.ones(N, dtype=torch.bool)
    assert randomization.walked(config, walk, everyone) is walk
    position = rows[:, :3]
    assert randomization.noisy_anchor(config, position, walk) is position


def test_one_noise_can_be_on_alone():
    """The others leave their columns alone, to the bit."""
    frame = torch.randn(N, 93)
    config = replace(OFF, joint_noise_rad=0.5)
    noise = randomization.noisy(config, frame) - frame
    fills(noise[:, 6:35], -0.5, 0.5)
    assert noise[:, :6].abs().max() == 0 and noise[:, 35:].abs().max() == 0
    rows, qvel = still()
    config = replace(OFF, start_position_m=(0.1, 0.0, 0.0))
    begun, velocity = randomization.start(config, rows, qvel)
    fills(begun[:, 0] - rows[:, 0], -0.1, 0.1)
    assert torch.equal(begun[:, 1:], rows[:, 1:]) and torch.equal(velocity, qvel)


def test_strength():
    """Half way to nothing: half the widths, half way to the nominal robot."""
    half = scaled(DEPLOYMENT, 0.5)
    assert half.friction == pytest.approx((0.45, 1.1))  # about 0.6
    assert half.mass == pytest.approx((0.9, 1.75))
    assert half.stiffness == pytest.approx((0.95, 1.05))
    assert half.delay_substeps == (0, 2)
    assert half.push_every_s == (4.0, 6.0)
    assert half.push_linear_m_s == pytest.approx((0.25, 0.25, 0.1))
    assert half.start_joints_rad == pytest.approx(0.05)
    assert half.gravity_noise == pytest.approx(0.025)
    assert half.anchor_walk_m == pytest.approx(0.001)
    assert scaled(DEPLOYMENT, 1.0) == DEPLOYMENT
    assert scaled(DEPLOYMENT, 0.0) == OFF == scaled(OFF, 0.5)


def test_config_round_trip_and_bad_ranges():
    assert configs.loads(RandomizationConfig, configs.dumps(DEPLOYMENT)) == DEPLOYMENT
    assert configs.loads(RandomizationConfig, configs.dumps(OFF)) == OFF
    with pytest.raises(ValueError, match="friction"):
        RandomizationConfig(friction=(1.6, 0.3))
    with pytest.raises(ValueError, match="delay_substeps"):
        RandomizationConfig(delay_substeps=(0, 5))


def test_compiles_to_one_graph():
    """All that happens in a step; other random numbers, the same ranges."""

    def step(rows: Tensor, qvel: Tensor, frame: Tensor):
        begun = randomization.start(DEPLOYMENT, rows, qvel)
        kicked = randomization.kick(DEPLOYMENT, qvel)
        wait = randomization.next_push(DEPLOYMENT, qvel[:, 0])
        seen = randomization.noisy(DEPLOYMENT, frame)
        walk = randomization.walked(DEPLOYMENT, rows[:, :2], rows[:, 0] > 0)
        anchor = randomization.noisy_anchor(DEPLOYMENT, rows[:, :3], walk)
        return begun, kicked, wait, seen, anchor

    rows, qvel = still()
    frame = torch.randn(N, 93)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    (begun, _), kicked, wait, seen, _ = compiled(rows, qvel, frame)
    fill_around(begun[:, :3] - rows[:, :3], 0.05, 0.05, 0.01)
    fills((kicked - qvel)[:, 0], -0.5, 0.5)
    assert wait.min() == 200 and wait.max() == 300
    fills((seen - frame)[:, :3], -0.05, 0.05)
