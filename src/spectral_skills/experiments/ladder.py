"""The ladder: one direction after the other on a moving robot, then all released.

Each stage is measured over its steady steps: what the robot does, how far its motion,
encoded again, is from the corpus, and how many windows of the corpus move like it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from spectral_skills.control.batch import Executed, Runner
from spectral_skills.control.steering import RAMP_STEPS, Knob, schedule
from spectral_skills.experiments.effects import Steered, falls, headings, measure
from spectral_skills.experiments.findings import Draft, Findings, Role, Series, grid
from spectral_skills.experiments.neighbours import (
    MOST_POINTS,
    Neighbours,
    place_on_map,
    tsne,
)
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.motion_sets import OTHER
from spectral_skills.spectral.catalogue import NOTICED, strongest
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.spectral.support import (
    ATTRIBUTES,
    TOLERANCES,
    describe_run,
    leave_one_clip_out,
    support,
)

NAME = "ladder"
GRID = grid(NAME)
STEPS = GRID.steps
STEADY = 2 * RAMP_STEPS
"""Number of steps after a change that belong to no stage."""
BEGINS = {name: first for name, (first, _) in GRID.stages.items() if first}
"""Steps at which something changes."""
RELEASE = BEGINS["released"]
STAGES = {name: slice(a + STEADY, b) for name, (a, b) in GRID.stages.items()}
"""Steady steps of each stage."""
AMPLITUDES: dict[str, float] = GRID.amplitudes
STEERED: dict[str, list[str]] = GRID.steered
_EVERY = 10
"""Number of steps between points of a chart."""


def knobs(directions: Directions) -> list[Knob]:
    """The three directions of the ladder: the parts and targets that are solved for arm
    and turn, and for clearance the one measured to lift both feet most."""
    lift = {"left_apex": 1, "right_apex": 1}
    clearance, sign = strongest(directions, lift, "foot_clearance")
    names = {"+ right arm": ("right_arm", 1), "+ turn": ("turn", 1)}
    names["+ clearance"] = clearance, sign
    return [
        Knob(name, sign * AMPLITUDES[stage], BEGINS[stage], RELEASE + RAMP_STEPS)
        for stage, (name, sign) in names.items()
    ]


Trail = Mapping[str, np.ndarray]
"""(d,) mean skill of each stage."""
Found = dict[str, dict[str, float]]
"""Measures of the stages that a run has stood through; the support counts windows of
the corpus that move alike, and is of the steered stages."""


def stages(near: Neighbours, executed: Executed) -> Found:
    """Measure the stages that a run has stood through."""
    rows, found = executed.rows, {}
    for name, steps in stood(executed).items():
        seen = measure(rows, steps)
        found[name] = {
            "speed": seen["speed"],
            "yaw rate": seen["heading"] / ((steps.stop - steps.start - 1) / FPS),
            "right shoulder pitch": seen["right_shoulder_pitch"],
            "left apex": 100 * seen["left_apex"],
            "right apex": 100 * seen["right_apex"],
            "distance": float(np.median(near.distances(rows[steps]))),
        }
        if name in STEERED:
            base, now = (describe_run(rows, STAGES[n]) for n in ("base", name))
            count = support(near.windows, base, now, STEERED[name], ATTRIBUTES)
            found[name]["support"] = count
    return found


def ladder(
    runner: Runner,
    seeds: tuple[int, ...] = (0, 1, 2),
    *,
    corpus: Corpus | None = None,
    **changes: Any,
) -> Findings:
    """The ladder on every base: once without randomness, and once per seed."""
    run, near = grid(NAME, **changes), Neighbours.build(runner.encoder, corpus)
    report = Draft(NAME, runner, near.corpus)
    directions, turned = runner.directions, knobs(runner.directions)
    change = schedule(turned, STEPS, directions.names) @ directions.vectors
    axes = np.stack([runner.direction(str(knob.direction)) for knob in turned[:2]])
    far = leave_one_clip_out(near.bank.skills, near.bank.clips, run.spread)
    spread = {"distance, median": far.median, "distance, 90th percentile": far.p90}
    report.add("corpus", spread, far.n)
    nouns = {name: run.nouns.get(name, name) for name in run.bases}
    pairs, both = dict[str, Steered](), list[tuple[Found, Found]]()
    for name, noun in nouns.items():
        base = runner.base(name, STEPS)
        runs = [runner.plain(base)]
        runs += [runner.steered(base, change, NAME, seed=s) for s in (None, *seeds)]
        runs += [runner.plain(base, seed) for seed in seeds]
        plain, alone, *random = runner.execute(runs, f"{NAME}, {name}")
        steered = alone, *random[: len(seeds)]
        others = plain, *random[len(seeds) :]
        down = {"runs that fell": falls(steered)}
        down["runs that fell, unsteered"] = falls(others)
        report.add(f"{name}: all stages", down, len(steered))
        found, without = stages(near, alone), stages(near, plain)
        by_seed = dict(zip(seeds, (stages(near, o) for o in steered[1:]), strict=True))
        for stage in STAGES:
            add_stage(report, f"{name}: {stage}", stage, found, without)
            add_seeds(report, f"{name}: {stage}", stage, by_seed)
        pairs[name] = Steered(alone, plain)
        both.append((found, without))
        report.film(f"The ladder on the {noun}", alone.run, plain.run)
    trails = {name: trail(near, one.executed) for name, one in pairs.items()}
    add_maps(report, near, trails)
    for name, one in pairs.items():
        add_arm_and_turn(report, nouns[name], near, axes, one.executed)
    add_headings(report, {name: one.plain for name, one in pairs.items()})
    for name, one in pairs.items():
        add_charts(report, nouns[name], one.plain, one.executed, near)
    rises = [r > 0 for f, _ in both for r in step_changes(f, "distance").values()]
    above = [
        found[stage]["distance"] > without[stage]["distance"]
        for found, without in both
        for stage in [*STEERED][1:]
        if stage in found and stage in without
    ]
    by_base = dict(zip(nouns.values(), (found for found, _ in both), strict=True))
    return report.findings(
        **{"rises": sum(rises), "added": len(rises), "above": sum(above)},
        **{"stages": len(above), "windows": len(near.windows.values)},
        **{"clearance": turned[2].direction, "where": failures(by_base)},
    )


def step_changes(found: Found, name: str) -> dict[str, float]:
    """Change of a measure from each stage to the next that the run stood through."""
    pairs = [(a, b) for a, b in pairwise(STEERED) if b in found]
    return {b: found[b][name] - found[a][name] for a, b in pairs}


def failures(by_base: Mapping[str, Found]) -> str:
    """Sentences on the bases where the distance always rises, and on those where a
    direction does not do what it is for."""
    rising, low, wrong = [], [], []
    for base, found in by_base.items():
        away = step_changes(found, "distance")
        if len(away) == len(AMPLITUDES) and min(away.values()) > 0:
            rising.append(base)
        raised = step_changes(found, "right shoulder pitch").get("+ right arm", -np.inf)
        if raised > -NOTICED["right_shoulder_pitch"]:
            low.append(base)
        if step_changes(found, "yaw rate").get("+ turn", np.inf) <= 0:
            wrong.append(base)
    return "".join(
        f" {what}: {', '.join(names) or 'no base'}."
        for what, names in (
            ("The distance rises with every direction on", rising),
            ("The arm rises by less than people notice on", low),
            ("The turn has the wrong sign on", wrong),
        )
    )


def add_stage(
    report: Draft, row: str, stage: str, found: Found, unsteered: Found
) -> None:
    """Numbers of the run without randomness; unsteered robots drift, so that is shown
    beside."""
    values: dict[str, float | None] = {**found.get(stage, {})}
    count = values.pop("support", None)
    for name in ("yaw rate", "distance") if values and stage in unsteered else ():
        values[f"{name}, unsteered"] = unsteered[stage][name]
    report.add(row, values | {"support": count})


def add_seeds(
    report: Draft, row: str, stage: str, by_seed: Mapping[int, Found]
) -> None:
    """Mean and sample SD over the seeds that stand, and the support of each."""
    standing = {seed: one[stage] for seed, one in by_seed.items() if stage in one}
    for name in (n for n in next(iter(standing.values()), {}) if n != "support"):
        values = [one[name] for one in standing.values()]
        deviation = np.std(values, ddof=1) if len(values) > 1 else None
        cells = {"mean": np.mean(values), "SD": deviation}
        cells = {f"{name}, {how} of seeds": value for how, value in cells.items()}
        report.add(row, cells, len(values))
    for seed, one in standing.items():
        report.add(row, {f"support, seed {seed}": one.get("support")}, seed=seed)


def add_charts(
    report: Draft, base: str, plain: Executed, steered: Executed, near: Neighbours
) -> None:
    """Measures, distance, path and drift of a base over time, up to a fall."""
    wanted = plain.run.base.rows
    lines: dict[str, list[Series]] = {"path": []}
    for name, one in {"steered": steered, "unsteered": plain}.items():
        rows = one.rows[: one.fell_at]
        if len(rows) <= 2 * FPS:
            continue
        starts = np.arange(0, len(rows) - FPS, _EVERY)
        # A window is a second long, so its turn is a rate.
        seen = [measure(rows, slice(s, s + FPS + 1)) for s in starts.tolist()]
        for chart, (measures, scale) in GRID.curves.items():
            for what in measures:
                label = name if len(measures) == 1 else f"{name}, {what.split('_')[0]}"
                values = scale * np.array([found[what] for found in seen])
                line = _line(label, starts + FPS // 2, values, what == measures[0])
                lines.setdefault(chart, []).append(line)
        far = np.convolve(near.distances(rows), np.full(FPS, 1 / FPS), "valid")
        begin, far = FPS // 2 - near.encoder.first, far[::_EVERY]
        steps = begin + _EVERY * np.arange(len(far))
        lines.setdefault("distance", []).append(_line(name, steps, far))
        steps = np.arange(0, len(rows), _EVERY)
        x, y = rows[steps, :2].T
        lines["path"].append(Series.of(name, x, y, _marks(name, steps)))
        steps = steps[steps < len(wanted)]
        off = np.linalg.norm(rows[steps, :2] - wanted[steps, :2], axis=1)
        lines.setdefault("drift", []).append(_line(name, steps, off))
    path = Series.of("the base's motion", *wanted[::_EVERY, :2].T, role="behind")
    lines["path"].append(path)
    for chart in (*GRID.curves, "distance", "path", "drift"):
        report.chart(chart, lines.get(chart, ()), base=base)


def add_headings(report: Draft, plain: Mapping[str, Executed]) -> None:
    """How far unsteered runs turn away from their bases' headings, up to a fall."""
    series = []
    for name, one in plain.items():
        rows, wanted = one.rows[: one.fell_at], one.run.base.rows
        count = min(len(rows), len(wanted))
        turned = headings(rows[:count]) - headings(wanted[:count])
        away = np.degrees(turned - turned[0])[::_EVERY]
        series.append(_line(name, _EVERY * np.arange(len(away)), away))
    report.chart("heading", series)


