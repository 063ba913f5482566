"""HTML pages of one style: the findings of experiments, and the demo.

A page is a list of sections, a section a list of parts: small dicts that the functions
below make and page.j2 renders. Nothing on a page is loaded from elsewhere.
"""

import base64
import csv
import io
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
from PIL import Image
from tqdm import tqdm

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.control.metrics import episodes
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.run import follow
from spectral_skills.experiments.corpus_check import groups, summarise
from spectral_skills.experiments.findings import (
    EXPERIMENTS,
    RECORDS,
    Chart,
    Film,
    Findings,
)
from spectral_skills.models import Models
from spectral_skills.motion.checks import measure_corpus
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.ingest import ingest
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.plots import charts, film
from spectral_skills.plots.corpus import clip_sheet, draw_coverage, group_table
from spectral_skills.plots.skills import all_ranks, draw_map, draw_poses
from spectral_skills.plots.tables import Table, blocks, measured_with, number
from spectral_skills.robot.render import backend
from spectral_skills.skill.encoder import SkillBank

Part = dict[str, Any]
_DATA = tomllib.loads(Path(__file__).with_name("page.toml").read_text())
_TEXTS = _DATA["text"]
FILM_SIZE = (320, 288)
STILLS = 6
_LONGEST_S, _PICTURE_S = 6.0, 0.1
"""Length of a film, to which longer runs are sped up, and of one of its pictures."""
_LARGEST_FILM, _ALL_FILMS = 600_000, 8_000_000
"""Bytes of one film and of all on a page, which are a third more as text."""
GRIDS, SHEETS, FOLLOWED = _DATA["grids"], _DATA["sheets"], _DATA["followed"]
"""Factors of the motions in rows of pictures, in full, and followed by a robot."""
PANELS = 8
_SENTENCES = 10
_BUSY = 0.3
"""Joint speed, rad/s, above which a clip does more than stand."""


class Section(NamedTuple):
    title: str
    anchor: str
    parts: list[Part]


def text(words: str, look: str = "") -> Part:
    return {"kind": "text", "text": words, "look": look}


def picture(source: str, caption: str) -> Part:
    """A picture that lies beside the page."""
    image = {"src": source, "alt": caption}
    return {"kind": "figure", "images": [image], "caption": caption}


def cells(lines: Sequence[Sequence[str]], look: str = "") -> Part:
    """A table of plain text; with the look `numbers`, all but its first column are."""
    return {"kind": "cells", "cells": lines, "look": look}


