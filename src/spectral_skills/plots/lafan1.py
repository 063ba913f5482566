"""The results on LAFAN1 as a page: numbers beside the paper, and where robots fail."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from spectral_skills.atomic import write_file
from spectral_skills.config import read_table
from spectral_skills.experiments.lafan1 import (
    FIRST_FRAMES,
    LINES,
    SEED,
    STARTS,
    WHOLE,
    WINDOWS,
)
from spectral_skills.experiments.tracking import ClipOutcome
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.motion_sets import LAFAN1_CLIPS
from spectral_skills.plots import charts
from spectral_skills.plots.tables import markdown, number, text
from spectral_skills.results import Result

_ENDS: dict[str, tuple[str, str]] = {
    "": ("complete", "#009E73"),
    "anchor_orientation": ("orientation", "#E69F00"),
    "end_effector_height": ("end effector", charts.RIGHT),
    "anchor_height": ("pelvis height", "#CC79A7"),
    "other": ("other", charts.INK),
}
"""Label and colour of how an episode ended: by nothing, by a rule of the paper's."""
_HEADS = ["", "ours", "paper, 6.0 B", "paper, 27.0 B", "BFM-Zero", "n"]
_MEANS = ("path_share", "joint_correlation")
"""Means without a unit; other numbers without one are counts."""
_SHARES = ("complete", "success", "fall_free_relative", "fall_free")
_TEXTS = read_table(__file__, "results.toml")["lafan1"]


def show(results: Sequence[Result]) -> None:
    parts = [[[row, *_HEADS[1:]], *lines] for row, lines in tables(results).items()]
    for lines in (*parts, causes(results)):
        print(text(lines) + "\n")


def write(
    results: Sequence[Result], outcomes: Sequence[ClipOutcome], out: Path
) -> None:
    """Write the page OUT.md and the pictures OUT_kinds.png and OUT_clips.png."""
    first = results[0]
    numbers = {"starts": STARTS, "seed": SEED, "first": FIRST_FRAMES}
    whole = any(outcome.setting == WHOLE for outcome in outcomes)
    names = ("windows", *["whole"] * whole, "rules")
    texts = [_TEXTS[name].format(**numbers) for name in names]
    parts = [
        "# LAFAN1\n",
        f"Measured with `{first.command}`, {first.hardware}, weights {first.run}.\n",
        " ".join(texts) + "\n",
    ]
    for row, lines in tables(results).items():
        parts += [f"## {row.capitalize()}\n", markdown([_HEADS, *lines]), ""]
    parts += ["## By kind of motion\n", markdown(causes(results)), ""]
    for name, figure, title in (
        ("kinds", kinds_picture(results), "Outcomes by kind of motion"),
        ("clips", clips_picture(outcomes), "Where along the clips robots fail"),
    ):
        path = out.with_name(f"{out.stem}_{name}.png")
        charts.save(figure, path)
        parts.append(f"![{title}]({path.name})\n")
    write_file(out.with_suffix(".md"), "\n".join(parts))


def _by_cell(results: Iterable[Result]) -> dict[tuple[str, str], Result]:
    return {(r.row, r.metric): r for r in results}


def tables(results: Iterable[Result]) -> dict[str, list[list[str]]]:
    """Lines by section: a label, ours, the paper's numbers and n of ours.

    A number that only the paper has is shown beside a dash.
    """
    cells, found = _by_cell(results), {}
    measured = {row for row, _ in cells}
    for line in LINES:
        ours = cells.get((line.row, line.metric))
        if ours is not None or (line.paper and line.section in measured):
            papers = (line.few or "-", line.many or "-", line.bfm or "-")
            n = f"{ours.n:,}" if ours else "0"
            found.setdefault(line.section, []).append(
                [line.label, _value(ours), *papers, n]
            )
    return found


def _value(result: Result | None) -> str:
    if result is None:
        return "-"
    if result.unit == "mm":
        return f"{result.value:,.1f}"
    counted = not result.unit and result.metric not in _MEANS
    return f"{result.value:,.0f}" if counted else number(result.value)


def causes(results: Iterable[Result]) -> list[list[str]]:
    """A line for every kind of motion: how many episodes ended in which way."""
    found, rules = _by_cell(results), [c for c in _ENDS if c not in ("", "other")]
    heads = [_ENDS[cause][0] for cause in rules]
    lines = [["", "n", "complete", "followed", "no fall", *heads, "other"]]
    for setting, well in ((WINDOWS, "complete"), (WHOLE, "success")):
        for (row, metric), result in found.items():
            kind = metric == well and row.startswith(f"{setting}, ")
            if kind and (row, "fall_free") in found:
                failed = [int(found[row, f"failed_{c}"].value) for c in rules]
                good, rest = int(result.value), result.n - int(result.value)
                both = (found[row, name].value for name in ("followed", "fall_free"))
                numbers = (result.n, good, *map(int, both), *failed, rest - sum(failed))
                lines.append([row, *map(str, numbers)])
    return lines


