"""Persons beside robots: in one world, at one size, told apart by their colours."""

import base64
import io
import re
from dataclasses import fields, replace

import numpy as np
import pytest
import retarget
from PIL import Image
from scipy.spatial.transform import Rotation

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.corpus_writer import CorpusWriter, Refusal
from spectral_skills.motion.human.quality import Quality
from spectral_skills.motion.human.recording import POINTS, point
from spectral_skills.motion.human.rows import HumanRows
from spectral_skills.plots import film, human, human_page, human_sheet
from spectral_skills.plots.corpus import clip_sheet
from spectral_skills.plots.human import Pair
from spectral_skills.robot import g1

pytestmark = pytest.mark.usefixtures("coarse_pictures")
_STANDING = {
    "pelvis": (0.0, 0.0, 0.95),
    "hip": (0.0, 0.09, 0.92),
    "knee": (0.02, 0.09, 0.5),
    "ankle": (0.0, 0.09, 0.08),
    "toe": (0.13, 0.1, 0.02),
    "chest": (0.0, 0.0, 1.3),
    "neck": (0.0, 0.0, 1.48),
    "head": (0.0, 0.0, 1.56),
    "shoulder": (0.0, 0.18, 1.42),
    "elbow": (0.0, 0.2, 1.12),
    "wrist": (0.05, 0.2, 0.88),
    "hand": (0.08, 0.2, 0.8),
}


def _person(frames: int) -> np.ndarray:
    """Somebody who faces +x and is pushed along it at 0.5 m/s."""
    points = np.array([_STANDING[name.split("_")[-1]] for name in POINTS])
    points[[name.startswith("right") for name in POINTS], 1] *= -1
    ahead = np.arange(frames)[:, None, None] / 50 * np.array([0.5, 0.0, 0.0])
    return points + ahead


def _robot(frames: int) -> np.ndarray:
    rows = np.tile(g1.DEFAULT_QPOS, (frames, 1))
    rows[:, 0] = 0.37 * np.arange(frames) / 50
    return rows


def test_a_person_is_brought_to_the_robot():
    """Wherever it walks, whichever way it faces and whatever its size."""
    points, rows = _person(60), _robot(60)
    plain = Pair.of(points, rows)
    ankle, hip = point("left_ankle"), point("left_hip")
    tall_m = np.linalg.norm(plain.person[0, hip] - plain.person[0, ankle])
    assert tall_m == pytest.approx(human.LEG_M, rel=0.01)
    assert np.abs(plain.person[:, 0, :2] - rows[:, :2]).max() < 0.1
    assert plain.person[..., 2].min() > 0
    turn = Rotation.from_euler("z", 100, degrees=True)
    moved = 1.3 * turn.apply(points.reshape(-1, 3)).reshape(points.shape)
    moved[..., :2] += (3.0, -7.0)
    assert Pair.of(moved, rows).person == pytest.approx(plain.person, abs=1e-6)


