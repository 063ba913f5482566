"""Two simulators, one robot: MuJoCo in C and MuJoCo Warp agree.

Warp runs on the GPU where there is one, else on the CPU, where compiling its kernels
takes half a minute the first time.
"""

import math
from typing import Any

import pytest
import torch

from spectral_skills.physics.base import Physics, Variation
from spectral_skills.physics.native import NativePhysics
from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.robot import g1

COUNT = 4
DEFAULT = torch.tensor(g1.DEFAULT_QPOS).float()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NOTHING = {"broken": 0, "contacts": 0, "constraints": 0}


def in_warp(*arguments: Any, **options: Any) -> Any:
    """Not imported above: that takes seconds, in every process that collects tests."""
    from spectral_skills.physics.warp import WarpPhysics

    return WarpPhysics(*arguments, **options)


@pytest.fixture(scope="module")
def warp() -> Any:
    return in_warp(COUNT, device=DEVICE)


@pytest.fixture
def pair(warp) -> tuple[Physics, Physics]:
    """Both in the default pose at rest, not varied, without delay."""
    ones = torch.ones(COUNT, 30)
    warp.vary(
        Variation(
            friction=torch.full((COUNT,), 0.6),
            mass_scale=ones,
            torso_com=torch.zeros(COUNT, 3),
            stiffness_scale=ones[:, :29],
            damping_scale=ones[:, :29],
        )
    )
    warp.counters()
    place(warp, DEFAULT.repeat(COUNT, 1))
    warp.delay.zero_()
    return NativePhysics(COUNT), warp


def place(physics: Physics, qpos: torch.Tensor) -> None:
    physics.qpos.copy_(qpos)
    physics.qvel.zero_()
    physics.targets.copy_(DEFAULT[7:].repeat(COUNT, 1))
    physics.held.copy_(physics.targets)


def at_height(height: float) -> torch.Tensor:
    qpos = DEFAULT.repeat(COUNT, 1)
    qpos[:, 2] = height
    return qpos


def gap(native: Physics, warp: Physics, name: str) -> float:
    difference = getattr(native, name) - getattr(warp, name).cpu()
    return float(difference.abs().max())


def sway(step: int, amplitude: float) -> torch.Tensor:
    """(n, 29) targets that move each joint at its own pace."""
    pace = torch.linspace(1.0, 9.0, 29) + torch.arange(COUNT)[:, None]
    return DEFAULT[7:] + amplitude * torch.sin(pace * step * 0.02)


def test_without_contacts_they_are_equal(pair):
    """A second in the air with moving targets, each robot with another delay."""
    native, warp = pair
    for physics in pair:
        place(physics, at_height(9.0))
        physics.delay.copy_(torch.arange(COUNT))
    for step in range(50):
        for physics in pair:
            physics.targets.copy_(sway(step, 0.05))
            physics.step()
        assert native.contact_force.max() == 0
    assert native.qpos[:, 2].max() < 4.5
    assert gap(native, warp, "qpos") < 1e-4
    assert gap(native, warp, "qvel") < 1e-3
    assert gap(native, warp, "qacc") < 0.1
    assert gap(native, warp, "torque") < 1e-2
    assert warp.counters() == NOTHING


def test_delay_matters(pair):
    """Or the test above would prove nothing about it."""
    native, warp = pair
    for physics in pair:
        place(physics, at_height(9.0))
        physics.delay.copy_(torch.arange(COUNT))
        physics.targets.add_(0.3)
        physics.step()
    moved = warp.qpos[:, 7:].cpu() - DEFAULT[7:]
    travel = moved.abs().mean(dim=1)
    assert (travel[1:] < 0.8 * travel[:-1]).all()
    assert gap(native, warp, "qpos") < 1e-5


