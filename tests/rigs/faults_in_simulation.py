"""Every fault that a robot's drive must survive, injected at random times.

The drive runs in simulated time, with the whole program except its clock, sockets and
DDS (`simulated_rig.py`). A fault is judged by what the motors received: from its onset
on only a damped stop, the last order from before it, or orders that do not depend on
what is broken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from simulated_rig import Rig

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import Cue
from spectral_skills.control.safety import HOLD_KEY, LIMITS, STOP_KEY, sendable
from spectral_skills.control.streams import LivePlanner
from spectral_skills.robot import g1
from spectral_skills.runtime import unitree

WITHIN_MS = 20
"""Motors are safe at most so long after the onset."""
_WATCHED_MS = {"stand": 1800}
"""After the onset; 300 for others."""
Reaction = Literal["stop", "hold", "hold, then stop", "stand", "goes on"]


class Injection(NamedTuple):
    """What a fault may use: the drive, a random generator, the onset."""

    rig: Rig
    random: np.random.Generator
    onset: int


@dataclass(frozen=True)
class FaultCase:
    """One kind of fault."""

    name: str
    reaction: Reaction
    inject: Callable[[Injection], None]
    planned: bool = False
    """Whether the robot goes by a planner's words."""


@dataclass(frozen=True)
class Outcome:
    """What came of one injection."""

    case: str
    reaction: Reaction
    onset_ms: int
    safe_ms: int
    """From the onset until motors got nothing but what is safe."""
    damped_ms: int | None
    """From the onset until they only braked."""
    logged_ms: int | None
    """From the onset until a reason was logged."""
    reason: str
    wrong: str
    """What should not have happened, or nothing."""


def run(bundle: Bundle, case: FaultCase, seed: int) -> Outcome:
    """One drive, one fault, at a random time."""
    random = np.random.default_rng(seed)
    planner = bundle.planner() if case.planned else None
    live = None if planner is None else LivePlanner(planner, seed, inline=True)
    if planner is not None:
        cue = Cue(planner.sentences[int(random.integers(len(planner.sentences)))][1])
        cue = Cue(cue.name, planned=True)
    else:
        bases = bundle.bases.values()
        upright = [b.name for b in bases if b.tilt_rad < LIMITS.tilt_rad - 0.2]
        cue = Cue(str(random.choice(upright)))
    rig = Rig(bundle, live, lambda mixer: mixer.play(cue), seed)
    onset = int(random.integers(1200, 2600))
    rig.run(onset)
    if not rig.writes or rig.writes[-1].order.damped:
        return _outcome(rig, case, onset, f"stopped before: {rig.log[-1:]}")
    case.inject(Injection(rig, random, onset))
    rig.run(onset + _WATCHED_MS.get(case.reaction, 300))
    return _outcome(rig, case, onset, "")


def _outcome(rig: Rig, case: FaultCase, onset: int, wrong: str) -> Outcome:
    after = [write for write in rig.writes if write.ms >= onset]
    damped = next((w.ms - onset for w in after if w.order.damped), None)
    report = [(ms - onset, what) for ms, what in rig.log if ms >= onset]
    changed = [
        new.ms - onset
        for old, new in zip(after, after[1:], strict=False)
        if not np.array_equal(old.order.targets, new.order.targets)
        and not new.order.damped
    ]
    safe = report[0][0] if report else 0
    if case.reaction == "stop" and damped is not None:
        safe = damped
    elif case.reaction == "hold, then stop":
        # Orders made of what was good before the onset may still be on their way.
        safe = max((ms for ms in changed if ms <= WITHIN_MS), default=0)
        if any(ms > WITHIN_MS for ms in changed):
            wrong = wrong or f"another order {max(changed)} ms after the onset"
    elif case.reaction == "stand":
        safe = 0 if case.planned else safe  # the plan at hand is a safe one
        wrong = wrong or _not_standing(rig)
    if not all(sendable(write.order, rig.loop.limits) for write in rig.writes):
        wrong = wrong or "an order that is not finite or out of limits"
    if case.reaction in ("stop", "hold, then stop") and damped is None:
        wrong = wrong or "no damped stop"
    if case.reaction in ("hold", "stand", "goes on") and damped is not None:
        wrong = wrong or f"stopped: {report[-1:]}"
    if case.reaction != "goes on" and not report:
        wrong = wrong or "no reason was logged"
    if safe > WITHIN_MS:
        wrong = wrong or f"safe only after {safe} ms"
    logged, reason = report[0] if report else (None, "")
    return Outcome(
        *(case.name, case.reaction, onset, safe, damped, logged, reason, wrong)
    )


