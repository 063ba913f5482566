"""Faults injected into a drive in real time: real processes, real DDS, a real clock.

`faults_in_simulation.py` does the same in simulated time, more often and with more
kinds of faults. Here the machine itself may stand still, which is a fault of its own:
such an injection is recognised and repeated.
"""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from faults_in_simulation import CASES as MADE_UP
from faults_in_simulation import WITHIN_MS, Injection, Reaction
from live_rig import Driver, Heard, LiveRobot
from stalls import Stalls

from spectral_skills.control.safety import LIMITS, Fault, Order, sendable
from spectral_skills.robot import g1

_STARTED_WITHIN_S = 30.0
_EARLIEST_S, _LATEST_S = 0.3, 1.5
"""Of the onset, after the operator's start."""
_WATCHED_S = 0.4
_OBEYED = replace(LIMITS, reach=g1.MOST_REACH)
_STOPPED_WITHIN_MS = 1e3 * LIMITS.lost_s + WITHIN_MS
_STOOD_STILL_S = 0.005
"""A core that is not there for so long is noticed in what is measured."""
_AROUND_S = LIMITS.lost_s, _STOPPED_WITHIN_MS / 1e3
"""So long before an onset, and after it, no core may stand still."""
_EARLY = "stopped before"


class Live(NamedTuple):
    """What a fault may use."""

    robot: LiveRobot
    driver: Driver
    random: np.random.Generator


@dataclass(frozen=True)
class LiveCase:
    """One kind of fault."""

    name: str
    reaction: Reaction
    inject: Callable[[Live], None]


@dataclass(frozen=True)
class LiveOutcome:
    """What came of one injection; times are from its onset on, ms."""

    case: str
    reaction: Reaction
    safe_ms: float
    """Until motors got the last order or a damped stop, and nothing else any more."""
    damped_ms: float | None
    gap_ms: float
    """The longest without a command, until it is over."""
    logged_ms: float | None
    reason: str
    wrong: str
    """What should not have happened, or nothing."""
    stood_still: bool = False
    """Whether the machine did; then nothing is said about the program."""


def _on_the_wire(name: str) -> LiveCase:
    """The same fault as in simulated time, of what the robot tells."""
    case = next(case for case in MADE_UP if case.name == name)

    def inject(live: Live) -> None:
        # All that these faults use of a rig, this robot has too.
        rig = cast(Any, live.robot)
        case.inject(Injection(rig, live.random, live.robot.ms))

    return LiveCase(name, case.reaction, inject)


def _frozen(live: Live) -> None:
    """What the robot told last before the onset, again and again."""
    last = live.robot.last
    live.robot.wire = lambda ms, sent: last * len(sent)


def _to_the_loop(name: str, reaction: Reaction, number: signal.Signals) -> LiveCase:
    return LiveCase(name, reaction, lambda live: live.driver.brain.send_signal(number))


def _to_the_guard(name: str, reaction: Reaction, number: signal.Signals) -> LiveCase:
    return LiveCase(name, reaction, lambda live: live.driver.signal_guard(number))


CASES = (
    _on_the_wire("states lost"),
    _on_the_wire("states late by 20 to 45 ms"),
    LiveCase("the same state for ever", "hold, then stop", _frozen),
    _on_the_wire("a sensor not a number, for ever"),
    _on_the_wire("wrong checksums for ever"),
    _on_the_wire("a joint past its limit"),
    _on_the_wire("a joint too fast"),
    _on_the_wire("tilted too far"),
    _on_the_wire("the operator stops"),
    _on_the_wire("the dead man's key is let go"),
    # A system closes sockets of a process only once it has taken back its memory.
    _to_the_loop("the control loop is killed", "hold, then stop", signal.SIGKILL),
    _to_the_loop("the control loop hangs", "hold, then stop", signal.SIGSTOP),
    _to_the_guard("the guard is killed", "hold, then stop", signal.SIGKILL),
    _to_the_guard("the guard hangs", "hold, then stop", signal.SIGSTOP),
    _to_the_loop("the program is told to end", "stop", signal.SIGTERM),
)


