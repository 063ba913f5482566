"""Speed and quality of retargeting: CMU's people by us, LAFAN1's by Unitree, and one
recording by both.

Needs a folder of motions with `cmu` (the packed set), `lafan1` (Unitree's motions) and
`human_samples`; --motions names it, or the variable SPECTRAL_MOTIONS. Frames are those
of the finished clips at 50 Hz, and all measures are of clips that were accepted.
"""

import argparse
import csv
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from textwrap import fill

import numpy as np
import torch
from beside import SPEEDS, by_speed, compare, human_paces, robot_paces, versus
from report import stamped
from tqdm import tqdm

from spectral_skills.motion import checks
from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.human import quality, sources
from spectral_skills.motion.human.conditions import HumanOptions
from spectral_skills.motion.human.fit import Fit, fit
from spectral_skills.motion.human.quality import Quality
from spectral_skills.motion.human.recording import Recording
from spectral_skills.motion.human.retarget import retarget
from spectral_skills.motion.motion_sets import OTHER
from spectral_skills.plots import charts, human, human_page
from spectral_skills.plots.tables import head, number, publish, text
from spectral_skills.results import Result, set_command
from spectral_skills.robot import g1

TABLE = "Retargeting: "
WORKERS = 2
GOALS = {
    "speed": "at least 2,000",
    "over 1 cm under the floor": "under 0.1",
    "planted feet over 2 cm/s": "under 1",
    "links over 1 cm inside others": "under 1",
    "beyond a joint's limit, worst": "0",
    "joint speed, worst": "at most 100",
    "accepted": "at least 90",
}
"""Of our own rows."""
_TAKE = "dance1_subject1"
_FILMED = (1000, 2000)
_WORDS = {
    "floor_share": ("over 1 cm under the floor", "% of frames"),
    "floor_depth_mm": ("under the floor, worst", "mm"),
    "floating_share": ("all over 3 cm above the floor", "% of frames"),
    "planted_share": ("planted", "% of feet"),
    "planted_fast_share": ("planted feet over 2 cm/s", "% of planted"),
    "skating_share": ("planted feet over 10 cm/s", "% of planted"),
    "self_share": ("links over 1 cm inside others", "% of frames"),
    "inside_share": ("links over 2 cm inside others", "% of frames"),
    "self_depth_mm": ("links inside others, worst", "mm"),
    "limit_excess": ("beyond a joint's limit, worst", "rad"),
    "speed_ratio": ("joint speed, worst", "% of limit"),
    "joint_acceleration_95": ("joint acceleration, 95 %", "rad/s^2"),
    "jump_share": ("joints or hips jump", "% of frames"),
    "hips_off": ("hips leave the person's, worst", "m/s"),
    "point_error_mm": ("joints off the person's", "mm"),
    "point_error_95_mm": ("joints off the person's, 95 %", "mm"),
    "bone_error_deg": ("limbs off the person's", "deg"),
    "limb_off_share": ("a limb over 60 degrees off", "% of frames"),
    "airborne_share": ("airborne", "% of frames"),
    "torque_share": ("torques in limits", "% of frames"),
    "balanced_share": ("zero-moment point in the soles", "% of loaded frames"),
    "balance_95": ("zero-moment point outside, 95 %", "m"),
}
"""Words and units of the measures of `Quality`."""


