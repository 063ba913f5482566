"""The G1's messages: layout, checksum, and what goes into them and comes out."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import anything, numbers, order, standing

from spectral_skills.control.safety import Key, Sensed, damped_stop
from spectral_skills.robot import g1
from spectral_skills.runtime import unitree

# The C structs of Unitree's IDL, written the way `struct` writes them.
FORMATS = {
    unitree.LOW_CMD: "<2B2x" + "B3x5fI" * 35 + "5I",
    unitree.LOW_STATE: "<2I2B2xI" + "13fh2x" + "B3x4f2hf7I" * 35 + "40B5I",
    unitree.IMU_STATE: "<13fh2x",
}


def crc_by_definition(data: bytes) -> int:
    """Bit by bit over words, the last excepted, as a shift register does it."""
    register = 0xFFFFFFFF
    for (word,) in struct.iter_unpack("<I", data[:-4]):
        for bit in range(31, -1, -1):
            out = register >> 31 ^ word >> bit & 1
            register = register << 1 & 0xFFFFFFFF ^ (0x04C11DB7 if out else 0)
    return register


@pytest.mark.parametrize("dtype", FORMATS, ids=("command", "state", "imu"))
def test_messages_have_the_layout_of_the_robots_structs(dtype):
    """Field by field and padding included."""
    message = anything(dtype, 1)
    assert message.tobytes() == struct.pack(FORMATS[dtype], *numbers(message))


@pytest.mark.parametrize("dtype", (unitree.LOW_CMD, unitree.LOW_STATE))
def test_checksum_is_the_one_defined(dtype):
    for seed in range(3):
        message = anything(dtype, seed)
        assert unitree.crc(message) == crc_by_definition(message.tobytes())


@given(st.integers(0, 1000 * 8 - 1))
def test_no_flipped_bit_passes(bit):
    """Whatever a wire does to one bit of a command."""
    data = bytearray(unitree.command(order(), 5).tobytes())
    data[bit // 8] ^= 1 << bit % 8
    assert not unitree.intact(np.frombuffer(bytes(data), unitree.LOW_CMD).reshape(()))


def test_an_order_goes_through_a_command():
    """29 motors obey, the six that a G1 does not have are off."""
    message = unitree.command(order(), mode_machine=5)
    assert unitree.intact(message)
    assert (message["mode_pr"], message["mode_machine"]) == (0, 5)
    motors = message["motor_cmd"]
    assert (motors["mode"][:29] == 1).all()
    assert not motors[29:].tobytes().strip(b"\0")
    assert not motors["dq"].any() and not motors["tau"].any()
    back = unitree.ordered(message)
    for name in ("targets", "stiffness", "damping"):
        assert np.allclose(getattr(back, name), getattr(order(), name), atol=1e-5)
    assert not back.damped


def test_a_damped_stop_is_one_on_the_other_side():
    back = unitree.ordered(unitree.command(damped_stop(g1.DEFAULT_JOINTS), 5))
    assert back.damped and (back.damping == 8.0).all()


def test_a_motor_that_is_off_does_nothing():
    """Mode 0 neither holds nor brakes."""
    message = unitree.command(order(), 5)
    message["motor_cmd"]["mode"][3] = 0
    back = unitree.ordered(message)
    assert back.stiffness[3] == back.damping[3] == 0.0
    assert back.stiffness[4] > 0.0


def test_what_is_sensed_goes_through_a_state():
    random = np.random.default_rng(0)
    sensed = Sensed(
        time_s=3.0,
        tick=70_000,
        quaternion=np.array((0.5, -0.5, 0.5, 0.5)),
        gyro=random.normal(size=3),
        joints=random.normal(size=29),
        velocities=random.normal(size=29),
        keys=int(Key.R1 | Key.START | Key.LEFT),
    )
    message = unitree.state(sensed, mode_machine=5)
    assert unitree.intact(message)
    back = unitree.sensed(message, 3.0)
    for name in ("quaternion", "gyro", "joints", "velocities"):
        assert np.allclose(getattr(back, name), getattr(sensed, name), atol=1e-6)
    assert (back.time_s, back.tick, back.keys) == (3.0, 70_000, sensed.keys)


def test_buttons_sit_where_the_remote_has_them():
    """Start is bit 2 of byte 2, A bit 0 of byte 3."""
    sensed = standing(0, int(Key.START | Key.A))
    remote = unitree.state(sensed, 5)["wireless_remote"]
    assert remote[2] == 0b100 and remote[3] == 0b1
    assert remote.sum() == 5


def test_counters_wrap_around():
    assert unitree.state(standing(2**32 + 7), 5)["tick"] == 7


def test_roll_pitch_and_yaw_of_an_inertial_unit():
    """A quarter turn about each axis."""
    for axis in range(3):
        quaternion, angle = np.zeros(4), 0.7
        quaternion[0], quaternion[1 + axis] = np.cos(angle / 2), np.sin(angle / 2)
        report = unitree.imu(quaternion, np.zeros(3))["rpy"]
        assert np.allclose(report, np.eye(3)[axis] * angle, atol=1e-6)


@pytest.mark.parametrize("dtype", FORMATS, ids=("command", "state", "imu"))
def test_the_wire_gives_back_what_it_got(dtype):
    message = anything(dtype, 2)
    assert unitree.unpack(unitree.pack(message), dtype) == message


@pytest.mark.parametrize("size", (0, 999, 1004, 5000))
def test_bytes_of_another_length_are_refused(size):
    with pytest.raises(ValueError, match="1000 are expected"):
        unitree.unpack(bytes(size), unitree.LOW_CMD)
