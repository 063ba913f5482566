"""Decks, queue, faders: what is commanded at every step."""

import math
import subprocess
import sys
import threading
import time
from dataclasses import replace

import made_up
import numpy as np
import pytest

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import BRAKED, Cue, Mixer
from spectral_skills.control.streams import (
    CORRECTED,
    FADE,
    GENTLE,
    RETURN,
    BaseStream,
    LivePlanner,
    Plan,
    PlannedStream,
)

HISTORY = np.zeros((10, 93))


def played(mixer: Mixer, steps: int) -> np.ndarray:
    """First number of each of the next skills."""
    return np.array([mixer.step(HISTORY).skill[0] for _ in range(steps)])


def test_cross_fade_goes_linearly_and_ends():
    """Weights are k / (n + 1): neither end is played twice."""
    mixer = Mixer(made_up.bundle(walk=100))
    mixer.play(Cue("walk", fade=4))
    np.testing.assert_allclose(played(mixer, 6), [0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_queue_plays_one_after_the_other_and_begins_again():
    """Every cue lasts as long as it says; a loop puts it at the end again."""
    mixer = Mixer(made_up.bundle(walk=100, jog=100))
    mixer.play(Cue("walk", seconds=0.2, fade=2))
    mixer.enqueue([Cue("jog", seconds=0.2, fade=2)])
    mixer.loop = True
    found = played(mixer, 44).round(2)
    assert found[9] == 1.0 and found[19] == 2.0 and found[30] == 1.0
    mixer.loop = False
    assert not played(mixer, 200)[-50:].any()  # it stands when all is over


def test_base_without_loop_ends_in_standing():
    """What is over hands over to the stance."""
    mixer = Mixer(made_up.bundle(walk=30))
    mixer.loop = False
    mixer.play(Cue("walk", fade=2))
    found = played(mixer, 60)
    assert found[25] == 1.0 and found[-1] == 0.0


def test_faders_add_ramp_mute_and_solo():
    """Positions are reached over the ramp; muted ones are not heard."""
    mixer = Mixer(made_up.bundle())
    mixer.ramp("up", 4)
    mixer.move("up", 2.0)
    np.testing.assert_allclose(played(mixer, 5), [0.5, 1.0, 1.5, 2.0, 2.0])
    mixer.hear("turn", solo=True)
    assert played(mixer, 5)[-1] == 0.0
    mixer.hear("turn", solo=False)
    mixer.hear("up", mute=True)
    assert played(mixer, 5)[-1] == 0.0
    mixer.hear("up", mute=False)
    assert played(mixer, 5)[-1] == 2.0
    mixer.release()
    assert played(mixer, 5)[-1] == 0.0


def test_faders_at_zero_change_no_bit():
    """Even minus zero stays."""
    bundle = made_up.bundle()
    bundle.base("stand").skills[0, 0] = -0.0
    skill = Mixer(bundle).step(HISTORY).skill
    assert skill.tobytes() == bundle.base("stand").skills[0].astype(float).tobytes()


def test_knobs_of_a_cue_go_with_it():
    """They are up while it plays and released after it."""
    mixer = Mixer(made_up.bundle(walk=100))
    mixer.play(Cue("walk", knobs=(("up", 1.0),)))
    assert played(mixer, 40)[-1] == 2.0
    mixer.play("stand")
    assert played(mixer, 40)[-1] == 0.0


def with_fast_run() -> Bundle:
    bundle = made_up.bundle(run=100, kick=100, jog=100)
    for name in ("run", "jog"):
        bundle.bases[name] = replace(bundle.bases[name], speed_m_s=2.0)
    return bundle


def test_a_fast_robot_stands_before_it_does_something_slow():
    """Standing is 0 and the kick 2; what it had of its time stays the same."""
    mixer = Mixer(with_fast_run())
    mixer.play("run")
    begun = played(mixer, GENTLE)  # at once, because it stood
    assert begun[0] > 0.0 and begun[-1] == pytest.approx(GENTLE / (GENTLE + 1))
    assert played(mixer, 30).tolist() == [1.0] * 30
    mixer.play(Cue("kick", seconds=1.0, fade=20), Cue("stand"))
    found = played(mixer, 20 + BRAKED + 50)
    stood, then = found[20 : 20 + BRAKED], found[20 + BRAKED :]
    assert (stood == 0.0).all() and (np.diff(then) >= 0).all()
    assert (then[FADE:] == 2.0).all()
    assert mixer.playing == "kick"
    played(mixer, 1)
    assert mixer.playing == "stand"


def test_time_that_a_robot_stands_already_counts():
    mixer = Mixer(with_fast_run())
    mixer.play("run")
    played(mixer, 50)
    mixer.play(Cue("stand", fade=2))
    played(mixer, 42)  # of which the run is heard in two
    mixer.play(Cue("kick", fade=2))
    found = played(mixer, 40)
    assert (found[:20] == 0.0).all() and found[20] > 0.0 and found[-1] == 2.0
    played(mixer, 50)
    mixer.play(Cue("stand", fade=2))
    played(mixer, 5)
    mixer.play(Cue("kick", fade=2))
    assert played(mixer, 3)[-1] == 2.0, "after nothing fast nothing is waited for"


@pytest.mark.parametrize("before", ["kick", "jog"])
def test_a_robot_stands_before_it_runs_whatever_it_did(before):
    """From walking backward straight into a run 7 of 8 robots fell, and from a jump
    into a jog one did; the time that a cue lasts is not shortened by the wait."""
    mixer = Mixer(with_fast_run())
    mixer.play(before)
    played(mixer, 200)
    mixer.play(Cue("run", seconds=2.0, fade=5), Cue("stand"))
    found = played(mixer, 5 + BRAKED + 100)
    assert (found[:5] > 0.0).all() and (found[5 : 5 + BRAKED] == 0.0).all()
    then = found[5 + BRAKED :]
    assert 0.0 < then[0] and then[GENTLE] == 1.0
    np.testing.assert_allclose(np.diff(then[:GENTLE]), 1 / (GENTLE + 1), atol=1e-6)
    assert mixer.playing == "run"
    played(mixer, 1)
    assert mixer.playing == "stand"


def test_a_robot_that_began_to_stand_waits_for_the_rest():
    """And one that only waits to run may do something slow at once."""
    mixer = Mixer(with_fast_run())
    mixer.play(Cue("kick", fade=2))
    played(mixer, 10)
    mixer.play(Cue("stand", fade=2))
    played(mixer, 2 + 40)
    mixer.play(Cue("run", fade=2))
    found = played(mixer, 21)
    assert (found[:20] == 0.0).all() and found[20] > 0.0
    mixer.play(Cue("stand", fade=2))
    played(mixer, 100)
    mixer.play(Cue("kick", fade=2))
    played(mixer, 10)
    mixer.play(Cue("run", fade=2))
    played(mixer, 30)
    mixer.play(Cue("kick", fade=2))
    assert played(mixer, 3)[-1] == 2.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Cue("fly"), "no base 'fly'"),
        (Cue("stand", fade=1), "2 to 30"),
        (Cue("stand", seconds=0.0), "above 0"),
        (Cue("stand", seconds=math.inf), "not endless"),
        (Cue("stand", knobs=(("sideways", 1.0),)), "no direction"),
        (Cue("stand", knobs=(("up", np.nan),)), "nan"),
        (Cue("walk forward", planned=True), "without a planner"),
    ],
)
def test_what_cannot_be_played_changes_nothing(wrong, message):
    """It is refused with a reason, and the robot goes on."""
    mixer = Mixer(made_up.bundle(walk=100))
    mixer.play(Cue("walk", fade=2))
    played(mixer, 5)
    with pytest.raises(ValueError, match=message):
        mixer.play(wrong)
    assert mixer.playing == "walk" and played(mixer, 1)[0] == 1.0


