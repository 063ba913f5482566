"""Words become steps of a run, and what is not understood is not guessed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import tyro
from obliging import MOTIONS, Letters, Obliging, actor, directions, stance

from spectral_skills.cli import run as speech
from spectral_skills.control.schedules import RAMP_STEPS
from spectral_skills.experiments.spoken import Spoken, SpokenStep, speak, spoken_steps
from spectral_skills.models import Models
from spectral_skills.planner import text as language
from spectral_skills.plots import runs


def steps(text: str, **more) -> tuple[SpokenStep, ...]:
    return spoken_steps(Obliging(), Letters(), directions(), text, **more)


def run(text: str, planner: Obliging | None = None, **more) -> Spoken:
    return speak(models(planner or Obliging()), Letters(), text, **more)


def models(planner: Obliging) -> Models:
    return replace(actor(), planner=planner, directions=directions())


def spans(found: tuple[SpokenStep, ...]) -> list[tuple[int, int]]:
    return [(one.begin, one.end) for one in found]


def test_steps_follow_each_other_for_as_long_as_their_motions_take():
    """3 s as walk_1 has 150 frames; turn_1 is shorter than 2 s, stand_1 above 6 s."""
    found = steps("walk forward, then turn left, then stand still")
    assert spans(found) == [(0, 150), (150, 250), (250, 550)]
    assert [one.motion for one in found] == ["walk_1", "turn_1", "stand_1"]
    assert all(one.understood and one.cosine > 0.99 for one in found)


def test_what_is_said_of_time_counts_most():
    text = "walk forward for 5 seconds then turn left"
    assert spans(steps(text)) == [(0, 250), (250, 350)]
    assert spans(steps(text, seconds=3.0)) == [(0, 250), (250, 400)]
    # Commands that are held begin and end with a step.
    assert spans(steps(text, seconds=1.05, hold=10)) == [(0, 250), (250, 300)]


def test_too_long_a_run_is_refused():
    for text in ("walk forward for 3 minutes", f"walk forward for {'9' * 400} s"):
        with pytest.raises(ValueError, match="longer than 120 s"):
            steps(text)


def test_what_is_far_is_not_guessed():
    """It does not stop the others, and changes nothing that went before."""
    found = steps("walk forward, then fix my bicycle for 3 s, then turn left")
    assert [one.understood for one in found] == [True, False, True]
    far = found[1]
    assert (far.sentence, far.given) == ("fix my bicycle", "stand still")
    assert far.motion == "stand_1" and far.cosine < 0.5 and "nearest" in far.why
    assert spans(found) == [(0, 150), (150, 300), (300, 400)]
    assert all(not one.understood for one in steps("..."))


def test_a_wish_after_what_is_far_has_no_base():
    found = steps("walk forward, then raise the right arm")
    assert found[1].knobs and found[1].sentence == "walk forward"
    found = steps("walk forward, then fix my bicycle, then raise the right arm")
    assert not found[2].understood and not found[2].knobs


def test_standing_is_what_is_nearest_to_it():
    """`stand up from a bow` stands as well; a planner without any is refused."""
    (far,) = steps("fix my bicycle")
    assert (far.motion, far.given) == ("stand_1", "stand still")
    with pytest.raises(ValueError, match="has not learned to stand"):
        spoken_steps(Obliging(MOTIONS[1:3]), Letters(), None, "fix my bicycle")


def test_what_nobody_could_mean_is_refused():
    for text, seconds, message in (
        ("  ", None, "there is no text"),
        ("walk " * 300, None, "at most 1000 are read"),
        ("walk forward", 0.0, "must be above 0"),
        ("walk forward", float("nan"), "must be above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            run(text, seconds=seconds)


def test_sentences_are_read_at_their_first_steps():
    """Plans are made every 20 steps and at once for a new sentence."""
    planner = Obliging()
    text = "walk forward for 1 s, then fix my bicycle for 0.6 s, then turn left for 1 s"
    found = run(text, planner, every=20)
    expected = ["walk forward"] * 3 + ["stand still"] * 2 + ["turn left"] * 3
    assert planner.heard == expected and found.plans == len(expected)
    assert found.rollout.steps == 130 and found.rollout.names == (text,)
    assert found.fell_at_s is None and found.refused == 0 and found.plan_ms > 0


def test_the_robot_begins_still_and_stands():
    record = run("stand still for 1 s").rollout
    assert not record.robot_velocity[0].any()
    assert record.actions.shape == (50, 1, 29)
    assert record.robot[:, 0, 2].min() > 0.7


def test_knobs_are_up_in_their_own_step_alone():
    text = (
        "walk forward for 1 s, then walk forward and raise the right arm for 2 s, "
        "then turn left for 1 s"
    )
    found = run(text)
    assert [len(one.knobs) for one in found.steps] == [0, 1, 0]
    added = (found.rollout.skills[:, 0] - stance()).norm(dim=1).numpy()
    assert (added[:51] == 0).all() and (added[150:] == 0).all()
    assert added[50 + RAMP_STEPS : 150 - RAMP_STEPS] == pytest.approx(2.0, abs=1e-5)
    assert (np.diff(added[50 : 50 + RAMP_STEPS]) > 0).all()


def test_a_step_of_a_moment_can_have_a_knob():
    found = run("walk forward and raise the right arm for 0.02 s")
    assert spans(found.steps) == [(0, 2)]


def test_nonsense_of_a_planner_is_not_followed():
    """The last skill goes on, and it is said how often."""
    found = run("walk forward for 2 s", Obliging(broken_from=1))
    assert (found.plans, found.refused) == (4, 3)
    assert torch.equal(found.rollout.skills[:, 0], stance().expand(100, -1))
    with pytest.raises(ValueError, match="first plan is not finite"):
        run("walk forward", Obliging(broken_from=0))


def test_another_language_model_is_refused():
    words = Letters()
    words.name = "others"
    with pytest.raises(ValueError, match="not of others"):
        speak(models(Obliging()), words, "walk forward")


@pytest.fixture
def say(monkeypatch):
    """`say(words)`: the exit code of `spectral say` with these words."""
    monkeypatch.setattr(Models, "at", lambda _: models(Obliging()))
    monkeypatch.setattr(language, "text_encoder", Letters)

    def exit_code(*words: str) -> int:
        return tyro.cli(speech.say, args=words)

    return exit_code


def test_say_prints_what_was_understood(say, capsys):
    code = say("walk forward for 1 s, then fix my bicycle for 1 s")
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line[:12].strip() for line in lines] == [
        *("run", "understood", "", "falls", "travel", "plans", "")
    ]
    assert "0.0 to  1.0 s  walk forward    as walk_1 (1.00)" in lines[1]
    assert "fix my bicycle  not understood" in lines[2]
    assert "--out" in lines[-1]


def test_say_nothing_that_is_understood(say, capsys):
    """The exit code is 2, and JSON is all that is printed."""
    assert say("fix my bicycle", "--seconds", "0.5", "--json") == 2
    found = json.loads(capsys.readouterr().out)
    (step,) = found["steps"]
    assert step["understood"] is False and step["to_s"] == 0.5
    assert found["fell_at_s"] is None and found["plans"] == 1


@pytest.mark.usefixtures("coarse_pictures")
def test_say_writes_what_can_be_replayed(say, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runs, "SPOKEN_PANELS", 1)
    out = tmp_path / "run"
    assert say("walk forward for 0.5 s", "--out", str(out), "--no-film") == 0
    assert sorted(path.name for path in out.iterdir()) == [
        *("run.npz", "run.png", "skills.npz")
    ]
    assert str(out / "skills.npz") in capsys.readouterr().out
    encoder = actor().encoder
    assert encoder is not None
    stream = np.load(out / "skills.npz", allow_pickle=False)
    assert stream["skills"].shape == (25, 64) and stream["fps"] == 50
    assert str(stream["encoder"]) == encoder.fingerprint()
    with pytest.raises(ValueError, match="name a folder"):
        say("walk forward", "--out", str(out / "run.png"))
