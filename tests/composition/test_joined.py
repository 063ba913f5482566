"""Motions spliced to one reference, and an explicit tracker that is given it."""

import numpy as np
import pytest
import torch
from obedient import turned
from untrained import controller, explicit

from spectral_skills import rotation
from spectral_skills.control.batch import Run, Runner
from spectral_skills.control.steering import chain
from spectral_skills.experiments import chaining
from spectral_skills.experiments.chaining import join, joined
from spectral_skills.motion.windows import move_rows
from spectral_skills.robot import g1


def walk(steps: int, speed: float = 0.8, turn: float = 0.5) -> torch.Tensor:
    """A walk along an arc, its arm swinging and its trunk rocking."""
    rows = torch.from_numpy(turned(lambda t: turn * t, speed, steps))
    t = torch.arange(steps + 1) / g1.CONTROL_HZ
    rows[:, 22] += t.sin()
    axis = torch.tensor([1.0, 0.0, 0.0]).expand(steps + 1, 3)
    lean = rotation.from_axis_angle(axis, 0.2 * (3 * t).sin()).to(rows)
    rows[:, 3:7] = rotation.multiply(rows[:, 3:7], lean)
    return rows


def elsewhere() -> torch.Tensor:
    """A row far off, turned, leaning and low."""
    row = walk(60)[-1].clone()
    row[:3] = torch.tensor([5.0, -3.0, 0.1])
    return row


def away(rows: torch.Tensor) -> torch.Tensor:
    """A motion that begins there."""
    return move_rows(rows, rows[0], elsewhere())


def standing(steps: int, height: float, joint: float, lean: float) -> torch.Tensor:
    rows = torch.from_numpy(np.tile(g1.DEFAULT_QPOS, (steps + 1, 1)))
    rows[:, 2], rows[:, 10] = height, joint
    rows[:, 3], rows[:, 4] = np.cos(lean / 2), np.sin(lean / 2)
    return rows


@pytest.mark.parametrize("switch", [0, 1, 12])
def test_a_motion_cut_in_three_and_moved_is_spliced_to_itself(switch):
    whole = walk(150)
    parts = [whole[:61], away(whole[60 - switch : 111]), away(whole[110 - switch :])]
    made, switches = join(parts, switch)
    torch.testing.assert_close(made, whole, atol=1e-7, rtol=0)
    assert switches == [slice(60 - switch, 60), slice(110 - switch, 110)]


def test_a_hard_switch_keeps_place_and_heading_and_nothing_else():
    first, second = walk(40), away(standing(30, 0.6, 0.4, 0.3))
    made, switches = join([first, second], 0)
    assert len(made) == 71 and switches == [slice(40, 40)]
    torch.testing.assert_close(made[:41], first, atol=0, rtol=0)
    ground, heading = first[-1, :2], rotation.yaw(first[-1, 3:7])
    for row in made[41:]:  # the second stands: all its rows are like its first
        torch.testing.assert_close(row[:2], ground, atol=1e-9, rtol=0)
        torch.testing.assert_close(rotation.yaw(row[3:7]), heading)
        torch.testing.assert_close(row[2], second[0, 2])
        torch.testing.assert_close(row[7:], second[0, 7:])
    tilt = rotation.multiply(rotation.conjugate(rotation.heading(row[3:7])), row[3:7])
    assert rotation.log(tilt)[0] == pytest.approx(0.3, abs=1e-9)


def test_one_motion_stays_as_it_is():
    made, switches = join([walk(30)], 5)
    torch.testing.assert_close(made, walk(30), atol=0, rtol=0)
    assert switches == []


def test_a_blend_has_the_weights_of_chained_skills():
    """Joints and height go as a chained stream does, the lean by the same shares."""
    made, (where,) = join([standing(20, 0.7, 0.0, 0.0), standing(20, 0.5, 1.0, 0.6)], 4)
    blended, (same,) = chain([np.full((20, 1), float(v)) for v in (0, 1)], 4)
    shares = torch.from_numpy(blended)
    assert where == same
    after = made[1:]  # step t leads to row t + 1
    torch.testing.assert_close(after[:, 10:11], shares)
    torch.testing.assert_close(after[:, 2:3], 0.7 - 0.2 * shares)
    torch.testing.assert_close(rotation.log(after[:, 3:7])[:, :1], 0.6 * shares)


def test_a_motion_too_short_for_its_switches_is_refused():
    with pytest.raises(ValueError, match="stream 1 has 10 steps"):
        join([walk(30), walk(10), walk(30)], 6)


def test_a_tracker_is_given_the_next_pose_of_its_reference(monkeypatch):
    """In a batch of references of different length, the last pose of each stays."""
    tracker, given = Runner(explicit()), []
    plans = [joined(tracker, ["stand", "walk"], s, 20) for s in (0, 6)]
    act = tracker.controller.act

    def message(history, source, phase):
        given.append(source)
        return act(history, source, phase)

    monkeypatch.setattr(tracker.controller, "act", message)
    done = tracker.execute([run for run, _ in plans])
    assert [len(one.rows) for one in done] == [41, 35]
    joints = torch.stack(given)[:, :, : g1.NUM_JOINTS].numpy()
    for i, (run, _) in enumerate(plans):
        rows = run.base.rows
        at = np.arange(1, 41).clip(max=len(rows) - 1)
        np.testing.assert_allclose(joints[:, i], rows[at, 7:], atol=1e-6)
    # It starts on the reference and sees the root of the next pose from there.
    ahead = torch.stack(given)[0, :, g1.NUM_JOINTS : g1.NUM_JOINTS + 2]
    assert float(ahead.norm(dim=1).max()) < 0.05


def test_references_that_begin_alike_are_kept_apart(tmp_path, monkeypatch):
    tracker = Runner(explicit(), records=tmp_path)
    first = chaining.execute(
        tracker, [("stand", "walk"), ("stand", "jog")], (0,), 20, plan=joined
    )
    records = {tracker.record(one.executed.run) for one in first}
    base = first[0].executed.run.base
    assert len(records) == 2 == len(list(tmp_path.glob("*.npz")))
    assert tracker.record(Run("explicit, switch 0", base, None)) in records
    monkeypatch.setattr(tracker, "run_together", None)  # nothing is made again
    again = chaining.execute(tracker, [("stand", "walk")], (0,), 20, plan=joined)
    np.testing.assert_array_equal(again[0].executed.rows, first[0].executed.rows)
    assert again[0].acceleration[chaining.DURING] > 0
    assert joined(tracker, ["stand", "walk"], 0, 20)[1] == [slice(20, 20)]


def test_a_controller_of_skills_is_no_explicit_tracker():
    with pytest.raises(ValueError, match="of pose commands, not of 'skill'"):
        Runner(controller(width=8))
