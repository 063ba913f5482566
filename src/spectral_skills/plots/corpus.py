"""A corpus as text and its clips as pictures: counts, lists, checks, sheets."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spectral_skills.config import read_table
from spectral_skills.control.rollout import Rollout
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
from spectral_skills.experiments.effects import headings
from spectral_skills.motion.clip import mirror_name
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.gait import rate
from spectral_skills.motion.kinematics import Kinematics, sole_heights
from spectral_skills.plots import charts, film
from spectral_skills.plots.charts import GREY, RULE
from spectral_skills.plots.human import Pair, write_film
from spectral_skills.plots.human_sheet import human_sheet
from spectral_skills.plots.tables import publish, text
from spectral_skills.robot import g1

_DATA = read_table(__file__, "corpus.toml")
_NAMED_JOINTS = 4
"""Number of joints of a group that have a colour and a name; the others are grey."""
PANELS = 8


def describe(corpus: Corpus) -> dict:
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
    corpus = Corpus.open(folder)
    entries = [corpus.entry(i) for i in range(len(corpus))]
    chosen = [e for e in entries if match.lower() in f"{e.name}\n{e.text}".lower()]
    for entry in chosen[:limit]:
        words = entry.text.replace("\n", " / ")
        print(f"{entry.name:<40} {entry.length / FPS:8.2f} s  {entry.source}  {words}")
        for note in filter(None, entry.notes.split("\n") if notes else ()):
            print(f"{'':<40}   {note}")
    if len(chosen) > len(chosen[:limit]):
        print("...")


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
                print(f"{title}\n{text(group_table(check.summary, columns))}\n")
        print(gait_table({c.label: c.gaits for c in checks}))
        print(
            "\n50%, 95% and 99% are percentiles over frames. A group has the worst of "
            "its clips where\nit says so, else their mean. Only soles are contacts."
        )
    if record is not None:
        publish(results(checks), record)


def group_table(summary: Summary, columns: dict | None = None) -> list[list[str]]:
    """A line per group; columns have a heading, a factor and a number of decimals.

    By default they are the measurements that matter most.
    """
    if columns is None:
        columns = {k: (f"{n} ({u})", f, d) for k, (n, u, f, d) in RECORDED.items()}
    lines = [["", "clips", "h", *(heading for heading, *_ in columns.values())]]
    for name, row in summary.items():
        values = [f"{f * row[key]:z.{d}f}" for key, (_, f, d) in columns.items()]
        hours = f"{row['frames'] / FPS / 3600:.3f}"
        lines.append([name, f"{row['clips']:,.0f}", hours, *values])
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


def draw_clip(
    folder: Path, name: str, picture: Path, film_s: float | None = None
) -> None:
    """Draw a clip, and film as many seconds of it."""
    corpus = Corpus.open(folder)
    if name not in corpus.names and name.endswith(mirror_name("")):
        corpus = corpus.with_mirror()
    index = corpus.index(name)
    clip_sheet(corpus, index, picture)
    print(f"wrote {picture}")
    if film_s is not None:
        pair = Pair.of_clip(corpus, index)
        if pair is None:
            record = Rollout.of_rows(name, np.array(corpus.qpos(index), dtype=float))
            made = film.write_film(record, picture, most_s=film_s)
        else:
            made = write_film(pair, picture, name, most_s=film_s)
        for path in made:
            print(f"wrote {path}")


def clip_sheet(corpus: Corpus, index: int, path: Path) -> None:
    """Draw one clip, beside the person it was made from where the corpus has one."""
    draw = robot_sheet if corpus.human(index) is None else human_sheet
    draw(corpus, index, path)


@charts.styled
def robot_sheet(corpus: Corpus, index: int, path: Path) -> None:
    """Draw stills, foot heights, root and joint curves of one clip."""
    entry = corpus.entry(index)
    qpos = np.array(corpus.qpos(index), dtype=np.float64)
    motion, time_s = film.Still.spread(qpos, PANELS), np.arange(len(qpos)) / FPS
    left, right = sole_heights(Kinematics(g1.FEET)(torch.from_numpy(qpos).float())).T
    velocity = rate(qpos[:, :3], FPS)
    speed = np.linalg.norm(velocity[:, :2], axis=1)
    panels = {
        "foot height (m)": {"left": left, "right": right},
        "root position (m)": dict(zip("xyz", qpos.T, strict=False)),
        "heading (deg)": {"_": np.degrees(headings(qpos))},
        "root speed (m/s)": {"along the floor": speed, "upward": velocity[:, 2]},
    }
    joints = {f"{g} (rad)": _joint_curves(qpos, p) for g, p in _DATA["joints"].items()}
    feet, root, heading, fast = panels
    title = f"{entry.name}: {entry.text.splitlines()[0] if entry.text else ''}"
    facts = [f"{entry.length / FPS:.1f} s", entry.source, entry.licence]
    figure = charts.sheet(1120, title, "  |  ".join(filter(None, facts)), 350)
    film.row(figure, motion, 48, 84, 256)
    rows: Any = [[feet, feet, root, root], [heading, heading, fast, fast], [*joints]]
    for title, axes in figure.subplot_mosaic(rows).items():
        axes.set_title(title)
        for mark_s in time_s[motion.frames]:
            axes.axvline(mark_s, color=RULE, linewidth=0.8, zorder=0)
        for label, values in (panels | joints)[title].items():
            grey = {"color": GREY, "linewidth": 0.8} if label[:2] == "_ " else {}
            axes.plot(time_s, values, label=label, **{"linewidth": 1.4, **grey})
        axes.margins(x=0.0, y=0.12)
        low, high = axes.get_ylim()
        least = 20.0 if title == heading else 0.1  # rounding should look like nothing
        missing = max(0.0, least - (high - low))
        axes.set_ylim(low - missing / 2, high + missing / 2)
        place = {"loc": "lower right", "bbox_to_anchor": (1, 0.985), "ncols": 4}
        if title in joints:
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 2}
        if axes.get_legend_handles_labels()[0]:
            axes.legend(handlelength=1.2, columnspacing=1.0, **place)
    charts.save(figure, path)


def _joint_curves(qpos: np.ndarray, parts: list[str]) -> dict[str, np.ndarray]:
    """Curves by name; joints that move most come last, the names of others begin with
    an underscore, which keeps them out of legends."""
    own = [i for i, name in enumerate(g1.JOINTS) if any(part in name for part in parts)]
    own.sort(key=lambda i: -float(qpos[:, 7 + i].std()))
    named, others = own[:_NAMED_JOINTS], own[_NAMED_JOINTS:]
    labels = {i: "_ " * (i in others) + g1.JOINTS[i].replace("_", " ") for i in own}
    return {labels[i]: qpos[:, 7 + i] for i in (*others, *named)}
