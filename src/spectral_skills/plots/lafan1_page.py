"""LAFAN1 as a page: the paper's tables beside ours, and where robots fail."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from spectral_skills.atomic import write_file
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
from spectral_skills.motion.kinds import LAFAN1_CLIPS
from spectral_skills.plots import ink
from spectral_skills.plots.tables import number, text
from spectral_skills.results import Result

_COMPLETE, _OTHER = "#009E73", ink.INK
_CAUSES: dict[str, tuple[str, str]] = {
    "anchor_orientation": ("orientation", "#E69F00"),
    "end_effector_height": ("end effector", ink.RIGHT),
    "anchor_height": ("pelvis height", "#CC79A7"),
}
"""Words and colours of the paper's three."""
_HEADS = ["", "ours", "paper, 6.0 B", "paper, 27.0 B", "BFM-Zero", "n"]
Found = dict[tuple[str, str], Result]


def write(
    results: Sequence[Result], outcomes: Sequence[ClipOutcome], out: Path
) -> None:
    """Write the page OUT.md and the pictures OUT_kinds.png and OUT_clips.png."""
    pictures = {
        "kinds": (kinds_picture(results, outcomes), "Outcomes by kind of motion"),
        "clips": (clips_picture(outcomes), "Where along the clips robots fail"),
    }
    found = _by_cell(results)
    first = results[0]
    told = [
        "# LAFAN1\n",
        f"Measured with `{first.command}`, {first.hardware}, weights {first.run}.\n",
        _protocol(outcomes),
    ]
    for row, lines in tables(results).items():
        told += [f"## {row.capitalize()}\n", *_markdown([_HEADS, *lines]), ""]
    told += ["## By kind of motion\n", *_markdown(causes(found)), ""]
    for name, (figure, title) in pictures.items():
        path = out.with_name(f"{out.stem}_{name}.png")
        ink.save(figure, path)
        told += [f"![{title}]({path.name})\n"]
    write_file(out.with_suffix(".md"), "\n".join(told))


def _protocol(outcomes: Sequence[ClipOutcome]) -> str:
    told = (
        f"Windows: {STARTS} of 10 s a clip, from frames drawn uniformly with seed "
        f"{SEED}, for the clip numbered i with `numpy.random.default_rng(({SEED}, i))`;"
        " the outcomes name every start. "
    )
    if any(o.setting == WHOLE for o in outcomes):
        told += (
            "Whole clips: one run from frame 0 to the end, never terminated; failures, "
            f"falls and the first {FIRST_FRAMES} frames are told from its record. "
        )
    return told + (
        "Mean actions, nothing random. A fall by the torso: it is below 0.4 m and the "
        "reference's pelvis is not. A fall by the reference: the pelvis is more than "
        "0.25 m below it for 0.5 s; it counts from the first of these frames. Errors "
        "in mm; means and medians over episodes, other errors over frames.\n"
    )


def _by_cell(results: Iterable[Result]) -> Found:
    return {(r.row, r.metric): r for r in results}


def tables(results: Iterable[Result]) -> dict[str, list[list[str]]]:
    """By section, lines of a label, ours, the paper's numbers and n of ours.

    What nothing says anything about has a dash, if the paper has a number.
    """
    found, told = _by_cell(results), {}
    measured = {row for row, _ in found}
    for line in LINES:
        ours = found.get((line.row, line.metric))
        if ours is not None or (line.paper and line.section in measured):
            papers = (line.few or "-", line.many or "-", line.bfm or "-")
            cells = [line.label, _told(ours), *papers, f"{ours.n:,}" if ours else "0"]
            told.setdefault(line.section, []).append(cells)
    return told


def _told(result: Result | None) -> str:
    if result is None:
        return "-"
    if result.unit == "mm":
        return f"{result.value:,.1f}"
    return number(result.value) if result.unit else f"{result.value:,.0f}"


