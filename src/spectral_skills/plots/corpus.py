"""A corpus as text and pictures: its counts, its clips, the checks of its motions."""

import json
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np

from spectral_skills.experiments.corpus_check import (
    GAIT,
    RECORDED,
    SPEEDS,
    STRIDES,
    Check,
    Summary,
    groups,
    results,
)
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.plots.tables import publish, text

_DATA = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text())
_NAMED_JOINTS = 4
"""Number of joints of a group that have a colour and a name; the others are grey."""
PANELS = 8


def describe(corpus: Corpus) -> dict:
    """Counts of a corpus, by source, licence and kind."""
    seconds = corpus.lengths / FPS
    entries = [corpus.entry(i) for i in range(len(corpus))]

    def hours_by(values: list[str]) -> dict[str, dict[str, float]]:
        clips, hours = Counter(values), Counter()
        for value, length in zip(values, seconds.tolist(), strict=True):
            hours[value] += length / 3600
        return {
            value: {"clips": clips[value], "hours": round(total, 4)}
            for value, total in hours.most_common()
        }

    return {
        "clips": len(corpus),
        "frames": corpus.frames,
        "hours": round(corpus.hours, 4),
        "fps": FPS,
        "shortest_s": round(float(seconds.min()), 2),
        "median_s": round(float(np.median(seconds)), 2),
        "longest_s": round(float(seconds.max()), 2),
        "noted": sum(bool(e.notes) for e in entries),
        "hash": corpus.hash,
        "sources": hours_by([e.source for e in entries]),
        "licences": hours_by([e.licence for e in entries]),
        "kinds": hours_by(groups(corpus)),
    }


def print_info(folder: Path, *, as_json: bool) -> None:
    """Print the counts of a corpus."""
    facts = describe(Corpus.open(folder))
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    print(
        f"{folder}: {facts['clips']:,} clips, {facts['frames']:,} frames at {FPS} Hz, "
        f"{facts['hours']:.2f} h; clips last {facts['shortest_s']} to "
        f"{facts['longest_s']} s (median {facts['median_s']})"
    )
    for group in ("sources", "licences", "kinds"):
        print(f"\n{group}")
        for name, counts in facts[group].items():
            print(f"  {counts['hours']:8.3f} h {counts['clips']:7,} clips  {name}")
    if facts["noted"]:
        print(f"\n{facts['noted']:,} clips have notes: spectral corpus list --notes")


def print_list(folder: Path, *, match: str, limit: int | None, notes: bool) -> None:
    """Print one line per clip."""
    corpus = Corpus.open(folder)
    shown = 0
    for index in range(len(corpus)):
        entry = corpus.entry(index)
        if match.lower() not in f"{entry.name}\n{entry.text}".lower():
            continue
        if limit is not None and shown >= limit:
            print("...")
            break
        shown += 1
        words = entry.text.replace("\n", " / ")
        print(f"{entry.name:<40} {entry.length / FPS:8.2f} s  {entry.source}  {words}")
        if notes:
            for note in filter(None, entry.notes.split("\n")):
                print(f"{'':<40}   {note}")


def print_check(
    folder: Path,
    *,
    as_json: bool = False,
    label: str = "",
    against: Path | None = None,
    record: Path | None = None,
) -> None:
    """Measure a corpus and print it by group, beside another one where given.

    `record` is a file of results to update; `label` names the corpus there.
    """
    checks = [Check.of(folder, label)]
    if against is not None:
        checks.append(Check.of(against))
    if as_json:
        found = checks[0].as_dict()
        if against is not None:
            found["against"] = checks[1].as_dict()
        print(json.dumps(found, indent=2))
    else:
        for check in checks:
            hours = check.corpus.hours
            print(f"{check.label}: {len(check.corpus):,} clips, {hours:.2f} h\n")
            for title, columns in _DATA["tables"].items():
                print(f"{title}\n{text(_lines(check.summary, columns))}\n")
        print(gait_table({c.label: c.gaits for c in checks}))
        print(
            "\n50%, 95% and 99% are percentiles over frames. A group has the worst of "
            "its clips where\nit says so, else their mean. Only soles are contacts."
        )
    if record is not None:
        publish(results(checks), record)


def _lines(summary: Summary, columns: dict) -> list[list[str]]:
    lines = [["", "clips", "h", *(heading for heading, *_ in columns.values())]]
    for name, row in summary.items():
        values = [f"{f * row[key]:z.{d}f}" for key, (_, f, d) in columns.items()]
        hours = f"{row['frames'] / FPS / 3600:.3f}"
        lines.append([name, f"{row['clips']:,.0f}", hours, *values])
    return lines


def recorded_table(summary: Summary) -> list[list[str]]:
    """Head and lines of the measurements that matter most."""
    heads = [f"{name} ({unit})" for name, unit, *_ in RECORDED.values()]
    lines = [["", "clips", *heads]]
    for group, row in summary.items():
        values = [f"{f * row[key]:z.{d}f}" for key, (*_, f, d) in RECORDED.items()]
        lines.append([group, f"{row['clips']:,.0f}", *values])
    return lines