def _not_standing(rig: Rig) -> str:
    """What is wrong with a robot that should stand by now."""
    mixed, rest = rig.loop.mixed, rig.loop.bundle.base("stand").skills
    if mixed is None or np.abs(rest - mixed.skill).max(axis=1).min() > 1e-4:
        return "it is not told to stand"
    return "" if rig.robot.qpos[2] > 0.5 else "it fell"


def _spoiled(change: Callable[[np.ndarray], None], seal: bool = True):
    """Messages with something changed in them, and a checksum that fits again."""

    def spoil(message: np.ndarray) -> np.ndarray:
        # All bytes: NumPy's own copy leaves padding at random, which checksums see.
        message = np.frombuffer(bytearray(message.tobytes()), message.dtype).reshape(())
        change(message)
        return unitree.sealed(message) if seal else message

    return spoil


def _wire(case: Injection, lasts_ms: int | None, spoil) -> None:
    """Spoil what is sent from the onset on, for a time or for good."""
    end = np.inf if lasts_ms is None else case.onset + lasts_ms
    case.rig.wire = lambda ms, sent: [spoil(m) for m in sent] if ms < end else sent


def _joint(case: Injection) -> int:
    return int(case.random.integers(g1.NUM_JOINTS))


def _lost(case: Injection) -> None:
    case.rig.wire = lambda ms, sent: []


def _late(case: Injection) -> None:
    """A gap, after which all that was held up arrives at once."""
    until, kept = case.onset + int(case.random.integers(20, 45)), []

    def wire(ms: int, sent: list[np.ndarray]) -> list[np.ndarray]:
        kept.extend(sent)
        if ms < until:
            return []
        arrived = kept.copy()
        kept.clear()
        return arrived

    case.rig.wire = wire


def _frozen(case: Injection) -> None:
    last: list[np.ndarray] = []

    def wire(ms: int, sent: list[np.ndarray]) -> list[np.ndarray]:
        last.extend(sent[: 1 - len(last)])
        return last * bool(sent)

    case.rig.wire = wire


def _repeated(case: Injection) -> None:
    case.rig.wire = lambda ms, sent: sent * 3


def _reordered(case: Injection) -> None:
    kept: list[np.ndarray] = []

    def wire(ms: int, sent: list[np.ndarray]) -> list[np.ndarray]:
        kept.extend(sent)
        if len(kept) < 2:
            return []
        arrived = kept[::-1]
        kept.clear()
        return arrived

    case.rig.wire = wire


def _nan(lasts_ms: int | None):
    def inject(case: Injection) -> None:
        joint, value = _joint(case), case.random.choice((np.nan, np.inf, -np.inf))
        field = str(case.random.choice(("q", "dq")))

        def change(message: np.ndarray) -> None:
            if joint < 3:
                message["imu_state"]["gyroscope"][joint] = value
            message["motor_state"][joint][field] = value

        _wire(case, lasts_ms, _spoiled(change))

    return inject


def _absurd(lasts_ms: int | None):
    def inject(case: Injection) -> None:
        joint, value = _joint(case), float(case.random.choice((-1.0, 1.0)) * 40.0)

        def change(message: np.ndarray) -> None:
            if joint < 5:
                message["imu_state"]["quaternion"] = 0.0
            message["motor_state"][joint]["q"] = value

        _wire(case, lasts_ms, _spoiled(change))

    return inject


def _flipped(lasts_ms: int | None):
    def inject(case: Injection) -> None:
        byte, bit = int(case.random.integers(70, 2000)), int(case.random.integers(8))

        def spoil(message: np.ndarray) -> np.ndarray:
            data = bytearray(message.tobytes())
            data[byte] ^= 1 << bit
            return np.frombuffer(bytes(data), message.dtype).reshape(())

        _wire(case, lasts_ms, spoil)

    return inject


def _past_limit(case: Injection) -> None:
    joint = _joint(case)
    side, sign = ((1, 1.0), (0, -1.0))[int(case.random.integers(2))]
    value = g1.JOINT_LIMITS[joint, side] + sign * case.random.uniform(
        LIMITS.joint_rad + 0.05, 0.55
    )

    def change(message: np.ndarray) -> None:
        message["motor_state"][joint]["q"] = value

    _wire(case, None, _spoiled(change))


