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
    qpos = np.zeros((9, 36))
    qpos[:, 7 + 3] = np.linspace(0, 1, 9)  # the left knee
    names = list(sheets._joint_curves(qpos, ["hip", "knee", "ankle"]))
    assert len(names) == 12 and all(name[0] == "_" for name in names[:8])
    assert names[8] == "left knee"