def causes(found: Found) -> list[list[str]]:
    """A line for every kind: what ended well, stood, and failed first by what."""
    lines = [
        ["", "n", "complete", "no fall", *(c for c, _ in _CAUSES.values()), "else"]
    ]
    for setting, well in ((WINDOWS, "complete"), (WHOLE, "success")):
        for (row, metric), result in found.items():
            if metric != well or not row.startswith(f"{setting}, "):
                continue
            if (row, "fall_free") not in found:
                continue  # no kind
            failed = [int(found[row, f"failed_{c}"].value) for c in _CAUSES]
            good, free = int(result.value), int(found[row, "fall_free"].value)
            rest = result.n - good - sum(failed)
            lines.append([row, *map(str, (result.n, good, free, *failed, rest))])
    return lines


def _markdown(cells: Sequence[Sequence[str]]) -> list[str]:
    head, *lines = (f"| {' | '.join(line)} |" for line in cells)
    return [head, "|---" * len(cells[0]) + "|", *lines]


def show(results: Sequence[Result]) -> None:
    """Print the tables."""
    parts = [[[row, *_HEADS[1:]], *lines] for row, lines in tables(results).items()]
    for lines in (*parts, causes(_by_cell(results))):
        print(text(lines) + "\n")


def _ends(outcomes: Sequence[ClipOutcome]) -> list[tuple[str, int, str]]:
    """Name, count and colour of ends: complete first, then causes."""
    counts = [sum(o.cause == cause for o in outcomes) for cause in _CAUSES]
    good = sum(o.success for o in outcomes)
    failed = [
        (c, n, look) for (c, look), n in zip(_CAUSES.values(), counts, strict=True)
    ]
    rest = len(outcomes) - good - sum(counts)
    return [("complete", good, _COMPLETE), *failed, ("else", rest, _OTHER)]


def _legend(figure: Figure, outcomes: Sequence[ClipOutcome], height_px: int) -> None:
    """What colours mean, at the upper right."""
    keys = [Patch(color=colour, label=name) for name, n, colour in _ends(outcomes) if n]
    place = {"loc": "upper right", "bbox_to_anchor": (0.975, 1 - 14 / height_px)}
    figure.legend(handles=keys, ncols=len(keys), frameon=False, fontsize=11, **place)


def kinds_picture(results: Sequence[Result], outcomes: Sequence[ClipOutcome]) -> Figure:
    """Ours beside the paper's, and how episodes of every kind of motion ended."""
    height = 560
    figure = ink.sheet(height)
    settings = [s for s in (WINDOWS, WHOLE) if any(o.setting == s for o in outcomes)]
    complete = {s: sum(o.success for o in outcomes if o.setting == s) for s in settings}
    told = [
        f"{n} of {sum(o.setting == s for o in outcomes)} {s} complete"
        for s, n in complete.items()
    ]
    ink.headline(figure, "LAFAN1: how episodes end", "; ".join(told))
    _legend(figure, outcomes, height)
    room = {"left": 0.13, "right": 0.975, "top": 0.8, "bottom": 0.07, "wspace": 0.3}
    grid = figure.add_gridspec(1, 1 + len(settings), **room)
    _beside(ink.quiet(figure.add_subplot(grid[0]), "beside the paper (%)"), results)
    for place, setting in enumerate(settings, start=1):
        axes = ink.quiet(figure.add_subplot(grid[place]), f"{setting} (%)")
        _stacks(axes, [o for o in outcomes if o.setting == setting])
    return figure


def _beside(axes: Axes, results: Sequence[Result]) -> None:
    """Shares of what ended well, ours and the paper's."""
    found, wanted = _by_cell(results), ("complete", "success", "fall_free_relative")
    lines = [
        line
        for line in LINES
        if line.metric in (*wanted, "fall_free") and (line.row, line.metric) in found
    ]
    for y, line in enumerate(lines):
        ours = found[line.row, line.metric]
        for value, colour, size in (
            (line.few, ink.MUTED, 7),
            (line.many, ink.INK, 7),
            (f"{ours.value}", ink.LEFT, 11),
        ):
            if value:
                share = 100 * float(value) / ours.n
                axes.plot(share, y, "o", color=colour, markersize=size, clip_on=False)
    names = [f"{line.section},\n{line.label}" for line in lines]
    axes.set_yticks(range(len(lines)), names)
    _upside_down(axes, len(lines))
    key = "large: ours; small: paper, 6 B (grey) and 27 B (black)"
    axes.text(0, -0.085, key, transform=axes.transAxes, size=9.5, color=ink.MUTED)


