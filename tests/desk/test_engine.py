"""The desk without its page: scripted faders move the robot that they should."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripted import run

from spectral_skills.control.bundle import SkillSupport
from spectral_skills.control.session import placed
from spectral_skills.control.streams import LivePlanner
from spectral_skills.desk.controls import render, sources
from spectral_skills.desk.engine import Engine, Live, Readings
from spectral_skills.quaternion import heading
from spectral_skills.robot import g1

SHOULDER = 7 + g1.joint_index("right_shoulder_pitch")


@pytest.fixture(scope="module")
def engine(bundle) -> Engine:
    """One for tests that do not mind what was before."""
    return Engine(bundle)


def rows(frames) -> np.ndarray:
    return np.array([frame.row for frame in frames])


@pytest.fixture(scope="module")
def frames(bundle):
    """A walk: an arm goes up at 2 s, a push at 4.5 s, from 6 s on a robot that
    stands for a moment and then jogs."""
    lines = [
        {"at": 0, "do": "cross", "deck": "a"},
        {"at": 2, "do": "move", "name": "right_arm", "position": 2.0},
        {"at": 4.5, "do": "push", "left": 0.5},
        {"at": 6, "do": "cross", "deck": "b"},
    ]
    return run(Engine(bundle), lines, 10.5)


def test_a_fader_raises_the_right_shoulder(frames):
    """By about as much as was measured, 0.75 rad; pitch is negative upwards."""
    pitch = rows(frames)[:, SHOULDER]
    assert pitch[125:225].mean() - pitch[50:100].mean() < -0.45
    assert frames[200].measures.right_arm > frames[200].measures.left_arm + 10


def test_a_push_is_survived_and_felt(frames):
    """It shows in the root, and the robot stays up."""
    left = rows(frames)[:, 1]
    assert left[235] - left[225] > 0.04
    assert not any(frame.fallen for frame in frames)


def test_a_cross_fade_changes_the_motion_without_a_fall(frames):
    """From a walk through standing to a jog."""
    assert frames[299].mixed.name == "walk" and frames[301].mixed.name == "jog"
    assert 0.4 < frames[220].measures.speed < 0.9 < frames[-1].measures.speed


def test_ghost_is_the_base_where_the_robot_is(frames):
    """Same place and heading; the arm hangs."""
    frame = frames[220]
    np.testing.assert_allclose(frame.ghost[:2], frame.row[:2])
    assert heading(frame.ghost[3:7]) == pytest.approx(heading(frame.row[3:7]), abs=1e-6)
    assert frame.ghost[SHOULDER] > frame.row[SHOULDER] + 0.3
    base = frame.mixed.row
    assert placed(base, base) == pytest.approx(base.astype(float), abs=1e-6)


def test_the_meter_tells_what_faders_do_to_the_distance(frames):
    """A skill with a fader up is farther from the corpus than the same without."""
    near = np.mean([frame.distance for frame in frames[50:100]])
    far = np.mean([frame.distance for frame in frames[150:225]])
    assert np.isfinite(near) and far > near


def test_the_same_script_gives_the_same_run(bundle):
    """To the last bit, plans and pushes included."""
    lines = [
        {"at": 0, "do": "play", "name": "walk forward", "planned": True},
        {"at": 0.6, "do": "push", "forward": 0.3},
        {"at": 0.8, "do": "reset"},
        {"at": 1, "do": "move", "name": "turn", "position": 3.0},
    ]
    if (planner := bundle.planner()) is None:
        pytest.skip("no planner without its language model")
    first, second = (
        run(Engine(bundle, LivePlanner(planner, inline=True)), lines, 1.5) for _ in "12"
    )
    assert np.array_equal(rows(first), rows(second))
    assert first[-1].mixed.name == "walk forward" and first[-1].ghost is None


def test_a_fall_lights_the_lamp_and_the_robot_gets_up(bundle):
    """Two seconds later, if that is wished."""
    engine = Engine(bundle)
    found = run(engine, [{"at": 0.1, "do": "push", "left": 6.0}], 2.0)
    assert found[-1].fallen and engine.resets == 0
    engine.auto_reset = True
    found = run(engine, [], 2.5)
    assert engine.resets == 1 and not found[-1].fallen


def test_a_base_that_is_low_has_not_fallen(bundle):
    """Nor is coming up from it a fall."""
    lines = [{"at": 0, "do": "play", "name": "squat"}]
    lines += [{"at": 2.6, "do": "play", "name": "stand", "fade": 2}]
    found = run(Engine(bundle), lines, 4.0)
    assert rows(found)[:, 2].min() < 0.6
    assert not any(frame.fallen for frame in found)


def test_a_broken_simulation_begins_anew(bundle):
    """Nothing that is not finite is ever shown."""
    engine = Engine(bundle)
    found = run(engine, [{"at": 0.1, "do": "push", "left": 1e8}], 0.5)
    assert engine.resets >= 1
    assert np.isfinite(rows(found)).all() and not found[-1].fallen


def test_what_cannot_be_done_is_told_and_changes_nothing(engine):
    """To who posted it; the robot goes on."""
    message: list[str] = []
    playing = engine.mixer.playing
    engine.post(lambda e: e.load("a", "fly"), message.append)
    engine.post(lambda e: e.fade(31), message.append)
    engine.post(lambda e: e.push(left=float("nan")), message.append)
    engine.step()
    assert [
        part in one for part, one in zip(("fly", "31", "nan"), message, strict=True)
    ]
    assert engine.mixer.playing == playing and engine.decks.a == "walk"
    engine.post(lambda e: e.load("a", "fly"))
    with pytest.raises(ValueError, match="no base 'fly'"):
        engine.step()


def test_posts_of_many_threads_are_all_done(engine):
    """Each once, by the thread that makes steps."""
    doers: list[int] = []

    def post():
        for _ in range(50):
            engine.post(lambda _: doers.append(threading.get_ident()))

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        engine.do_posted()
    engine.do_posted()
    assert doers == [threading.get_ident()] * 200


def test_loading_the_deck_that_is_heard_plays_it(bundle):
    """The other one waits; a loop that is switched off ends in standing."""
    engine = Engine(bundle)
    engine.cross("a")
    engine.load("b", "squat")
    assert engine.mixer.playing == "walk"
    engine.load("a", "jog")
    assert engine.mixer.playing == "jog"
    engine.loop(False)
    assert engine.mixer.stream.loop is False  # type: ignore


class Slow(Engine):
    """Steps that take as long as they are told to."""

    def __init__(self):
        self.takes_s, self.steps, self.done = 0.0, 0, 0

    def step(self):
        time.sleep(self.takes_s)
        self.steps += 1

    def rest(self):
        pass


def test_real_time_is_kept_paused_and_slowed_down():
    """By the clock; single steps are single."""
    engine = Slow()
    live = Live(engine)
    live.start()
    time.sleep(0.5)
    live.paused = True
    time.sleep(0.05)
    made = engine.steps
    assert 18 <= made <= 28
    live.single_step()
    time.sleep(0.1)
    assert engine.steps == made + 1
    live.speed, live.paused = 0.25, False
    time.sleep(0.5)
    live.stop()
    assert 4 <= engine.steps - made - 1 <= 9
    with pytest.raises(ValueError, match="must be 0.05 to 1"):
        live.speed = 0.0


def test_a_clock_that_is_late_does_not_chase():
    """Lost time is lost; an engine that fails stops the clock, not the
    thread."""
    engine = Slow()
    live = Live(engine)
    engine.takes_s = 0.3
    live.start()
    time.sleep(0.5)
    engine.takes_s = 0.0
    time.sleep(0.3)
    before = engine.steps
    time.sleep(0.2)
    assert engine.steps - before <= 14
    engine.takes_s = -1.0  # time.sleep refuses it
    time.sleep(0.1)
    assert live.paused and "ValueError" in live.trouble
    live.stop()


def test_a_meter_of_a_corpus_whose_skills_are_all_alike():
    """Nothing there is any way apart; a skill beside them is far."""
    support = SkillSupport(np.zeros((2, 4), np.float32), typical=0.0, far=0.0)
    frame = SimpleNamespace(distance=0.25, measures=Readings(0, 0, 0, 0, 0))
    shown = render("readouts", frame=frame, support=support)
    assert "+0°/s" in shown and "nan" not in shown


def test_the_page_tells_where_the_bases_of_its_decks_come_from(bundle):
    """A recorded one names its clip, and what people wrote is text, not HTML."""
    walk = bundle.base("walk")
    origin = "a studio 7, frames 0 to 90"
    wave = replace(walk, name="wave", text="wave <b>", origin=origin)
    bases, decks = {"walk": walk, "wave": wave}, SimpleNamespace(a="walk", b="wave")
    desk: Any = SimpleNamespace(bundle=SimpleNamespace(bases=bases), decks=decks)
    found = sources(desk)
    made_here = ("walk", "walk forward", "generated by this project")
    assert found == [made_here, ("wave", "wave <b>", origin)]
    html = render("sources", bases=found)
    assert f"<b>wave</b>: wave &lt;b&gt;. {origin}" in html
