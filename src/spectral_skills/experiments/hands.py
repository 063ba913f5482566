"""Hand targets, open loop: skills that move the right hand to where it should be.

The hand map is a prediction. A first pass shows what the robot makes of it; the
measured linear map from asked to reached, inverted, gives the second.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.control.batch import Executed, Runner
from spectral_skills.control.steering import RAMP_STEPS, Knob, standard
from spectral_skills.experiments.effects import falls, hold
from spectral_skills.experiments.findings import Draft, Findings, Series, grid
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.robot import g1

NAME = "hands"
GRID = grid(NAME)
TARGETS = np.array(GRID.targets)
RIGHT = 1
PASSES = ("first pass", "compensated", "first pass, limited", "compensated, limited")


def hand(rows: np.ndarray) -> np.ndarray:
    """(T, 3) place of the right wrist in the heading frame of the pelvis, m."""
    qpos = torch.as_tensor(np.asarray(rows), dtype=torch.float64)
    links = Kinematics((g1.WRISTS[RIGHT],), dtype=torch.float64)
    wrist = links(qpos).position[:, 0] - qpos[:, :3]
    return rotation.rotate_inverse(rotation.heading(qpos[:, 3:7]), wrist).numpy()


def linear_map(asked: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """(3, 3) M with reached = M asked, by least squares over rows (n, 3)."""
    return np.linalg.lstsq(asked, reached, rcond=None)[0].T


def limited(changes: np.ndarray, limit: float) -> np.ndarray:
    """Skill changes (T, d), the longer ones cut to a length."""
    lengths = np.linalg.norm(changes, axis=1, keepdims=True)
    return changes * np.minimum(1.0, limit / np.maximum(lengths, 1e-12))


def damped(linear: np.ndarray, damping: float) -> np.ndarray:
    """Inverse of a map (3, 3) that leaves alone what the map hardly moves."""
    u, sizes, v = np.linalg.svd(linear)
    if not sizes[0] > 0:
        return np.zeros_like(linear)
    return (v.T * (sizes / (sizes**2 + (damping * sizes[0]) ** 2))) @ u.T


def tour() -> tuple[np.ndarray, slice]:
    """(T, 3) forward, up and out, then a circle; and the steps of the circle."""
    margin, reach, circle = GRID.margin, GRID.reach, GRID.circle
    begin = margin + 3 * reach
    steps = begin + circle + 2 * RAMP_STEPS + margin
    path = np.zeros((steps, 3))
    for i, target in enumerate(TARGETS[[0, 2, 1]]):
        start = margin + i * reach
        path += Knob("", 1.0, start, start + reach).curve(steps)[:, None] * target
    traced = slice(begin + RAMP_STEPS, begin + RAMP_STEPS + circle)
    angle = 2 * np.pi * np.clip((np.arange(steps) - traced.start) / circle, 0.0, 1.0)
    ring = np.stack((np.cos(angle), np.sin(angle), np.zeros(steps)), axis=1)
    curve = Knob("", 1.0, begin, begin + circle + 2 * RAMP_STEPS).curve(steps)
    return path + curve[:, None] * (GRID.centre + GRID.radius * ring), traced


@dataclass(frozen=True)
class Pass:
    """One round of all reaches and the tour."""

    runs: list[Executed]
    """All reaches, then the tour."""
    asked: np.ndarray
    """(n, 3) move that the skills of each reach ask for, m: less than the target where
    they were limited."""
    reached: np.ndarray
    """(n, 3) mean move of the hand while the target is held, m."""
    traced: np.ndarray
    """(T, 3) move of the hand over the tour, m."""
    values: dict[str, float]
    """Errors and drift, cm."""


class StandingRobot:
    """A standing robot whose hand is asked to go places."""

    def __init__(self, runner: Runner, steps: int, seed: int | None = None):
        self.runner, self.seed = runner, seed
        self.path, self.circle = tour()
        self.bases = [runner.base("stand", n) for n in (steps, len(self.path))]
        self.plain = runner.execute([runner.plain(b, seed) for b in self.bases])
        self.rest = [hand(one.rows) for one in self.plain]

    def go(self, label: str, inverse: np.ndarray, limit: float = np.inf) -> Pass:
        """All reaches and the tour, asked for through `inverse` (3, 3)."""
        hands = self.runner.directions.hand_maps[RIGHT].astype(np.float64)
        held = limited(TARGETS @ (hands @ inverse).T, limit)
        short, long = self.bases
        asked = [
            (short, standard(1.0, short.steps) * one, f"reach {i} {label}")
            for i, one in enumerate(held)
        ]
        path = limited(self.path @ (hands @ inverse).T, limit)
        asked.append((long, path, f"tour {label}"))
        runs = [self.runner.steered(*one, seed=self.seed) for one in asked]
        *reaches, toured = done = self.runner.execute(runs, label)
        steps = hold(short)
        moves = [(hand(one.rows) - self.rest[0])[steps].mean(axis=0) for one in reaches]
        away = [one.rows[steps, :2] - self.plain[0].rows[steps, :2] for one in reaches]
        traced = (hand(toured.rows) - self.rest[1])[1:]
        errors = np.linalg.norm(np.array(moves) - TARGETS, axis=1)
        # Distance from the circle's running point.
        off = np.linalg.norm((traced - self.path)[self.circle], axis=1)
        drift = max(float(np.linalg.norm(a, axis=1).max()) for a in away)
        values = {
            "median error": 100 * np.median(errors),
            "p90 error": 100 * np.quantile(errors, 0.9),
            "circle error": 100 * float(off.mean()),
            "root drift": 100 * drift,
        }
        wanted = held @ np.linalg.pinv(hands).T
        return Pass(done, wanted, np.array(moves), traced, values)


def hands(runner: Runner, seeds: tuple[int, ...] = (), **changes: Any) -> Findings:
    """All passes without randomness; the limited second one again for every seed."""
    run, report = grid(NAME, **changes), Draft(NAME, runner)
    robot = StandingRobot(runner, run.steps)
    first = robot.go(PASSES[0], np.eye(3))
    linear = linear_map(first.asked, first.reached)
    second = robot.go(PASSES[1], np.linalg.pinv(linear))
    third = robot.go(PASSES[2], np.eye(3), run.limit)
    inverse = damped(linear_map(third.asked, third.reached), run.damping)
    fourth = robot.go(PASSES[3], inverse, run.limit)
    done: dict[str, Pass] = dict(
        zip(PASSES, (first, second, third, fourth), strict=True)
    )
    for row, one in done.items():
        _add(report, row, one)
    for seed in seeds:
        again = StandingRobot(runner, run.steps, seed).go(PASSES[3], inverse, run.limit)
        _add(report, f"{PASSES[3]}, seed {seed}", again, seed)
    _add_charts(report, robot, done)
    for title, one, plain in (
        ("forward, up, out and a circle", fourth.runs[-1], robot.plain[1]),
        ("the hand 15 cm up", fourth.runs[2], robot.plain[0]),
    ):
        report.film(title, one.run, plain.run)
    gains, directions = np.linalg.svd(linear, compute_uv=False), runner.directions
    lengths = np.linalg.norm(directions.hand_maps[RIGHT] @ TARGETS.T, axis=0)
    return report.findings(
        source="standing" if directions.hand_standing else "all, not only standing,",
        still=100 * np.median(np.linalg.norm(TARGETS, axis=1)),
        **{"shortest": lengths.min(), "longest": lengths.max()},
        **{"least": gains.min(), "most": gains.max()},
        **{"limit": run.limit, "damping": run.damping},
    )


def _add(report: Draft, row: str, done: Pass, seed: int | None = None) -> None:
    for metric, value in done.values.items():
        n = GRID.circle if metric == "circle error" else len(TARGETS)
        report.add(row, {metric: value}, n, seed=seed)
    report.add(row, {"falls": falls(done.runs)}, len(done.runs), seed=seed)


def _add_charts(report: Draft, robot: StandingRobot, done: dict[str, Pass]) -> None:
    """The circle from above, and the hand over time along each axis."""
    paths = {"target": robot.path} | {row: one.traced for row, one in done.items()}
    circle = [
        Series.of(name, -path[robot.circle, 1], path[robot.circle, 0])
        for name, path in paths.items()
    ]
    report.chart("circle", circle)
    seconds = np.arange(0, len(robot.path), 5) / g1.CONTROL_HZ
    for i, axis in enumerate(("forward", "left", "up")):
        series = [Series.of(row, seconds, path[::5, i]) for row, path in paths.items()]
        report.chart("tour", series, axis=axis)
