"""The G1's topics: types as Unitree's programs know them, bytes, and loopback."""

import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types
from loopback import free_domain
from messages import anything, names, order

from spectral_skills.runtime import dds, unitree


# Unitree's public IDL (unitree_sdk2_python, unitree_hg), written out.
@dataclass
class MotorCmd(IdlStruct, typename="unitree_hg.msg.dds_.MotorCmd_"):
    mode: types.uint8
    q: types.float32
    dq: types.float32
    tau: types.float32
    kp: types.float32
    kd: types.float32
    reserve: types.uint32


@dataclass
class LowCmd(IdlStruct, typename="unitree_hg.msg.dds_.LowCmd_"):
    mode_pr: types.uint8
    mode_machine: types.uint8
    motor_cmd: types.array[MotorCmd, 35]
    reserve: types.array[types.uint32, 4]
    crc: types.uint32


@dataclass
class ImuState(IdlStruct, typename="unitree_hg.msg.dds_.IMUState_"):
    quaternion: types.array[types.float32, 4]
    gyroscope: types.array[types.float32, 3]
    accelerometer: types.array[types.float32, 3]
    rpy: types.array[types.float32, 3]
    temperature: types.int16


@dataclass
class MotorState(IdlStruct, typename="unitree_hg.msg.dds_.MotorState_"):
    mode: types.uint8
    q: types.float32
    dq: types.float32
    ddq: types.float32
    tau_est: types.float32
    temperature: types.array[types.int16, 2]
    vol: types.float32
    sensor: types.array[types.uint32, 2]
    motorstate: types.uint32
    reserve: types.array[types.uint32, 4]


@dataclass
class LowState(IdlStruct, typename="unitree_hg.msg.dds_.LowState_"):
    version: types.array[types.uint32, 2]
    mode_pr: types.uint8
    mode_machine: types.uint8
    tick: types.uint32
    imu_state: ImuState
    motor_state: types.array[MotorState, 35]
    wireless_remote: types.array[types.uint8, 40]
    reserve: types.array[types.uint32, 4]
    crc: types.uint32


BY_HAND = {
    unitree.LOW_CMD: LowCmd,
    unitree.LOW_STATE: LowState,
    unitree.IMU_STATE: ImuState,
}
INNER = {"motor_cmd": MotorCmd, "motor_state": MotorState, "imu_state": ImuState}
each_message = pytest.mark.parametrize(
    "dtype", BY_HAND, ids=("command", "state", "imu")
)


def written_out(message: np.ndarray, kind: type) -> IdlStruct:
    """The same message as Cyclone's Python package has it."""
    fields = {}
    for name in names(message):
        part = message[name]
        if part.dtype.names and part.ndim:
            fields[name] = [written_out(row, INNER[name]) for row in part]
        elif part.dtype.names:
            fields[name] = written_out(part, INNER[name])
        else:
            fields[name] = (
                part.tobytes() if name == "wireless_remote" else part.tolist()
            )
    return kind(**fields)


@each_message
def test_types_are_announced_as_unitree_announces_them(dtype):
    """Name, structure and with them the hash by which DDS compares types."""
    ours, theirs = dds.idl_type(dtype), BY_HAND[dtype]
    assert ours.__idl__.idl_transformed_typename.startswith("unitree_hg::msg::dds_::")
    for kind in (ours, theirs):
        kind.__idl__.fill_type_data()
    assert ours.__idl__.idl_transformed_typename == (
        theirs.__idl__.idl_transformed_typename
    )
    assert ours.__idl__._xt_bytedata == theirs.__idl__._xt_bytedata


@each_message
def test_bytes_are_those_of_the_ordinary_way(dtype):
    """What NumPy writes is what Cyclone writes field by field, and back."""
    for seed in range(3):
        message = anything(dtype, seed)
        ordinary = written_out(message, BY_HAND[dtype]).serialize()
        assert dds._HEADER + unitree.pack(message) == ordinary
        assert dds._message(ordinary, dtype) == message


@each_message
def test_other_encodings_are_refused(dtype):
    """Big-endian numbers would be read as nonsense."""
    data = bytes((0, 0, 0, 0)) + unitree.pack(anything(dtype, 0))
    with pytest.raises(ValueError, match="not plain little-endian"):
        dds._message(data, dtype)


ROBOT = """
import sys, time
import numpy as np
from spectral_skills.runtime import dds, unitree
from spectral_skills.control.safety import Sensed

link = dds.RobotLink("lo", int(sys.argv[1]))
level, still = np.array((1.0, 0, 0, 0)), np.zeros(29)
begun, tick = time.monotonic(), 0
while time.monotonic() - begun < 20:
    tick += 5
    keys = 0
    for command in link.commands():
        assert unitree.intact(command)
        keys = round(float(command["motor_cmd"]["q"][0]) * 1000)
    sensed = Sensed(0.0, tick, level, np.zeros(3), still, still, keys)
    link.send(unitree.state(sensed, 5))
    link.send_torso(unitree.imu(level, np.zeros(3)))
    time.sleep(0.005)
"""


@pytest.fixture
def robot_domain():
    """The domain of a robot in another process, which shows a command as keys."""
    domain = free_domain()
    process = subprocess.Popen([sys.executable, "-c", ROBOT, str(domain)])
    yield domain
    process.kill()
    process.wait()


def test_two_programs_talk_on_loopback(robot_domain):
    """Without multicast; states come whole and in order, commands arrive."""
    link = dds.DriverLink("lo", robot_domain)
    ticks, torso, echoed, begun = [], [], False, time.monotonic()
    report = order()
    report.targets[0] = 0.321
    while time.monotonic() - begun < 10 and not (echoed and torso and len(ticks) > 50):
        link.send(unitree.command(report, 5))
        torso += link.torso()
        for state in link.states():
            assert unitree.intact(state) and state["mode_machine"] == 5
            ticks.append(int(state["tick"]))
            echoed |= unitree.sensed(state, 0.0).keys == 321
        time.sleep(0.002)
    assert echoed and torso[0]["quaternion"][0] == 1.0
    assert np.diff(ticks).min() > 0
    assert link.states.malformed == 0


def test_an_interface_that_is_not_there():
    with pytest.raises(ValueError, match="no network interface 'mars0'; there are"):
        dds.DriverLink("mars0")


def test_a_domain_that_cannot_be():
    with pytest.raises(ValueError, match="domain 231: choose one from 0 to 230"):
        dds.RobotLink("lo", 231)
