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
from functools import cached_property
from itertools import product
from statistics import mean, stdev

import numpy as np

from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.schedules import standard
from spectral_skills.experiments.effects import Effect, effect, hold, measure
from spectral_skills.experiments.findings import Draft, Findings, Series, grid
from spectral_skills.experiments.token_directions import Described, describe
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic.bases import BASES, STEPS, Base
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.robot import g1

NAME = "alternatives"
ARMS = ("right_arm_1", "left_arm_1", "spread")
TRAVELS = ("walk", "jog", "backward")
WAYS = ("steering", "offset on action", "offset on servo target")
DIRECTIONS = (*ARMS, "turn", "foot_clearance")
AMPLITUDES = (1.0, 2.0, 3.0)
REPEATED = 2.0
"""The amplitude that is repeated with seeds."""
UNITS = {"pose": "of steered", "speed": "of base", "drift": "deg", "turn": "deg"}
WAVE = "wave"
WAVING, RAISED_BY, SWING, WAVE_HZ = "right_arm_1", 3.0, 1.5, 1.0
"""Direction of the wave, the amplitude that is held, its swing and its frequency."""
RAISED, LOWERED = -1.8, -0.2
"""Shoulder pitch under which an arm is raised, and over which it is not, rad."""
STANDS, WALKS = 0.1, 0.3
"""Speed under which a window stands, and over which it walks, m/s."""
PLAIN, BLEND = "unsteered walk", "blend to standing, arm raised"
PAIR, STANDING = "arm-raise clip less idle", "standing, raised less not"
WALKING, STEERING = "walking, raised less not", "steering, right arm"
SIZES: dict[str, list[float]] = grid(NAME)["sizes"]
COLUMNS: dict[str, tuple[str, str, float]] = grid(NAME)["columns"]


@dataclass(frozen=True)
class Triple:
    """A steered run, and its pose on the action and on the servos."""

    direction: str
    amplitude: float
    plain: Executed
    runs: tuple[Executed, ...]
    """Runs in the order of `WAYS`."""

    @cached_property
    def effects(self) -> list[Effect]:
        return [effect(one, self.plain) for one in self.runs]

    def pose_ratio(self, way: int) -> float:
        """Share of the steered pose that a run has: 1 all of it, 0 nothing."""
        steered, ours = (self.effects[i].pose for i in (0, way))
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
    steered = runner.execute(runs, "steered")
    up = [(*k, one) for k, one in zip(keys, steered, strict=True) if one.stands]
    forced = []
    for p, _, _, one in up:
        skills = runner.skills(one.run.base)
        forced += offsets(one.run, effect(one, p).pose, skills)
    made = iter(runner.execute(forced, "offsets"))
    return [Triple(name, a, p, (one, next(made), next(made))) for p, name, a, one in up]


def reseeded(runner: Runner, triples: list[Triple], seed: int) -> list[Triple]:
    """The same commands and offsets for another robot."""
    bases = {t.plain.run.base.name: t.plain.run.base for t in triples}
    plain = runner.execute([runner.plain(b, seed) for b in bases.values()], "bases")
    of = dict(zip(bases, plain, strict=True))
    again = [replace(one.run, seed=seed) for t in triples for one in t.runs]
    made = runner.execute(again, f"seed {seed}")
    return [
        replace(t, plain=of[t.plain.run.base.name], runs=tuple(made[3 * i : 3 * i + 3]))
        for i, t in enumerate(triples)
    ]


def summary(triples: list[Triple], way: int) -> dict[str, tuple[float, int]]:
    """Metrics of a row with their numbers of runs; only falls count all of them."""
    up = [t for t in triples if t.runs[way].stands]
    speeds = []
    for t in up:
        base = t.plain.run.base
        if t.direction in ARMS and base.name in TRAVELS:
            both = (measure(one.rows, hold(base)) for one in (t.runs[way], t.plain))
            ours, usual = (found["speed"] for found in both)
            speeds.append(ours / usual)
    turns = [(t.direction, t.effects[way].changes["heading"]) for t in up]
    columns = {
        "pose": [t.pose_ratio(way) for t in up if t.runs[0].stands],
        "speed": speeds,
        "drift": [abs(heading) for name, heading in turns if name != "turn"],
        "turn": [heading for name, heading in turns if name == "turn"],
    }
    falls = {"falls": (float(len(triples) - len(up)), len(triples))}
    return falls | {k: (float(np.median(v)), len(v)) for k, v in columns.items() if v}


def rhythm(steps: int) -> np.ndarray:
    """(T, 3) one, and a sine and a cosine of the wave."""
    turn = 2 * np.pi * WAVE_HZ * np.arange(steps) / FPS
    return np.stack((np.ones(steps), np.sin(turn), np.cos(turn)), axis=1)


