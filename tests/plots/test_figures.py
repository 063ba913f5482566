"""Sheets and grids: files that decode, of the right size, with robots in them."""

import numpy as np
import pytest
from PIL import Image

from spectral_skills.plots import figures
from spectral_skills.robot import g1, render


@pytest.fixture(autouse=True)
def software(monkeypatch):
    """Draw in software: the same on every machine."""
    monkeypatch.setattr(render, "backend", lambda: "software")


def _walk(length: int = 40) -> np.ndarray:
    qpos = np.tile(g1.DEFAULT_QPOS, (length, 1))
    phase = np.linspace(0, 4 * np.pi, length)
    qpos[:, 0] = np.linspace(0, 1.0, length)
    qpos[:, 7 + g1.joint_index("left_hip_pitch")] += 0.4 * np.sin(phase)
    qpos[:, 7 + g1.joint_index("right_hip_pitch")] -= 0.4 * np.sin(phase)
    return qpos


def test_clip_sheet_is_a_readable_picture(tmp_path):
    """The sheet replaces what was there and leaves no temporary file."""
    path = tmp_path / "sheets" / "walk.png"
    path.parent.mkdir()
    path.write_bytes(b"old")
    figures.clip_sheet(
        _walk(),
        path,
        title="walk",
        subtitle="two steps",
        foot_heights_m=np.zeros((40, 2)),
        panels=4,
    )
    with Image.open(path) as image:
        image.load()
        assert image.width == 1600 and 800 < image.height < 1600
        pixels = np.asarray(image.convert("L"))
    assert [p.name for p in path.parent.iterdir()] == ["walk.png"]
    strip = pixels[100:360]
    assert (strip < 90).sum() > 500  # the robot's dark parts


def test_one_frame_has_a_sheet(tmp_path):
    """A clip of a single frame has no speed, but still a sheet."""
    figures.clip_sheet(
        _walk()[:1],
        tmp_path / "pose.png",
        title="pose",
        subtitle="",
        foot_heights_m=np.zeros((1, 2)),
        panels=1,
    )
    assert (tmp_path / "pose.png").stat().st_size > 10_000


def test_wrong_shapes_are_refused(tmp_path):
    """Foot heights must match the clip, and a grid needs a clip."""
    with pytest.raises(ValueError, match="foot heights"):
        figures.clip_sheet(
            _walk(),
            tmp_path / "x.png",
            title="",
            subtitle="",
            foot_heights_m=np.zeros((3, 2)),
        )
