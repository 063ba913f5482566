"""The results on LAFAN1 as a page: numbers beside the paper, and where robots fail."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from spectral_skills.atomic import write_file
from spectral_skills.experiments.tracking import (
    FIRST_FRAMES,
    LINES,
    SEED,
    STARTS,
    WHOLE,
    WINDOWS,
    ClipOutcome,
)
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinds import LAFAN1_CLIPS
from spectral_skills.plots import style
from spectral_skills.plots.tables import markdown, number, text
from spectral_skills.results import Result

_ENDS: dict[str, tuple[str, str]] = {
    "": ("complete", "#009E73"),
    "anchor_orientation": ("orientation", "#E69F00"),
    "end_effector_height": ("end effector", style.RIGHT),
    "anchor_height": ("pelvis height", "#CC79A7"),
    "other": ("other", style.INK),
}
"""Label and colour of how an episode ended: by nothing, by a rule of the paper's."""
_HEADS = ["", "ours", "paper, 6.0 B", "paper, 27.0 B", "BFM-Zero", "n"]
_SHARES = ("complete", "success", "fall_free_relative", "fall_free")
_PROTOCOL = (
    f"Windows: {STARTS} of 10 s per clip, from frames drawn uniformly with seed "
    f"{SEED}, for the clip numbered i with `numpy.random.default_rng(({SEED}, i))`; "
    "the outcomes name every start. "
)
_WHOLE_CLIPS = (
    "Whole clips: one run from frame 0 to the end, never terminated; failures, falls "
    f"and the first {FIRST_FRAMES} frames are computed from its record. "
)
_RULES = (
    "Mean actions, nothing random. A fall by the torso: it is below 0.4 m and the "
    "reference's pelvis is not. A fall by the reference: the pelvis is more than 0.25 "
    "m below it for 0.5 s; it counts from the first of these frames. Errors in mm; "
    "means and medians over episodes, other errors over frames.\n"
)


def show(results: Sequence[Result]) -> None:
    """Print the tables."""
    parts = [[[row, *_HEADS[1:]], *lines] for row, lines in tables(results).items()]
    for lines in (*parts, causes(results)):
        print(text(lines) + "\n")


def write(
    results: Sequence[Result], outcomes: Sequence[ClipOutcome], out: Path
) -> None:
    """Write the page OUT.md and the pictures OUT_kinds.png and OUT_clips.png."""
    first = results[0]
    whole = any(outcome.setting == WHOLE for outcome in outcomes)
    parts = [
        "# LAFAN1\n",
        f"Measured with `{first.command}`, {first.hardware}, weights {first.run}.\n",
        _PROTOCOL + (_WHOLE_CLIPS if whole else "") + _RULES,
    ]
    for row, lines in tables(results).items():
        parts += [f"## {row.capitalize()}\n", markdown([_HEADS, *lines]), ""]
    parts += ["## By kind of motion\n", markdown(causes(results)), ""]
    for name, figure, title in (
        ("kinds", kinds_picture(results, outcomes), "Outcomes by kind of motion"),
        ("clips", clips_picture(outcomes), "Where along the clips robots fail"),
    ):
        path = out.with_name(f"{out.stem}_{name}.png")
        style.save(figure, path)
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
    return number(result.value) if result.unit else f"{result.value:,.0f}"


def causes(results: Iterable[Result]) -> list[list[str]]:
    """A line for every kind of motion: how many episodes ended in which way."""
    found, rules = _by_cell(results), [c for c in _ENDS if c not in ("", "other")]
    heads = [_ENDS[cause][0] for cause in rules]
    lines = [["", "n", "complete", "no fall", *heads, "other"]]
    for setting, well in ((WINDOWS, "complete"), (WHOLE, "success")):
        for (row, metric), result in found.items():
            kind = metric == well and row.startswith(f"{setting}, ")
            if kind and (row, "fall_free") in found:
                failed = [int(found[row, f"failed_{c}"].value) for c in rules]
                good, free = int(result.value), int(found[row, "fall_free"].value)
                rest = result.n - good - sum(failed)
                lines.append([row, *map(str, (result.n, good, free, *failed, rest))])
    return lines


def _end(outcome: ClipOutcome) -> str:
    if outcome.success:
        return ""
    return outcome.cause if outcome.cause in _ENDS else "other"


def _sheet(height_px: int, title: str, subtitle: str, outcomes) -> Figure:
    """A figure with the colours of ends explained at the upper right."""
    figure = style.sheet(height_px, title, subtitle)
    there = {_end(outcome) for outcome in outcomes}
    looks = [look for end, look in _ENDS.items() if end in there]
    keys = [Patch(color=colour, label=label) for label, colour in looks]
    place = {"loc": "upper right", "bbox_to_anchor": (0.975, 1 - 14 / height_px)}
    figure.legend(handles=keys, ncols=len(keys), frameon=False, fontsize=11, **place)
    return figure


