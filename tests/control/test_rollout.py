"""Records: read as written, cut by robot, refused when damaged."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills.control.rollout import Rollout


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
    )


def _same(a: Rollout, b: Rollout) -> bool:
    names = ("robot", "robot_velocity", "lengths", "actions", "skills")
    tensors = all(torch.equal(getattr(a, n), getattr(b, n)) for n in names)
    return tensors and (a.names, a.fps) == (b.names, b.fps)


def test_a_record_is_read_as_it_was_written(tmp_path):
    one = record()
    one.save(tmp_path / "run.npz")
    read = Rollout.load(tmp_path / "run.npz")
    assert _same(one, read)
    assert one.reference is not None and read.reference is not None
    assert torch.equal(one.reference, read.reference)


def test_without_a_reference_there_is_none_after_reading(tmp_path):
    one = replace(record(), reference=None)
    one.save(tmp_path / "run.npz")
    read = Rollout.load(tmp_path / "run.npz")
    assert _same(one, read) and read.reference is None


def test_select_takes_robots_in_the_given_order():
    one = record()
    other = one.select([1, 0])
    assert other.names == ("größer", "walk") and other.lengths.tolist() == [2, 4]
    assert torch.equal(other.robot[:, 0], one.robot[:, 1])
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
