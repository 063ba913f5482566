"""Faults in real time: what is said of them is right, and one is injected.

`python benchmarks/faults.py real_time` injects all of them, many times.
"""

import dataclasses
import signal
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from faults import live_results
from live_faults import CASES, Live, LiveOutcome, inject, judged
from live_rig import Driver, Heard, LiveRobot
from loopback import free_domain
from messages import order, standing
from stalls import Stalls

from spectral_skills.control.safety import damped_stop
from spectral_skills.runtime import unitree

TRIES = 3
"""A machine that stands still stops a robot before its time."""
NAMED = {case.name: case for case in CASES}
A, BRAKE = order(), damped_stop(np.zeros(29))
B = dataclasses.replace(A, targets=0.5 * A.targets)
FAR = dataclasses.replace(A, targets=A.targets + 9.0)
ONSET = 100.0


def found(case: str, *report, logged_ms=5, sent_ms=(), intact=True) -> LiveOutcome:
    """What is said if motors are told orders at times, ms after the onset."""
    heard = [Heard(ONSET + ms / 1e3, what, intact) for ms, what in ((-1, A), *report)]
    sent = [ONSET + ms / 1e3 for ms in sent_ms]
    log = [(ONSET + logged_ms / 1e3, "a reason")]
    return judged(NAMED[case], ONSET, heard, sent, log)


@pytest.mark.parametrize(
    ("case", "report", "safe_ms", "damped_ms"),
    [
        ("states lost", [(1, A), (14, B), (16, B), (62, BRAKE)], 14, 62),
        ("tilted too far", [(1, A), (6, BRAKE)], 6, 6),
        ("the guard hangs", [(12, A), (66, BRAKE)], 12, 66),
        ("states late by 20 to 45 ms", [(1, A), (39, A), (41, B)], 1, None),
    ],
)
def test_what_is_right(case, report, safe_ms, damped_ms):
    """The last order is safe, whenever it was the last; so is a damped stop."""
    one = found(case, *report, sent_ms=(40,))
    assert not one.wrong
    assert one.safe_ms == pytest.approx(safe_ms)
    assert one.damped_ms == (damped_ms and pytest.approx(damped_ms))
    assert one.logged_ms == pytest.approx(5) and one.reason == "a reason"


@pytest.mark.parametrize(
    ("case", "report", "wrong"),
    [
        ("states lost", [(1, A), (25, B), (62, BRAKE)], "safe only after 25"),
        ("states lost", [(1, A), (62, A)], "no damped stop"),
        ("states lost", [(1, A), (110, BRAKE)], "only after 110 ms"),
        ("states lost", [(1, A), (62, BRAKE), (64, A)], "another order"),
        ("states lost", [(1, FAR), (62, BRAKE)], "out of limits"),
        ("states lost", [], "no command any more"),
        ("the guard hangs", [(25, A), (66, BRAKE)], "safe only after 25"),
        ("tilted too far", [(1, A), (30, BRAKE)], "safe only after 30"),
        ("states late by 20 to 45 ms", [(1, A), (30, B)], "safe only after 30"),
        ("states late by 20 to 45 ms", [(1, A), (50, BRAKE)], "stop after 50"),
    ],
)
def test_what_is_wrong(case, report, wrong):
    """Each is found out by what the motors got."""
    assert wrong in found(case, *report, sent_ms=(40,)).wrong


def test_more_that_is_wrong():
    """Checksums, reasons and robots that had been stopped before."""
    report = (1, A), (62, BRAKE)
    assert "checksum" in found("states lost", *report, intact=False).wrong
    assert "nothing was logged" in found("states lost", *report, logged_ms=-1).wrong
    brakes = [Heard(ONSET - 1.0, BRAKE, True)]
    assert "stopped before" in judged(CASES[0], ONSET, brakes, [], []).wrong


def test_results_count_what_the_program_did():
    """Injections while the machine stood still have a row of their own."""
    one = found("tilted too far", (1, A), (6, BRAKE))
    still = dataclasses.replace(one, wrong="x", damped_ms=90.0, stood_still=True)
    report = {(r.row, r.metric): r for r in live_results([one, still], "hash")}
    assert report["tilted too far: stop", "wrong"].value == 0.0
    assert report["tilted too far: stop", "braking within"].value == pytest.approx(6)
    assert report["the machine stood still, made again", "wrong"].value == 1.0


def test_spoiled_states_keep_a_right_checksum_on_the_wire():
    """Padding is not sent: it must be zero in what a checksum is made of."""
    robot: Any = SimpleNamespace(ms=0, wire=None)
    random = np.random.default_rng(0)
    NAMED["a joint past its limit"].inject(Live(robot, None, random))  # type: ignore
    junk = [np.full(2048, 255, np.uint8) for _ in range(64)]
    del junk
    message = unitree.state(standing(5), 5)
    for _ in range(20):
        (spoiled,) = robot.wire(1, [message])
        arrived = unitree.unpack(unitree.pack(spoiled), unitree.LOW_STATE)
        assert unitree.intact(arrived)


def test_a_core_that_stands_still_is_noticed():
    """Its watchman finds out afterwards."""
    with Stalls() as stalls:
        begun = time.monotonic()
        time.sleep(0.3)
        for watchman in stalls._watchmen:
            watchman.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        for watchman in stalls._watchmen:
            watchman.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        assert 0.09 < stalls.longest_s(begun, time.monotonic()) < 0.5
        assert stalls.longest_s(begun - 1.0, begun) == 0.0


def test_the_control_loop_is_killed(bundle_folder, tmp_path):
    """The real program, by its real protocol; its guard brakes the robot."""
    domain = free_domain()
    robot, case = LiveRobot(domain), NAMED["the control loop is killed"]
    one = None
    with Stalls() as stalls:
        for attempt in range(TRIES):
            with Driver(bundle_folder, domain, tmp_path / str(attempt)) as driver:
                draw = np.random.default_rng(3 + attempt)
                one = inject(robot, stalls, driver, case, draw)
            if one.damped_ms is not None:
                break
    assert one is not None and one.damped_ms is not None, one
    assert one.stood_still or not one.wrong, one
    assert "stopped" in one.reason or one.stood_still
    assert driver.brain.poll() == -signal.SIGKILL