def kinds_picture(results: Sequence[Result], outcomes: Sequence[ClipOutcome]) -> Figure:
    """Our shares beside the paper's, and how episodes of every kind ended."""
    settings = {s: [o for o in outcomes if o.setting == s] for s in (WINDOWS, WHOLE)}
    settings = {setting: own for setting, own in settings.items() if own}
    counts = [
        f"{sum(o.success for o in own)} of {len(own)} {setting} complete"
        for setting, own in settings.items()
    ]
    figure = _sheet(560, "LAFAN1: how episodes end", "; ".join(counts), outcomes)
    room = {"left": 0.13, "right": 0.975, "top": 0.8, "bottom": 0.07, "wspace": 0.3}
    grid = figure.add_gridspec(1, 1 + len(settings), **room)
    _beside(style.quiet(figure.add_subplot(grid[0]), "beside the paper (%)"), results)
    for place, (setting, own) in enumerate(settings.items(), start=1):
        axes = style.quiet(figure.add_subplot(grid[place]), f"{setting} (%)")
        kinds: dict[str, list[str]] = {}
        for outcome in own:
            kinds.setdefault(outcome.kind, []).append(_end(outcome))
        order = sorted(kinds, key=lambda k: -kinds[k].count("") / len(kinds[k]))
        for y, kind in enumerate(order):
            left = 0.0
            for end, (_, colour) in _ENDS.items():
                share = 100 * kinds[kind].count(end) / len(kinds[kind])
                axes.barh(y, share, 0.72, left, color=colour)
                if share >= 7:
                    look: dict = {"ha": "center", "va": "center", "color": "white"}
                    count = str(kinds[kind].count(end))
                    axes.text(left + share / 2, y, count, size=9.5, **look)
                left += share
        _percentages(axes, [f"{kind} ({len(kinds[kind])})" for kind in order])
    return figure


def _beside(axes: Axes, results: Sequence[Result]) -> None:
    """Shares of what ended well, ours and the paper's."""
    found = _by_cell(results)
    lines = [x for x in LINES if x.metric in _SHARES and (x.row, x.metric) in found]
    for y, line in enumerate(lines):
        ours = found[line.row, line.metric]
        for value, colour, size in (
            (line.few, style.MUTED, 7),
            (line.many, style.INK, 7),
            (f"{ours.value}", style.LEFT, 11),
        ):
            if value:
                share = 100 * float(value) / ours.n
                axes.plot(share, y, "o", color=colour, markersize=size, clip_on=False)
    _percentages(axes, [f"{line.section},\n{line.label}" for line in lines])
    key = "large: ours; small: paper, 6 B (grey) and 27 B (black)"
    axes.text(0, -0.085, key, transform=axes.transAxes, size=9.5, color=style.MUTED)


def _percentages(axes: Axes, names: list[str]) -> None:
    """Percent along, lines from the top."""
    axes.set_yticks(range(len(names)), names)
    axes.set(xlim=(0, 100), ylim=(len(names) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=style.RULE, linewidth=0.8)


def clips_picture(outcomes: Sequence[ClipOutcome]) -> Figure:
    """A strip for every clip: how far the whole run came, and where windows fail."""
    names = [n for n in LAFAN1_CLIPS if any(o.name == n for o in outcomes)]
    height = 130 + 24 * len(names)
    subtitle = (
        "broad: a whole run up to its first failure; lines below: windows, each up to "
        "its end; crosses: failures"
    )
    title = "LAFAN1: where along the clips robots fail"
    figure = _sheet(height, title, subtitle, outcomes)
    top, bottom = 1 - 88 / height, 36 / height
    axes = style.quiet(figure.add_axes((0.115, bottom, 0.86, top - bottom)), "")
    # Failures last: over windows that are complete.
    for outcome in sorted(outcomes, key=lambda o: not o.success):
        if outcome.setting not in (WHOLE, WINDOWS):
            continue
        last = outcome.frames - 1 if outcome.success else outcome.failed_at
        start_s, end_s = outcome.start / FPS, (outcome.start + last) / FPS
        whole, colour = outcome.setting == WHOLE, _ENDS[_end(outcome)][1]
        y = names.index(outcome.name) + (-0.12 if whole else 0.26)
        if whole:
            axes.barh(y, outcome.frames / FPS, 0.34, color=style.RULE)
            axes.barh(y, end_s, 0.34, color=style.LEFT, alpha=0.35)
        else:
            axes.plot((start_s, end_s), (y, y), color=colour, alpha=0.6, linewidth=2.4)
        if not outcome.success:
            look = {"color": colour, "markersize": 8 if whole else 4.5}
            axes.plot(end_s, y, "x", zorder=4, markeredgewidth=1.8, **look)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.3, -0.6)
    axes.set_xlim(left=0)
    axes.margins(x=0.01)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g} s")
    return figure
