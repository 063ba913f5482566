"""Curves of a run: a readable picture from one line of log or from many."""

import json

import numpy as np
import pytest
from PIL import Image

from spectral_skills.plots import ink
from spectral_skills.plots.training import draw_curves


def _row(update: int, levels: int, start: float = 1.0) -> dict:
    error = start * (0.2 + 0.8 * float(np.exp(-update / 2000)))
    by_level = [error * (1.3 - i / 10) for i in range(levels)]
    return {
        "update": update,
        "prediction": 0.9 * error,
        "sigreg_batch": 0.03,
        "penalty": 0.6,
        "gradient_norm": 0.4,
        "held_out": float(np.mean(by_level)),
        "held_out_levels": by_level,
        "shuffled": 1.05 * start,
        "skill_std": 0.8 - 0.4 * float(np.exp(-update / 500)),
        "sigreg": 0.02 + 0.2 * float(np.exp(-update / 500)),
        "seconds": 0.03 * update,
    }


def _write(folder, rows: list[dict]):
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "log.jsonl").write_text(text)
    return folder


def _pixels(folder) -> np.ndarray:
    with Image.open(folder / "curves.png") as image:
        image.load()
        return np.asarray(image.convert("RGB")).astype(int)


def _coloured(pixels: np.ndarray, colour: str) -> int:
    """Pixels of about a colour."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(pixels - wanted).max(-1) < 24).sum())


def _panels(pixels: np.ndarray) -> list[np.ndarray]:
    height, width, _ = pixels.shape
    top, middle, half = int(0.13 * height), int(0.55 * height), width // 2
    rows = (slice(top, middle), slice(middle, height))
    return [pixels[r, c] for r in rows for c in (slice(0, half), slice(half, width))]


@pytest.mark.parametrize("levels", [1, 8])
@pytest.mark.parametrize("count", [1, 2, 120])
def test_every_panel_has_something_in_it(tmp_path, levels, count):
    """From the first evaluation on, for heads with and without noise levels."""
    rows = [_row(250 * (i + 1), levels) for i in range(count)]
    run = _write(tmp_path / "run", rows)
    draw_curves(run)
    pixels = _pixels(run)
    assert pixels.shape[1] == ink.WIDTH_PX
    for panel in _panels(pixels):
        assert _coloured(panel, ink.LEFT) > 25
    assert _coloured(_panels(pixels)[0], ink.RIGHT) > 25


@pytest.mark.parametrize("levels", [1, 8])
def test_the_first_evaluation_is_a_mark_in_every_panel(tmp_path, levels, monkeypatch):
    """One point makes no line; it is drawn as a dot, not only as a number."""
    figures = []
    monkeypatch.setattr(ink, "save", lambda figure, path: figures.append(figure))
    draw_curves(_write(tmp_path / "run", [_row(250, levels)]))
    for axes in figures[0].axes:
        points = [line for line in axes.lines if len(line.get_xdata()) == 1]
        assert points and all(
            line.get_marker() not in (None, "None") for line in points
        )


def test_large_errors_and_wide_skills_fit(tmp_path):
    """A run that goes wrong is drawn too."""
    rows = [_row(250 * (i + 1), 8, start=10.0 ** (i - 3)) for i in range(8)]
    for i, row in enumerate(rows):
        row["skill_std"] = 2.0**i
    run = _write(tmp_path / "run", rows)
    draw_curves(run)
    assert _coloured(_pixels(run), ink.LEFT) > 500


def test_without_a_log_there_is_no_picture(tmp_path):
    """And nothing fails; a line that was cut off does not count."""
    (tmp_path / "run").mkdir()
    draw_curves(tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").write_text('{"update": 2')
    draw_curves(tmp_path / "run")
    assert not (tmp_path / "run" / "curves.png").exists()


def test_a_new_picture_takes_the_place_of_the_old(tmp_path):
    """The folder holds the picture and the log, nothing temporary."""
    run = _write(tmp_path / "run", [_row(250, 8)])
    draw_curves(run)
    before = (run / "curves.png").read_bytes()
    _write(run, [_row(250, 8), _row(500, 8)])
    draw_curves(run)
    assert (run / "curves.png").read_bytes() != before
    assert {path.name for path in run.iterdir()} == {"curves.png", "log.jsonl"}
