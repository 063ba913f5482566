"""Steering against forcing a pose on the joints, and against adding skills.

A matched triple is a steered run that stays up, and its mean joint deviation added to
the action or to the servo target in the same schedule. One more triple is a wave: the
right arm is raised and swings along one direction; forced are the mean and the swing of
the joints' deviation. Skills of other motions are added to a walk or blended with it:
a skill that shows a raised arm also carries the rest of its motion, and that rest is
measured beside steering.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import mean, stdev
from typing import Any

import numpy as np

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.steering import standard
from spectral_skills.experiments.effects import Steered, falls, hold, measure
from spectral_skills.experiments.findings import Draft, Findings, Series, grid
from spectral_skills.experiments.neighbours import DescribedSkills, describe_skills
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.robot import g1

NAME = "alternatives"
GRID = grid(NAME)
WAYS = ("steering", "offset on action", "offset on servo target")
WAVE = "wave"
PLAIN, BLEND = "unsteered walk", "blend to standing, arm raised"
PAIR, STANDING = "arm-raise clip less idle", "standing, raised less not"
WALKING, STEERING = "walking, raised less not", "steering, right arm"
SHOULDER = g1.joint_index("right_shoulder_pitch")


@dataclass(frozen=True)
class Triple:
    """A steered run, and its pose on the action and on the servos."""

    direction: str
    amplitude: float
    runs: tuple[Steered, ...]
    """Runs in the order of `WAYS`."""

    @property
    def base(self) -> Base:
        return self.runs[0].run.base

    def pose_ratio(self, way: int) -> float:
        """Share of the steered pose that a run has: 1 all of it, 0 nothing."""
        steered, ours = (self.runs[i].effect.pose for i in (0, way))
        return float(ours @ steered / (steered @ steered))


def offsets(run: Run, pose: np.ndarray, skills: np.ndarray) -> tuple[Run, Run]:
    """Runs of a base's own skills with a pose (29,) or (T, 29) added to the actions or
    to the joint targets."""
    servo = (standard(1.0, run.base.steps) * pose).astype(np.float32)
    action = (servo / g1.ACTION_SCALE).astype(np.float32)
    return (
        Run(f"{run.name} on action", run.base, skills, run.seed, action=action),
        Run(f"{run.name} on servo", run.base, skills, run.seed, servo=servo),
    )


def matched(
    runner: Runner,
    bases: Sequence[str],
    directions: Sequence[str],
    amplitudes: Sequence[float],
    steps: int,
) -> list[Triple]:
    """Triples of all steered runs that do not fall."""
    plains = [runner.plain(runner.base(name, steps)) for name in bases]
    keys = list(product(runner.execute(plains, "bases"), directions, amplitudes))
    runs = [
        runner.steered(p.run.base, runner.direction(name, a), f"{name} a={a:+g}")
        for p, name, a in keys
    ]
    steered = zip(keys, runner.execute(runs, "steered"), strict=True)
    up = [(*key, Steered(one, key[0])) for key, one in steered if one.stands]
    forced = []
    for *_, one in up:
        forced += offsets(one.run, one.effect.pose, runner.skills(one.run.base))
    made = iter(runner.execute(forced, "offsets"))
    return [
        Triple(name, a, (one, Steered(next(made), p), Steered(next(made), p)))
        for p, name, a, one in up
    ]


def reseeded(runner: Runner, triples: list[Triple], seed: int) -> list[Triple]:
    """The same commands and offsets for another robot."""
    bases = {t.base.name: t.base for t in triples}
    plain = runner.execute([runner.plain(b, seed) for b in bases.values()], "bases")
    of = dict(zip(bases, plain, strict=True))
    again = [replace(one.run, seed=seed) for t in triples for one in t.runs]
    made = iter(runner.execute(again, f"seed {seed}"))
    return [
        replace(t, runs=tuple(Steered(next(made), of[t.base.name]) for _ in WAYS))
        for t in triples
    ]


def summary(triples: list[Triple], way: int) -> dict[str, tuple[float, int]]:
    """Metrics of a row with their numbers of runs; only falls count all of them."""
    up = [(t, t.runs[way]) for t in triples if t.runs[way].stands]
    travels = [
        [measure(run.rows, hold(t.base))["speed"] for run in (one.executed, one.plain)]
        for t, one in up
        if t.direction in GRID.arms and t.base.name in GRID.travels
    ]
    turns = [(t.direction, one.effect.changes["heading"]) for t, one in up]
    columns = {
        "pose": [t.pose_ratio(way) for t, _ in up if t.runs[0].stands],
        "speed": [ours / usual for ours, usual in travels],
        "drift": [abs(heading) for name, heading in turns if name != "turn"],
        "turn": [heading for name, heading in turns if name == "turn"],
    }
    down = {"falls": (float(len(triples) - len(up)), len(triples))}
    return down | {k: (float(np.median(v)), len(v)) for k, v in columns.items() if v}


def rhythm(steps: int) -> np.ndarray:
    """(T, 3) one, and a sine and a cosine of the wave."""
    turn = 2 * np.pi * GRID.wave["hz"] * np.arange(steps) / FPS
    return np.stack((np.ones(steps), np.sin(turn), np.cos(turn)), axis=1)


def wave_parts(one: Steered) -> np.ndarray:
    """(3, 29) fitted mean, sine and cosine of the joints' deviation, rad."""
    steps = hold(one.run.base)
    deviation = one.executed.rows[steps, 7:] - one.plain.rows[steps, 7:]
    # A row shows the result of the step before it.
    before = slice(steps.start - 1, steps.stop - 1)
    return np.linalg.lstsq(rhythm(steps.stop)[before], deviation)[0]


