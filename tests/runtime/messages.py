"""Messages of a G1 for tests."""

import numpy as np

from spectral_skills.control.safety import Order, Sensed
from spectral_skills.robot import g1


def names(message: np.ndarray) -> tuple[str, ...]:
    """Fields of a message or of a part of it."""
    assert message.dtype.names is not None
    return message.dtype.names


def numbers(message: np.ndarray) -> list:
    """All numbers of a message in order."""
    flat = []
    for name in names(message):
        part = message[name]
        if part.dtype.names and part.ndim:
            flat += [x for row in part for x in numbers(row)]
        elif part.dtype.names:
            flat += numbers(part)
        else:
            flat += np.asarray(part).ravel().tolist()
    return flat


def anything(dtype: np.dtype, seed: int) -> np.ndarray:
    """A message of random numbers, with the padding of C at zero."""
    random = np.random.default_rng(seed)
    message = np.zeros((), dtype)

    def fill(part) -> None:
        for name in names(part):
            field = part[name]
            if field.dtype.names:
                for row in field.reshape(-1):
                    fill(row)
            elif field.dtype.kind == "f":
                part[name] = random.normal(size=field.shape)
            else:
                part[name] = random.integers(0, 100, field.shape)

    fill(message)
    return message


def order() -> Order:
    """Targets anywhere within limits."""
    targets = np.random.default_rng(0).uniform(*g1.JOINT_LIMITS.T)
    return Order(targets, g1.STIFFNESS, g1.DAMPING)


def standing(tick: int, keys: int = 0) -> Sensed:
    """A robot that stands in the default pose."""
    level, still = np.array((1.0, 0.0, 0.0, 0.0)), np.zeros(29)
    return Sensed(0.0, tick, level, np.zeros(3), g1.DEFAULT_JOINTS, still, keys)
