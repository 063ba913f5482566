"""The page of findings: whole, alone, and honest about what is missing."""

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments.findings import RECORDS, Chart, Film, Findings, Series
from spectral_skills.plots import film, page
from spectral_skills.plots.page import findings_page as build
from spectral_skills.results import Result
from spectral_skills.robot import g1


def _cell(row: str, metric: str, value: float, **more: Any) -> Result:
    more |= {"command": "spectral evaluate composition dose", "hardware": "a CPU"}
    return Result("Composition: dose", row, metric, value, run="1234abcd", **more)


def _findings(name: str = "dose", films: tuple[Film, ...] = ()) -> Findings:
    results = (
        _cell("arm a=+2", "shoulder pitch", -0.5412, unit="rad", paper="0.90", n=3),
        _cell("arm a=+2", "falls", 0.0, n=3),
        _cell("arm a=-2", "shoulder pitch", 0.4, unit="rad"),
        _cell("arm a=-2", "falls", 1.0, n=5),
    )
    chart = Chart("Dose <curve>", "line", "a", "rad", (Series("arm", (0.0,), (1.0,)),))
    return Findings(name, "Effect & amplitude", results, (chart,), films, "A note.")


class _Reader(HTMLParser):
    """Headings, and everything that a page would load."""

    def __init__(self):
        super().__init__()
        self.headings: list[int] = []
        self.loaded: list[str] = []
        self.named, self.linked, self.alts = set(), set(), []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
            self.named.add(values.get("id"))
        self.loaded += [v for k, v in attrs if v and k in ("src", "srcset", "data")]
        if tag in ("link", "script", "iframe"):
            self.loaded.append(tag)
        if tag == "a":
            self.linked.add((values["href"] or "").removeprefix("#"))
        if tag == "img":
            self.alts.append(values.get("alt"))


def _read(page: Path) -> tuple[str, _Reader]:
    text, reader = page.read_text(), _Reader()
    reader.feed(text)
    return text, reader


def test_a_page_is_whole(tmp_path):
    """Numbers beside the paper's, how they were measured, contents that lead there."""
    _findings().save(tmp_path)
    text, read = _read(build([tmp_path], tmp_path / "out"))
    assert text.startswith("<!doctype html>") and 'name="viewport"' in text
    assert "-0.5412<small>paper 0.90</small>" in text
    assert "Effect &amp; amplitude" in text and "Dose &lt;curve&gt;" in text
    for words in ("A note.", "1234abcd", "a CPU", "seed 0", "@media print"):
        assert words in text
    assert read.linked == {"dose"} <= read.named
    assert read.headings[0] == 1 and max(np.diff(read.headings)) <= 1
    assert all(url.startswith("data:") for url in read.loaded)


def test_maps_and_trails_come_into_the_page(tmp_path):
    """Also from a file; files of before have charts without roles."""
    dots = Series("walk", (0.0, 1.0), (0.0, 1.0))
    way = Series("ladder", (0.0, 0.5), (1.0, 0.5), ("base", "+ turn"), role="trail")
    chart = Chart("Map", "map", "", "", (dots, way), "What to see.")
    found = replace(_findings(), charts=(chart,))
    path = found.save(tmp_path)
    assert Findings.load(path) == found
    text, _ = _read(build([tmp_path], tmp_path / "out"))
    for words in (">base<", ">+ turn<", "What to see."):
        assert words in text
    values = json.loads(path.read_text())
    for series in values["charts"][0]["series"]:
        del series["role"]
    path.write_text(json.dumps(values))
    assert Findings.load(path).charts[0].series[0] == dots


def test_tables_have_a_line_per_row_and_a_column_per_metric(tmp_path):
    """n of most cells is written once, and again where it differs."""
    _findings().save(tmp_path)
    text, _ = _read(build([tmp_path], tmp_path))
    assert re.findall(r'scope="row">(.*?)<', text) == ["arm a=+2", "arm a=-2"]
    heads = re.findall(r'scope="col">(.*?)</th>', text)
    assert heads == ["", "n", "shoulder pitch<small>rad</small>", "falls"]
    assert "<td>3</td><td>-0.5412<" in text and "<td>1<small>n 5</small></td>" in text
    assert text.count("spectral evaluate composition dose") == 1


