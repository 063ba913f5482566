"""Packets of fixed size between the control loop and the guard."""

import gc
import os
import socket
from typing import NamedTuple

import numpy as np

from spectral_skills.control.safety import Fault, Order, Sensed
from spectral_skills.robot import g1

_JOINTS = g1.NUM_JOINTS
_FAULTS = list(Fault)
_NO_FAULT = len(_FAULTS)

_ORDER = np.dtype(
    [
        ("sent_s", "f8"),
        ("targets", "f8", _JOINTS),
        ("stiffness", "f8", _JOINTS),
        ("damping", "f8", _JOINTS),
    ]
)
_REPORT = np.dtype(
    [
        ("fault", "u1"),
        ("mode_machine", "u1"),
        ("known", "?"),
        ("time_s", "f8"),
        ("tick", "u4"),
        ("keys", "u4"),
        ("quaternion", "f8", 4),
        ("gyro", "f8", 3),
        ("joints", "f8", _JOINTS),
        ("velocities", "f8", _JOINTS),
    ]
)


class StampedOrder(NamedTuple):
    """An order and the time at which it was sent."""

    sent_s: float
    """Time of sending, by the monotonic clock."""
    order: Order


class Report(NamedTuple):
    """The guard's message to the control loop."""

    sensed: Sensed | None
    """Newest state that passed the checks."""
    fault: Fault | None
    """Reason why the guard stopped the robot."""
    mode_machine: int
    """Machine type that the robot reports."""


def _pack_order(order: StampedOrder) -> bytes:
    packet = np.zeros((), _ORDER)
    packet["sent_s"] = order.sent_s
    for name in ("targets", "stiffness", "damping"):
        packet[name] = getattr(order.order, name)
    return packet.tobytes()


def _unpack_order(data: bytes) -> StampedOrder:
    packet = np.frombuffer(data, _ORDER)[0]
    parts = (packet[name] for name in ("targets", "stiffness", "damping"))
    return StampedOrder(float(packet["sent_s"]), Order(*parts))


def _pack_report(report: Report) -> bytes:
    packet = np.zeros((), _REPORT)
    fault = report.fault
    packet["fault"] = _NO_FAULT if fault is None else _FAULTS.index(fault)
    packet["mode_machine"] = report.mode_machine
    if (sensed := report.sensed) is not None:
        packet["known"] = True
        for name in ("time_s", "tick", "keys"):
            packet[name] = getattr(sensed, name)
        for name in ("quaternion", "gyro", "joints", "velocities"):
            packet[name] = getattr(sensed, name)
    return packet.tobytes()


def _unpack_report(data: bytes) -> Report:
    packet = np.frombuffer(data, _REPORT)[0]
    sensed = None
    if packet["known"]:
        sensed = Sensed(
            time_s=float(packet["time_s"]),
            tick=int(packet["tick"]),
            quaternion=packet["quaternion"],
            gyro=packet["gyro"],
            joints=packet["joints"],
            velocities=packet["velocities"],
            keys=int(packet["keys"]),
        )
    code = int(packet["fault"])
    fault = None if code == _NO_FAULT else _FAULTS[code]
    return Report(sensed, fault, int(packet["mode_machine"]))


class _End:
    """One end of a pair of sockets. No call blocks."""

    def __init__(self, end: socket.socket):
        end.setblocking(False)
        self.socket, self.open = end, True
        self.open: bool
        """Whether the other end still exists."""

    def _send(self, data: bytes) -> None:
        try:
            self.socket.send(data)
        except BlockingIOError:
            pass  # the other side is slow: it will get a newer packet
        except OSError:
            self.open = False

    def _newest(self) -> bytes | None:
        """Return the last waiting packet and drop the older ones."""
        newest = None
        while self.open:
            try:
                data = self.socket.recv(4096)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.open = False
            else:
                newest = data
        return newest


class LoopEnd(_End):
    """The control loop's end."""

    def send(self, order: StampedOrder) -> None:
        self._send(_pack_order(order))

    def newest(self) -> Report | None:
        data = self._newest()
        return None if data is None else _unpack_report(data)


class GuardEnd(_End):
    """The guard's end."""

    def send(self, report: Report) -> None:
        self._send(_pack_report(report))

    def newest(self) -> StampedOrder | None:
        data = self._newest()
        return None if data is None else _unpack_order(data)


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets that keep packets whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def raise_priority(priority: int, thread: int = 0) -> bool:
    """Give this thread real-time priority; return False where that is not allowed.

    `thread` is the native number of another thread to give it to.
    """
    # Collecting garbage would pause a loop that must not be late.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
    except (OSError, AttributeError):
        return False
    return True