class Rehearsed(LivePlanner):
    """Answers with a constant, after so many steps, or never."""

    trouble = ""

    def __init__(self, value: float, delay: int):
        self.value, self.delay, self.asked = value, delay, []
        self.refused = 0

    def ask(self, step, history, sentence):
        self.asked.append((step, sentence))
        self._left = self.delay

    def answer(self):
        if not self.asked or self._left < 0:
            return None
        self._left -= 1
        if self._left >= 0:
            return None
        step, sentence = self.asked[-1]
        chunk = np.full((30, made_up.WIDTH), self.value)
        return Plan(step, sentence, chunk)


def test_plans_follow_each_other_without_a_gap():
    """The next plan is asked for before the last one ends, and counts from then."""
    planner = Rehearsed(3.0, delay=1)
    mixer = Mixer(made_up.bundle(), planner)
    mixer.play(Cue("walk forward", fade=2, planned=True))
    found = played(mixer, 200)
    assert (found[5:] == 3.0).all()
    asked = np.array([step for step, _ in planner.asked])
    assert (np.diff(asked) <= 30).all() and len(asked) > 5


def test_a_planner_that_stops_answering_leaves_a_robot_that_stands():
    """The last plan is played to its end, then half a second leads to the stance."""
    planner = Rehearsed(3.0, delay=1)
    mixer = Mixer(made_up.bundle(), planner)
    mixer.play(Cue("walk forward", fade=2, planned=True))
    played(mixer, 20)
    planner.delay = 10**9
    found = played(mixer, 30 + 30 + RETURN + 1)
    assert found[-1] == 0.0
    assert (np.abs(np.diff(found)) <= 3.0 / RETURN + 1e-9).all()