def test_experiments_of_two_folders_are_told_apart(tmp_path):
    """By the folder's name, with places of their own."""
    for name in ("base", "deploy"):
        _findings().save(tmp_path / name)
    text, read = _read(build([tmp_path / "base", tmp_path / "deploy"], tmp_path))
    assert "(base)" in text and "(deploy)" in text
    assert len(read.linked) == 2 and read.linked <= read.named


def test_what_cannot_be_read_is_told(tmp_path):
    """Damaged findings and an empty folder; other files beside findings are not."""
    _findings().save(tmp_path)
    (tmp_path / "broken.json").write_text('{"experiment": "ladder"}')
    (tmp_path / "half.json").write_text('{"experiment"')
    (tmp_path / "entries.json").write_text("[1, 2]")
    text, _ = _read(build([tmp_path, tmp_path / "empty"], tmp_path / "out"))
    assert text.count("Omitted") == 2 and "broken.json" in text and "half.json" in text
    assert "empty: no findings" in text and "entries.json" not in text


def test_no_findings_at_all(tmp_path):
    """The folder, and what makes findings."""
    with pytest.raises(
        ValueError, match="evaluate composition NAME --out DIR"
    ) as error:
        build([tmp_path / "nowhere"], tmp_path)
    assert "nowhere" in str(error.value)


def _record(folder: Path, name: str, rows: int, broken_from: int | None = None) -> None:
    qpos = np.tile(np.array(g1.DEFAULT_QPOS, dtype=float), (rows, 1))
    qpos[broken_from if broken_from is not None else rows :] = np.nan
    (folder / RECORDS).mkdir(parents=True, exist_ok=True)
    Rollout.of_rows(name, qpos).save(folder / RECORDS / name)


@pytest.mark.usefixtures("coarse_pictures")
def test_films_are_in_the_page_or_missed(tmp_path, monkeypatch):
    """1 s of run is 10 pictures of 100 ms; a broken robot stays; gaps are reported."""
    monkeypatch.setattr(page, "FILM_SIZE", (48, 40))
    _record(tmp_path, "base.npz", 51)
    _record(tmp_path, "run.npz", 51, broken_from=30)
    _record(tmp_path, "nothing.npz", 5, broken_from=0)
    (tmp_path / RECORDS / "damaged.npz").write_bytes(b"PK nothing")
    runs = ("run.npz", "gone.npz", "damaged.npz", "nothing.npz")
    films = tuple(Film(f"film of {run}", run, "base.npz") for run in runs)
    _findings(films=films).save(tmp_path)
    text, read = _read(build([tmp_path], tmp_path / "out"))
    assert text.count("is omitted: the record") == 3 and "gone.npz is missing" in text
    assert read.alts == ["film of run.npz: the unsteered base and the steered run"] * 2
    clip, strip = (base64.b64decode(u.split(",")[1]) for u in read.loaded)
    with Image.open(io.BytesIO(clip)) as image:
        assert image.format == "WEBP" and image.size == (96, 40)
        total = 0
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            image.load()
            total += image.info["duration"]
        assert total == 10 * 100
    with Image.open(io.BytesIO(strip)) as image:
        assert image.size == (page.STILLS * 24, 40)
    text, _ = _read(build([tmp_path], tmp_path / "out", films=False))
    assert "data:image/webp" not in text


def test_long_runs_are_played_faster(tmp_path, monkeypatch):
    """12 s in 6: as many pictures as 6 s have, and the caption says twice the speed."""
    blank = np.zeros((8, 8, 3), np.uint8)
    monkeypatch.setattr(
        film, "shots", lambda rows, frames, *_, **__: [blank] * len(frames)
    )
    for name in ("base.npz", "run.npz"):
        _record(tmp_path, name, 601)
    _findings(films=(Film("long", "run.npz", "base.npz"),)).save(tmp_path)
    assert "long, played 2.0 times as fast" in build([tmp_path], tmp_path).read_text()
