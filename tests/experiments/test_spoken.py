"""Words become steps of a run, and what is not understood is not guessed."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import tyro
from obliging import MOTIONS, Letters, directions
from safetensors.torch import save_file

import spectral_skills as ss
from spectral_skills import api
from spectral_skills.cli import run as speech
from spectral_skills.control.bundle import SENTENCES, Bundle
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.session import replay
from spectral_skills.control.steering import RAMP_STEPS
from spectral_skills.models import Models
from spectral_skills.planner import text as language
from spectral_skills.planner.listener import (
    Listener,
    Spoken,
    SpokenStep,
    speak,
    spoken_steps,
)
from spectral_skills.plots import runs


class Stander:
    """Plans to stand still, or nonsense from some plan on; keeps what it read."""

    noise_shape = (30, 64)

    def __init__(self, skill: np.ndarray, broken_from: int = 10_000):
        self._skill, self._broken_from, self.heard = skill, broken_from, []

    def plan(self, history, sentence, noise) -> np.ndarray:
        self.heard.append(sentence)
        chunk = np.tile(self._skill, (30, 1))
        chunk[7] += np.nan if len(self.heard) > self._broken_from else 0.0
        return chunk


@dataclass(frozen=True)
class Obliged(Bundle):
    """The released bundle with a planner of the four motions of `obliging`."""

    stander: Stander | None = None

    def planner(self):
        return self.stander


@pytest.fixture(scope="module")
def obliged(bundle, tmp_path_factory) -> Obliged:
    folder = tmp_path_factory.mktemp("bundle")
    for name in bundle.manifest.files:
        if name != SENTENCES:
            (folder / name).symlink_to(bundle.folder / name)
    pairs = tuple((motion.name, s) for motion in MOTIONS for s in motion.sentences)
    text = Letters().encode([sentence for _, sentence in pairs])
    tokens = {"states": text.states[text.mask], "tokens": text.mask.sum(1)}
    save_file(tokens, folder / SENTENCES)
    takes_s = {motion.name: motion.frames / 50 for motion in MOTIONS}
    files = {**bundle.manifest.files, SENTENCES: ""}
    changes = {"sentences": pairs, "takes_s": takes_s, "files": files}
    manifest = replace(bundle.manifest, **changes)
    # Without a text, no base is what a motion is: all are planned.
    bases = {name: replace(base, text="") for name, base in bundle.bases.items()}
    return Obliged(folder, manifest, directions(), bases, bundle.support)


@pytest.fixture
def steps(obliged):
    def make(text: str, **more) -> tuple[SpokenStep, ...]:
        return spoken_steps(Listener(obliged, Letters()), text, **more)

    return make


def test_a_motion_that_a_base_shows_is_played(obliged):
    """By the name of its clip, or by what the base is called."""
    walk, stand = (obliged.base(name) for name in ("walk", "stand"))
    bases = obliged.bases | {
        "walk": replace(walk, text="walk straight ahead"),
        "stand": replace(stand, origin="somewhere.org turn_1, frames 0 to 9 (free)"),
    }
    listener = Listener(replace(obliged, bases=bases), Letters())
    text = "walk straight ahead, then turn left, then stand on the spot"
    cues, _ = listener.hear(text)
    assert [cue.name for cue in cues] == ["walk", "stand", "stand on the spot"]
    assert [cue.planned for cue in cues] == [False, False, True]


def test_a_motion_whose_skills_are_known_is_played_unless_a_base_shows_it(obliged):
    """It is called by its first sentence, and played to its end."""
    stand = replace(obliged.base("stand"), text="", loop=(450, 500))
    motions = {
        "turn left": replace(
            stand, origin="somewhere.org turn_1, frames 0 to 9 (free)"
        ),
        "walk ahead": replace(
            stand, origin="somewhere.org walk_1, frames 0 to 9 (free)"
        ),
    }
    walk = replace(obliged.base("walk"), text="walk straight ahead")
    some = replace(obliged, bases=obliged.bases | {"walk": walk}, motions=motions)
    cues, _ = Listener(some, Letters()).hear("turn left, then walk forward")
    assert [(cue.name, cue.planned) for cue in cues] == [
        *(("turn left", False), ("walk", False))
    ]
    assert cues[0].seconds == stand.loop[0] / 50 == 9.0  # to its end
    assert some.base("turn left") is motions["turn left"]
    cues, _ = Listener(replace(some, motions={}), Letters()).hear("turn left")
    assert cues[0].planned


@pytest.fixture
def stander(obliged):
    """`stander(broken_from)`: a planner for the bundle."""
    return lambda *given: Stander(obliged.base("stand").skills[0], *given)


@pytest.fixture
def run(obliged, stander):
    def make(text: str, planner: Stander | None = None, **more) -> Spoken:
        with_planner = replace(obliged, stander=planner or stander())
        return speak(with_planner, Letters(), text, **more)

    return make


def spans(found: tuple[SpokenStep, ...]) -> list[tuple[int, int]]:
    return [(one.begin, one.end) for one in found]


def test_steps_follow_each_other_for_as_long_as_their_motions_take(steps):
    """3 s as walk_1 has 150 frames; turn_1 is shorter than 2 s, stand_1 above 6 s."""
    found = steps("walk forward, then turn left, then stand still")
    assert spans(found) == [(0, 150), (150, 250), (250, 550)]
    assert [one.motion for one in found] == ["walk_1", "turn_1", "stand_1"]
    assert all(one.understood and one.cosine > 0.99 for one in found)


def test_what_is_said_of_time_counts_most(steps):
    text = "walk forward for 5 seconds then turn left"
    assert spans(steps(text)) == [(0, 250), (250, 350)]
    assert spans(steps(text, seconds=3.0)) == [(0, 250), (250, 400)]


def test_too_long_a_run_is_refused(steps):
    for text in ("walk forward for 3 minutes", f"walk forward for {'9' * 400} s"):
        with pytest.raises(ValueError, match="longer than 120 s"):
            steps(text)


def test_what_is_far_is_not_guessed(steps):
    """It does not stop the others, and changes nothing that went before."""
    found = steps("walk forward, then fix my bicycle for 3 s, then turn left")
    assert [one.understood for one in found] == [True, False, True]
    far = found[1]
    assert (far.sentence, far.motion) == ("fix my bicycle", "stand")
    assert (far.cue.name, far.cue.planned) == ("stand", False)
    assert far.cosine < 0.5 and "nearest" in far.why
    assert spans(found) == [(0, 150), (150, 300), (300, 400)]
    assert all(not one.understood for one in steps("..."))


def test_a_wish_after_what_is_far_has_no_base(steps):
    found = steps("walk forward, then raise the right arm")
    assert found[1].knobs and found[1].sentence == "walk forward"
    found = steps("walk forward, then fix my bicycle, then raise the right arm")
    assert not found[2].understood and not found[2].knobs


def test_what_nobody_could_mean_is_refused(run):
    for text, options, message in (
        ("  ", {}, "there is no text"),
        ("walk " * 300, {}, "at most 1000 are read"),
        ("walk forward", {"seconds": 0.0}, "must be above 0"),
        ("walk forward", {"seconds": float("nan")}, "must be above 0"),
        ("walk forward", {"every": 0}, "every 0 steps, must be 1 to 30"),
        ("walk forward", {"every": 31}, "every 31 steps, must be 1 to 30"),
    ):
        with pytest.raises(ValueError, match=message):
            run(text, **options)


def test_sentences_are_read_at_their_first_steps(run, stander):
    """Plans are made two steps before their 20 are over and at once for a new
    sentence; the cross-fade from an old one may ask once more."""
    planner = stander()
    text = "walk forward for 1 s, then fix my bicycle for 0.6 s, then turn left for 1 s"
    found = run(text, planner, every=20)
    expected = ["walk forward"] * 4 + ["turn left"] * 3
    assert planner.heard == expected and found.plans == len(expected)
    assert found.rollout.steps == 130 and found.rollout.names == (text,)
    assert found.fell_at_s is None and found.refused == 0 and found.plan_ms > 0


def test_the_robot_begins_still_and_stands(run, obliged):
    record = run("stand still for 1 s").rollout
    assert np.array_equal(record.robot[0, 0], obliged.base("stand").rows[0])
    assert record.robot[:, 0, 2].min() > 0.7


def test_a_run_can_be_repeated(run, obliged, tmp_path):
    """To the last bit from its record; and with its seed."""
    record = run("walk forward for 0.5 s, then turn left for 0.5 s").rollout
    record.save(tmp_path / "run.npz")
    again = replay(obliged, Rollout.load(tmp_path / "run.npz"))
    assert np.array_equal(again, record.robot[:, 0])


def test_a_film_shows_the_robot_alone(run, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "spectral_skills.plots.film.write_film", lambda *given, **_: drawn.append(given)
    )
    ss.film(found := run("walk forward for 0.2 s"), tmp_path / "said")
    ((record, path),) = drawn
    assert record.reference is None and path == tmp_path / "said"
    assert np.array_equal(record.robot, found.rollout.robot)


def test_knobs_are_up_in_their_own_step_alone(run, obliged):
    text = (
        "walk forward for 1 s, then walk forward and raise the right arm for 2 s, "
        "then turn left for 1 s"
    )
    found = run(text)
    assert [len(one.knobs) for one in found.steps] == [0, 1, 0]
    added = np.abs(found.rollout.extra["amplitudes"]).sum(axis=1)
    assert (added[:50] == 0).all() and (added[150 + RAMP_STEPS :] == 0).all()
    assert added[50 + RAMP_STEPS : 150] == pytest.approx(2.0, abs=1e-5)
    assert (np.diff(added[50 : 50 + RAMP_STEPS]) > 0).all()


def test_a_step_of_a_moment_can_have_a_knob(run):
    found = run("walk forward and raise the right arm for 0.02 s")
    assert spans(found.steps) == [(0, 2)]


def test_nonsense_of_a_planner_is_not_followed(run, stander):
    """The robot stands instead, and it is said how often."""
    found = run("walk forward for 2 s", stander(1))
    assert found.plans == found.refused + 1 > 2
    assert np.isfinite(found.rollout.skills).all() and found.fell_at_s is None
    assert run("walk forward for 1 s", stander(0)).fell_at_s is None


@pytest.fixture
def say(monkeypatch, obliged, stander):
    """`say(words)`: the exit code of `spectral say` with these words."""
    models = replace(Models.load(planner="base"), directions=directions())
    models.skill_planner.config = replace(models.skill_planner.config, text="letters")
    opened = replace(obliged, stander=stander())
    monkeypatch.setattr(Models, "at", lambda _: models)
    monkeypatch.setattr(language, "MiniLM", Letters)
    monkeypatch.setattr(api, "bundle", lambda _: obliged.folder)
    monkeypatch.setattr(Bundle, "open", lambda _: opened)

    def exit_code(*words: str) -> int:
        return tyro.cli(speech.say, args=words)

    return exit_code


def test_another_language_model_is_refused(say, monkeypatch):
    monkeypatch.setattr(Letters, "name", "others")
    with pytest.raises(ValueError, match="not of others"):
        say("walk forward")


def test_say_prints_what_was_understood(say, capsys):
    code = say("walk forward for 1 s, then fix my bicycle for 1 s")
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line[:12].strip() for line in lines] == [
        *("run", "understood", "", "falls", "travel", "plans", "")
    ]
    assert "0.0 to  1.0 s  walk forward    planned as 'walk forward' (1.00)" in lines[1]
    assert "fix my bicycle  not understood" in lines[2]
    assert "--out" in lines[-1]


def test_say_nothing_that_is_understood(say, capsys):
    """The exit code is 2, and JSON is all that is printed."""
    assert say("fix my bicycle", "--seconds", "0.5", "--json") == 2
    found = json.loads(capsys.readouterr().out)
    (step,) = found["steps"]
    assert step["understood"] is False and step["to_s"] == 0.5
    assert found["fell_at_s"] is None and found["plans"] == 0


@pytest.mark.usefixtures("coarse_pictures")
def test_say_writes_what_can_be_replayed(say, obliged, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runs, "SPOKEN_PANELS", 1)
    out = tmp_path / "run"
    assert say("walk forward for 0.5 s", "--out", str(out), "--no-film") == 0
    assert sorted(path.name for path in out.iterdir()) == [
        *("run.npz", "run.png", "skills.npz")
    ]
    assert str(out / "skills.npz") in capsys.readouterr().out
    stream = np.load(out / "skills.npz", allow_pickle=False)
    assert stream["skills"].shape == (25, 64) and stream["fps"] == 50
    assert str(stream["encoder"]) == obliged.manifest.encoder
    with pytest.raises(ValueError, match="name a folder"):
        say("walk forward", "--out", str(out / "run.png"))
