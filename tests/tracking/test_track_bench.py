"""The benchmark of training measures what it says."""

import time

import pytest
import torch

from spectral_skills.tracking.bench import Stopwatch, track


def test_a_stopwatch_adds_up_calls():
    watch = Stopwatch(torch.device("cpu"))
    nap = watch.around(time.sleep)
    nap(0.02)
    nap(0.03)
    assert 50 <= watch.milliseconds() < 500
    assert watch.milliseconds() == 0


def test_parts_add_up_to_a_step():
    found = {row.row: row.value for row in track("cpu")}
    whole = found.pop("a control step of 8 robots")
    parts = [v for name, v in found.items() if name.startswith("a control step")]
    assert sum(parts) == pytest.approx(whole)
    assert found["end to end"] < found["physics alone"]
