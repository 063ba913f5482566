"""The package in Python: its public names, what they cost, and what they give."""

import subprocess
import sys

import pytest

import spectral_skills as ss
from spectral_skills import api


def test_importing_costs_nothing():
    """Neither NumPy nor torch is loaded until something is used."""
    code = (
        "import sys; import spectral_skills as ss; dir(ss); "
        "print([name for name in ('numpy', 'torch', 'mujoco') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("name", ss.__all__)
def test_public_names_are_documented(name):
    assert getattr(ss, name) is getattr(api, name)
    assert (getattr(api, name).__doc__ or "").strip()


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        ss.fly  # noqa: B018  # type: ignore


def test_a_walk_is_steered(tmp_path):
    """What the README shows: load, steer, film."""
    near = tmp_path / "motions"
    ss.synth(near, "smoke", clips=2, workers=1)
    models = ss.load(planner=None)
    run = ss.steer(models, "walk", {"right_arm": 3.0}, seconds=4, corpus=near)
    assert run.steered.stands
    assert run.effect.changes["right_shoulder_pitch"] < -0.3
    assert run.predicted["right_shoulder_pitch"] < 0


def test_a_corpus_is_generated_and_opened(tmp_path):
    corpus = ss.synth(tmp_path / "motions", "smoke", clips=2, seed=3, workers=1)
    assert len(corpus) == 2
    assert ss.open_corpus(tmp_path / "motions").hash == corpus.hash
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no usable motion"):
        ss.ingest([tmp_path / "empty"], tmp_path / "out")


def test_mistakes_are_named():
    """Unknown tables and unknown targets are refused at once."""
    with pytest.raises(ValueError, match="no table 'doses'; there are .*dose"):
        ss.evaluate("doses")
    with pytest.raises(ValueError, match="no attribute or target 'arm'"):
        ss.find_directions("base", [], targets=["arm=1"])


def test_a_session_runs_live(bundle_folder):
    """A robot walks with a fader up, and its record can be saved."""
    session = ss.Session(bundle_folder)
    session.play("walk")
    session.move("right_arm", 2.0)
    rollout = session.run(seconds=1.0)
    assert rollout.robot.shape == (51, 1, 36)
    assert (rollout.robot[:, 0, 2] > 0.6).all()


def test_a_script_needs_no_guard_to_start_workers(tmp_path):
    """Workers do not run the caller's script again, as they would by themselves."""
    script = tmp_path / "script.py"
    script.write_text(
        "import spectral_skills as ss\n"
        "print(len(ss.synth('corpus', 'smoke', clips=2, workers=2)))\n"
    )
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["2"], done.stderr