def test_plans_that_are_no_numbers_are_not_followed():
    """They are counted, and the robot stands."""
    planner = Rehearsed(np.nan, delay=0)
    stream = PlannedStream(planner, "walk", 30, made_up.bundle().base("stand"))
    found = [stream.next(HISTORY).skill[0] for _ in range(50)]
    assert not np.any(found) and planner.refused > 0


class Hanging:
    """A planner that hangs on its first plan and fails on others."""

    noise_shape = (30, made_up.WIDTH)
    sentences = ()

    def __init__(self):
        self.calls, self.go = 0, threading.Event()

    def plan(self, history, sentence, noise):
        self.calls += 1
        self.go.wait(5.0)
        raise RuntimeError("broken")


def test_a_hanging_planner_does_not_stop_the_steps():
    """Asking takes no time; the reason of the failure is kept."""
    hanging = Hanging()
    beside = LivePlanner(hanging)  # type: ignore[arg-type]
    begun = time.perf_counter()
    for step in range(100):
        beside.ask(step, HISTORY, "walk")
        assert beside.answer() is None
    assert time.perf_counter() - begun < 0.5
    hanging.go.set()
    for _ in range(200):
        if beside.trouble:
            break
        time.sleep(0.01)
    assert "broken" in beside.trouble


@pytest.mark.parametrize(("takes_s", "ended"), [(0.3, True), (60.0, False)])
def test_a_program_ends_after_its_plan_but_not_after_one_that_hangs(takes_s, ended):
    code = f"""
import time
import numpy as np
from spectral_skills.control import streams
class Slow:
    noise_shape = (30, 5)
    def plan(self, *given):
        time.sleep({takes_s})
        print("planned", flush=True)
streams.EXIT_S = 2.0
streams.LivePlanner(Slow()).ask(0, np.zeros((10, 93)), "walk")
time.sleep(0.1)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert ("planned" in done.stdout) == ended


def test_a_base_stream_loops_where_it_may():
    """From the end of its loop back to its beginning."""
    bundle = made_up.bundle(walk=10)
    base = bundle.base("walk")
    base.skills[:, 0] = np.arange(10)
    object.__setattr__(base, "loop", (2, 6))
    stream = BaseStream(base)
    found = [int(stream.next(HISTORY).skill[0]) for _ in range(10)]
    assert found == [0, 1, 2, 3, 4, 5, 2, 3, 4, 5]


def turning(mixer: Mixer, headings: list[float]) -> list[float]:
    """Second number of each of the next skills, for a robot with these headings."""
    return [float(mixer.step(HISTORY, one).skill[1]) for one in headings]


def curved(**lengths: int) -> Bundle:
    """A bundle whose walk turns 0.01 rad a step and keeps to it: a robot that is off by
    a radian has 1 added to the second number of its skill."""
    bundle = made_up.bundle(**lengths)
    base, turn = bundle.base("walk"), np.array([0.0, 1.0, 0.0, 0.0])
    own = 0.01 * np.arange(len(base.skills))
    bundle.bases["walk"] = replace(base, turn=turn, headings=own)
    return bundle


def test_a_base_corrects_a_robot_that_turns_away():
    """By the turn since its start, less the motion's own, and never by too much."""
    mixer = Mixer(curved(walk=100))
    mixer.play(Cue("walk", fade=2))
    played(mixer, 10)
    own = [0.01 * i for i in range(5)]
    np.testing.assert_allclose(turning(mixer, [3.0 + a for a in own]), 1.0, atol=1e-6)
    off = turning(mixer, [3.05 + 0.1, 3.06 + 0.1 - 2 * math.pi, 3.07 + 0.5])
    np.testing.assert_allclose(off, [1.1, 1.1, 1.0 + CORRECTED], atol=1e-6)
    # What is turned much further has a new heading to keep to.
    np.testing.assert_allclose(turning(mixer, [3.08 + 1.0, 3.09 + 1.0]), 1.0, atol=0.01)


