"""The benchmarks of the motion library run, on little data."""

import ik
import motion
import pytest
import torch
from report import stamped


def test_windows_are_sampled_and_compared_with_the_memory(monkeypatch):
    monkeypatch.setattr(motion, "_CLIP_FRAMES", 50)
    results = stamped(motion.windows("cpu"), "cpu")
    assert [r.row for r in results] == ["sampled", "memory bound"]
    assert all(r.value > 0 and "thread" in r.hardware for r in results)


def test_a_large_corpus_is_opened():
    (result,) = motion.corpus("cpu", clips=50, frames=5_000)
    assert result.unit == "ms" and result.value > 0


def test_kinematics_run_for_every_set_of_links(monkeypatch):
    monkeypatch.setattr(motion, "_CLIP_FRAMES", 40)
    rows = {r.row for r in motion.kinematics("cpu")}
    assert {"poses of 30 links", "14 links and all velocities"} <= rows


def test_clips_are_generated():
    time, speed = motion.synth("cpu", clips=1)
    assert time.value > 0 and speed.n == time.n > 50


def test_both_solvers_reach_the_poses_of_a_short_motion():
    rows = ik.motion(4)
    ours = {r.metric: r.value for r in ik._ours(rows, ik._start(rows), "cpu", "ours")}
    assert ours["largest position error"] < 0.5
    pytest.importorskip("mink")
    theirs = {r.metric: r.value for r in ik._mink(rows, ik._start(rows))}
    assert theirs["largest position error"] < 1.0
    assert torch.isfinite(rows).all()
