"""HTML pages of one style, and the page of the findings of experiments.

A page is a list of sections, a section a list of parts: small dicts that the functions
below make and page.j2 renders. Nothing on a page is loaded from elsewhere.
"""

import base64
import io
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
from spectral_skills.config import read_table
from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments.findings import (
    EXPERIMENTS,
    RECORDS,
    Chart,
    Film,
    Findings,
)
from spectral_skills.motion.corpus import FPS
from spectral_skills.plots import charts, film
from spectral_skills.plots.tables import Table, blocks, measured_with, number

Part = dict[str, Any]
_TEXTS = read_table(__file__, "page.toml")["text"]
FILM_SIZE = (320, 288)
STILLS = 6
_LONGEST_S, _PICTURE_S = 6.0, 0.1
"""Length of a film, to which longer runs are sped up, and of one of its pictures."""
_LARGEST_FILM, _ALL_FILMS = 600_000, 8_000_000
"""Bytes of one film and of all on a page, which are a third more as text."""


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


def embedded(alt: str, clip: bytes, stills: np.ndarray) -> list[Part]:
    """A film (WebP) and the stills (h, w, 3) that stand for it on paper, as images
    that are part of the page."""
    strip = io.BytesIO()
    Image.fromarray(stills).reduce(2).save(strip, format="WEBP", quality=60)
    return [
        {
            "look": look,
            "alt": alt,
            "src": f"data:image/webp;base64,{base64.b64encode(data).decode()}",
        }
        for look, data in (("clip", clip), ("strip", strip.getvalue()))
    ]


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
        played = f", played {faster:.1f} times as fast" if faster > 1.05 else ""
        alt = f"{one.title}: the unsteered base and the steered run"
        images = embedded(alt, clip, np.concatenate(rows))
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