def _end(outcome: ClipOutcome) -> str:
    if outcome.success:
        return ""
    return outcome.cause if outcome.cause in _ENDS else "other"


def _sheet(height_px: int, title: str, subtitle: str) -> Figure:
    """A figure with the colours of ends explained at the upper right."""
    figure = charts.sheet(height_px, title, subtitle)
    keys = [Patch(color=colour, label=label) for label, colour in _ENDS.values()]
    place = {"loc": "upper right", "bbox_to_anchor": (0.975, 1 - 14 / height_px)}
    figure.legend(handles=keys, ncols=len(keys), fontsize=11, **place)
    return figure


@charts.styled
def kinds_picture(results: Sequence[Result]) -> Figure:
    """Our shares beside the paper's, and how episodes of every kind ended."""
    settings: dict[str, list[list[str]]] = {}
    for row, *numbers in causes(results)[1:]:
        setting, kind = row.split(", ")
        settings.setdefault(setting, []).append([kind, *numbers])
    totals = {
        s: np.array(own)[:, 1:4].astype(int).sum(0) for s, own in settings.items()
    }
    counts = [
        f"{done} of {n} {s} complete, {followed} followed"
        for s, (n, done, followed) in totals.items()
    ]
    figure = _sheet(560, "LAFAN1: how episodes end", "; ".join(counts))
    first, *others = figure.subplots(1, 1 + len(settings))
    _beside(first, results)
    for axes, (setting, own) in zip(others, settings.items(), strict=True):
        own.sort(key=lambda line: -int(line[2]) / int(line[1]))
        counts = np.array(own)[:, [2, 5, 6, 7, 8]].astype(int)
        shares = 100 * counts / counts.sum(axis=1, keepdims=True)
        lefts = shares.cumsum(axis=1) - shares
        for end, (_, colour) in enumerate(_ENDS.values()):
            share, left = shares[:, end], lefts[:, end]
            bars = axes.barh(range(len(own)), share, 0.72, left, color=colour)
            labels = np.where(share >= 7, counts[:, end].astype(str), "")
            axes.bar_label(bars, labels, label_type="center", color="white", size=9.5)
        names = [f"{kind} ({n})" for kind, n, *_ in own]
        _percentages(axes, f"{setting} (%)", names)
    return figure


def _beside(axes: Axes, results: Sequence[Result]) -> None:
    found = _by_cell(results)
    lines = [x for x in LINES if x.metric in _SHARES and (x.row, x.metric) in found]
    ours = [found[line.row, line.metric] for line in lines]
    for values, colour, size, label in (
        ([line.few for line in lines], charts.MUTED, 7, "paper, 6 B"),
        ([line.many for line in lines], charts.INK, 7, "paper, 27 B"),
        ([one.value for one in ours], charts.LEFT, 11, "ours"),
    ):
        pairs = zip(values, ours, strict=True)
        share = [100 * float(v) / o.n if v != "" else np.nan for v, o in pairs]
        look = {"color": colour, "markersize": size, "label": label}
        look |= {"clip_on": False, "in_layout": False}
        axes.plot(share, range(len(share)), "o", **look)
    names = [f"{line.section},\n{line.label}" for line in lines]
    _percentages(axes, "beside the paper (%)", names)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=3)


def _percentages(axes: Axes, title: str, names: list[str]) -> None:
    axes.set_title(title)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlim=(0, 100), ylim=(len(names) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x")


@charts.styled
def clips_picture(outcomes: Sequence[ClipOutcome]) -> Figure:
    """A strip for every clip: how far the whole run came, and where windows fail."""
    names = [n for n in LAFAN1_CLIPS if any(o.name == n for o in outcomes)]
    subtitle = (
        "broad: a whole run up to its first failure; lines below: windows, each up to "
        "its end; crosses: failures"
    )
    title = "LAFAN1: where along the clips robots fail"
    figure = _sheet(130 + 24 * len(names), title, subtitle)
    axes = figure.add_subplot()
    # Failures last: over windows that are complete.
    for outcome in sorted(outcomes, key=lambda o: not o.success):
        if outcome.setting not in (WHOLE, WINDOWS):
            continue
        last = outcome.frames - 1 if outcome.success else outcome.failed_at
        start_s, end_s = outcome.start / FPS, (outcome.start + last) / FPS
        whole, colour = outcome.setting == WHOLE, _ENDS[_end(outcome)][1]
        y = names.index(outcome.name) + (-0.12 if whole else 0.26)
        if whole:
            axes.barh(y, outcome.frames / FPS, 0.34, color=charts.RULE)
            axes.barh(y, end_s, 0.34, color=charts.LEFT, alpha=0.35)
        else:
            axes.plot((start_s, end_s), (y, y), color=colour, alpha=0.6, linewidth=2.4)
        if not outcome.success:
            look = {"color": colour, "markersize": 8 if whole else 4.5}
            axes.plot(end_s, y, "x", zorder=4, markeredgewidth=1.8, **look)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.3, -0.6)
    axes.margins(x=0.01)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g} s")
    return figure
