"""A corpus as text and pictures: counts, clips, checks, and what its motions cover."""

import json
import tomllib
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.ticker import MaxNLocator, MultipleLocator, NullLocator

from spectral_skills import rotation
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
from spectral_skills.motion.checks import average, rate
from spectral_skills.motion.clip import mirror_name
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import Kinematics, LinkPoses, sole_heights
from spectral_skills.motion.synthetic.factors import (
    FACTORS,
    PAIRS,
    TRAVELS,
    factors_of,
)
from spectral_skills.plots import charts, film
from spectral_skills.plots.charts import COLOURS, GREY, INK, LEFT, MUTED, RIGHT, RULE
from spectral_skills.plots.tables import publish, text
from spectral_skills.robot import g1
from spectral_skills.workers import few_or_all, in_order

_DATA = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text())
_NAMED_JOINTS = 4
"""Number of joints of a group that have a colour and a name; the others are grey."""
PANELS = 8
_SHOULDERS = ("left_shoulder_pitch_link", "right_shoulder_pitch_link")
_LINKS = (*g1.FEET, *g1.WRISTS, *_SHOULDERS, "torso_link")
_STRIDE_S = 1.2
"""Time over which speeds are averaged, so that sway does not count as travel."""
_LIFTED_M, _SWING_S, _STEP_S = 0.01, 0.12, 1.0
_STILL = 0.15
"""Speed, m/s or rad/s, below which frames are not shown: they would hide the rest."""
_MANY = LinearSegmentedColormap.from_list("many", ["#e6f1f7", "#5aa3cc", "#00466e"])
_PATHS_EACH = 14
_SHOWN_M = 2.3
"""Length of a path along which footprints are drawn."""
_HEEL_TOE_M = np.array([-0.04, 0.11])


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


def draw_clip(folder: Path, name: str, picture: Path) -> None:
    corpus = Corpus.open(folder)
    if name not in corpus.names and name.endswith(mirror_name("")):
        corpus = corpus.with_mirror()
    clip_sheet(corpus, corpus.index(name), picture)
    print(f"wrote {picture}")


@charts.styled
def clip_sheet(corpus: Corpus, index: int, path: Path) -> None:
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


def measures(qpos: np.ndarray, fps: float = FPS) -> dict[str, np.ndarray]:
    """What (T, 36) rows do, by the names of the histograms in corpus.toml.

    Curves are in m, rad and s; hands are (T, 2) left and right. `cadence` has a value
    for every two steps in a row, `clearance` one per swing. Besides there are `feet`,
    (T, 2, 3) x, y and yaw, and `standing`, (T, 2) whether each foot is on the floor.
    """
    qpos = np.asarray(qpos, dtype=np.float64)
    poses = _links()(torch.from_numpy(qpos))
    place, turn = poses.position.numpy(), poses.quaternion
    yaw, velocity = headings(qpos), rate(qpos[:, :2], fps)
    cosine, sine = np.cos(yaw), np.sin(yaw)
    upright = torch.tensor([0.0, 0.0, 1.0], dtype=turn.dtype)
    up = rotation.rotate_inverse(turn[:, -1], upright).numpy()
    heights = sole_heights(LinkPoses(poses.position[:, :2], turn[:, :2])).numpy()
    swings = [
        (foot, start, end)
        for foot in (0, 1)
        for start, end in _stretches(heights[:, foot] > _LIFTED_M)
        if 0 < start and end < len(qpos) and end - start >= _SWING_S * fps
    ]
    landings = np.sort([end for *_, end in swings])
    pairs = (landings[2:] - landings[:-2]) / fps
    window = round(_STRIDE_S * fps)
    foot_yaw = rotation.yaw(turn[:, :2]).numpy()[..., None]
    return {
        "forward": average(velocity[:, 0] * cosine + velocity[:, 1] * sine, window),
        "sideways": average(velocity[:, 1] * cosine - velocity[:, 0] * sine, window),
        "turning": average(rate(yaw, fps), window),
        "pelvis_height": qpos[:, 2],
        "torso_pitch": np.arctan2(-up[:, 0], up[:, 2]),
        "hand_height": place[:, 2:4, 2] - place[:, 4:6, 2],
        "cadence": 2.0 / pairs[(pairs > 0) & (pairs < 2 * _STEP_S)],
        "clearance": np.array([heights[a:b, foot].max() for foot, a, b in swings]),
        "feet": np.concatenate((place[:, :2, :2], foot_yaw), axis=-1),
        "standing": heights < _LIFTED_M,
    }