def test_a_loop_does_not_turn_a_robot_back():
    """The heading goes on where the motion jumps back to its beginning."""
    bundle = curved(walk=40)
    object.__setattr__(bundle.bases["walk"], "loop", (10, 40))
    mixer = Mixer(bundle)
    mixer.play(Cue("walk", fade=2))
    found = turning(mixer, [0.01 * i for i in range(120)])
    np.testing.assert_allclose(found[2:], 1.0, atol=1e-6)


def test_faders_are_free_to_turn_a_robot():
    """While one is up nothing is corrected; then the new heading is kept to."""
    mixer = Mixer(curved(walk=200))
    mixer.play(Cue("walk", fade=2))
    turning(mixer, [0.01 * i for i in range(10)])
    mixer.move("up", 1.0)
    away = [0.1 + 0.03 * i for i in range(60)]
    np.testing.assert_allclose(turning(mixer, away), 1.0, atol=1e-6)
    mixer.move("up", 0.0)
    turning(mixer, [2.0 + 0.01 * i for i in range(25)])
    found = turning(mixer, [2.25, 2.26, 2.27, 2.38])
    np.testing.assert_allclose(found, [1.0, 1.0, 1.0, 1.1], atol=1e-6)


def test_what_a_robot_usually_needs_is_kept_while_faders_are_up():
    """One that only goes straight when it is corrected by 0.1 rad goes straight on."""
    mixer = Mixer(curved(walk=3000))
    mixer.play(Cue("walk", fade=2))
    turning(mixer, [0.0])
    corrected = [0.1 + 0.01 * i for i in range(1, 2000)]
    turning(mixer, corrected)
    mixer.move("up", 1.0)
    np.testing.assert_allclose(turning(mixer, [25.0, 26.0, 27.0]), 1.1, atol=2e-3)
    mixer.move("up", 0.0)
    last = turning(mixer, [27.0 + 0.01 * i for i in range(60)])
    np.testing.assert_allclose(last, 1.1, atol=2e-3)


def test_what_a_robot_plays_needs_no_simulation(bundle_folder):
    """`spectral drive --dds` makes it on a computer without torch and MuJoCo."""
    code = (
        "import sys; sys.modules.update(torch=None, mujoco=None)\n"
        "from spectral_skills.control.bundle import Bundle\n"
        "from spectral_skills.cli.robot import _program\n"
        "from spectral_skills.control.mixer import Mixer\n"
        f"bundle = Bundle.open({str(bundle_folder)!r})\n"
        "mixer = Mixer(bundle)\n"
        "_program(bundle, ['jog'], 4.0, 10, ['turn'], [2.0], None)(mixer)\n"
        "print(mixer.playing, mixer.channel('turn').position)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "jog 2.0", out.stdout + out.stderr
