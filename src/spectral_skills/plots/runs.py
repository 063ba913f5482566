"""Single runs to look at: printed, as JSON, as a strip of stills and as a film."""

import json
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from spectral_skills.control.batch import Executed
from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments.chaining import DURING, OUTSIDE, ChainRun
from spectral_skills.experiments.effects import headings
from spectral_skills.experiments.steer import Composed
from spectral_skills.motion.corpus import FPS
from spectral_skills.planner.listener import Spoken, SpokenStep
from spectral_skills.plots import film
from spectral_skills.plots.charts import COLOURS, MUTED
from spectral_skills.skill.encoder import save_stream
from spectral_skills.spectral.catalogue import NOTICED, UNITS

STEERED_FILM_S, SPOKEN_FILM_S = 10.0, 20.0
"""Length of a film; of a longer run it shows the beginning."""
SPOKEN_PANELS = 10
_LETTER_PX = 7.4
_BAR_PX = 7


def show_steered(found: Composed) -> None:
    print(f"run       {found.title}")
    steered, plain = (_fall(_fell_at_s(run)) for run in (found.steered, found.plain))
    print(f"falls     {steered} (unsteered: {plain})")
    print(f"effect    {found.effect.name or 'none that is noticeable'}")
    print(
        f"distance  {found.distance[1]:.2f} to the nearest skill of the corpus "
        f"(unsteered: {found.distance[0]:.2f})"
    )
    heads = f"{'unsteered':>11s}{'steered':>11s}{'change':>10s}{'predicted':>12s}"
    print(f"          {'':27s}{heads}")
    for name, (before, after) in found.measures.items():
        change, known = after - before, found.predicted.get(name)
        mark = "*" if abs(change) >= NOTICED[name] else " "
        predicted = "" if known is None else f"{known:+.2f}"
        label = f"{name.replace('_', ' ')} ({UNITS[name]})"
        numbers = f"{before:11.2f}{after:11.2f}{change:+10.2f}{mark}{predicted:>11s}"
        print(f"          {label:27s}{numbers}".rstrip())
    print("          * noticeable")


def steered_json(found: Composed) -> str:
    values = {
        "run": found.title,
        "fell": not found.steered.stands,
        "fell_at_s": _fell_at_s(found.steered),
        "base_fell": not found.plain.stands,
        "effect": found.effect.name,
        "effects": found.effect.changes,
        "side_effects": found.side_effects,
        "predicted": found.predicted,
        "distance_to_corpus": found.distance[1],
        "base_distance_to_corpus": found.distance[0],
        "units": UNITS,
    }
    return json.dumps(values, indent=1)


def show_chain(blended: ChainRun, hard: ChainRun) -> None:
    """Print the outcome of a chain beside that of the same one with hard switches."""
    names = " - ".join(blended.names)
    print(f"run       {names}, switches of {blended.switch} steps")
    for label, one in (("blended", blended), ("at once", hard)):
        fall = _fall(_fell_at_s(one.executed))
        during, outside = (one.acceleration[name] for name in (DURING, OUTSIDE))
        print(
            f"{label:10s}falls: {fall}; joint acceleration in switches "
            f"{during:.0f}, elsewhere {outside:.0f} rad/s^2 (rms)"
        )


def draw_pair(
    title: str,
    run: Executed,
    other: Executed,
    out: Path,
    caption: str,
    with_film: bool,
    silent: bool = False,
) -> None:
    """Write a strip of a run below another, and a film of both."""
    pair = [film.Still.spread(one.rows, film.PANELS) for one in (other, run)]
    sight, subtitle = film.sight_deg(other.rows[:1]), caption.replace("blue", "above")
    film.strip(out / "run.png", pair, title, subtitle, azimuth_deg=sight)
    films = []
    if with_film:
        steps = min(len(run.rows), len(other.rows))
        record = Rollout.of_rows(title, run.rows[:steps], other.rows[:steps])
        length = {"most_s": STEERED_FILM_S, "caption": caption}
        films = film.write_film(record, out / "run", **length)
    if not silent:
        _print_paths(10, [("picture", out / "run.png"), *(("film", p) for p in films)])