def wave_parts(run: Executed, plain: Executed) -> np.ndarray:
    """(3, 29) fitted mean, sine and cosine of the joints' deviation, rad."""
    steps = hold(plain.run.base)
    deviation = run.rows[steps, 7:] - plain.rows[steps, 7:]
    # A row shows the result of the step before it.
    before = slice(steps.start - 1, steps.stop - 1)
    return np.linalg.lstsq(rhythm(steps.stop)[before], deviation)[0]


def wave(runner: Runner, steps: int) -> list[Triple]:
    """The triple of a wave; none where the robot falls, waving or not."""
    base = runner.base("walk", steps)
    swing = standard(1.0, steps) * (rhythm(steps) @ (RAISED_BY, SWING, 0.0))[:, None]
    waving = runner.steered(base, swing * runner.direction(WAVING), WAVE)
    plain, waved = runner.execute([runner.plain(base), waving], WAVE)
    if not (plain.stands and waved.stands):
        return []
    pose = rhythm(steps) @ wave_parts(waved, plain)
    forced = runner.execute([*offsets(waving, pose, runner.skills(base))], WAVE)
    return [Triple(WAVE, RAISED_BY, plain, (waved, *forced))]


def add_wave(report: Draft, waves: list[Triple]) -> None:
    """Whether the robot goes on while it waves, and whether it does wave."""
    joint = g1.joint_index("right_shoulder_pitch")
    for one in waves:
        steps = hold(one.plain.run.base)
        usual = measure(one.plain.rows, steps)["speed"]
        for way, run in zip(WAYS, one.runs, strict=True):
            row = f"wave on the walk, {way}"
            report.add(row, "falls", not run.stands, "of 1")
            if run.stands:
                speed = measure(run.rows, steps)["speed"] / usual
                middle, *swing = wave_parts(run, one.plain)[:, joint]
                report.add(row, "speed", speed, "of base")
                report.add(row, "right shoulder", middle, "rad")
                report.add(row, "swing of it", float(np.hypot(*swing)), "rad")


@dataclass(frozen=True)
class ArmSkills:
    """(d,) mean skills of motions with the right arm raised, and without."""

    arm_clip: np.ndarray
    """Mean of one clip that stands with only its right arm raised."""
    idle_clip: np.ndarray
    """Mean of one clip that only stands."""
    standing: tuple[np.ndarray, np.ndarray]
    """Means over all windows that stand, raised and not."""
    walking: tuple[np.ndarray, np.ndarray]


def gather(found: Described, names: Sequence[str]) -> ArmSkills:
    """Find raised arms in a corpus whose clips are named by what they do."""
    right, left = (
        found.attribute(f"{side}_shoulder_pitch") for side in ("right", "left")
    )
    speed = found.attribute("forward_speed")
    plain = np.array([factors_of(name) <= {"raise", "forward"} for name in names])
    known = plain[found.clips]
    raised, lowered = known & (right < RAISED), known & (right > LOWERED)
    stands, walks = np.abs(speed) < STANDS, speed > WALKS
    alone = raised & stands & (left > LOWERED)
    idle = [i for i, name in enumerate(names) if not factors_of(name)]

    def average(windows: np.ndarray, what: str) -> np.ndarray:
        if not windows.any():
            raise ValueError(f"the corpus has no window of {what}")
        return found.skills[windows].mean(axis=0)

    average(alone, "standing with only the right arm raised")
    clip = np.bincount(found.clips[alone]).argmax()
    return ArmSkills(
        average(alone & (found.clips == clip), "the arm clip"),
        average(np.isin(found.clips, idle[:1]), "a clip that only stands"),
        (
            average(raised & stands, "an arm raised"),
            average(lowered & stands, "standing"),
        ),
        (average(raised & walks, "a raised arm"), average(lowered & walks, "walking")),
    )


Key = tuple[str, float]
"""A way to raise the arm, and its lambda or amplitude."""


def lines(runner: Runner, base: Base, skills: ArmSkills) -> dict[Key, Run]:
    """Every line of the table of added skills, applied for the whole run."""
    own = runner.skills(base)
    changes = {
        BLEND: skills.arm_clip - own,
        PAIR: skills.arm_clip - skills.idle_clip,
        STANDING: skills.standing[0] - skills.standing[1],
        WALKING: skills.walking[0] - skills.walking[1],
        STEERING: runner.direction(WAVING),
    }
    made = {(PLAIN, 0.0): runner.plain(base)}
    for way, change in changes.items():
        for size in SIZES[way]:
            # The change is the same at every step: no ramp, as in the paper.
            moved = np.broadcast_to(size * change, own.shape)
            made[way, size] = runner.steered(base, moved, f"{way} {size:g}")
    return made


