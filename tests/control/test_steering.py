"""Steering: knobs that add, ramps, faders, chains."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spectral_skills.control.mixer import Fader
from spectral_skills.control.steering import (
    RAMP_STEPS,
    Knob,
    chain,
    crossfade,
    full_amplitude,
    schedule,
    standard,
)

NAMES = ("right arm", "turn", "speed")
AMPLITUDE = st.floats(-5, 5)


@given(a=AMPLITUDE, b=AMPLITUDE)
def test_knobs_add(a, b):
    """Two knobs together are the sum of what each is alone."""
    first, second = Knob("right arm", a, 10, 150), Knob("turn", b, 60)
    together = schedule([first, second], 200, NAMES)
    alone = schedule([first], 200, NAMES) + schedule([second], 200, NAMES)
    np.testing.assert_allclose(together, alone, atol=1e-12)
    np.testing.assert_allclose(together[100], [a, b, 0], atol=1e-12)


def test_a_ramp_takes_25_equal_steps():
    """From nothing at the start to full amplitude 25 steps later, and back."""
    curve = schedule([Knob("turn", 2.0, 40, 160)], 200, NAMES)[:, 1]
    assert (curve[:41] == 0).all() and (curve[160:] == 0).all()
    assert (curve[65:136] == 2.0).all()
    moving = np.flatnonzero(np.diff(curve))
    assert moving.tolist() == [*range(40, 65), *range(135, 160)]
    np.testing.assert_allclose(np.abs(np.diff(curve)[moving]), 2.0 / RAMP_STEPS)


def test_knobs_on_one_direction_add():
    """One after the other or at once."""
    knobs = [Knob("speed", 1.0), Knob("speed", 0.5, 50), Knob("speed", -1.5, 100)]
    amplitudes = schedule(knobs, 200, NAMES)
    np.testing.assert_allclose(amplitudes[[0, 30, 80, 130], 2], [0, 1.0, 1.5, 0])
    assert not amplitudes[:, :2].any()


@pytest.mark.parametrize(
    ("knob", "words"),
    [
        ({"direction": "jump", "amplitude": 1.0}, "right, turn, speed"),
        ({"direction": "turn", "amplitude": np.nan}, "finite"),
        ({"direction": "turn", "amplitude": 1.0, "start": -1}, "start -1"),
        ({"direction": "turn", "amplitude": 1.0, "ramp": 0}, "ramp 0"),
        ({"direction": "turn", "amplitude": 1.0, "end": 49}, "too short"),
    ],
)
def test_impossible_knobs_say_why(knob, words):
    """What cannot be scheduled is refused in words."""
    with pytest.raises(ValueError, match=words):
        schedule([Knob(**knob)], 200, NAMES)


def test_the_standard_schedule_is_the_papers():
    """Steered from 40 to n - 40, full from 65 to n - 65."""
    amplitudes = standard((1.8, -2.0), 390)
    full = full_amplitude(390)
    assert (full.start, full.stop) == (65, 325)
    assert (amplitudes[full] == (1.8, -2.0)).all()
    active = np.flatnonzero(amplitudes.any(axis=1))
    assert (active[0], active[-1]) == (41, 349)
    assert standard(1.8, 390).shape == (390, 1)
    with pytest.raises(ValueError, match="131"):
        standard(1.0, 130)


@given(
    targets=st.lists(st.tuples(AMPLITUDE, st.integers(0, 40)), max_size=8),
    ramp=st.integers(1, 30),
)
def test_a_fader_never_moves_faster_than_its_rate(targets, ramp):
    """Each step is at most the whole way divided by the ramp, wherever it restarts."""
    fader = Fader(ramp=ramp)
    for target, steps in targets:
        rate = abs(target - fader.value) / ramp
        fader.move(target)
        for i in range(steps):
            before, value = fader.value, fader.step()
            assert abs(value - before) <= rate * (1 + 1e-9) + 1e-12
            assert (value == target) or i + 1 < ramp


def test_a_fader_takes_exactly_its_ramp():
    """It is there at the 25th step, not before, and stays."""
    fader = Fader(0.3)
    fader.move(1.8)
    values = [fader.step() for _ in range(30)]
    assert values.index(1.8) == RAMP_STEPS - 1
    assert set(values[RAMP_STEPS:]) == {1.8}
    with pytest.raises(ValueError, match="finite"):
        fader.move(np.nan)


def test_chains_blend_linearly_over_the_switch():
    """Three steps from 0 to 1 pass a quarter, a half, three quarters."""
    zeros, ones, fours = (np.full((6, 1), v, np.float32) for v in (0.0, 1.0, 4.0))
    stream, switches = chain([zeros, ones], 3)
    expected = [0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1]
    assert stream.flatten().tolist() == expected
    assert switches == [slice(3, 6)]
    stream, switches = chain([zeros, ones, fours], 2)
    expected = [0, 0, 0, 0, 1 / 3, 2 / 3, 1, 1, 2, 3, 4, 4, 4, 4]
    np.testing.assert_allclose(stream.flatten(), expected, atol=1e-6)
    assert switches == [slice(4, 6), slice(8, 10)]


def test_a_hard_switch_and_a_single_stream_blend_nothing():
    ramp = np.arange(4.0, dtype=np.float32)[:, None]
    assert np.array_equal(chain([ramp, ramp], 0)[0], np.concatenate((ramp, ramp)))
    assert np.array_equal(chain([ramp], 30)[0], ramp)


def test_both_streams_go_on_during_a_switch():
    """The blend of a stream with itself, shifted, is not a held skill."""
    ramp = np.arange(6.0, dtype=np.float32)[:, None]
    stream, _ = chain([ramp, 10 + ramp], 1)
    # Step 5 is half of 5 and half of 10.
    assert stream.flatten().tolist() == [0, 1, 2, 3, 4, 7.5, 11, 12, 13, 14, 15]


def test_streams_too_short_for_their_switches_are_refused():
    ramp = np.arange(5.0, dtype=np.float32)[:, None]
    chain([ramp, ramp], 5)
    with pytest.raises(ValueError, match="stream 1 has 5 steps, too few for 2"):
        chain([ramp, ramp, ramp], 3)
    with pytest.raises(ValueError, match="negative"):
        chain([ramp], -1)


def test_a_cross_fade_is_rounded_as_torch_rounds_it():
    """The chained results of the paper were made with `torch.lerp`."""
    before, after = np.random.default_rng(0).normal(size=(2, 30, 64)).astype(np.float32)
    weight = torch.arange(1, 31) / 31
    a, b = torch.from_numpy(before), torch.from_numpy(after)
    blend = torch.lerp(a, b, weight[:, None])
    np.testing.assert_allclose(crossfade(before, after), blend, rtol=0, atol=3e-7)
