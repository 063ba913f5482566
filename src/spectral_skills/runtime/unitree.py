"""The G1's low-level messages: layout and checksum; NumPy only.

The layout is Unitree's public IDL (module unitree_hg of unitree_sdk2_python, the same
in unitree_ros2 and unitree_sdk2): `rt/lowcmd` carries a LowCmd_, `rt/lowstate` a
LowState_, `rt/secondary_imu` the torso's IMUState_. Motors are in MuJoCo order; the G1
has 29, and a message has room for 35. Bytes 2 and 3 of the remote's 40 are its buttons.

A message has two forms. In memory it is a C struct, of which the checksum is taken. On
the wire it is CDR, where a struct inside another begins without the padding that C puts
in front of it, so that a few bytes are missing. `pack` and `unpack` convert them.
"""

import math
import zlib

import numpy as np

from spectral_skills.control.safety import Order, Sensed
from spectral_skills.robot import g1

MOTORS = 35
ENABLED = 1
"""Mode of a motor that obeys; 0 is off."""
TICK_S = 0.001
"""Unit of the counter in a state."""


def _struct(fields: str, **parts: np.dtype | tuple[np.dtype, int]) -> np.dtype:
    """A C struct of names and kinds: `4<f4` is four floats; `parts` are other structs,
    or arrays of them."""
    pairs = (field.split() for field in fields.split(","))
    return np.dtype([(name, parts.get(kind, kind)) for name, kind in pairs], align=True)


MOTOR_CMD = _struct("mode u1, q <f4, dq <f4, tau <f4, kp <f4, kd <f4, reserve <u4")
LOW_CMD = _struct(
    "mode_pr u1, mode_machine u1, motor_cmd motors, reserve 4<u4, crc <u4",
    motors=(MOTOR_CMD, MOTORS),
)
IMU_STATE = _struct(
    "quaternion 4<f4, gyroscope 3<f4, accelerometer 3<f4, rpy 3<f4, temperature <i2"
)
MOTOR_STATE = _struct(
    "mode u1, q <f4, dq <f4, ddq <f4, tau_est <f4, temperature 2<i2, vol <f4, "
    "sensor 2<u4, motorstate <u4, reserve 4<u4"
)
LOW_STATE = _struct(
    "version 2<u4, mode_pr u1, mode_machine u1, tick <u4, imu_state imu, "
    "motor_state motors, wireless_remote 40u1, reserve 4<u4, crc <u4",
    imu=IMU_STATE,
    motors=(MOTOR_STATE, MOTORS),
)

TOPICS = {LOW_CMD: "rt/lowcmd", LOW_STATE: "rt/lowstate", IMU_STATE: "rt/secondary_imu"}
_WIRE = {IMU_STATE: (54, 54), LOW_CMD: (1000, 2), LOW_STATE: (2088, 70)}
"""Number of bytes on the wire, and of those before the first motor."""


def pack(message: np.ndarray) -> bytes:
    """Return a message as sent, without the header that names its encoding."""
    data = message.tobytes()
    size, before = _WIRE[message.dtype]
    if before == size:
        return data[:size]
    # The first motor's mode moves up to what precedes it; from its position on, four
    # bytes after the mode, both forms are the same.
    mode = -(-before // 4) * 4
    return data[:before] + data[mode : mode + 1] + b"\0" + data[mode + 4 :]


def unpack(data: bytes, dtype: np.dtype) -> np.ndarray:
    """Return the message in received bytes; refuse a wrong number of them."""
    size, before = _WIRE[dtype]
    if not size <= len(data) < size + 4:  # senders fill up to a multiple of four
        raise ValueError(f"a message of {len(data)} bytes; {size} are expected")
    if before == size:
        memory = data[:size].ljust(dtype.itemsize, b"\0")
    else:
        parts = data[:before], data[before : before + 1], data[before + 2 : size]
        memory = parts[0] + bytes(-before % 4) + parts[1] + bytes(3) + parts[2]
    return np.frombuffer(memory, dtype).reshape(())


_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def crc(message: np.ndarray) -> int:
    """Compute the checksum of a message over all words but the last, which holds it.

    This is CRC-32 with polynomial 0x04c11db7 and initial value 0xffffffff, reading each
    little-endian word from its highest bit down. zlib reads each byte the other way.
    """
    words = np.frombuffer(message.tobytes(), "<u4")[:-1]
    found = zlib.crc32(words.byteswap().tobytes().translate(_REVERSED)) ^ 0xFFFFFFFF
    return int.from_bytes(found.to_bytes(4, "little").translate(_REVERSED), "big")


def sealed(message: np.ndarray) -> np.ndarray:
    """Write the checksum into a message, and return it."""
    message["crc"] = crc(message)
    return message


def intact(message: np.ndarray) -> bool:
    return crc(message) == message["crc"]


def command(order: Order, mode_machine: int) -> np.ndarray:
    """Return the message of an order; `mode_machine` is that of the last state."""
    message = np.zeros((), LOW_CMD)
    message["mode_machine"] = mode_machine
    motors = message["motor_cmd"][: g1.NUM_JOINTS]
    motors["mode"] = ENABLED
    motors["q"] = order.targets
    motors["kp"] = order.stiffness
    motors["kd"] = order.damping
    return sealed(message)


def ordered(message: np.ndarray) -> Order:
    """Return the order in a LowCmd_; a motor that is off neither holds nor brakes."""
    motors = message["motor_cmd"][: g1.NUM_JOINTS]
    on = motors["mode"] == ENABLED
    targets, stiffness, damping = (
        motors[name].astype(np.float64) for name in ("q", "kp", "kd")
    )
    return Order(targets, stiffness * on, damping * on)


def imu(quaternion: np.ndarray, gyro: np.ndarray) -> np.ndarray:
    message = np.zeros((), IMU_STATE)
    message["quaternion"], message["gyroscope"] = quaternion, gyro
    w, x, y, z = (float(part) for part in quaternion)
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x))))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    message["rpy"] = roll, pitch, yaw
    return message


def state(sensed: Sensed, mode_machine: int) -> np.ndarray:
    message = np.zeros((), LOW_STATE)
    message["mode_machine"] = mode_machine
    message["tick"] = sensed.tick & 0xFFFFFFFF
    message["imu_state"] = imu(sensed.quaternion, sensed.gyro)
    motors = message["motor_state"][: g1.NUM_JOINTS]
    motors["mode"] = ENABLED
    motors["q"], motors["dq"] = sensed.joints, sensed.velocities
    message["wireless_remote"][2] = sensed.keys & 0xFF
    message["wireless_remote"][3] = sensed.keys >> 8
    return sealed(message)


def sensed(message: np.ndarray, time_s: float) -> Sensed:
    """Return the state in a LowState_ that arrived at `time_s`."""
    unit, motors = message["imu_state"], message["motor_state"][: g1.NUM_JOINTS]
    low, high = message["wireless_remote"][2:4]
    return Sensed(
        time_s=time_s,
        tick=int(message["tick"]),
        quaternion=unit["quaternion"].astype(np.float64),
        gyro=unit["gyroscope"].astype(np.float64),
        joints=motors["q"].astype(np.float64),
        velocities=motors["dq"].astype(np.float64),
        keys=int(low) | int(high) << 8,
    )