def _stacks(axes: Axes, outcomes: Sequence[ClipOutcome]) -> None:
    """A bar for every kind of motion, best first."""
    kinds = {o.kind: [p for p in outcomes if p.kind == o.kind] for o in outcomes}
    order = sorted(
        kinds, key=lambda k: -sum(o.success for o in kinds[k]) / len(kinds[k])
    )
    for y, kind in enumerate(order):
        left, n = 0.0, len(kinds[kind])
        for _, count, colour in _ends(kinds[kind]):
            share = 100 * count / n
            axes.barh(y, share, 0.72, left, color=colour)
            if share >= 7:
                middle = left + share / 2
                look = {"ha": "center", "va": "center", "color": "white", "size": 9.5}
                axes.text(middle, y, str(count), **look)
            left += share
    axes.set_yticks(range(len(order)), [f"{k} ({len(kinds[k])})" for k in order])
    _upside_down(axes, len(order))


def _upside_down(axes: Axes, lines: int) -> None:
    """Per cent along, lines from the top."""
    axes.set_xlim(0, 100)
    axes.set_ylim(lines - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=ink.RULE, linewidth=0.8)


def clips_picture(outcomes: Sequence[ClipOutcome]) -> Figure:
    """A strip for every clip: how far the whole run came, and where windows fail."""
    names = [n for n in LAFAN1_CLIPS if any(o.name == n for o in outcomes)]
    height = 130 + 24 * len(names)
    figure = ink.sheet(height)
    told = (
        "broad: a whole run up to its first failure; lines below: windows, each up to "
        "its end; crosses: failures"
    )
    ink.headline(figure, "LAFAN1: where along the clips robots fail", told)
    _legend(figure, outcomes, height)
    top, bottom = 1 - 88 / height, 36 / height
    axes = figure.add_axes((0.115, bottom, 0.86, top - bottom))
    ink.quiet(axes, "")
    for y, name in enumerate(names):
        # Failures last: over windows that are complete.
        own = [o for o in outcomes if o.name == name]
        for outcome in sorted(own, key=lambda o: not o.success):
            if outcome.setting == WHOLE:
                _whole(axes, outcome, y)
            elif outcome.setting == WINDOWS:
                _window(axes, outcome, y)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.3, -0.6)
    axes.set_xlim(left=0)
    axes.margins(x=0.01)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g} s")
    return figure


def _colour(outcome: ClipOutcome) -> str:
    if outcome.success:
        return _COMPLETE
    return _CAUSES[outcome.cause][1] if outcome.cause in _CAUSES else _OTHER


def _end_s(outcome: ClipOutcome) -> float:
    last = outcome.frames - 1 if outcome.success else outcome.failed_at
    return (outcome.start + last) / FPS


def _cross(axes: Axes, outcome: ClipOutcome, y: float, size: float) -> None:
    if not outcome.success:
        look = {"color": _colour(outcome), "markersize": size, "markeredgewidth": 1.8}
        axes.plot(_end_s(outcome), y, "x", zorder=4, **look)


def _whole(axes: Axes, outcome: ClipOutcome, y: int) -> None:
    axes.barh(y - 0.12, outcome.frames / FPS, 0.34, color=ink.RULE)
    axes.barh(y - 0.12, _end_s(outcome), 0.34, color=ink.LEFT, alpha=0.35)
    _cross(axes, outcome, y - 0.12, 8)


def _window(axes: Axes, outcome: ClipOutcome, y: int) -> None:
    span = outcome.start / FPS, _end_s(outcome)
    colour = _colour(outcome)
    axes.plot(span, (y + 0.26,) * 2, color=colour, alpha=0.6, linewidth=2.4)
    _cross(axes, outcome, y + 0.26, 4.5)