def wave(runner: Runner, steps: int) -> list[Triple]:
    """The triple of a wave; none where the robot falls, waving or not."""
    base, how = runner.base("walk", steps), GRID.wave
    swing = rhythm(steps) @ (how["raised"], how["swing"], 0.0)
    change = standard(1.0, steps) * swing[:, None] * runner.direction(how["direction"])
    waving = runner.steered(base, change, WAVE)
    plain, waved = runner.execute([runner.plain(base), waving], WAVE)
    if falls((plain, waved)):
        return []
    pose = rhythm(steps) @ wave_parts(Steered(waved, plain))
    forced = runner.execute([*offsets(waving, pose, runner.skills(base))], WAVE)
    runs = tuple(Steered(one, plain) for one in (waved, *forced))
    return [Triple(WAVE, how["raised"], runs)]


def add_wave(report: Draft, waves: list[Triple]) -> None:
    """Whether the robot goes on while it waves, and whether it does wave."""
    for one in waves:
        usual = measure(one.runs[0].plain.rows, hold(one.base))["speed"]
        for way, run in zip(WAYS, one.runs, strict=True):
            row = f"wave on the walk, {way}"
            report.add(row, {"falls": not run.stands})
            if run.stands:
                speed = measure(run.executed.rows, hold(one.base))["speed"] / usual
                middle, *swing = wave_parts(run)[:, SHOULDER]
                arm = {"right shoulder": middle, "swing of it": np.hypot(*swing)}
                report.add(row, {"speed": speed} | arm)


def gather(found: DescribedSkills, names: Sequence[str]) -> dict[str, np.ndarray]:
    """(d,) what each way adds: mean skills with the right arm raised, less those of the
    same without; the blend has none less. Clips are named by what they do."""
    right, left = (
        found.attribute(f"{side}_shoulder_pitch") for side in ("right", "left")
    )
    speed = found.attribute("forward_speed")
    plain = np.array([factors_of(name) <= {"raise", "forward"} for name in names])
    known = plain[found.clips]
    raised, lowered = known & (right < GRID.raised), known & (right > GRID.lowered)
    stands, walks = np.abs(speed) < GRID.stands, speed > GRID.walks
    alone = raised & stands & (left > GRID.lowered)
    idle = [i for i, name in enumerate(names) if not factors_of(name)]

    def average(windows: np.ndarray, what: str) -> np.ndarray:
        if not windows.any():
            raise ValueError(f"the corpus has no window of {what}")
        return found.skills[windows].mean(axis=0)

    average(alone, "standing with only the right arm raised")
    clip = np.bincount(found.clips[alone]).argmax()
    arm = average(alone & (found.clips == clip), "the arm clip")
    still = average(np.isin(found.clips, idle[:1]), "a clip that only stands")
    high, low = (average(one & stands, "standing") for one in (raised, lowered))
    up = average(raised & walks, "walking with the right arm raised")
    down = average(lowered & walks, "walking")
    return {BLEND: arm, PAIR: arm - still, STANDING: high - low, WALKING: up - down}


Key = tuple[str, float]
"""A way to raise the arm, and its lambda or amplitude."""


def lines(
    runner: Runner, base: Base, added: Mapping[str, np.ndarray]
) -> dict[Key, Run]:
    """Every line of the table of added skills, applied for the whole run."""
    own, arm = runner.skills(base), runner.direction(GRID.wave["direction"])
    changes = {**added, BLEND: added[BLEND] - own, STEERING: arm}
    made = {(PLAIN, 0.0): runner.plain(base)}
    for way, change in changes.items():
        for size in GRID.sizes[way]:
            # The change is the same at every step: no ramp, as in the paper.
            moved = np.broadcast_to(size * change, own.shape)
            made[way, size] = runner.steered(base, moved, f"{way} {size:g}")
    return made