def write(path: Path, **page: Any) -> None:
    """Write a whole page: title, lead, sections, opening; with `facts` it also has a
    table of contents."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    settings: dict = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    environment = jinja2.Environment(loader=loader, **settings)
    environment.filters["number"] = number
    write_file(path, environment.get_template("page.j2").render(page))


def findings_page(folders: list[Path], out: Path, films: bool = True) -> Path:
    """Write index.html from the findings in some folders; gives its path."""
    found, problems = _read_folders(folders)
    studio = _Studio(sum(len(findings.films) for _, findings in found))
    names = Counter(findings.experiment for _, findings in found)
    sections = []
    with tqdm(total=studio.count, desc="films", disable=None if films else True) as bar:
        for index, (folder, findings) in enumerate(found):
            title, anchor = findings.title, findings.experiment
            if names[findings.experiment] > 1:
                title, anchor = f"{title} ({folder.name})", f"{anchor}-{index}"
            parts = _numbers(findings)
            parts += _cards([_chart(chart) for chart in findings.charts])
            drawn = []
            for one in findings.films if films else ():
                drawn.append(studio.part(one, folder))
                bar.update()
            sections.append(Section(title, anchor, parts + _cards(drawn)))
    results = [r for _, findings in found for r in findings.results]
    against = sum(bool(r.paper) for r in results)
    lead = f"{_count(len(sections), 'experiment')}, {_count(len(results), 'number')}, "
    lead += f"{against} of them beside the paper's."
    facts = {
        "Models": _distinct(r.models or r.run for r in results),
        "Training": _distinct(findings.model for _, findings in found),
        "Hardware": _distinct(r.hardware for r in results),
        "Data": _TEXTS["data"],
        "Paper": _TEXTS["paper"],
    }
    title = "Spectral Skills: findings of the experiments"
    opening = [text(problem) for problem in problems]
    given = {"sections": sections, "opening": opening, "facts": facts}
    write(out / "index.html", title=title, lead=lead, **given)
    return out / "index.html"


def _read_folders(folders: list[Path]) -> tuple[list[tuple[Path, Findings]], list[str]]:
    """Findings in reading order, and what could not be read."""
    found: list[tuple[Path, Findings]] = []
    empty, damaged = [], []
    for folder in folders:
        files = sorted(folder.glob("*.json"))
        if not files:
            empty.append(f"{folder}: no findings in it.")
        for path in files:
            try:
                values = configs.parse(path.read_text(), str(path))
                # Experiments may keep other files beside their findings.
                if isinstance(values, dict) and "experiment" in values:
                    found.append((folder, Findings.load(path)))
            except (ValueError, OSError) as error:
                damaged.append(f"Omitted, because it cannot be read: {error}")
    if not found:
        where = ", ".join(map(str, folders)) or "no folder"
        reasons = "".join(f"\n{reason}" for reason in damaged)
        raise ValueError(
            f"no findings in {where}; `spectral evaluate composition NAME --out DIR` "
            f"and other evaluations write some{reasons}"
        )
    order = {name: place for place, name in enumerate(EXPERIMENTS)}
    found.sort(key=lambda one: order.get(one[1].experiment, len(order)))
    return found, empty + damaged


def _numbers(findings: Findings) -> list[Part]:
    parts = [text(findings.note)] if findings.note else []
    names = dict.fromkeys(r.table for r in findings.results)
    for name in names:
        if len(names) > 1:
            parts.append({"kind": "heading", "text": name})
        own = [r for r in findings.results if r.table == name]
        for block in blocks(own):
            table = Table.of(block)
            parts.append({"kind": "table", "table": table, "name": findings.title})
        measured = measured_with(own).replace("`", "")
        parts.append(text(f"Measured with {measured}.", "small"))
    return parts if names else [*parts, text("No numbers.")]


def _chart(chart: Chart) -> Part:
    try:
        drawn = {"svg": charts.draw(chart), "wide": charts.is_wide(chart)}
    except ValueError as error:
        return text(f"Chart “{chart.title}” is omitted: {error}.")
    return {"kind": "figure", "title": chart.title, "caption": chart.note, **drawn}


def _cards(parts: list[Part]) -> list[Part]:
    """Figures side by side where there is room, and sentences below them."""
    figures = [part for part in parts if part["kind"] == "figure"]
    others = [part for part in parts if part["kind"] != "figure"]
    return [{"kind": "cards", "cards": figures}, *others] if figures else others


class _Studio:
    """Draws films of runs beside their bases, and each base once."""

    def __init__(self, count: int):
        self.count = count
        self.largest = min(_LARGEST_FILM, _ALL_FILMS // max(count, 1))
        self._bases: dict[tuple, list[np.ndarray]] = {}

    def part(self, one: Film, folder: Path) -> Part:
        try:
            run, base = (_rows(folder / RECORDS / name) for name in (one.run, one.base))
        except ValueError as error:
            return text(f"Film “{one.title}” is omitted: {error}.")
        seconds = (min(len(run), len(base)) - 1) / FPS
        faster = max(1.0, seconds / _LONGEST_S)
        count = max(1, round(seconds / faster / _PICTURE_S))
        frames = np.linspace(0, round(seconds * FPS), count).round().astype(int)
        sight, key = film.sight_deg(base), (folder, one.base, int(frames[-1]))
        if key not in self._bases:
            self._bases[key] = _labelled(base, frames, sight, "base")
        pair = self._bases[key], _labelled(run, frames, sight, "steered")
        shown = [np.concatenate(both, axis=1) for both in zip(*pair, strict=True)]
        clip = film.webp_bytes(shown, _PICTURE_S, self.largest)
        chosen = np.linspace(0, count - 1, min(STILLS, count)).round().astype(int)
        rows = [np.concatenate([images[i] for i in chosen], axis=1) for images in pair]
        strip, stills = Image.fromarray(np.concatenate(rows)).reduce(2), io.BytesIO()
        strip.save(stills, format="WEBP", quality=60)
        played = f", played {faster:.1f} times as fast" if faster > 1.05 else ""
        alt = f"{one.title}: the unsteered base and the steered run"
        images = [
            {"look": look, "alt": alt, "src": f"data:image/webp;base64,{data.decode()}"}
            for look, data in (
                ("clip", base64.b64encode(clip)),
                ("strip", base64.b64encode(stills.getvalue())),
            )
        ]
        return {"kind": "figure", "images": images, "caption": f"{one.title}{played}."}


def _rows(path: Path) -> np.ndarray:
    if not path.is_file():
        raise ValueError(f"the record {path.name} is missing")
    try:
        rows = np.asarray(Rollout.load(path).numpy().robot[:, 0], dtype=float)
    except (OSError, ValueError) as error:
        raise ValueError(f"the record {path.name} is damaged ({error})") from error
    if not np.isfinite(rows[0]).all():
        raise ValueError(f"the record {path.name} is broken from its first row on")
    return film.unbroken(rows)


def _labelled(rows: np.ndarray, frames: np.ndarray, sight: float, name: str) -> list:
    drawn = film.shots(rows, frames, FILM_SIZE, film=True, azimuth_deg=sight)
    times = [f"{name}  {frame / FPS:.1f} s" for frame in frames.tolist()]
    return [film.captioned(p, t, "") for p, t in zip(drawn, times, strict=True)]


def _count(n: int, name: str) -> str:
    return f"{n:,} {name}{'' if n == 1 else 's'}"


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))


def demo_page(folder: Path, out: Path) -> Path:
    """Draw and measure a generated corpus, ingest a few files; returns the page."""
    corpus, pictures = Corpus.open(folder), out / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    draw_coverage(corpus, pictures / "coverage.png")
    lead = f"{len(corpus):,} motions of a Unitree G1, {corpus.hours:.2f} hours, "
    lead += "generated on this machine. Nothing was downloaded."
    measured = summarise(measure_corpus(corpus), groups(corpus))
    named = {
        **_grids(corpus, pictures),
        "Clips in full": _sheets(corpus, pictures),
        "In words": [text(_TEXTS["words"]), cells(_sentences(corpus))],
        **_skills(corpus, pictures),
        **_controller(corpus, pictures),
        "How plausible it is": [
            text(_TEXTS["plausibility"]),
            cells(group_table(measured), "numbers"),
        ],
        "Your own motions": [
            text(_TEXTS["ingest"]),
            {"kind": "terminal", "text": _ingest(corpus, out)},
            text(f"Pictures drawn by: {backend()}."),
        ],
    }
    parts = enumerate(named.items())
    sections = [Section(title, f"part-{i}", own) for i, (title, own) in parts]
    opening = [picture("pictures/coverage.png", _TEXTS["coverage"])]
    title = "Spectral Skills: the embedded corpus"
    given = {"title": title, "lead": lead, "sections": sections, "opening": opening}
    write(out / "index.html", **given)
    return out / "index.html"


def example(corpus: Corpus, wanted: str) -> int | None:
    """A clip with exactly these factors, if possible one that begins standing."""
    factors = frozenset(wanted.split("+")) - {""}
    own = [i for i, name in enumerate(corpus.names) if factors_of(name) == factors]

    def first_speed(index: int) -> float:
        rows = corpus.qpos(index)[:2, :2]
        return float(np.linalg.norm(rows[1] - rows[0])) * FPS

    return next((i for i in own if first_speed(i) < 0.05), own[0] if own else None)


def _examples(corpus: Corpus, wanted: list[str]) -> list[int]:
    return [i for i in (example(corpus, w) for w in wanted) if i is not None]


def _active(qpos: np.ndarray) -> np.ndarray:
    """The part of a clip from its first to its last movement of a joint."""
    speed = np.abs(np.diff(qpos[:, 7:], axis=0)).max(axis=1) * FPS
    busy = np.flatnonzero(speed > _BUSY)
    return qpos[busy[0] : busy[-1] + 2] if len(busy) else qpos


def _grids(corpus: Corpus, pictures: Path) -> dict[str, list[Part]]:
    found = {}
    bar = tqdm(GRIDS.items(), desc="drawing", unit="picture", disable=None)
    for place, (heading, wanted) in enumerate(bar):
        motions = [
            film.Still.spread(_active(corpus.qpos(i)), PANELS, _sentence(corpus, i))
            for i in _examples(corpus, wanted)
        ]
        if motions:
            name = f"motions_{place}.png"
            film.strip(pictures / name, motions)
            caption = f"{heading}, from left to right in time, in the clips' own words."
            found[heading] = [picture(f"pictures/{name}", caption)]
    return found


def _sheets(corpus: Corpus, pictures: Path) -> list[Part]:
    parts = []
    for index in _examples(corpus, SHEETS):
        name = f"{corpus.names[index]}.png"
        clip_sheet(corpus, index, pictures / name)
        parts.append(picture(f"pictures/{name}", _sentence(corpus, index)))
    return parts


def _skills(corpus: Corpus, pictures: Path) -> dict[str, list[Part]]:
    """The released skill space: where clips lie, and the effects of directions."""
    models = Models.load(directions="base")
    bank = SkillBank.build(models.skill_encoder, corpus)
    draw_map(corpus, bank, pictures / "skills.png")
    all_ranks(models.known_directions, pictures / "directions.png")
    draw_poses(models.known_directions, pictures / "poses.png")
    return {
        "The skill space": [
            text(_TEXTS["skills"]),
            picture("pictures/skills.png", "Clips as the released encoder sees them."),
        ],
        "Directions that add": [
            text(_TEXTS["directions"]),
            picture("pictures/poses.png", _TEXTS["poses"]),
            picture("pictures/directions.png", _TEXTS["ranks"]),
        ],
    }


def _controller(corpus: Corpus, pictures: Path) -> dict[str, list[Part]]:
    chosen = _examples(corpus, FOLLOWED)
    if not chosen:
        return {}
    models, clips = Models.load(), corpus.select(np.array(chosen))
    record = follow(models.controller, models.skill_encoder, clips)
    done = episodes(record)
    parts = [text(_TEXTS["controller"])]
    for robot, index in enumerate(chosen):
        name = f"followed_{robot}.png"
        film.write_strip(record, pictures / name, robot)
        outcome = "tracked to the end" if done.success[robot] else "fell behind"
        error = f"{done.local_mm[robot]:.0f} mm from the reference's pose"
        caption = f"{_sentence(corpus, index)}: {outcome}, {error}."
        parts.append(picture(f"pictures/{name}", caption))
    return {"The controller": parts}


def _sentence(corpus: Corpus, index: int) -> str:
    return min(corpus.entry(index).text.split("\n"), key=len)


def _sentences(corpus: Corpus) -> list[tuple[str, str]]:
    count = min(_SENTENCES, len(corpus))
    chosen = np.linspace(0, len(corpus) - 1, count).round().astype(int)
    entries = [corpus.entry(i) for i in chosen.tolist()]
    rows = [(entry.name, entry.text.replace("\n", " / ")) for entry in entries]
    return [("clip", "its description"), *rows]


def _ingest(corpus: Corpus, out: Path) -> str:
    """Read files of two formats, two of them broken; gives what the terminal shows."""
    folder, about = out / "motions", io.StringIO()
    clips = [corpus.clip(i) for i in _examples(corpus, _DATA["ingested"])]
    folder.mkdir(parents=True, exist_ok=True)
    table = csv.writer(about, lineterminator="\n")
    table.writerow(("name", "text", "source", "licence"))
    for index, clip in enumerate(clips):
        names = ("text", "source", "licence")
        facts: Any = {name: getattr(clip, name) for name in names}
        if index % 2:
            # Unitree's layout: no header, the quaternion's w last. Such a file cannot
            # describe itself: a table beside it does.
            name, (words, *others) = f"{clip.name}_50hz", facts.values()
            xyzw = clip.root_quaternion[:, [1, 2, 3, 0]]
            rows = np.concatenate((clip.root_position, xyzw, clip.joints), axis=1)
            np.savetxt(folder / f"{name}.csv", rows, delimiter=",", fmt="%.6f")
            table.writerow((name, words.split("\n")[0], *others))
        else:
            path = folder / f"{clip.name}.npz"
            np.savez(path, qpos=clip.qpos(), fps=clip.fps, **facts)
    write_file(folder / "metadata.csv", about.getvalue())
    jump = clips[0].qpos()
    jump[150:, 0] += 3.0
    np.savez(folder / "teleport.npz", qpos=jump, fps=clips[0].fps)
    write_file(folder / "not_a_motion.npz", "this is a text file\n")
    summary = ingest([folder], out / "corpus", workers=1)
    return "\n".join([*map(str, summary.refusals), "", *summary.lines()])