def inject(
    robot: LiveRobot,
    stalls: Stalls,
    driver: Driver,
    case: LiveCase,
    draw: np.random.Generator,
) -> LiveOutcome:
    """One fault, at a random time of a drive that begins now."""
    begun = time.monotonic()
    robot.reset()
    while robot.started_s is None and driver.brain.poll() is None:
        robot.step()
        if time.monotonic() > begun + _STARTED_WITHIN_S:
            break
    if robot.started_s is None:
        if not any("stopped" in words for _, words in driver.log()):
            raise OSError(f"the driver did not begin; it said:\n{driver.printed}")
        onset = time.monotonic()
    else:
        driver.find_guard()
        robot.run(robot.started_s + draw.uniform(_EARLIEST_S, _LATEST_S))
        onset = time.monotonic()
        case.inject(Live(robot, driver, draw))
        robot.run(onset + _WATCHED_S)
    outcome = judged(case, onset, robot.heard, robot.sent_s, driver.log())
    early = outcome.wrong.startswith(_EARLY)
    span = begun if early else onset - _AROUND_S[0], onset + _AROUND_S[1]
    still_s = max(stalls.longest_s(*span), robot.latest_s(*span))
    clock = any(str(Fault.CLOCK) in words for _, words in driver.log())
    return replace(outcome, stood_still=clock or still_s > _STOOD_STILL_S)


def judged(
    case: LiveCase,
    onset: float,
    heard: Sequence[Heard],
    sent_s: Sequence[float],
    log: Sequence[tuple[float, str]],
) -> LiveOutcome:
    """What became of an injection, by what the motors got."""
    before = [one for one in heard if one.time_s < onset]
    after = [one for one in heard if one.time_s >= onset]
    message = [(_ms(when, onset), words) for when, words in log if when >= onset]
    logged, reason = message[0] if message else (None, "")
    row = case.name, case.reaction
    if not before or before[-1].order.damped:
        why = f"{_EARLY}: {[words for _, words in log]}"
        return LiveOutcome(*row, 0.0, None, 0.0, logged, reason, why)
    if not after:
        return LiveOutcome(*row, 0.0, None, 0.0, logged, reason, "no command any more")
    last = before[-1]
    times = [one.time_s for one in (last, *after) if one.time_s < onset + _AROUND_S[1]]
    gap_ms = 1e3 * float(np.diff(times).max(initial=0.0))
    damped = next((_ms(one.time_s, onset) for one in after if one.order.damped), None)
    changes = [
        _ms(new.time_s, onset)
        for old, new in zip((last, *after), after, strict=False)
        if not new.order.damped and not _same(old.order, new.order)
    ]
    # A fault that passes: from the next good state on, orders may change again.
    passed = next((when for when in sent_s if when > onset), np.inf)
    end = _ms(passed, onset) if case.reaction == "hold" else np.inf
    safe = max([_ms(after[0].time_s, onset), *(ms for ms in changes if ms < end)])
    if case.reaction == "stop" and damped is not None:
        safe = damped
    wrong = _wrong(case, heard, safe, damped) or (
        "" if message else "nothing was logged"
    )
    if damped is not None and any(ms > damped for ms in changes):
        wrong = "another order after a damped stop"
    return LiveOutcome(*row, safe, damped, gap_ms, logged, reason, wrong)


def _wrong(
    case: LiveCase, heard: Sequence[Heard], safe_ms: float, damped_ms: float | None
) -> str:
    if not all(one.intact and sendable(one.order, _OBEYED) for one in heard):
        return "a command that is not finite, out of limits or of a wrong checksum"
    if safe_ms > WITHIN_MS:
        return f"safe only after {safe_ms:.1f} ms"
    if case.reaction == "hold":
        return "" if damped_ms is None else f"a damped stop after {damped_ms:.0f} ms"
    if damped_ms is None:
        return "no damped stop"
    if damped_ms > _STOPPED_WITHIN_MS:
        return f"a damped stop only after {damped_ms:.0f} ms"
    return ""


def _ms(when: float, onset: float) -> float:
    return 1e3 * (when - onset)


def _same(one: Order, other: Order) -> bool:
    """Whether motors are told the same."""
    return np.array_equal(one.targets, other.targets) and np.array_equal(
        one.stiffness, other.stiffness
    )
