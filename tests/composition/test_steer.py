"""One composed run from the command line: knobs, effects, predictions."""

import json

import pytest

from spectral_skills.cli.main import main
from spectral_skills.control.steering import Knob
from spectral_skills.experiments.steer import full_steps, knobs
from spectral_skills.plots import film


def test_knobs_have_times_of_their_own():
    found = knobs(["right arm", "turn"], [2.0, -1.0], 8.0, [1.0, 2.0], [5.0, 6.0])
    assert found == [Knob("right_arm", 2.0, 50, 250), Knob("turn", -1.0, 100, 300)]
    assert knobs(["turn"], [2.0], 8.0) == [Knob("turn", 2.0, 40, 360)]


def test_every_direction_needs_its_amplitude():
    with pytest.raises(ValueError, match="--amplitude has 1 values for 2 directions"):
        knobs(["turn", "speed"], [2.0], 8.0)
    with pytest.raises(ValueError, match="--until has 2 values for 1 directions"):
        knobs(["turn"], [2.0], 8.0, until=[4.0, 5.0])


def test_effects_are_measured_where_all_knobs_are_up():
    assert full_steps([Knob("a", 1, 0, 300), Knob("b", 1, 100, 400)], 400) == slice(
        125, 275
    )
    # They never meet for a second: then where any of them is up.
    assert full_steps([Knob("a", 1, 0, 150), Knob("b", 1, 200, 400)], 400) == slice(
        25, 375
    )
    with pytest.raises(ValueError, match="less than 1 s"):
        full_steps([Knob("a", 1, 0, 60)], 400)


@pytest.mark.usefixtures("coarse_pictures")
def test_steer_from_the_command_line(
    make_clip, make_corpus, tmp_path, monkeypatch, capsys
):
    """Distances are to a small corpus here, and pictures few and coarse."""
    monkeypatch.setattr(film, "PANELS", 2)
    make_corpus(tmp_path / "walks", [make_clip(f"walk{i}", seed=i) for i in range(3)])
    words = ["steer", "--base", "stand", "--direction", "right_arm"]
    words += ["--corpus", str(tmp_path / "walks")]
    words += ["--amplitude", "3", "--seconds", "4", "--no-film", "--json"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--out", str(tmp_path / "run")])
    assert not stop.value.code
    found = json.loads(capsys.readouterr().out)
    assert found["fell"] is False and found["effect"] == "right arm raise"
    assert found["effects"]["right_shoulder_pitch"] < -0.3
    assert -2.0 < found["predicted"]["right_shoulder_pitch"] < -0.2
    assert found["distance_to_corpus"] > 0
    assert (tmp_path / "run" / "run.png").stat().st_size > 10_000
    assert len(list((tmp_path / "run" / "records").iterdir())) == 2


def test_what_cannot_be_steered_is_said(tmp_path, capsys):
    for words, message in (
        (["--base", "swim", "--direction", "turn"], "no clip named 'swim'"),
        (["--base", "stand", "--direction", "turm"], "close to it: turn"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["steer", *words, "--amplitude", "1", "--out", str(tmp_path / "x")])
        assert stop.value.code
        assert message in capsys.readouterr().err