def spread(pack: Path, count: int | None) -> list[tuple[Path, str]]:
    """Recordings with their kinds, in turn of each kind and from all over it."""
    with (pack / "index.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.DictReader(file) if row["suitable"] == "yes"]
    kinds: dict[str, list[str]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row["name"])
    every = len(rows) if count is None else count
    mixed = []
    for kind, names in kinds.items():
        order = np.random.default_rng(0).permutation(len(names))
        mixed.append([(pack / names[i], kind) for i in order])
    turns = chain.from_iterable(zip_longest(*mixed))
    return [found for found in turns if found is not None][:every]


class Row:
    """Measures of many clips as results of one row."""

    def __init__(self, table: str, label: str, frames: int, ours: bool):
        self.table, self.label, self.frames, self.ours = table, label, frames, ours
        self.results: list[Result] = []

    def add(self, metric: str, value: float, unit: str, n: int | None = None) -> None:
        goal = GOALS.get(metric, "") if self.ours else ""
        cell = TABLE + self.table, self.label, metric, float(value), unit
        self.results.append(Result(*cell, n=n or self.frames, paper=goal))


def row(
    label: str, clips: list[dict], joints: Iterable[np.ndarray], fps: float, ours: bool
) -> list[Result]:
    """Shares of all frames of some clips, and the worst of them.

    Clips are the measures of `Quality` or `Plausibility`, joints (T, 29) their angles.
    """
    found = Row("measures", label, sum(clip["frames"] for clip in clips), ours)

    def add(name: str, worst: bool = False) -> None:
        metric, unit = _WORDS[name]
        value = max(c[name] for c in clips) if worst else quality.pooled(clips, name)
        found.add(metric, value * (100 if unit.startswith("%") else 1), unit)

    worst = partial(add, worst=True)
    add("floor_share")
    worst("floor_depth_mm")
    add("planted_fast_share")
    add("planted_share")
    add("self_share")
    worst("self_depth_mm")
    worst("limit_excess")
    worst("speed_ratio")
    pooled = [checks.joint_accelerations(j, fps).astype(np.float32) for j in joints]
    pooled = np.concatenate(pooled, axis=None)
    found.add("joint acceleration, 95 %", float(np.percentile(pooled, 95)), "rad/s^2")
    for name in ("torque_share", "balanced_share", "airborne_share"):
        add(name)
    return found.results


def ours(
    motions: Path, count: int | None, out: Path, picture: Path | None
) -> list[Result]:
    """Retarget the packed set, or a part of it, and measure what came out."""
    # Recordings of a subject follow each other: they are unpacked together.
    chosen = sorted(spread(motions / "cmu", count))
    kinds = {path.name: kind for path, kind in chosen}
    summary = retarget([path for path, _ in chosen], out, workers=WORKERS)
    corpus = Corpus.open(out)
    if picture is not None:
        draw_kinds(corpus, picture)
    entries = [corpus.entry(i) for i in range(len(corpus))]
    measured = [vars(Quality.from_json(entry.quality)) for entry in entries]
    label = f"ours, {len(chosen):,} clips of CMU"
    joints = (np.array(corpus.qpos(i))[:, 7:] for i in range(len(corpus)))
    head = Row("measures", label, corpus.frames, ours=True)
    if summary.frames_now:
        head.add("speed", summary.frames_now / summary.seconds, "frames/s, two cores")
    taken = len(corpus) / len(chosen)
    head.add("accepted", 100 * taken, "% of clips", n=len(chosen))
    results = head.results + row(label, measured, joints, FPS, ours=True)
    results += refusals(summary.refusals, len(chosen))
    for kind in sorted(set(kinds.values())):
        own = [i for i, e in enumerate(entries) if kinds[e.name] == kind]
        tried = sum(k == kind for k in kinds.values())
        results += of_kind(kind, [measured[i] for i in own], tried)
    return results + gaits(corpus)


@charts.styled
def draw_kinds(corpus: Corpus, path: Path) -> None:
    """Draw stills of one clip of each kind, the one in the middle by quality."""
    kinds = human_page.groups(corpus)
    rank = human_page.Measured(corpus).rank
    chosen = human_page.spread(kinds, rank, len(set(kinds)))
    named = [index for index in chosen if kinds[index] != OTHER] or chosen
    tall_px, left_px, top_px = 176, 200, 84
    height_px = top_px + len(named) * (tall_px + 8) + 24
    title = "People's motion on the robot, a clip of each kind"
    about = "From left to right in time; the person is scaled to the robot's legs."
    sheet = charts.sheet(height_px, title, about)
    sheet.set_layout_engine("none")
    for place, index in enumerate(named):
        pair, entry = human.Pair.of_clip(corpus, index), corpus.entry(index)
        assert pair is not None
        down_px = top_px + place * (tall_px + 8)
        where = pair, pair.spread(8), left_px, down_px, tall_px
        human.row(sheet, *where, times=False)
        said, _, _ = entry.text.partition("\n")
        label = f"{kinds[index]}: {said} ({entry.name})"
        words = fill(label, 19, max_lines=6, placeholder=" ...")
        middle = 1 - (down_px + tall_px / 2) / height_px
        sheet.text(0.015, middle, words, size=11, weight="bold", va="center")
    charts.save(sheet, path)


def refusals(refused: list, tried: int) -> list[Result]:
    """How many clips were refused for which reason."""
    counts = Counter(refusal.kind for refusal in refused)
    return [
        Result(f"{TABLE}refusals", kind, "clips", n, n=tried)
        for kind, n in counts.most_common()
    ]


def of_kind(kind: str, clips: list[dict], tried: int) -> list[Result]:
    """How close clips of a kind are to the person."""
    found = Row("by kind", kind, sum(clip["frames"] for clip in clips), ours=False)
    found.add("accepted", 100 * len(clips) / tried, "% of clips", n=tried)
    for name in (
        *("bone_error_deg", "point_error_mm", "planted_fast_share", "self_share"),
        *("joint_acceleration_95", "torque_share"),
    ):
        if clips:
            metric, unit = _WORDS[name]
            value = quality.pooled(clips, name)
            found.add(metric, value * (100 if unit.startswith("%") else 1), unit)
    return found.results


def gaits(corpus: Corpus) -> list[Result]:
    """Strides of the persons and of the robots, by speed."""
    persons, robots = [], []
    for i in tqdm(range(len(corpus)), desc="gait", disable=None):
        kept = corpus.human(i)
        if kept is not None:
            person = Recording(corpus.names[i], FPS, kept.points.astype(np.float64))
            persons += human_paces(person)
            robots += robot_paces(np.array(corpus.qpos(i)), FPS)
    results = []
    found = {"person": by_speed(persons), "robot": by_speed(robots)}
    for speed in SPEEDS:
        for who, rows in found.items():
            if speed not in rows:
                continue
            own = Row("gait", f"{speed}, {who}", int(rows[speed]["strides"]), False)
            for name, unit, factor in (
                ("speed", "legs/s", 1),
                ("froude", "", 1),
                ("cadence", "steps/s", 1),
                ("step_length", "legs", 1),
                ("step_width", "legs", 1),
                ("double_support_share", "%", 100),
                ("flight_share", "%", 100),
            ):
                metric = name.removesuffix("_share").replace("_", " ")
                own.add(metric, factor * rows[speed][name], unit)
            results += own.results
    return results


def unitree_clips(motions: Path) -> Iterator[tuple[str, Clip]]:
    """Unitree's motions at the rate that they were made at."""
    for path in sorted((motions / "lafan1").glob("*.npz")):
        with np.load(path) as file:
            rows, fps = file["qpos"], float(file["fps"])
        yield path.stem, Clip.from_qpos(rows, name=path.stem, fps=fps)


def theirs(motions: Path) -> list[Result]:
    """Unitree's motions by the same measures, as published and as we ingest them."""
    results: list[Result] = []
    clips = dict(unitree_clips(motions))
    standing = [name for name in clips if not name.startswith("fall")]
    whole = "LAFAN1 by Unitree"
    for label, names, fps in (
        (whole, list(clips), None),
        (f"{whole}, without falls", standing, None),
        (f"{whole}, interpolated to {FPS} Hz", list(clips), FPS),
    ):
        measured, joints, rate = [], [], FPS
        for name in tqdm(names, desc=label, disable=None):
            clip = clips[name] if fps is None else clips[name].resampled(fps)
            rows, rate = clip.qpos().astype(np.float64), clip.fps
            low, high = g1.JOINT_LIMITS.T
            excess = np.maximum(low - rows[:, 7:], rows[:, 7:] - high).max().clip(0.0)
            found = vars(checks.measure(rows, rate)) | {"limit_excess": float(excess)}
            measured.append(found)
            joints.append(rows[:, 7:])
        results += row(label, measured, joints, rate, ours=False)
    return results


def beside(motions: Path, film: Path | None) -> list[Result]:
    """One recording retargeted by us and by Unitree: measures and differences, and a
    film of twenty seconds where one is wanted."""
    (bvh,) = (motions / "human_samples").glob(f"lafan1_{_TAKE}*.bvh")
    (person,) = sources.read(bvh, HumanOptions())
    if isinstance(person, ClipError):
        raise person
    began = time.perf_counter()
    made = fit(person)
    seconds = time.perf_counter() - began
    clips = dict(unitree_clips(motions))
    published = clips[_TAKE].resampled(FPS).qpos()
    difference, own, others = compare(made.qpos, published)
    if film is not None:
        pair = versus(made.human, made.qpos, published).part(*_FILMED)
        print("film:", *human.write_film(pair, film, _TAKE, ("ours", "Unitree's")))
    place = difference.alignment
    frames = slice(place.first, place.first + place.frames)
    points, standing = made.human[frames], made.contacts[frames]
    results = []
    for label, rows, clip in (
        ("ours", own, Clip.from_qpos(made.qpos, name=_TAKE, fps=FPS)),
        ("Unitree's", others, clips[_TAKE]),
    ):
        found = quality.measure(Fit(rows, points, standing, made.scale))
        one = Row(_TAKE, label, found.frames, ours=False)
        for name, (metric, unit) in _WORDS.items():
            value = getattr(found, name)
            one.add(metric, value * (100 if unit.startswith("%") else 1), unit)
        native = checks.joint_accelerations(clip.joints, clip.fps)
        metric = "joint acceleration, 95 %, at its own rate"
        one.add(metric, float(np.percentile(native, 95)), "rad/s^2")
        results += one.results
    apart = Row(_TAKE, "difference", place.frames, ours=False)
    for name, value in vars(difference).items():
        if isinstance(value, float):
            unit = name.split("_")[-1]
            apart.add(name.removesuffix(f"_{unit}").replace("_", " "), value, unit)
    for part, value in difference.parts_deg.items():
        apart.add(f"{part} joints", value, "deg")
    apart.add("lag", place.lag, "frames")
    apart.add("length of our path over theirs", place.scale, "")
    apart.add("our speed", len(made.qpos) / seconds, "frames/s, one core")
    return results + apart.results


def turned(results: list[Result]) -> str:
    """A line for every measure and a column for every row, and the goals."""
    rows = list(dict.fromkeys(r.row for r in results))
    lines: dict[str, dict[str, str]] = {}
    for r in results:
        line = lines.setdefault(head(r.metric, r.unit), {})
        line[r.row] = number(r.value)
        if r.paper:
            line["goal"] = r.paper
    columns = rows + ["goal"] * any("goal" in line for line in lines.values())
    cells = [
        [name, *(line.get(c, "") for c in columns)] for name, line in lines.items()
    ]
    return text([["", *columns], *cells])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("ours", "theirs", "beside", "all"))
    here = os.environ.get("SPECTRAL_MOTIONS")
    parser.add_argument("--motions", type=Path, default=here, required=here is None)
    parser.add_argument(
        "--clips", type=int, help="clips of CMU, from all kinds; all by default"
    )
    parser.add_argument("--out", type=Path, help="where the corpus is kept")
    parser.add_argument("--picture", type=Path, help="stills of a clip of each kind")
    parser.add_argument("--film", type=Path, help="film of one recording by both")
    parser.add_argument("--record", type=Path, help="file of results to update")
    given = parser.parse_args()
    set_command(["python", "benchmarks/retarget.py", *sys.argv[1:]])
    motions, results = Path(given.motions), []
    if given.what in ("ours", "all"):
        with tempfile.TemporaryDirectory() as temporary:
            out = given.out or Path(temporary) / "cmu"
            results += ours(motions, given.clips, out, given.picture)
    torch.set_num_threads(1)
    if given.what in ("theirs", "all"):
        results += theirs(motions)
    if given.what in ("beside", "all"):
        results += beside(motions, given.film)
    results = stamped(results, "cpu")
    for table in dict.fromkeys(r.table for r in results):
        print(f"\n{table}\n{turned([r for r in results if r.table == table])}")
    if given.record is not None:
        publish(results, given.record)


if __name__ == "__main__":
    main()
