"""Runs of robots that follow typed text: numbers, pictures, films."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from PIL import Image

from spectral_skills.control.rollout import Rollout
from spectral_skills.planner.listener import Spoken, SpokenStep
from spectral_skills.plots import charts, film, runs
from spectral_skills.robot import g1
from spectral_skills.spectral.catalogue import Choice

pytestmark = pytest.mark.usefixtures("coarse_pictures")

STEPS = 60
KNOB = Choice("s08", -2.0, "higher steps", "by s08, on walk at -2: apex +0.05", 0.9)


def _told(sentence: str, begin: int, end: int, **more) -> SpokenStep:
    given = dict(motion="walk_1", nearest=sentence, cosine=0.9, knobs=())
    return SpokenStep(sentence, begin=begin, end=end, **{**given, **more})


@pytest.fixture
def spoken() -> Spoken:
    """A robot that walks a metre and turns to the left by 90 degrees."""
    robot = torch.tensor(g1.DEFAULT_QPOS).float().repeat(STEPS + 1, 1, 1)
    robot[:, 0, 0] = torch.linspace(0, 1, STEPS + 1)
    half = torch.linspace(0, math.pi / 4, STEPS + 1)
    robot[:, 0, 3], robot[:, 0, 6] = half.cos(), half.sin()
    record = Rollout(
        robot=robot,
        robot_velocity=torch.zeros(STEPS + 1, 1, 35),
        reference=None,
        lengths=torch.tensor([STEPS + 1]),
        actions=torch.zeros(STEPS, 1, 29),
        skills=torch.ones(STEPS, 1, 64),
        names=("walk, then sing",),
    )
    steps = (
        _told("walk", 0, 30, knobs=(KNOB,), left_out="in a hat"),
        _told("sing", 30, STEPS, cosine=0.2, why="the nearest is 'walk'"),
    )
    return Spoken("walk, then sing", steps, record, None, 1, 3, 4.25, "the encoder")


def test_lines_are_aligned(spoken, capsys):
    runs.show_spoken(spoken)
    assert capsys.readouterr().out.splitlines() == [
        "run         walk, then sing",
        "understood   0.0 to  0.6 s  walk  played as 'walk' (0.90), "
        "higher steps (s08 -2), without 'in a hat'",
        "             0.6 to  1.2 s  sing  not understood: the nearest is 'walk'; "
        "keeps standing",
        "falls       no",
        "travel      1.00 m, turned by +90 deg",
        "plans       3, 4.2 ms each, 1 refused as not finite",
    ]


def test_json_says_the_same(spoken):
    found = json.loads(runs.spoken_json(spoken))
    first, second = found["steps"]
    assert first["knobs"][0]["direction"] == "s08" and first["understood"]
    assert first["left_out"] == "in a hat" and second["left_out"] == ""
    assert (second["from_s"], second["to_s"]) == (0.6, 1.2)
    assert not second["understood"] and second["cosine"] == 0.2
    assert found["turn_deg"] == pytest.approx(90, abs=0.01)
    assert found["plans_refused"] == 1 and found["fell"] is False


def test_what_comes_after_a_fall_is_no_way(spoken):
    """Nor is there anything that is no number, where the simulation breaks."""
    spoken.rollout.robot[30:] = torch.nan
    fallen = replace(spoken, fell_at_s=30 / 50)
    text = runs.spoken_json(fallen)
    assert "NaN" not in text and json.loads(text)["fell_at_s"] == 0.6
    travel_m, turn_deg = runs.moved(fallen)
    assert travel_m == pytest.approx(29 / 60) and turn_deg == pytest.approx(43.5)


def test_a_strip_has_a_band_of_what_was_told(spoken, tmp_path, monkeypatch):
    """Half of it in the first colour, half in the grey of what is not understood."""
    monkeypatch.setattr(runs, "SPOKEN_PANELS", 2)
    runs.strip_spoken(spoken, tmp_path / "run.png")
    with Image.open(tmp_path / "run.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    middle = pixels.shape[1] // 2
    for colour, half in (
        (charts.COLOURS[0], pixels[:, :middle]),
        (charts.MUTED, pixels[:, middle:]),
    ):
        away = np.abs(half - 255 * np.array(to_rgb(colour))).max(axis=-1)
        assert (away < 2).sum() > 0.6 * 62 * 0.45 * 1600


def test_a_film_tells_what_is_told_now(spoken, monkeypatch):
    monkeypatch.setattr(film, "SIZE", (64, 48))
    captions = []

    def captioned(picture: np.ndarray, title: str, caption: str) -> np.ndarray:
        captions.append((title, caption))
        return picture

    monkeypatch.setattr(film, "captioned", captioned)
    drawn = runs.film_spoken(spoken)
    assert len(drawn) == len(captions) == 21
    assert captions[0] == ("walk  0.00 s", "higher steps (s08 -2)")
    assert captions[10] == ("sing  0.60 s", "not understood: keeps standing")
    # The bar below has come to its end.
    bars = [picture[-3].mean() for picture in (drawn[0], drawn[10], drawn[20])]
    assert bars[0] > bars[1] + 20 and bars[1] > bars[2] + 20


def test_everything_is_written(spoken, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(film, "SIZE", (64, 48))
    monkeypatch.setattr(runs, "SPOKEN_PANELS", 2)
    monkeypatch.setattr(runs, "SPOKEN_FILM_S", 0.2)
    runs.draw_spoken(spoken, tmp_path / "new", with_film=True)
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert {"run.npz", "skills.npz", "run.png", "run.gif"} <= names
    assert not any(name.startswith(".") for name in names)
    printed = capsys.readouterr().out
    assert all(str(tmp_path / "new" / name) in printed for name in names)
    stream = np.load(tmp_path / "new" / "skills.npz", allow_pickle=False)
    assert str(stream["encoder"]) == "the encoder"
    assert str(stream["name"]) == spoken.text
    assert stream["skills"].shape == (STEPS, 64)
    assert Rollout.load(tmp_path / "new" / "run.npz").steps == STEPS


def test_a_controller_of_poses_leaves_no_skills(spoken, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "SPOKEN_PANELS", 1)
    poses = replace(spoken, encoder="")
    runs.draw_spoken(poses, tmp_path, with_film=False, silent=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"run.npz", "run.png"} and not capsys.readouterr().out