def _sides(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a picture is blue, as a person's left, and where it is orange."""
    red, _, blue = np.moveaxis(picture.astype(int), -1, 0)
    return blue - red > 70, red - blue > 70


def test_left_is_blue_and_right_is_orange():
    """Seen from the front, a person's left is at the right; a robot has no colour."""
    pair, frames = Pair.of(_person(9), _robot(9)), np.array([4])
    [both] = human.shots(pair, frames, (240, 120))
    blue, orange = _sides(both)
    assert min(blue.sum(), orange.sum()) > 100
    assert not blue[:, 120:].any() and not orange[:, 120:].any()
    assert np.nonzero(blue)[1].mean() > np.nonzero(orange)[1].mean() + 3
    [alone] = human.shots(pair, frames, (120, 120), who="robots")
    assert not np.any(_sides(alone)) and (alone < 60).all(axis=-1).sum() > 50
    [person] = human.shots(pair, frames, (120, 120), who="person")
    assert not (person < 60).all(axis=-1).any() and _sides(person)[0].sum() > 100


def test_a_film_lasts_as_long_as_the_motion(tmp_path, monkeypatch):
    """20 frames at 50 Hz are 7 pictures; a second robot makes it wider."""
    monkeypatch.setattr(human, "FILM_SIZE", (96, 48))
    kept = {}

    def save(pictures, path, fps):
        kept[path.name] = len(pictures), pictures[0].shape, fps
        return [path]

    monkeypatch.setattr(film, "save", save)
    pair = Pair.of(_person(20), _robot(20))
    human.write_film(pair, tmp_path / "one", "walk")
    two = replace(pair, robots=2 * pair.robots)
    human.write_film(two, tmp_path / "two", "walk", ("ours", "theirs"), most_s=0.2)
    assert kept["one"] == (7, (48, 96, 3), 50 / 3)
    assert kept["two"] == (4, (48, 128, 3), 50 / 3)


def _quality(**values: float | dict) -> Quality:
    """Faultless but for what is given."""
    plain = {f.name: 0 if f.type in (int, float) else "" for f in fields(Quality)}
    return Quality(**{**plain, "frames": 60, "worst": {}, **values})


@pytest.fixture
def retargeted(make_clip, tmp_path) -> Corpus:
    """Three clips with the persons they were made from; the last is not measured."""
    writer = CorpusWriter(tmp_path / "corpus", {}, ["a", "b", "c"], human=True)
    found = {
        "a": _quality(
            frames=240, planted_share=0.5, self_share=0.25, worst={"self": 40}
        ).to_json(),
        "b": _quality(
            frames=30, planted_share=1.0, planted_fast_share=0.5, worst={"feet": 10}
        ).to_json(),
        "c": "",
    }
    for (key, quality), frames in zip(found.items(), (240, 30, 9), strict=True):
        contacts = np.zeros((frames, 2), bool)
        contacts[: frames // 2, 0] = contacts[frames // 2 :, 1] = True
        person = HumanRows(_person(frames), contacts, "CMU")
        clip = make_clip(f"walk_{key}", frames, text="goes <ahead>", source="here")
        facts = {"quality": quality, "person": key}
        writer.add(key, f"{key}.bvh", [clip], [], [person], [facts])
    writer.finish()
    return Corpus.open(tmp_path / "corpus")


def test_the_sheet_of_a_retargeted_clip_shows_both(retargeted, tmp_path, monkeypatch):
    monkeypatch.setattr(human_sheet, "PANELS", 3)
    clip_sheet(retargeted, 0, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as image:
        pixels = np.asarray(image.convert("RGB"))
    blue, orange = _sides(pixels[120:350])
    assert blue.sum() > 500 and orange.sum() > 500
    blue, orange = _sides(pixels[354:574])
    assert not blue.any() and not orange.any()
    assert (pixels[354:574] < 60).all(axis=-1).sum() > 500  # the robot's dark parts


def test_a_page_needs_no_other_file(retargeted, tmp_path, monkeypatch):
    """Measures, films, refusals and a line for each clip, in one file."""
    monkeypatch.setattr(human_page, "FILM_SIZE", (48, 32))
    monkeypatch.setattr(human_page, "_STEP", 30)
    refused = [Refusal("folder/bad.bvh", "floats", "nothing <touches> the floor")]
    out = human_page.write_page(retargeted, tmp_path / "p.html", refused, 1)
    text = out.read_text()
    assert "3 clips" in text and "1 refused" in text
    assert "bad.bvh" in text and "nothing &lt;touches&gt; the floor" in text
    assert "goes &lt;ahead&gt;" in text and "<ahead>" not in text
    sources = re.findall(r'src="(.*?)"', text)
    # Three of the kind, two that are worst by a measure; film and stills of each.
    assert len(sources) == 10
    assert all(source.startswith("data:image/webp;base64,") for source in sources)
    assert not re.search(r'(?:href|src)="(?!#|data:)', text)
    film_bytes = base64.b64decode(sources[0].partition(",")[2])
    with Image.open(io.BytesIO(film_bytes)) as image:
        assert image.size == (48, 32)
    heading = r"<button>(.*?)</button>"
    assert "sliding (%)" in re.findall(heading, text)
    row = re.search("<tr><td[^>]*>walk_b</td>.*?</tr>", text)
    assert row is not None and "<td>50.00</td>" in row[0]
    # Of 270 frames 60 have self-contact; of 300 planted feet 30 slide.
    assert "10.00 %" in text and "22.22 %" in text
    whole = human_page.write_page(retargeted, tmp_path / "q.html", (), 1)
    assert "Nothing was refused" in whole.read_text()


def test_a_page_of_robots_alone_is_refused(make_clip, make_corpus, tmp_path):
    corpus = make_corpus(tmp_path / "corpus", [make_clip()])
    with pytest.raises(ValueError, match="spectral retarget"):
        human_page.write_page(corpus, tmp_path / "page.html")


def test_the_worst_are_shown_where_they_are_worst(retargeted):
    worst = {one.index: one for one in human_page.Measured(retargeted).worst(2)}
    assert list(worst) == [1, 0]  # in the order of measures; the third has none
    assert worst[1].why == "sliding 50.00 %" and worst[1].end == 30
    assert worst[0].start <= 40 < worst[0].end < 240


def test_measures_in_a_line():
    """In short, what is not worth a word is left out; versions differ in measures."""
    line = human_sheet.quality_line('{"self_share": 0.25, "floor_share": 0.00001}')
    assert line == "under the floor 0.00 %, self-contact 25.00 %"
    found = _quality(self_share=0.25, torque_share=1.0).to_json()
    assert human_sheet.quality_line(found, short=True) == "self-contact 25.00 %"
    assert "torques 100 %" in human_sheet.quality_line(found)
    assert human_sheet.quality_line("") == "not measured"


def test_all_kinds_are_shown_from_best_to_worst():
    kinds = ["walk"] * 16 + ["run"] * 4 + ["jump"]
    rank = np.arange(21)[::-1]
    chosen = human_page.spread(kinds, rank, 6)
    shown = [kinds[i] for i in chosen]
    assert shown == ["walk"] * 3 + ["run"] * 2 + ["jump"]
    assert chosen == [13, 7, 2, 18, 16, 20]
    assert len(human_page.spread(kinds, rank, 2)) == 2
    assert sorted(human_page.spread(kinds, rank, 99)) == list(range(21))


def test_a_clip_of_each_kind(retargeted, tmp_path):
    retarget.draw_kinds(retargeted, tmp_path / "kinds.png")
    with Image.open(tmp_path / "kinds.png") as image:
        assert image.width == 1600 and image.height < 400
        blue, orange = _sides(np.asarray(image.convert("RGB")))
    for half in (slice(200, 900), slice(900, 1600)):
        assert blue[:, half].sum() > 100 and orange[:, half].sum() > 100