def gait_table(labelled: dict[str, Summary]) -> str:
    """A column per speed with the corpora beside each other."""
    rows = [row for row in SPEEDS if any(row in gaits for gaits in labelled.values())]
    if not rows:
        return "Gait: no clip has steady strides straight ahead"
    lines = [["", *rows]]
    shown = {STRIDES: ("", 0)}
    shown |= {name: (unit, decimals) for name, (unit, *_, decimals) in GAIT.items()}
    for name, (unit, decimals) in shown.items():
        cells = [
            " | ".join(
                f"{gaits[row][name]:.{decimals}f}" if row in gaits else "-"
                for gaits in labelled.values()
            )
            for row in rows
        ]
        lines.append([f"{name} ({unit})" if unit else name, *cells])
    title = f"Gait, medians over steady straight strides: {' | '.join(labelled)}"
    return f"{title}\n{text(lines)}"


def draw_clip(folder: Path, name: str, picture: Path) -> None:
    """Draw the sheet of one clip."""
    from spectral_skills.motion.clip import mirror_name

    corpus = Corpus.open(folder)
    if name not in corpus.names and name.endswith(mirror_name("")):
        corpus = corpus.with_mirror()
    clip_sheet(corpus, corpus.index(name), picture)
    print(f"wrote {picture}")


def clip_sheet(corpus: Corpus, index: int, path: Path) -> None:
    """Draw stills, foot heights, root and joint curves of one clip."""
    import torch

    from spectral_skills.motion.kinematics import Kinematics, sole_heights
    from spectral_skills.plots import film, style
    from spectral_skills.robot import g1
    from spectral_skills.rotation import yaw

    entry = corpus.entry(index)
    qpos = np.array(corpus.qpos(index), dtype=np.float64)
    time_s = np.arange(len(qpos)) / FPS
    title = f"{entry.name}: {entry.text.splitlines()[0] if entry.text else ''}"
    facts = [f"{entry.length / FPS:.1f} s", entry.source, entry.licence]
    figure = style.sheet(1120, title, "  |  ".join(filter(None, facts)))
    motion = film.Still.spread(qpos, PANELS)
    marks_s = time_s[motion.frames]
    film.row(figure, motion, [f"{t:.2f} s" for t in marks_s], (48, 84, 256))
    feet = sole_heights(Kinematics(g1.FEET)(torch.from_numpy(qpos).float())).numpy()
    heading = np.degrees(np.unwrap(yaw(torch.from_numpy(qpos[:, 3:7])).numpy()))
    velocity = np.gradient(qpos[:, :3], 1 / FPS, axis=0) if len(qpos) > 1 else 0 * qpos
    ground = np.linalg.norm(velocity[:, :2], axis=1)
    left, right, green, pink, *_ = style.COLOURS
    colours = zip("xyz", qpos.T, style.COLOURS, strict=False)
    grid = figure.add_gridspec(
        3, 4, left=0.055, right=0.985, top=0.665, bottom=0.095, hspace=0.45, wspace=0.2
    )
    sides = [("left", feet[:, 0], left), ("right", feet[:, 1], right)]
    speeds = [("along the floor", ground, left), ("upward", velocity[:, 2], green)]
    panels = [
        (grid[0, :2], "foot height (m)", 0.1, sides),
        (grid[0, 2:], "root position (m)", 0.2, list(colours)),
        (grid[1, :2], "heading (deg)", 20.0, [("", heading, pink)]),
        (grid[1, 2:], "root speed (m/s)", 0.2, speeds),
    ]
    for number, (group, parts) in enumerate(_DATA["joints"].items()):
        curves = _joint_curves(qpos[:, 7:], parts, style.GREY, style.COLOURS)
        panels.append((grid[2, number], f"{group} (rad)", 0.2, curves))
    for cell, title, least, curves in panels:
        axes = style.quiet(figure.add_subplot(cell), title)
        for mark_s in marks_s:
            axes.axvline(mark_s, color=style.RULE, linewidth=0.8, zorder=0)
        for label, values, colour in curves:
            thin = 0.8 if colour == style.GREY else 1.4
            axes.plot(time_s, values, color=colour, linewidth=thin, label=label or None)
        axes.margins(x=0.0, y=0.12)
        low, high = axes.get_ylim()
        missing = max(0.0, least - (high - low))  # rounding should look like nothing
        axes.set_ylim(low - missing / 2, high + missing / 2)
        place = {"loc": "lower right", "bbox_to_anchor": (1, 0.985), "ncols": 4}
        if title.endswith("(rad)"):
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 2}
        if any(label for label, *_ in curves):
            axes.legend(handlelength=1.2, columnspacing=1.0, **place, **style.LEGEND)
    style.save(figure, path)


def _joint_curves(joints: np.ndarray, parts, grey: str, colours) -> list[tuple]:
    """Label, values and colour; the joints that move most are named and drawn last."""
    from spectral_skills.robot.g1 import JOINTS

    own = [i for i, name in enumerate(JOINTS) if any(part in name for part in parts)]
    own.sort(key=lambda i: -float(joints[:, i].std()))
    found = [("", joints[:, i], grey) for i in own[_NAMED_JOINTS:]]
    for i, colour in zip(own[:_NAMED_JOINTS], colours, strict=False):
        found.append((JOINTS[i].replace("_", " "), joints[:, i], colour))
    return found