@cache
def _links() -> Kinematics:
    return Kinematics(_LINKS, dtype=torch.float64)


def _stretches(mask: np.ndarray) -> list[tuple[int, int]]:
    """First frame of every stretch that is true, and the frame after its last."""
    change = np.diff(np.concatenate(([0], mask.astype(int), [0])))
    ends = np.flatnonzero(change > 0), np.flatnonzero(change < 0)
    return [(int(a), int(b)) for a, b in zip(*ends, strict=True)]


def from_above(places: np.ndarray, qpos: np.ndarray) -> np.ndarray:
    """Places (..., 2) as seen from the first frame: to the right, ahead, m."""
    yaw = headings(qpos[:1])[0]
    turn = np.array([[np.sin(yaw), np.cos(yaw)], [-np.cos(yaw), np.sin(yaw)]])
    return (places - qpos[0, :2]) @ turn


def clips_with(names: list[str]) -> Counter[frozenset[str]]:
    found: Counter[frozenset[str]] = Counter()
    for name in names:
        factors = factors_of(name)
        found.update(frozenset((factor,)) for factor in factors)
        found.update(frozenset(pair) for pair in combinations(factors, 2))
    return found


@charts.styled
def draw_coverage(corpus: Corpus, path: str | Path) -> None:
    """Draw the measurements, which factors occur together, and where clips go."""
    clips = (np.array(corpus.qpos(i)) for i in range(len(corpus)))
    found = list(in_order(measures, clips, few_or_all(len(corpus))))
    subtitle = f"{len(corpus):,} clips, {corpus.hours:.2f} h. Every number is measured "
    subtitle += "from the motions; only the table of pairs goes by their names."
    figure = charts.sheet(2060, "What the corpus covers", subtitle)
    parts: Any = figure.subfigures(3, 1, height_ratios=(4, 7, 4))
    top, middle, bottom = parts
    looks = _DATA["histograms"].items()
    for axes, (name, look) in zip(top.subplots(2, 4).flat, looks, strict=True):
        values = np.concatenate([one[name] for one in found])
        _histogram(axes, values, *look)
    left, right = middle.subplots(1, 2, width_ratios=(5, 3))
    _pair_table(left, corpus)
    _paths(right, corpus)
    title = "Footprints of one clip each, left and right; the line is the pelvis"
    bottom.suptitle(title, x=0.012, ha="left", size=13, weight="bold")
    for axes, travel in zip(bottom.subplots(1, len(TRAVELS)), TRAVELS, strict=True):
        axes.set(title=travel, aspect="equal", xticks=[], yticks=[])
        axes.spines[:].set_visible(True)
        alone = [i for i, n in enumerate(corpus.names) if factors_of(n) == {travel}]
        if alone:
            _footprints(axes, np.array(corpus.qpos(alone[0]), float), found[alone[0]])
    charts.save(figure, path)


def _histogram(
    axes: Axes, values, title: str, factor: float, low: float, high: float, look: str
) -> None:
    """Shares in percent; the outermost bars hold what is farther out."""
    axes.set(title=title, xlim=(low, high))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    columns = factor * np.atleast_2d(values.T)
    if look == "moving":
        still = np.abs(columns[0]) <= _STILL
        note = f"{still.mean():.0%} of the time below {_STILL:g}, not shown"
        small: dict = {"size": 9, "color": MUTED, "ha": "right", "va": "top"}
        axes.text(1.0, 1.0, note, transform=axes.transAxes, **small)
        columns = columns[:, ~still]
    both = len(columns) == 2
    for column, label in zip(columns, ("left", "right"), strict=False):
        shares = np.full(len(column), 100 / max(1, len(column)))
        kind: dict = {"histtype": "step" if both else "stepfilled", "label": label}
        clipped, edges = column.clip(low, high), np.linspace(low, high, 41).tolist()
        axes.hist(clipped, edges, weights=shares, linewidth=1.5, **kind)
    if both:
        axes.legend(loc="upper right")
    if look == "moving":
        axes.set_ylim(0, 1.2 * axes.get_ylim()[1])
    elif look == "log":
        # Rare poses are what the corpus is for: show them beside common ones.
        axes.set(ylim=(0.01, 100), yscale="log")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:g} %")