def _print_paths(wide: int, paths: list[tuple[str, Path]]) -> None:
    for what, path in paths:
        print(f"{what:{wide}s}{path}")


def _fell_at_s(run: Executed) -> float | None:
    return None if run.fell_at is None else run.fell_at / FPS


def _fall(at_s: float | None) -> str:
    return "no" if at_s is None else f"at {at_s:.1f} s"


def show_spoken(spoken: Spoken) -> None:
    print(f"run         {spoken.text}")
    wide = max(len(step.sentence) for step in spoken.steps)
    for number, step in enumerate(spoken.steps):
        label = "" if number else "understood"
        span = f"{step.begin / spoken.fps:4.1f} to {step.end / spoken.fps:4.1f} s"
        meaning = f"not understood: {step.why}; keeps standing"
        if step.understood:
            knobs = "".join(f", {knob.label}" for knob in step.knobs)
            how = "planned" if step.cue.planned else "played"
            meaning = f"{how} as {step.nearest!r} ({step.cosine:.2f}){knobs}"
            if step.left_out:
                meaning += f", without {step.left_out!r}"
        print(f"{label:12s}{span}  {step.sentence:{wide}s}  {meaning}")
    travel_m, turn_deg = moved(spoken)
    print(f"falls       {_fall(spoken.fell_at_s)}")
    print(f"travel      {travel_m:.2f} m, turned by {turn_deg:+z.0f} deg")
    refused = f", {spoken.refused} refused as not finite" if spoken.refused else ""
    print(f"plans       {spoken.plans}, {spoken.plan_ms:.1f} ms each{refused}")


def spoken_json(spoken: Spoken) -> str:
    travel_m, turn_deg = moved(spoken)
    steps = [
        {
            "from_s": step.begin / spoken.fps,
            "to_s": step.end / spoken.fps,
            **{
                name: getattr(step, name)
                for name in ("sentence", "understood", "motion", "nearest", "cosine")
            },
            "left_out": step.left_out,
            "knobs": [
                {"direction": k.direction, "amplitude": k.amplitude, "does": k.effect}
                for k in step.knobs
            ],
        }
        for step in spoken.steps
    ]
    values = {
        "run": spoken.text,
        "steps": steps,
        "seconds": spoken.rollout.steps / spoken.fps,
        "fell": spoken.fell_at_s is not None,
        "fell_at_s": spoken.fell_at_s,
        "travel_m": travel_m,
        "turn_deg": turn_deg,
        "plans": spoken.plans,
        "plans_refused": spoken.refused,
        "plan_ms": spoken.plan_ms,
    }
    return json.dumps(values, indent=1, allow_nan=False)


def moved(spoken: Spoken) -> tuple[float, float]:
    """Distance from the start to the end or the fall, m, and turn to the left, deg."""
    rows = _rows(spoken)
    if spoken.fell_at_s is not None:
        rows = rows[: round(spoken.fell_at_s * spoken.fps) + 1]
    travel_m, yaw = np.linalg.norm(rows[-1, :2] - rows[0, :2]), headings(rows)
    return float(travel_m), float(np.degrees(yaw[-1] - yaw[0]))


def draw_spoken(
    spoken: Spoken, out: Path, with_film: bool, silent: bool = False
) -> None:
    """Write the record, the skills, a strip of stills and a film into a folder."""
    paths = [("record", out / "run.npz")]
    spoken.rollout.save(paths[0][1])
    if spoken.encoder:
        skills = np.asarray(spoken.rollout.numpy().skills[:, 0], np.float32)
        paths.append(("skills", out / "skills.npz"))
        save_stream(paths[-1][1], skills, spoken.text, spoken.encoder)
    paths.append(("picture", out / "run.png"))
    strip_spoken(spoken, paths[-1][1])
    if with_film:
        fps = spoken.fps / film.STRIDE
        made = film.save(film_spoken(spoken), out / "run", fps)
        paths += [("film", path) for path in made]
    if not silent:
        _print_paths(12, paths)


