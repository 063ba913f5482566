"""Records: read as written, cut by robot, refused when damaged."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills.control.rollout import Rollout, fallen, fell_at


def record(steps: int = 3, n: int = 2) -> Rollout:
    torch.manual_seed(0)
    return Rollout(
        robot=torch.randn(steps + 1, n, 36),
        robot_velocity=torch.randn(steps + 1, n, 35),
        reference=torch.randn(steps + 1, n, 36),
        lengths=torch.tensor([steps + 1, 2]),
        actions=torch.randn(steps, n, 29),
        skills=torch.randn(steps, n, 4),
        names=("walk", "größer"),
        reach=4.0,
    )


def _same(a: Rollout, b: Rollout) -> bool:
    names = ("robot", "robot_velocity", "lengths", "actions", "skills", "reference")
    return (a.names, a.fps, a.reach) == (b.names, b.fps, b.reach) and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in names
    )


def test_a_record_is_read_as_it_was_written(tmp_path):
    """As NumPy arrays, whatever it was made of."""
    one = replace(record(), extra={"playing": np.array(["walk"] * 3)})
    one.save(tmp_path / "run.npz")
    read = Rollout.load(tmp_path / "run.npz")
    assert isinstance(read.robot, np.ndarray) and _same(one, read)
    assert read.extra["playing"].tolist() == ["walk"] * 3
    assert _same(read.tensors(), one) and isinstance(read.tensors().robot, torch.Tensor)


def test_what_was_not_recorded_is_not_there_after_reading(tmp_path):
    one = replace(record(), reference=None, actions=None)
    one.save(tmp_path / "run.npz")
    read = Rollout.load(tmp_path / "run.npz")
    assert read.reference is None and read.actions is None
    assert np.array_equal(read.robot, one.robot)


def test_files_of_the_first_version_are_read(tmp_path):
    """They have arrays without width for what was not recorded."""
    one = record()
    np.savez(
        tmp_path / "run.npz",
        version=np.array(1),
        names=np.array(one.names),
        fps=np.array(50.0),
        robot=one.robot.numpy(),
        robot_velocity=np.zeros((4, 2, 0)),
        lengths=one.lengths.numpy(),
        actions=np.zeros((3, 2, 0)),
        skills=one.skills.numpy(),
    )
    read = Rollout.load(tmp_path / "run.npz")
    assert read.actions is None and np.array_equal(read.skills, one.skills)
    assert read.reach == 1.0


def test_a_fall_is_a_pelvis_below_its_limit_or_not_a_number():
    rows = np.zeros((6, 36))
    rows[:, 2] = 0.7, 0.4, 0.3, 0.7, np.nan, 0.7
    assert fell_at(rows) == 2 and fell_at(rows, 0.22) == 4
    assert fell_at(rows[:2]) is None
    assert fallen(torch.from_numpy(rows), 0.5).tolist() == [
        False,
        *[True] * 2,
        False,
        True,
        False,
    ]


def test_select_takes_robots_in_the_given_order():
    one = record()
    other = one.select([1, 0])
    assert other.names == ("größer", "walk") and other.lengths.tolist() == [2, 4]
    assert np.array_equal(other.robot[:, 0], one.robot[:, 1])
    assert one.select(slice(1)).names == ("walk",)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="actions has shape"):
        replace(record(), actions=torch.zeros(4, 2, 29))
    with pytest.raises(ValueError, match="1 names for 2 robots"):
        replace(record(), names=("walk",))


def test_files_that_are_no_record_are_refused_by_name(tmp_path):
    path = tmp_path / "run.npz"
    path.write_bytes(b"PK not a zip")
    with pytest.raises(ValueError, match=r"run.npz: not a rollout"):
        Rollout.load(path)
    record().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"run.npz: not a rollout"):
        Rollout.load(path)
    np.savez(path, version=np.array(99))
    with pytest.raises(ValueError, match="newer than this package"):
        Rollout.load(path)
    np.savez(path, version=np.array(1), names=np.array([object()]))
    with pytest.raises(ValueError, match=r"run.npz: not a rollout"):
        Rollout.load(path)
