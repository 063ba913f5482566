"""The sheet of a clip: a readable picture with robots and curves in it."""

import numpy as np
import pytest
from PIL import Image

from spectral_skills.plots import corpus as sheets

pytestmark = pytest.mark.usefixtures("coarse_pictures")


@pytest.mark.parametrize("frames", [40, 2])
def test_a_sheet_is_a_readable_picture(
    make_clip, make_corpus, tmp_path, monkeypatch, frames
):
    """It replaces what was there and leaves no temporary file."""
    monkeypatch.setattr(sheets, "PANELS", 4)
    corpus = make_corpus(tmp_path / "corpus", [make_clip("walk", frames)])
    path = tmp_path / "sheets" / "walk.png"
    path.parent.mkdir()
    path.write_bytes(b"old")
    sheets.clip_sheet(corpus, 0, path)
    with Image.open(path) as image:
        image.load()
        assert image.width == 1600 and 800 < image.height < 1600
        pixels = np.asarray(image.convert("L"))
    assert [p.name for p in path.parent.iterdir()] == ["walk.png"]
    assert (pixels[100:360] < 90).sum() > 500  # the robot's dark parts


def test_joints_that_move_most_are_named():
    joints = np.zeros((9, 29))
    joints[:, 3] = np.linspace(0, 1, 9)  # the left knee
    found = sheets._joint_curves(joints, ("hip", "knee", "ankle"), "grey", "abcd")
    assert len(found) == 12 and [colour for *_, colour in found[:8]] == ["grey"] * 8
    assert ("left knee", "a") in [(label, colour) for label, _, colour in found]