def strip_spoken(spoken: Spoken, path: Path) -> None:
    """Draw stills over time, and below them the sentence of that time."""
    rows, count = _rows(spoken), spoken.rollout.steps
    # A still is of the middle of its panel, so that the band below gives its time.
    frames = ((np.arange(SPOKEN_PANELS) + 0.5) / SPOKEN_PANELS * count).astype(int)
    travel_m, turn_deg = moved(spoken)
    fell = f"falls {_fall(spoken.fell_at_s)}" if spoken.fell_at_s else "no fall"
    summary = f"{travel_m:.1f} m away, turned by {turn_deg:+z.0f} degrees, {fell}"
    motion, title = film.Still(rows, frames), _short(spoken.text, 80)
    more: dict = {"azimuth_deg": film.sight_deg(rows[:1])}
    film.strip(path, [motion], title, summary, band=partial(_band, spoken), **more)


def _band(spoken: Spoken, axes: Axes) -> None:
    """Sentences over the time of a run; grey where one was not understood."""
    axes.set(xlim=(0, spoken.rollout.steps), ylim=(0, 1), yticks=[])
    axes.spines[:].set_visible(False)
    edges = [0, *(step.end for step in spoken.steps)]
    axes.set_xticks(edges, [f"{edge / spoken.fps:.1f} s" for edge in edges])
    first, *_, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    step_px, colours = axes.bbox.width / spoken.rollout.steps, COLOURS[:-1]
    for number, step in enumerate(spoken.steps):
        colour = colours[number % len(colours)] if step.understood else MUTED
        axes.axvspan(step.begin, step.end, facecolor=colour, edgecolor="white")
        letters = max(6, int(((step.end - step.begin) * step_px - 16) / _LETTER_PX))
        lines = [step.sentence, _addition(step)]
        if not lines[1]:
            lines = textwrap.wrap(step.sentence, letters)[:3]
        text = "\n".join(_short(line, letters) for line in lines)
        look: dict = {"ha": "center", "va": "center", "linespacing": 1.35}
        middle = (step.begin + step.end) / 2
        axes.text(middle, 0.5, text, color="white", size=11, **look)


def film_spoken(spoken: Spoken) -> list[np.ndarray]:
    """Pictures of the robot with the present sentence above and a bar of time below."""
    rows, total = _rows(spoken), spoken.rollout.steps
    stop = min(len(rows), round(SPOKEN_FILM_S * spoken.fps))
    frames = np.arange(0, stop, film.STRIDE)
    sight = film.sight_deg(rows[:1])
    drawn = film.shots(rows, frames, film.SIZE, film=True, azimuth_deg=sight)
    for i, frame in enumerate(frames.tolist()):
        step = next((s for s in spoken.steps if frame < s.end), spoken.steps[-1])
        title = f"{_short(step.sentence, 46)}  {frame / spoken.fps:.2f} s"
        drawn[i] = film.captioned(drawn[i], title, _short(_addition(step), 60))
        # In greys: a GIF has too few colours for those of the strip.
        bar, width = drawn[i][-_BAR_PX:], drawn[i].shape[1]
        bar[:] = 223, 228, 234
        bar[:, : round(frame / total * width)] = 102, 114, 127
        for other in spoken.steps[:-1]:
            x = round(other.end / total * width)
            bar[:, x - 1 : x + 1] = 255
    return drawn


def _addition(step: SpokenStep) -> str:
    """What there is to say of a step of a spoken run beyond its sentence."""
    if not step.understood:
        return "not understood: keeps standing"
    return ", ".join(knob.label for knob in step.knobs)


def _rows(spoken: Spoken) -> np.ndarray:
    return film.unbroken(np.asarray(spoken.rollout.numpy().robot[:, 0]))


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: max(1, letters - 1)].rstrip() + "…"
