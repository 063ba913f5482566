"""The benchmark of retargeting pools its numbers rightly, on little data."""

import csv
from dataclasses import asdict

import numpy as np
import pytest
import retarget

from spectral_skills.motion.checks import measure
from spectral_skills.results import Result


@pytest.fixture
def pack(tmp_path):
    """Thirty walks, three jumps, and a climb that is not suitable."""
    folder = tmp_path / "cmu"
    folder.mkdir()
    rows = [(f"01_{i:02d}", "walk", "yes") for i in range(30)]
    rows += [(f"02_{i:02d}", "jump", "yes") for i in range(3)]
    rows.append(("03_01", "climb", "no"))
    with (folder / "index.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("name", "kind", "suitable"), *rows])
    return folder


def test_a_part_of_the_pack_has_all_kinds(pack):
    kinds = [kind for _, kind in retarget.spread(pack, 8)]
    assert kinds.count("jump") == 3 and kinds.count("walk") == 5
    every = retarget.spread(pack, None)
    assert len({path for path, _ in every}) == len(every) == 33
    assert every[:8] == retarget.spread(pack, 8)


def test_clips_count_by_their_frames(make_clip):
    clips = [make_clip("a", 60, 1), make_clip("b", 180, 2)]
    measured = [asdict(measure(clip.qpos())) for clip in clips]
    joints = [clip.joints for clip in clips]
    found = {r.metric: r for r in retarget.row("x", measured, joints, 50.0, ours=True)}
    shares = [m["airborne_share"] for m in measured]
    expected = 100 * (shares[0] * 60 + shares[1] * 180) / 240
    assert found["airborne"].value == pytest.approx(expected)
    assert found["airborne"].n == 240
    deepest = max(m["self_depth_mm"] for m in measured)
    assert found["links inside others, worst"].value == deepest
    second = [np.abs(np.diff(j, n=2, axis=0)).ravel() * 2500 for j in joints]
    pooled = np.percentile(np.concatenate(second), 95)
    assert found["joint acceleration, 95 %"].value == pytest.approx(pooled, rel=1e-5)
    assert found["planted feet over 2 cm/s"].paper == "under 1"


def test_measures_are_lines_and_rows_are_columns():
    results = [
        Result("t", "ours", "speed", 5.0, "m/s", paper="6"),
        Result("t", "theirs", "speed", 4.0, "m/s"),
        Result("t", "theirs", "height", 2.0),
    ]
    lines = [line.split() for line in retarget.turned(results).splitlines()]
    assert lines == [
        ["ours", "theirs", "goal"],
        ["speed", "(m/s)", "5", "4", "6"],
        ["height", "2"],
    ]
