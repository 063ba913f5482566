"""A file of many motions: small, and near to what was written."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save

from spectral_skills.control import played
from spectral_skills.control.played import PlayedBase
from spectral_skills.spectral.direction_file import read_arrays


def motion(name: str, steps: int) -> PlayedBase:
    t = np.arange(steps)[:, None] / 50
    skills = np.sin(t * np.array([1.0, 2.0, 3.0])) * np.array([1.0, 10.0, 0.0])
    return PlayedBase(
        name,
        name,
        (steps // 2, steps),
        0.4,
        skills.astype(np.float32),
        np.full((2, 36), 0.5, np.float32),
        np.array([0.1, -0.2, 0.3], np.float32),
        (0.5 * t[:, 0]).astype(np.float32),
        tilt_rad=0.2,
        speed_m_s=1.5,
        origin="somewhere 1_2, frames 0 to 9 (free)",
    )


def test_skills_come_back_to_a_hundredth_of_their_largest(tmp_path):
    made = [motion("walk", 151), motion("take a bow", 80)]
    path = tmp_path / "motions.safetensors"
    played.write(path, made, "e")
    found = played.read(path, "e")
    assert list(found) == ["walk", "take a bow"]
    for one in made:
        other = found[one.name]
        assert other.facts == one.facts and other.clips >= {"1_2"}
        assert other.skills.shape == one.skills.shape
        assert other.skills.dtype == np.float32
        off = np.abs(other.skills - one.skills)[:-1].max(axis=0)
        assert (off <= 0.01 * np.abs(one.skills).max(axis=0) + 1e-6).all()
        np.testing.assert_array_equal(other.rows, one.rows)
        assert not other.has_motion
        assert other.headings is not None and other.turn is not None
        assert one.headings is not None and one.turn is not None
        np.testing.assert_allclose(other.headings[:-1], one.headings[:-1], atol=1e-6)
        np.testing.assert_allclose(other.turn, one.turn, rtol=1e-3)
    assert path.stat().st_size < 3000


def test_what_is_not_such_a_file_is_refused(tmp_path):
    path = tmp_path / "motions.safetensors"
    with pytest.raises(ValueError, match="x: a motion without a heading"):
        played.write(path, [replace(motion("x", 60), turn=None)], "e")
    broken = motion("x", 60)
    broken.skills[7, 1] = np.nan
    with pytest.raises(ValueError, match="x: a motion with numbers that are not fin"):
        played.write(path, [broken], "e")
    with pytest.raises(ValueError, match="several motions are called 'x'"):
        played.write(path, [motion("x", 60), motion("y", 60), motion("x", 50)], "e")
    played.write(path, [motion("walk", 60)], "e")
    with pytest.raises(ValueError, match="spectral skills motions"):
        played.read(path, "another")
    longer = replace(motion("walk", 60), loop=(0, 90))
    played.write(path, [longer], "e")
    with pytest.raises(ValueError, match="20 skills for 30.*spectral skills motions"):
        played.read(path, "e")
    played.write(path, [motion("walk", 60)], "e")
    arrays, about = read_arrays(path)
    arrays["scale"][0, 1] = np.inf
    path.write_bytes(save(arrays, about))
    with pytest.raises(ValueError, match="motions.safetensors: .* not finite"):
        played.read(path, "e")
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="motions.safetensors"):
        played.read(path, "e")


def test_a_motion_may_have_sentences_of_its_own(tmp_path):
    path = tmp_path / "motions.safetensors"
    said = ("clap", "clap the hands")
    played.write(path, [replace(motion("clap", 60), sentences=said)], "e")
    assert played.read(path, "e")["clap"].sentences == said


def test_files_from_before_there_were_sentences_are_read(tmp_path):
    path = tmp_path / "motions.safetensors"
    played.write(path, [motion("walk", 60)], "e")
    arrays, about = read_arrays(path)
    facts = [
        {key: value for key, value in one.items() if key != "sentences"}
        for one in json.loads(about["motions"])
    ]
    path.write_bytes(save(arrays, about | {"motions": json.dumps(facts)}))
    assert played.read(path, "e")["walk"].sentences == ()
