"""The benchmark of training measures what it says."""

import time

import pytest
import torch
import track
from track import Driven, Stopwatch

from spectral_skills import recipes
from spectral_skills.results import Result
from spectral_skills.tracking.observations import HISTORY, PROPRIO, Observation


def test_a_stopwatch_adds_up_calls():
    watch = Stopwatch(torch.device("cpu"))
    nap = watch.around(time.sleep)
    nap(0.02)
    nap(0.03)
    assert 50 <= watch.milliseconds() < 500
    assert watch.milliseconds() == 0


def _adds_up(results: list[Result]) -> dict[str, float]:
    found = {row.row: row.value for row in results}
    whole = found.pop("a control step of 8 robots")
    parts = [v for name, v in found.items() if name.startswith("a control step")]
    assert len(parts) == 4
    assert sum(parts) == pytest.approx(whole)
    assert found["end to end"] < found["physics alone"]
    assert all(value > 0 for value in found.values())
    return found


def test_parts_add_up_to_a_step():
    found = _adds_up(track.ppo("cpu"))
    assert "update from 64 frames" in found


def test_parts_of_the_off_policy_learner(monkeypatch):
    """The same, and the parts of its updates, in a table of its own."""
    monkeypatch.setitem(recipes.TRACK, "lafan1", recipes.TRACK["smoke-sac"])
    results = track.sac("cpu")
    found = _adds_up(results)
    assert {row.table for row in results} == {"Tracking: speed, off-policy"}
    parts = ("", ": drawing 128 rows", ": 2 of the critics", ": 1 of the actor")
    updates = {f"updates of a control step, alone{part}" for part in parts}
    assert updates <= found.keys()


def test_robots_do_what_the_controller_says(make_controller):
    controller = make_controller()
    seen = Observation(
        history=torch.randn(3, HISTORY, PROPRIO),
        source=torch.randn(3, controller.config.command.width),
        phase=torch.randn(3, 2),
        critic=torch.zeros(3, 1),
    )

    class Robots:
        observation = seen

        def step(self, action: torch.Tensor, /):
            return action, action, action

    done, _, _ = Driven(Robots(), controller, False).step(torch.full((3, 29), 9.0))
    torch.testing.assert_close(done, controller.act(*seen[:3]))
