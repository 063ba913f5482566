"""One composed run to look at: its numbers, a picture and a film beside its base."""

import json
from pathlib import Path

import numpy as np

from spectral_skills.control.batch import Executed
from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments.chaining import ChainRun
from spectral_skills.experiments.effects import NOTICED, UNITS
from spectral_skills.experiments.steer import Composed
from spectral_skills.motion.corpus import FPS
from spectral_skills.plots import ink, rollout_film
from spectral_skills.robot.render import Camera, RobotRenderer

_FILM_S = 10.0
_PANELS, _TALL_PX = 8, 730


def show(found: Composed) -> None:
    """Print what became of a run."""
    print(f"run       {found.title}")
    print(f"falls     {_falls(found.steered)} (unsteered: {_falls(found.plain)})")
    print(f"effect    {found.effect.name or 'none that one notices'}")
    print(
        f"distance  {found.distance[1]:.2f} to the nearest skill of the corpus "
        f"(unsteered: {found.distance[0]:.2f})"
    )
    print(
        f"          {'':22s}{'unsteered':>10s}{'steered':>10s}{'change':>10s}", end=""
    )
    print(f"{'predicted':>11s}")
    for name, (before, after) in found.measures.items():
        change, known = after - before, found.predicted.get(name)
        mark = "*" if abs(change) >= NOTICED[name] else " "
        told = "" if known is None else f"{known:+.2f}"
        label = f"{name.replace('_', ' ')} ({UNITS[name]})"
        numbers = f"{before:11.2f}{after:11.2f}{change:+10.2f}{mark}{told:>11s}"
        print(f"          {label:27s}{numbers}".rstrip())
    print("          * one notices it")


def as_json(found: Composed) -> str:
    """Everything that `show` prints, for programs."""
    return json.dumps(
        {
            "run": found.title,
            "fell": not found.steered.stands,
            "fell_at_s": _seconds(found.steered),
            "base_fell": not found.plain.stands,
            "effect": found.effect.name,
            "effects": found.effect.changes,
            "side_effects": found.side_effects,
            "predicted": found.predicted,
            "distance_to_corpus": found.distance[1],
            "base_distance_to_corpus": found.distance[0],
            "units": UNITS,
        },
        indent=1,
    )


def show_chain(blended: ChainRun, hard: ChainRun) -> None:
    """Print how a chain went, beside the same one switched at once."""
    plan = blended.chain
    print(f"run       {' - '.join(plan.names)}, switches of {plan.switch} steps")
    for label, one in (("blended", blended), ("at once", hard)):
        smooth = one.smoothness
        print(
            f"{label:10s}falls: {_falls(one.executed)}; joint acceleration in switches "
            f"{smooth.during:.0f}, elsewhere {smooth.outside:.0f} rad/s^2 (rms)"
        )


def draw(
    title: str,
    run: Executed,
    other: Executed,
    out: Path,
    told: str,
    film: bool,
    silent: bool = False,
) -> None:
    """Write a strip of poses, and a film, of a run with another as its ghost."""
    paths = [("picture", out / "run.png")]
    strip(title, run, other, paths[0][1], told.replace("blue", "above"))
    if film:
        record = rollout(title, run, other)
        made = rollout_film.film(record, out / "run", most_s=_FILM_S, told=told)
        paths += [("film", path) for path in made]
    for what, path in [] if silent else paths:
        print(f"{what:10s}{path}")


def strip(
    title: str, run: Executed, base: Executed, path: Path, subtitle: str = ""
) -> None:
    """Write a PNG: the base's run above, the other below, at the same times."""
    figure = ink.sheet(_TALL_PX)
    ink.headline(figure, title, subtitle)
    frames = np.linspace(0, len(run.rows) - 1, _PANELS).round().astype(int)
    left, right, gap, tall = 0.03, 0.985, 0.004, 300 / _TALL_PX
    width = (right - left - gap * (_PANELS - 1)) / _PANELS
    sight = rollout_film.sight_deg(base.rows[:1].astype(float))
    with RobotRenderer(round(width * ink.WIDTH_PX), 300) as renderer:
        for row, rows in enumerate(map(rollout_film.unbroken, (base.rows, run.rows))):
            for number, frame in enumerate(frames.tolist()):
                pose = rows[min(frame, len(rows) - 1)].astype(float)
                place = float(pose[0]), float(pose[1]), 0.74
                camera = Camera(place, 5.0, sight, fovy_deg=22.0)
                picture = renderer.draw(pose[None], camera)
                bottom = 0.03 + (1 - row) * (tall + 0.01)
                corner = (left + number * (width + gap), bottom, width, tall)
                ink.panel(figure, corner, picture, f"{frame / FPS:.1f} s")
    ink.save(figure, path)


def rollout(title: str, run: Executed, base: Executed) -> Rollout:
    """A record in which the base's run is the reference."""
    steps = min(len(run.rows), len(base.rows))
    return Rollout.of_rows(title, run.rows[:steps], base.rows[:steps])


def _falls(run: Executed) -> str:
    at = _seconds(run)
    return "no" if at is None else f"at {at:.1f} s"


def _seconds(run: Executed) -> float | None:
    return None if run.fell_at is None else run.fell_at / FPS
