"""The benchmark of jumps finds flights, and counts robots that were there."""

from typing import Any

import jumps
import numpy as np
import pytest
import torch
from jumps import Flight, Pushed

from spectral_skills.motion.clip import Clip
from spectral_skills.robot import g1


def test_flights_are_where_both_feet_are_off_the_floor(make_corpus, tmp_path):
    """A rise of 0.3 m for 20 frames is one flight; one too early to run up is none."""
    qpos = np.tile(g1.DEFAULT_QPOS, (200, 1))
    rise = 0.3 * np.sin(np.linspace(0, np.pi, 20))
    for first in (30, 120):
        qpos[first : first + 20, 2] += rise
    lifted = np.tile(g1.DEFAULT_QPOS, (200, 1))  # one knee, not both
    lifted[120:140, 7 + g1.joint_index("left_knee")] += 1.0
    clips = [
        Clip.from_qpos(rows, name=n, fps=50)
        for n, rows in enumerate_names(qpos, lifted)
    ]
    (found,) = jumps.flights(make_corpus(tmp_path / "clips", clips))
    assert found.clip == 0
    assert found.rise_m == pytest.approx(0.3, abs=0.01)
    assert 120 < found.begin < 124 and 136 < found.end < 141


def enumerate_names(*rows: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Motions with a name for each."""
    return [(f"clip{i}", one) for i, one in enumerate(rows)]


def test_a_robot_that_was_lost_before_is_not_counted(monkeypatch):
    """Of two robots one is 0.1 m below its reference in the air, the other was 0.4 m
    below it before."""
    steps = jumps.BEFORE + 20
    pelvis = torch.full((steps, 2, 2), 0.8)
    pelvis[jumps.BEFORE :, 0, 1] = 0.9
    pelvis[jumps.BEFORE - 5 :, 1, 0] = 0.4
    still = torch.zeros(steps, 2, 29)
    pushed = Pushed(pelvis, still + 0.25, still > 1, torch.zeros(steps, 2, 2))
    some = [Flight(i, 100, 120, 0.25) for i in range(2)]
    monkeypatch.setattr(jumps, "flights", lambda corpus: some)
    monkeypatch.setattr(jumps, "follow", lambda *about: pushed)
    nothing: Any = None
    cells = {r.metric: r for r in jumps.flights_table(nothing, nothing)}
    assert all(one.n == 1 and "0.2 m" in one.row for one in cells.values())
    assert cells["within 0.25 m"].value == 1
    assert cells["pelvis at most, reference"].value == pytest.approx(0.9)
    assert cells["speed up, reference"].value == pytest.approx(5.0)
    assert cells["knees, share of effort"].value == pytest.approx(0.25)
    assert cells["ankles at a limit"].value == 0