def columns(executed: Executed) -> dict[str, float]:
    """The numbers that the table of added skills has of a run."""
    found = measure(executed.rows, hold(executed.run.base))
    return {c: scale * found[name] for c, (name, _, scale) in COLUMNS.items()}


def add_lines(report: Draft, executed: Mapping[Key, Executed]) -> None:
    """The table of added skills, and its charts; a fallen run has no numbers."""
    found = {key: columns(one) for key, one in executed.items()}
    for (way, size), one in executed.items():
        row = way + (f", {size:g}" if size else "")
        report.add(row, "falls", not one.stands, "of 1")
        for column, value in found[way, size].items() if one.stands else ():
            report.add(row, column, value, COLUMNS[column][1])
    plain = found[PLAIN, 0.0]
    for column in ("speed", "heading"):
        series = []
        zero = plain[column] if column == "heading" else 0.0
        for way, sizes in SIZES.items():
            rows = [plain, *(found[way, size] for size in sizes)]
            falls = ["" if executed[way, size].stands else "fall" for size in sizes]
            x, y = ([row[c] for row in rows] for c in ("right shoulder", column))
            series.append(Series.of(way, x, [v - zero for v in y], ("", *falls)))
        report.chart(column, series)


def experiment(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    bases: Sequence[str] = BASES,
    directions: Sequence[str] = DIRECTIONS,
    amplitudes: Sequence[float] = AMPLITUDES,
    steps: int = STEPS,
    corpus: Corpus | None = None,
) -> Findings:
    """Triples on all bases and a wave; skills added on the first base."""
    corpus = corpus or Corpus.open(embedded_corpus())
    report = Draft.begin(NAME, runner, corpus.hash)
    triples = matched(runner, bases, directions, amplitudes, steps)
    steered, waves = len(triples), wave(runner, steps)
    triples += waves
    some = [t for t in triples if t.amplitude == REPEATED]
    for suffix, group in (("", triples), (", a=2", some)):
        for way, name in enumerate(WAYS if group else ()):
            for metric, (value, n) in summary(group, way).items():
                unit = UNITS.get(metric, f"of {n}")
                report.add(name + suffix, metric, value, unit, n)
    _add_seeds(report, [reseeded(runner, some, seed) for seed in seeds])
    skills = gather(describe(runner.encoder, corpus), corpus.names)
    runs = lines(runner, runner.base(bases[0], steps), skills)
    made = dict(zip(runs, runner.execute(list(runs.values()), "lines"), strict=True))
    add_wave(report, waves)
    _add_poses(report, triples)
    add_lines(report, made)
    shown = [t for t in triples if t.direction == "turn"][-1:] + waves
    films = [(one.run, t.plain.run) for t in shown for one in t.runs[:2]]
    films += [(runs[key], runs[PLAIN, 0.0]) for key in ((BLEND, 0.5), (STANDING, 1.0))]
    for run, base in films:
        report.film(f"{run.base.name}, {run.name}", run, base)
    asked = len(bases) * len(directions) * len(amplitudes)
    action, servo = (_outcome(summary(triples, way)) for way in (1, 2))
    return report.findings(steered=steered, asked=asked, action=action, servo=servo)


def _add_seeds(report: Draft, by_seed: list[list[Triple]]) -> None:
    """Mean and deviation over seeds."""
    for way, name in enumerate(WAYS):
        found = [summary(triples, way) for triples in by_seed]
        for metric in ("falls", *UNITS):
            values = [one[metric][0] for one in found if metric in one]
            if values:
                row, n = f"{name}, a=2, seeds", len(values)
                unit = UNITS.get(metric, f"of {found[0]['falls'][1]}")
                report.add(row, metric, mean(values), unit, n)
                if n > 1:
                    report.add(row, f"{metric}, SD", stdev(values), unit, n)


def _add_poses(report: Draft, triples: list[Triple]) -> None:
    series = []
    for way in (1, 2):
        x, y = [t.amplitude for t in triples], [t.pose_ratio(way) for t in triples]
        marks = [
            f"{t.direction} on {t.plain.run.base.name}"
            if t.runs[way].stands
            else "fall"
            for t in triples
        ]
        series.append(Series.of(WAYS[way], x, y, marks))
    report.chart("poses", series)


def _outcome(found: dict[str, tuple[float, int]]) -> str:
    (falls, n), pose = found["falls"], found.get("pose")
    reach = f", reach {pose[0]:.2f} of the pose" if pose else ""
    return f"fall in {falls:.0f} of {n}{reach}"