def _line(
    name: str, steps: np.ndarray, values: np.ndarray, marked: bool = True
) -> Series:
    return Series.of(name, steps / FPS, values, _marks(name, steps, marked))


def _marks(name: str, steps: np.ndarray, marked: bool = True) -> list[str]:
    """Names of the stages at the first point after each begins, on steered runs."""
    if not name.startswith("steered"):
        return []
    found = [""] * len(steps)
    for stage, at in BEGINS.items() if marked else ():
        later = np.flatnonzero(steps >= at)
        if len(later):
            found[later[0]] = stage
    return found


def stood(executed: Executed) -> dict[str, slice]:
    """The stages that a run has stood through."""
    ends = np.inf if executed.fell_at is None else executed.fell_at
    return {name: steps for name, steps in STAGES.items() if steps.stop <= ends}


def trail(near: Neighbours, executed: Executed) -> Trail:
    """Mean skills of what the robot did, encoded again."""
    return {
        name: near.encode(executed.rows[steps]).mean(dim=0).double().cpu().numpy()
        for name, steps in stood(executed).items()
    }


def add_maps(report: Draft, near: Neighbours, trails: Mapping[str, Trail]) -> None:
    """All clips, with the trail of every base, and the part around the walk's."""
    clips, means = near.bank.clip_means()
    some = torch.randperm(len(clips), generator=torch.Generator().manual_seed(0))
    some = some[:MOST_POINTS]
    kinds = np.array([near.kinds[i] for i in clips.cpu()[some].tolist()])
    means = means.cpu()[some].double()
    dots = tsne(means)
    ways = {
        name: place_on_map(means, dots, torch.as_tensor(np.array([*one.values()])))
        for name, one in trails.items()
        if one
    }
    dots = _by_kind(dots.numpy(), kinds)
    lines = [
        _points(f"ladder on the {name}", way.numpy(), (name,), "trail")
        for name, way in ways.items()
    ]
    drawn = "" if len(some) == len(clips) else f", drawn from {len(clips):,}"
    report.chart("map", (*dots, *lines), some=len(some), drawn=drawn)
    if (base := GRID.corner) in ways:
        line = _points("ladder", ways[base].numpy(), tuple(trails[base]), "trail")
        report.chart("corner", (*_around(dots, line), line), base=base)


