"""The G1's topics over DDS, with Cyclone DDS.

Types have the names and the structure that Unitree's own programs announce, and the
quality of service is Cyclone's default as in unitree_sdk2_python, so that the robot's
side matches. Cyclone's Python package converts a message field by field, which takes
0.5 ms for a command and 0.7 ms for a state; here a sample carries the bytes of a NumPy
struct, which takes microseconds.
"""

import socket
from typing import Any

import numpy as np
from cyclonedds.core import DDSException
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, make_idl_struct, types
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from spectral_skills.runtime import unitree

LOOPBACK = "lo"
_KEPT = 16
"""Number of messages that wait to be read; older ones are dropped."""
_HEADER = bytes((0, 1, 0, 0))
"""Header of plain little-endian CDR."""
_PLAIN = (1, 7)
"""Second byte of headers whose messages have our layout: either version of CDR."""

_PRIMITIVES = {
    np.dtype("u1"): types.uint8,
    np.dtype("<i2"): types.int16,
    np.dtype("<u4"): types.uint32,
    np.dtype("<f4"): types.float32,
}
_NAMES = {
    unitree.MOTOR_CMD: "MotorCmd_",
    unitree.LOW_CMD: "LowCmd_",
    unitree.IMU_STATE: "IMUState_",
    unitree.MOTOR_STATE: "MotorState_",
    unitree.LOW_STATE: "LowState_",
}


def idl_type(dtype: np.dtype) -> type[IdlStruct]:
    """Return the type by which Unitree's programs know a struct."""
    assert dtype.fields is not None, "a struct"
    fields = {field: _idl_field(kind) for field, (kind, *_) in dtype.fields.items()}
    name = _NAMES[dtype]
    return make_idl_struct(name, f"unitree_hg.msg.dds_.{name}", fields)


def _idl_field(dtype: np.dtype) -> Any:
    if dtype.subdtype is not None:
        inner, (length,) = dtype.subdtype
        return types.array[_idl_field(inner), length]
    return _PRIMITIVES[dtype] if dtype in _PRIMITIVES else idl_type(dtype)


def _carrier(dtype: np.dtype) -> type[IdlStruct]:
    """Return the same type with samples that only carry `data`, a message's bytes."""
    kind: Any = idl_type(dtype)

    def carried(_, data: bytes, **__) -> Any:
        sample = kind.__new__(kind)
        sample.data = data
        return sample

    kind.serialize = lambda self, **_: self.data
    kind.deserialize = kind.deserialize_key = classmethod(carried)
    return kind


_CARRIERS = {dtype: _carrier(dtype) for dtype in unitree.TOPICS}
_PEERS = """<Discovery>
<ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>20</MaxAutoParticipantIndex>
<Peers><Peer Address="localhost"/></Peers>
</Discovery>"""


def _configuration(interface: str) -> str:
    """Cyclone's settings; on loopback, programs find each other without multicast."""
    inside = interface == LOOPBACK
    multicast = "false" if inside else "default"
    return f"""<CycloneDDS><Domain Id="any"><General>
<Interfaces><NetworkInterface name="{interface}" multicast="{multicast}"/></Interfaces>
<AllowMulticast>{multicast}</AllowMulticast>
</General>{_PEERS if inside else ""}</Domain></CycloneDDS>"""


_DOMAINS: dict[int, tuple[str, Domain]] = {}
"""Domains by number, with their interfaces: a process can set up each only once."""


def _participant(interface: str, domain: int) -> DomainParticipant:
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        raise ValueError(
            f"no network interface {interface!r}; there are {', '.join(names)}"
        )
    if not 0 <= domain <= 230:
        raise ValueError(f"DDS domain {domain}: choose one from 0 to 230")
    used, _ = _DOMAINS.get(domain, (interface, None))
    if used != interface:
        raise ValueError(f"DDS domain {domain} is on {used} already, not {interface}")
    try:
        if domain not in _DOMAINS:
            _DOMAINS[domain] = interface, Domain(domain, _configuration(interface))
        return DomainParticipant(domain)
    except DDSException as error:
        raise OSError(
            f"DDS cannot use {interface!r} with domain {domain}: {error}"
        ) from None


class _Sender:
    def __init__(self, participant: DomainParticipant, dtype: np.dtype):
        self._kind: Any = _CARRIERS[dtype]
        topic = Topic(participant, unitree.TOPICS[dtype], self._kind)
        self._writer = DataWriter(participant, topic)

    def __call__(self, message: np.ndarray) -> None:
        self._writer.write(self._kind.deserialize(_HEADER + unitree.pack(message)))


class _Receiver:
    def __init__(self, participant: DomainParticipant, dtype: np.dtype):
        self._dtype, kept = dtype, Qos(Policy.History.KeepLast(_KEPT))
        topic = Topic(participant, unitree.TOPICS[dtype], _CARRIERS[dtype])
        self._reader = DataReader(participant, topic, kept)
        self.malformed = 0
        """Number of messages that could not be read."""

    def __call__(self) -> list[np.ndarray]:
        """Return the messages that arrived since the last call, oldest first."""
        found = []
        sample: Any
        for sample in self._reader.take(_KEPT):
            if not sample.sample_info.valid_data:
                continue  # a notice that a writer is gone
            try:
                found.append(_message(sample.data, self._dtype))
            except ValueError:
                self.malformed += 1
        return found


def _message(data: bytes, dtype: np.dtype) -> np.ndarray:
    if data[1] not in _PLAIN:
        raise ValueError(f"encoding {data[1]} is not plain little-endian CDR")
    return unitree.unpack(data[4:], dtype)


def command_sender(interface: str, domain: int = 0) -> _Sender:
    """Return a sender of commands alone, without a receiver of states."""
    return _Sender(_participant(interface, domain), unitree.LOW_CMD)


class DriverLink:
    """The driving program's side: states in, commands out."""

    def __init__(self, interface: str, domain: int = 0):
        participant = _participant(interface, domain)
        self.send = _Sender(participant, unitree.LOW_CMD)
        self.states = _Receiver(participant, unitree.LOW_STATE)
        self.torso = _Receiver(participant, unitree.IMU_STATE)


class RobotLink:
    """The robot's side: commands in, states out."""

    def __init__(self, interface: str, domain: int = 0):
        participant = _participant(interface, domain)
        self.send = _Sender(participant, unitree.LOW_STATE)
        self.send_torso = _Sender(participant, unitree.IMU_STATE)
        self.commands = _Receiver(participant, unitree.LOW_CMD)