def _pair_table(axes: Axes, corpus: Corpus) -> None:
    """Draw a triangle of counts: how many clips have both factors."""
    counts, size = clips_with(corpus.names), len(FACTORS)
    most, image = max(1, *(counts[pair] for pair in PAIRS)), np.ones((size, size, 4))
    look: dict = {"ha": "center", "va": "center", "size": 10.5}
    for row, one in enumerate(FACTORS):
        for column, other in enumerate(FACTORS[: row + 1]):
            pair = frozenset((one, other))
            mark, shade = PAIRS.get(pair, "alone"), (counts[pair] / most) ** 0.6
            text, colour = str(counts[pair]), INK
            if mark == "x":
                image[row, column] = _MANY(shade)
                colour = "white" if shade > 0.45 else INK
            elif mark == "-":
                image[row, column], text = to_rgba("#eceff2"), ""
            elif mark == "o":
                text, colour = "◯", RIGHT
            weight = "bold" if mark in ("alone", "o") else "normal"
            axes.text(column, row, text, color=colour, weight=weight, **look)
    axes.imshow(image)
    names = [factor.replace("_", " ") for factor in FACTORS]
    axes.set_title("Which factors occur together: clips that have both", size=13)
    axes.set_xticks(range(size), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size), names)
    axes.tick_params(labelsize=11, labelcolor=INK, pad=3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(np.arange(size + 1) - 0.5, minor=True)
    axes.grid(False)
    axes.grid(which="minor", axis="both", color="white", linewidth=3)
    axes.spines[:].set_visible(False)
    key = (
        "shaded: clips that have both\n◯  left out on purpose: no clip has both\n"
        "grey: impossible, one excludes the other\nbold: clips that have the factor"
    )
    place = {"transform": axes.transAxes, "va": "top", "size": 11}
    axes.text(0.52, 0.97, key, linespacing=1.8, **place)


def _paths(axes: Axes, corpus: Corpus) -> None:
    axes.set_title("Paths of the pelvis, seen from above (m)", size=13)
    # A clip of several travels is coloured by the last of TRAVELS. Joggers go farthest:
    # drawn first, they do not cover the others.
    left = list(range(len(corpus)))
    for travel, colour in reversed(list(zip(TRAVELS, COLOURS, strict=True))):
        own = [i for i in left if travel in factors_of(corpus.names[i])]
        left = [i for i in left if i not in own]
        for number, index in enumerate(own[:_PATHS_EACH]):
            qpos = np.array(corpus.qpos(index), dtype=float)
            x, y = from_above(qpos[:, :2], qpos).T
            look = {"color": colour, "label": None if number else travel}
            axes.plot(x, y, "o-", linewidth=1.2, markersize=3.5, markevery=[-1], **look)
    axes.plot([0], [0], "o", color=INK, markersize=6, zorder=5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(2))
        axis.grid(True)
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(loc="upper left", reverse=True)
    axes.set_xlabel("all start at the dot, facing up")


def _footprints(axes: Axes, qpos: np.ndarray, found: dict[str, np.ndarray]) -> None:
    path = from_above(qpos[:, :2], qpos)
    # The part that fits: until the path has left the panel.
    far = np.abs(path - path[0]).max(axis=1) > _SHOWN_M
    end = int(far.argmax()) if far.any() else len(path)
    axes.plot(*path[:end].T, color=MUTED, linewidth=1.3, zorder=3)
    for foot, colour in enumerate((LEFT, RIGHT)):
        for first, last in _stretches(found["standing"][:end, foot]):
            x, y, yaw = found["feet"][(first + last) // 2, foot]
            ahead = np.outer(_HEEL_TOE_M, (np.cos(yaw), np.sin(yaw)))
            sole = from_above(np.array([x, y]) + ahead, qpos).T
            axes.plot(*sole, color=colour, alpha=0.55, linewidth=6)
    middle = 0.5 * (path[:end].min(axis=0) + path[:end].max(axis=0))
    half = 0.5 * _SHOWN_M + 0.3
    axes.set_xlim(middle[0] - 0.62 * half, middle[0] + 0.62 * half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