def _by_kind(places: np.ndarray, kinds: np.ndarray) -> list[Series]:
    """Dots by kind of motion; those without a colour behind the others."""
    counts = Counter(name for name in kinds.tolist() if name != OTHER)
    common = [name for name, _ in counts.most_common(GRID.kinds)]
    rest = ~np.isin(kinds, common)
    behind = [_points(OTHER, places[rest], role="behind")] if rest.any() else []
    return behind + [_points(name, places[kinds == name]) for name in common]


def _around(groups: list[Series], line: Series) -> list[Series]:
    """Points in a square around a trail; at least a third of the map's width."""
    points = np.array((line.x, line.y))
    low, high = points.min(axis=1), points.max(axis=1)
    widest = max(np.ptp(np.concatenate([one.x for one in groups])), 1e-9)
    half = max(0.75 * float((high - low).max()), widest / 6)
    found = []
    for one in groups:
        places = np.array((one.x, one.y)).T
        inside = (np.abs(places - (low + high) / 2) <= half).all(axis=1)
        # Empty groups stay: colours are given in turn.
        found.append(_points(one.name, places[inside], role=one.role))
    return found


def add_arm_and_turn(
    report: Draft, base: str, near: Neighbours, axes: np.ndarray, steered: Executed
) -> None:
    """Skills along the directions (2, d) of arm and turn: windows of the corpus that
    move like the base, and the stages of a run."""
    first, given = STAGES["base"], steered.run.skills
    assert given is not None
    zero = axes @ given[first].mean(axis=0, dtype=np.float64)
    trails = {
        "given to the robot": {
            name: given[steps].mean(axis=0, dtype=np.float64)
            for name, steps in stood(steered).items()
        },
        "what the robot does": trail(near, steered),
    }
    moves = describe_run(steered.run.base.rows, first)
    change = dict(zip(ATTRIBUTES, (near.windows.values - moves).T, strict=True))
    like = np.all(
        [np.abs(change[n]) <= TOLERANCES[n] for n in ("forward_speed", "root_height")],
        axis=0,
    )
    raises = change["right_shoulder_pitch"] <= -GRID.raised_rad
    turns = change["yaw_rate"] >= np.radians(GRID.turned_deg_s)
    places = near.window_skills() @ axes.T - zero
    others = places[like & ~raises & ~turns]
    dots = [_points("corpus windows like the base", others, role="behind")]
    for name, chosen in (
        ("with the right arm raised", raises & ~turns),
        ("turning left", turns & ~raises),
        ("both", raises & turns),
    ):
        dots.append(_points(name, places[like & chosen]))
    ways = [
        _points(name, np.array([*one.values()]) @ axes.T - zero, tuple(one), "trail")
        for name, one in trails.items()
        if one
    ]
    counts = {"like": int(like.sum()), "both": int((like & raises & turns).sum())}
    limits = {"raised": GRID.raised_rad, "turned": GRID.turned_deg_s}
    report.chart("arm_and_turn", (*dots, *ways), base=base, **counts, **limits)


def _points(
    name: str, places: np.ndarray, names: Sequence[str] = (), role: Role = ""
) -> Series:
    """Points (n, 2), the first of which have names."""
    x, y = np.asarray(places, float).reshape(-1, 2).T
    marks = (*names, *("",) * (len(x) - len(names))) if names else ()
    return Series.of(name, x, y, marks, role)