def add_lines(report: Draft, executed: Mapping[Key, Executed]) -> None:
    """The table of added skills, and its charts; a fallen run has no numbers."""
    found: dict[Key, dict[str, float]] = {}
    for (way, size), one in executed.items():
        row = way + (f", {size:g}" if size else "")
        seen = found.setdefault((way, size), {})
        report.add(row, {"falls": not one.stands})
        measured = measure(one.rows, hold(one.run.base))
        for column, (name, unit, scale) in GRID.columns.items():
            seen[column] = scale * measured[name]
            if one.stands:
                report.add(row, {column: seen[column]}, unit=unit)
    plain = found[PLAIN, 0.0]
    for column in ("speed", "heading"):
        series = []
        zero = plain[column] if column == "heading" else 0.0
        for way, sizes in GRID.sizes.items():
            rows = [plain, *(found[way, size] for size in sizes)]
            marks = ["" if executed[way, size].stands else "fall" for size in sizes]
            x, y = ([row[c] for row in rows] for c in ("right shoulder", column))
            series.append(Series.of(way, x, [v - zero for v in y], ("", *marks)))
        report.chart(column, series)


def alternatives(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    corpus: Corpus | None = None,
    **changes: Any,
) -> Findings:
    """Triples on all bases and a wave; skills added on the first base."""
    run, corpus = grid(NAME, **changes), corpus or Corpus.open(embedded_corpus())
    report = Draft(NAME, runner, corpus.hash)
    asked = run.bases, run.directions, run.amplitudes
    triples = matched(runner, *asked, run.steps)
    steered, waves = len(triples), wave(runner, run.steps)
    triples += waves
    some = [t for t in triples if t.amplitude == run.repeated]
    for suffix, group in (("", triples), (", a=2", some)):
        for way, name in enumerate(WAYS if group else ()):
            for metric, (value, n) in summary(group, way).items():
                report.add(name + suffix, {metric: value}, n)
    _add_seeds(report, [reseeded(runner, some, seed) for seed in seeds])
    skills = gather(describe_skills(runner.encoder, corpus), corpus.names)
    runs = lines(runner, runner.base(run.bases[0], run.steps), skills)
    made = dict(zip(runs, runner.execute(list(runs.values()), "lines"), strict=True))
    add_wave(report, waves)
    _add_poses(report, triples)
    add_lines(report, made)
    shown = [t for t in triples if t.direction == "turn"][-1:] + waves
    films = [(one.run, one.plain.run) for t in shown for one in t.runs[:2]]
    films += [(runs[key], runs[PLAIN, 0.0]) for key in ((BLEND, 0.5), (STANDING, 1.0))]
    for one, base in films:
        report.film(f"{one.base.name}, {one.name}", one, base)
    action, servo = (_outcome(summary(triples, way)) for way in (1, 2))
    counts = {"steered": steered, "asked": int(np.prod([len(one) for one in asked]))}
    return report.findings(**counts, action=action, servo=servo)


def _add_seeds(report: Draft, by_seed: list[list[Triple]]) -> None:
    for way, name in enumerate(WAYS if by_seed else ()):
        found = [summary(triples, way) for triples in by_seed]
        for metric in ("falls", "pose", "speed", "drift", "turn"):
            values = [one[metric][0] for one in found if metric in one]
            n, spread = len(values), stdev(values) if len(values) > 1 else None
            unit = f"of {found[0]['falls'][1]}" if metric == "falls" else None
            if values:
                cells = {metric: mean(values), f"{metric}, SD": spread}
                report.add(f"{name}, a=2, seeds", cells, n, unit=unit)


def _add_poses(report: Draft, triples: list[Triple]) -> None:
    series = []
    for way in (1, 2):
        x, y = [t.amplitude for t in triples], [t.pose_ratio(way) for t in triples]
        marks = [
            f"{t.direction} on {t.base.name}" if t.runs[way].stands else "fall"
            for t in triples
        ]
        series.append(Series.of(WAYS[way], x, y, marks))
    report.chart("poses", series)


def _outcome(found: dict[str, tuple[float, int]]) -> str:
    (down, n), pose = found["falls"], found.get("pose")
    reach = f", reach {pose[0]:.2f} of the pose" if pose else ""
    return f"fall in {down:.0f} of {n}{reach}"