def _too_fast(case: Injection) -> None:
    joint, value = _joint(case), case.random.uniform(36.0, 90.0)

    def change(message: np.ndarray) -> None:
        message["motor_state"][joint]["dq"] = value

    _wire(case, None, _spoiled(change))


def _tilted(case: Injection) -> None:
    half, way = 0.5 * case.random.uniform(1.05, 3.0), case.random.uniform(0, 6.28)

    def change(message: np.ndarray) -> None:
        lean = np.sin(half) * np.array((np.cos(way), np.sin(way), 0.0))
        message["imu_state"]["quaternion"] = (np.cos(half), *lean)

    _wire(case, None, _spoiled(change))


def _hanging(case: Injection) -> None:
    case.rig.brain_runs = False


def _killed(case: Injection) -> None:
    case.rig.loop_alive = False


def _source(case: Injection) -> None:
    """Whatever is playing raises, or gives what is not a number."""
    stream, raises = case.rig.loop.mixer.stream, bool(case.random.integers(2))
    good = stream.next

    def bad(history: np.ndarray):
        if raises:
            raise RuntimeError("injected")
        moment = good(history)
        return moment._replace(skill=moment.skill * np.nan)

    stream.next = bad  # type: ignore[method-assign]


def _planner(kind: Literal["hangs", "dies"]):
    def inject(case: Injection) -> None:
        planner: LivePlanner = case.rig.loop.mixer.stream._planner  # type: ignore

        def ask(step: int, history: np.ndarray, sentence: str) -> None:
            if kind == "dies":
                raise RuntimeError("injected")

        planner.ask = ask  # type: ignore[method-assign]

    return inject


def _action(times: int | None):
    def inject(case: Injection) -> None:
        pilot, left = case.rig.loop.pilot, [times]
        good = pilot._controller

        def bad(history: np.ndarray, command: np.ndarray) -> np.ndarray:
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    return good(history, command)
            return np.full(g1.NUM_JOINTS, np.nan)

        pilot._controller = bad  # type: ignore[assignment]

    return inject


def _brain_clock(case: Injection) -> None:
    jump = float(case.random.choice((-1.0, 1.0)) * case.random.uniform(0.2, 5.0))
    case.rig.brain_clock_s += jump


def _guard_clock(case: Injection) -> None:
    jump = float(case.random.choice((-1.0, 1.0)) * case.random.uniform(0.2, 5.0))
    case.rig.guard_clock_s += jump


def _operator(case: Injection) -> None:
    case.rig.keys = int(HOLD_KEY | STOP_KEY)


def _let_go(case: Injection) -> None:
    case.rig.keys = 0


CASES = (
    FaultCase("states lost", "hold, then stop", _lost),
    FaultCase("states late by 20 to 45 ms", "hold", _late),
    FaultCase("the same state for ever", "hold, then stop", _frozen),
    FaultCase("every state three times", "goes on", _repeated),
    FaultCase("states out of order", "goes on", _reordered),
    FaultCase("a sensor not a number, once", "hold", _nan(5)),
    FaultCase("a sensor not a number, for ever", "hold, then stop", _nan(None)),
    FaultCase("a sensor out of range, once", "hold", _absurd(5)),
    FaultCase("a sensor out of range, for ever", "hold, then stop", _absurd(None)),
    FaultCase("a wrong checksum, once", "hold", _flipped(5)),
    FaultCase("wrong checksums for ever", "hold, then stop", _flipped(None)),
    FaultCase("a joint past its limit", "stop", _past_limit),
    FaultCase("a joint too fast", "stop", _too_fast),
    FaultCase("tilted too far", "stop", _tilted),
    FaultCase("the control loop hangs", "hold, then stop", _hanging),
    FaultCase("the control loop is killed", "stop", _killed),
    FaultCase("the skill source dies", "stand", _source),
    FaultCase("the planner hangs", "stand", _planner("hangs"), planned=True),
    FaultCase("the planner dies", "stand", _planner("dies"), planned=True),
    FaultCase("an action not a number, once", "hold", _action(1)),
    FaultCase("actions not a number for ever", "hold, then stop", _action(None)),
    FaultCase("the loop's clock jumps", "stop", _brain_clock),
    FaultCase("the guard's clock jumps", "stop", _guard_clock),
    FaultCase("the operator stops", "stop", _operator),
    FaultCase("the dead man's key is let go", "stop", _let_go),
)
