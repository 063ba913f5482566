"""Takes: recorded, kept, and run again to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
from scripted import run

from spectral_skills.control.rollout import Rollout
from spectral_skills.control.session import Recorder, automation, replay
from spectral_skills.desk import files
from spectral_skills.desk.engine import Engine

LINES = [
    {"at": 0, "do": "cross", "deck": "a"},
    {"at": 0.5, "do": "record"},
    {"at": 0.6, "do": "move", "name": "right_arm", "position": 1.7},
    {"at": 1.2, "do": "push", "forward": 0.3, "left": 0.2},
    {"at": 1.5, "do": "reset"},
    {"at": 1.6, "do": "ramp", "name": "turn", "steps": 7},
    {"at": 1.7, "do": "move", "name": "turn", "position": -2.3},
    {"at": 2.0, "do": "cross", "deck": "b"},
]


def _with(take: Rollout, **columns) -> Rollout:
    return replace(take, extra={**take.extra, **columns})


@pytest.fixture(scope="module")
def take(bundle) -> Rollout:
    engine = Engine(bundle)
    frames = run(engine, LINES, 2.6)
    found = engine.stop_recording()
    assert found is not None and engine.recorder is None
    assert np.array_equal(found.robot[1:, 0], [frame.row for frame in frames[25:]])
    return found


def test_a_take_begun_in_the_middle_is_run_again_exactly(bundle, take, tmp_path):
    """From its file, with its push and its reset; to the last bit."""
    take.save(tmp_path / "take.npz")
    loaded = Rollout.load(tmp_path / "take.npz")
    assert np.array_equal(replay(bundle, loaded), take.robot[:, 0])
    assert loaded.seconds == pytest.approx(2.1) and len(loaded.extra["events"]) == 2
    assert loaded.extra["playing"][[0, -1]].tolist() == ["walk", "jog"]


def test_another_skill_gives_another_run(bundle, take):
    """What is run again is the commands, not the rows."""
    changed = replace(take, skills=take.skills + 0.05)
    assert np.abs(replay(bundle, changed) - take.robot[:, 0]).max() > 1e-3


def test_another_controller_is_refused(bundle, take):
    with pytest.raises(ValueError, match="made with another controller"):
        replay(bundle, _with(take, controller=np.array("other")))


def test_automation_is_read_back_exactly(bundle, take):
    """Amplitudes of every step, and only the directions that were used."""
    header, *lines = automation(take).splitlines()
    assert header == "time_s,right_arm,turn"
    table = np.array([line.split(",") for line in lines], float)
    found = np.zeros_like(take.extra["amplitudes"])
    for name, curve in zip(("right_arm", "turn"), table.T[1:], strict=True):
        time_s = np.arange(take.steps) / 50
        found[:, bundle.directions.index(name)] = np.interp(time_s, table[:, 0], curve)
    assert np.array_equal(found, take.extra["amplitudes"])


def test_automation_of_faders_at_rest_has_no_column(bundle, take):
    still = _with(take, amplitudes=np.zeros_like(take.extra["amplitudes"]))
    assert automation(still) == "time_s\n0.0\n2.08\n"


@pytest.mark.parametrize(
    "damage",
    [
        lambda arrays: arrays.pop("names"),
        lambda arrays: arrays.update(robot=arrays["robot"][:-1]),
        lambda arrays: arrays.update(version=np.array(99)),
    ],
)
def test_damaged_takes_are_refused(take, tmp_path, damage):
    """The message names the file."""
    path = tmp_path / "take.npz"
    take.save(path)
    arrays = dict(np.load(path))
    damage(arrays)
    np.savez(path, allow_pickle=False, **arrays)
    with pytest.raises(ValueError, match="take.npz: not a rollout"):
        Rollout.load(path)


def test_a_rollout_that_is_no_take_is_not_run_again(bundle, take):
    with pytest.raises(ValueError, match="not a take, amplitudes is missing"):
        extra = {n: v for n, v in take.extra.items() if n != "amplitudes"}
        replay(bundle, replace(take, extra=extra))
    with pytest.raises(ValueError, match="a damaged take"):
        automation(_with(take, amplitudes=take.extra["amplitudes"][:3]))


def test_a_take_ends_by_itself(bundle, monkeypatch):
    """Before it fills the memory; one without a step is none."""
    monkeypatch.setattr("spectral_skills.control.session.LONGEST_S", 0.1)
    engine = Engine(bundle)
    engine.record()
    assert isinstance(engine.recorder, Recorder) and engine.stop_recording() is None
    engine.record()
    run(engine, [{"at": 0.2, "do": "push", "left": 0.1}], 0.3)
    take = engine.stop_recording()
    assert take is not None and take.seconds == 0.1 and not len(take.extra["events"])


def test_films_show_the_robot_beside_its_base(take, tmp_path, monkeypatch):
    """Drawn as rollouts are."""
    drawn = []

    def note(record, path, **more):
        drawn.append((record, path, more))
        return [path.with_suffix(".gif")]

    monkeypatch.setattr("spectral_skills.plots.film.write_film", note)
    take.save(tmp_path / "take.npz")
    monkeypatch.setattr(
        "sys.argv", ["film", f"{tmp_path}/take.npz", f"{tmp_path}/take"]
    )
    monkeypatch.setattr("os.nice", lambda _: 0)
    files.main()
    (record, path, more), *_ = drawn
    assert path == tmp_path / "take" and more["caption"] == "blue: the base"
    np.testing.assert_allclose(record.robot[:, 0], take.robot[:, 0], atol=1e-6)
    np.testing.assert_allclose(record.reference[:, 0], take.reference[:, 0], atol=1e-6)