def test_a_step_on_the_ground(pair):
    """From the same states of a swaying robot, each step on its own.

    A contact that just opens or closes may do so a substep earlier in float32: hence
    bounds for the usual step and for the worst.
    """
    native, warp = pair
    place(native, at_height(0.735))
    names = ("qpos", "qvel", "torque", "contact_force")
    gaps = []
    for step in range(50):
        warp.qpos.copy_(native.qpos)
        warp.qvel.copy_(native.qvel)
        for physics in pair:
            physics.targets.copy_(sway(step, 0.1))
            physics.step()
        gaps.append([gap(native, warp, name) for name in names])
    gaps = torch.tensor(gaps)
    assert (gaps.median(dim=0).values < torch.tensor([1e-5, 1e-3, 1e-3, 0.1])).all()
    assert (gaps.amax(dim=0) < torch.tensor([1e-3, 0.1, 0.2, 30.0])).all()
    assert native.contact_force.max() > 20


def test_a_second_on_the_ground(pair):
    """Left alone, they stay together while the feet do."""
    native, warp = pair
    for physics in pair:
        place(physics, at_height(0.735))
    for step in range(50):
        for physics in pair:
            physics.targets.copy_(sway(step, 0.05))
            physics.step()
    assert gap(native, warp, "qpos") < 5e-3
    assert warp.counters() == NOTHING


def test_variations_agree(pair):
    native, warp = pair
    generator = torch.Generator().manual_seed(0)

    def between(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(COUNT, *shape, generator=generator)

    variation = Variation(
        friction=between(0.3, 1.2),
        mass_scale=between(0.8, 2.5, 30),
        torso_com=between(-0.05, 0.05, 3),
        stiffness_scale=between(0.7, 1.3, 29),
        damping_scale=between(0.7, 1.3, 29),
    )
    for physics in pair:
        physics.vary(variation)
        place(physics, at_height(0.735))
        physics.qvel[:, 1] = 0.4
    for _ in range(10):
        for physics in pair:
            physics.step()
    plain = NativePhysics(COUNT)
    place(plain, at_height(0.735))
    plain.qvel[:, 1] = 0.4
    for _ in range(10):
        plain.step()
    assert gap(native, warp, "qpos") < 1e-3
    assert (native.qpos - plain.qpos).abs().amax(dim=1).min() > 0.02


@pytest.mark.parametrize(
    "field, value",
    [("qpos", math.nan), ("qvel", math.inf), ("qvel", -1e9), ("targets", math.nan)],
)
def test_broken_robots_agree(pair, field: str, value: float):
    for physics in pair:
        place(physics, at_height(0.735))
        physics.delay.fill_(1)
        physics.step()
        getattr(physics, field)[1, 9] = value
        physics.step()
        assert physics.broken.tolist() == [False, True, False, False]
        torch.testing.assert_close(physics.qpos[1].cpu(), DEFAULT)
        torch.testing.assert_close(physics.held[1].cpu(), DEFAULT[7:])
        assert physics.qvel[1].abs().max() == 0
        assert physics.counters() == {"broken": 1, "contacts": 0, "constraints": 0}
        physics.targets.copy_(DEFAULT[7:].repeat(COUNT, 1))
        physics.step()
        assert not physics.broken.any() and physics.counters() == NOTHING


def test_overflows_are_counted():
    """A standing robot wants 112 rows; here one stands and one is in the air."""
    physics = in_warp(2, PhysicsConfig(constraints=40), device=DEVICE)
    physics.qpos[:, 2] = torch.tensor([0.735, 5.0])
    for _ in range(3):
        physics.step()
    assert int(physics.rows[0]) > 40
    assert physics.counters() == {"broken": 0, "contacts": 0, "constraints": 1}
    assert physics.counters() == NOTHING
    assert torch.isfinite(physics.qpos).all()


def test_too_many_robots_are_refused(monkeypatch):
    """With what the allocator said; any other error is left alone."""

    def fail(message: str):
        def make_data(*_, **__):
            raise RuntimeError(message)

        monkeypatch.setattr("mujoco_warp.make_data", make_data)

    fail("Failed to allocate 9 bytes on device 'cpu'")
    with pytest.raises(ValueError, match="2 robots do not fit .* 9 bytes"):
        in_warp(2, device="cpu")
    fail("an illegal memory access was encountered")
    with pytest.raises(RuntimeError, match="illegal"):
        in_warp(2, device="cpu")
