"""What the control loop and the guard tell each other: packets of fixed size."""

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


class Told(NamedTuple):
    """An order on its way."""

    sent_s: float
    """When, by the monotonic clock."""
    order: Order


class Report(NamedTuple):
    """What the guard tells the control loop."""

    sensed: Sensed | None
    """The newest state that passed."""
    fault: Fault | None
    """Why it stopped the robot."""
    mode_machine: int
    """What the robot calls itself."""


def _pack_order(told: Told) -> bytes:
    packet = np.zeros((), _ORDER)
    packet["sent_s"] = told.sent_s
    for name in ("targets", "stiffness", "damping"):
        packet[name] = getattr(told.order, name)
    return packet.tobytes()


def _unpack_order(data: bytes) -> Told:
    packet = np.frombuffer(data, _ORDER)[0]
    parts = (packet[name] for name in ("targets", "stiffness", "damping"))
    return Told(float(packet["sent_s"]), Order(*parts))


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
    """One end of a pair of sockets; nothing here ever waits."""

    def __init__(self, end: socket.socket):
        end.setblocking(False)
        self.socket, self.open = end, True
        self.open: bool
        """Whether the other end is there."""

    def _send(self, data: bytes) -> None:
        try:
            self.socket.send(data)
        except BlockingIOError:
            pass  # the other side is behind: it will get a newer one
        except OSError:
            self.open = False

    def _newest(self) -> bytes | None:
        """The last packet of those that wait; older ones count no more."""
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


class BrainEnd(_End):
    """The control loop's end."""

    def send(self, told: Told) -> None:
        self._send(_pack_order(told))

    def newest(self) -> Report | None:
        data = self._newest()
        return None if data is None else _unpack_report(data)


class GuardEnd(_End):
    """The guard's end."""

    def send(self, report: Report) -> None:
        self._send(_pack_report(report))

    def newest(self) -> Told | None:
        data = self._newest()
        return None if data is None else _unpack_order(data)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that keep packets whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
