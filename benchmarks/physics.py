"""How many robots a second the simulators step, and what each saving costs.

The robots sway about the default pose, each joint at its own pace, and start over after
half a second, before they fall: two feet on the ground, as in most training steps.
"""

import math
import time
from typing import NamedTuple

import torch
from report import main
from torch import Tensor

from spectral_skills.physics.base import Physics, simulate
from spectral_skills.physics.settings import FAST, PhysicsConfig
from spectral_skills.results import Result
from spectral_skills.robot import g1

_TABLE = "Physics"
_STEPS = 50
_EPISODE = 25
_EXACT = PhysicsConfig(iterations=100, line_search=50)
_COUNTS = (4096, 16_384, 32_768)
_VARIANTS = {
    "": PhysicsConfig(),
    "5/10 iterations": PhysicsConfig(iterations=5, line_search=10),
    "3/6 iterations": PhysicsConfig(iterations=3, line_search=6),
    "2/4 iterations": PhysicsConfig(iterations=2, line_search=4),
    "light feet": PhysicsConfig(feet="light"),
    "5/10 iterations, light feet": FAST,
    "no self-collision": PhysicsConfig(self_collision=False),
    "120 rows": PhysicsConfig(constraints=120),
}
"""What is saved against the defaults, which are measured first."""


class Speed(NamedTuple):
    """Of `_STEPS` control steps."""

    seconds: float
    rows_mean: float
    rows_max: float
    counters: dict[str, int]


class Fidelity(NamedTuple):
    """Means over robots and one second."""

    joint_rms: float
    """Root mean square over the joints, rad."""
    root: float
    """Distance of the pelvises, m."""


def physics(device: str) -> list[Result]:
    """Control steps a second, constraint rows and fidelity of each setting."""
    cuda = torch.device(device).type == "cuda"
    results = []
    for count in _COUNTS if cuda else (8,):
        for saving, config in _VARIANTS.items():
            # The other sizes and the native simulator only show how the default scales.
            if saving and (not cuda or count != 16_384):
                continue
            row = f"{count:,} robots" + (f", {saving}" if saving else "")
            results += _cells(row, simulate(device, count, config))
    count = 4096 if cuda else 8
    exact = simulate(device, count, _EXACT)
    for saving, config in {**_VARIANTS, "moved by a microradian": _EXACT}.items():
        if not cuda and config.iterations < 3:
            continue  # in C the robots break
        shift = 1e-6 if config is _EXACT else 0.0
        joints, root = compare(exact, simulate(device, count, config), shift)
        row = f"against 100/50 iterations: {saving or 'default'}"
        results += [
            Result(_TABLE, row, "joints", 1e3 * joints, "mrad rms", n=count),
            Result(_TABLE, row, "root", 1e3 * root, "mm", n=count),
        ]
    return results


def compare(exact: Physics, cheap: Physics, shift: float = 0.0) -> Fidelity:
    """How far robots of two settings diverge in a second with the same targets.

    Both start from the exact ones' state after 0.2 s. A `shift` of the joints in rad at
    the start shows how much any difference grows by itself.
    """
    sway = _Sway(exact.count, exact.device)
    stand(exact)
    joints, root = [], []
    for step in range(10 + _STEPS):
        if step == 10:
            for name in ("qpos", "qvel", "held"):
                getattr(cheap, name).copy_(getattr(exact, name))
            cheap.qpos[:, 7:] += shift
        for robots in (exact, cheap)[: 1 if step < 10 else 2]:
            robots.targets.copy_(sway(step))
            robots.step()
        if step >= 10:
            gap = exact.qpos - cheap.qpos
            joints.append(gap[:, 7:].square().mean(dim=1).sqrt().mean())
            root.append(gap[:, :3].norm(dim=1).mean())
    return Fidelity(float(torch.stack(joints).mean()), float(torch.stack(root).mean()))


def measure(robots: Physics) -> Speed:
    """Time of `_STEPS` control steps after as many that are not timed."""
    cuda = robots.device.type == "cuda"
    sway = _Sway(robots.count, robots.device)
    stand(robots)
    phase = torch.arange(robots.count, device=robots.device) % _EPISODE
    upright, targets = robots.qpos.clone(), robots.targets.clone()
    rows = []
    start = 0.0
    for step in range(2 * _STEPS):
        if step == _STEPS:
            robots.counters()
            start = _now(robots.device)
        fresh = (phase + step) % _EPISODE == 0
        robots.qpos.copy_(torch.where(fresh[:, None], upright, robots.qpos))
        robots.qvel.mul_(~fresh[:, None])
        robots.targets.copy_(torch.where(fresh[:, None], targets, sway(step)))
        robots.step()
        if step >= _STEPS and cuda:
            rows.append(robots.rows.float())  # type: ignore[attr-defined]
    seconds = _now(robots.device) - start
    wanted = torch.stack(rows) if rows else torch.zeros(1, 1)
    mean, most = float(wanted.mean()), float(wanted.max())
    return Speed(seconds, mean, most, robots.counters())


def stand(robots: Physics) -> None:
    """In the default pose, at rest, soles on the ground."""
    robots.qpos.copy_(robots.qpos.new_tensor(g1.DEFAULT_QPOS).expand_as(robots.qpos))
    robots.qpos[:, 2] = 0.735
    robots.qvel.zero_()
    robots.targets.copy_(robots.qpos[:, 7:])
    robots.held.copy_(robots.targets)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class _Sway:
    """Targets about the default pose, of another phase and pace for every joint."""

    def __init__(self, count: int, device: str | torch.device, amplitude: float = 0.1):
        generator = torch.Generator().manual_seed(0)
        random = torch.rand(2, count, g1.NUM_JOINTS, generator=generator).to(device)
        self.centre = torch.tensor(g1.DEFAULT_JOINTS, device=device).float()
        self.pace, self.phase = 1.0 + 2.0 * random[0], 2.0 * math.pi * random[1]
        self.amplitude = amplitude

    def __call__(self, step: int) -> Tensor:
        turn = 2.0 * math.pi * self.pace * step / g1.CONTROL_HZ + self.phase
        return self.centre + self.amplitude * torch.sin(turn)


def _cells(row: str, robots: Physics) -> list[Result]:
    speed = measure(robots)
    rate = robots.count * _STEPS / speed.seconds
    cells = [
        ("control step", 1e3 * speed.seconds / _STEPS, "ms"),
        ("rate", rate, "control steps/s"),
        ("real time", rate / robots.count / g1.CONTROL_HZ, "x"),
    ]
    if robots.device.type == "cuda":
        memory = robots.bytes_per_robot / 1024  # type: ignore[attr-defined]
        cells += [
            ("constraint rows, mean", speed.rows_mean, ""),
            ("constraint rows, largest", speed.rows_max, ""),
            ("robots out of rows", speed.counters["constraints"], ""),
            ("robots out of contacts", speed.counters["contacts"], ""),
            ("memory a robot", memory, "KiB"),
        ]
    cells.append(("broken steps", speed.counters["broken"], ""))
    return [
        Result(_TABLE, row, metric, value, unit, n=_STEPS)
        for metric, value, unit in cells
    ]


if __name__ == "__main__":
    main(physics)
