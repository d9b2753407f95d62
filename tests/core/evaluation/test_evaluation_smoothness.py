import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.evaluation.smoothness import (
    RATIO_CAP,
    action_acceleration,
    action_rate,
    chunk_boundary_jump,
    default_cutoff,
    high_frequency_ratio,
    reversal_rate,
    rms_jerk,
    smoothness,
)

RATE = 20.0


def column(values):
    return np.asarray(values, np.float32)[:, None]


def tone(hz, T=200, amplitude=1.0, rate=RATE):
    return column(amplitude * np.sin(2 * np.pi * hz * np.arange(T) / rate + 0.3))


def alternating(T):
    return column((-1.0) ** np.arange(T))


def test_constant_command_is_perfectly_smooth():
    found = smoothness(np.full((50, 3), 0.7, np.float32), RATE, np.arange(50) % 4 == 0).to_json()
    assert found.pop("chunk_jump_ratio") == 1.0
    assert set(found.values()) == {0.0}


def test_ramp_has_a_rate_and_nothing_else():
    ramp = column(np.arange(64) * 0.25)  # exact in float32: 0.25 per step, 5 per second
    assert action_rate(ramp, RATE) == pytest.approx(5.0)
    assert action_acceleration(ramp, RATE) == rms_jerk(ramp, RATE) == reversal_rate(ramp, RATE) == 0
    assert high_frequency_ratio(ramp, RATE)[0] < 0.02  # the window keeps the trend's leakage low


def test_quadratic_and_cubic_have_constant_differences():
    t = np.arange(12.0)
    assert action_acceleration(column(t**2), RATE) == pytest.approx(2 * RATE**2)
    assert rms_jerk(column(t**2), RATE) == 0
    assert rms_jerk(column(t**3), RATE) == pytest.approx(6 * RATE**3)


def test_alternating_command():
    x = alternating(40)
    assert action_rate(x, RATE) == pytest.approx(2 * RATE)
    assert action_acceleration(x, RATE) == pytest.approx(4 * RATE**2)
    assert rms_jerk(x, RATE) == pytest.approx(8 * RATE**3)
    assert reversal_rate(x, RATE) == pytest.approx(RATE)
    assert high_frequency_ratio(x, RATE) == pytest.approx(1.0)  # all of it in the Nyquist bin


def test_single_step():
    x = column([0] * 10 + [1] * 10)
    assert action_rate(x, RATE) == pytest.approx(RATE / 19)
    assert action_acceleration(x, RATE) == pytest.approx(2 * RATE**2 / 18)
    assert rms_jerk(x, RATE) == pytest.approx(math.sqrt(6 / 17) * RATE**3)
    assert reversal_rate(x, RATE) == 0


def test_tone():
    hz, T = 1.0, 200  # bin 10 exactly
    x = tone(hz, T)
    # The n-th difference of a sampled tone has amplitude (2 sin(w/2))^n.
    w = 2 * np.pi * hz / RATE
    assert rms_jerk(x, RATE) == pytest.approx(
        (2 * math.sin(w / 2)) ** 3 / math.sqrt(2) * RATE**3, rel=0.02
    )
    assert action_rate(x, RATE) == pytest.approx(2 * math.sin(w / 2) * 2 / np.pi * RATE, rel=0.02)
    assert reversal_rate(x, RATE) == pytest.approx(2 * hz, rel=0.06)


@pytest.mark.parametrize("T", [199, 200])
def test_power_ratio_splits_at_the_cutoff(T):
    assert default_cutoff(RATE) == 2.5
    assert high_frequency_ratio(tone(1.0, T), RATE)[0] < 1e-3
    assert high_frequency_ratio(tone(6.0, T), RATE)[0] > 1 - 1e-3
    assert high_frequency_ratio(tone(6.0, T), RATE, cutoff_hz=8.0)[0] < 1e-3


def test_power_ratio_weighs_amplitudes_squared_and_ignores_the_mean():
    mixed = tone(1.0, amplitude=3.0) + tone(5.0, amplitude=1.0) + 100
    assert high_frequency_ratio(mixed, RATE) == pytest.approx(1 / 10, rel=1e-3)


@pytest.mark.parametrize("T", [50, 200, 1000])
def test_power_ratio_of_white_noise_does_not_grow_with_length(T):
    noise = np.random.default_rng(0).normal(size=(T, 400)).astype(np.float32)
    assert high_frequency_ratio(noise, RATE).mean() == pytest.approx(0.75, abs=0.03)


@given(st.floats(1e-3, 1e3), st.integers(4, 60))
@settings(max_examples=30, deadline=None)
def test_scale_laws(scale, T):
    x = np.random.default_rng(T).normal(size=(T, 2)).astype(np.float32)
    y = (x * np.float32(scale)).astype(np.float32)
    starts = np.arange(T) % 3 == 0
    a, b = smoothness(x, RATE, starts), smoothness(y, RATE, starts)
    for name in ("action_rate", "action_acceleration", "rms_jerk", "chunk_jump"):
        assert getattr(b, name) == pytest.approx(scale * getattr(a, name), rel=1e-4)
    for name in ("high_frequency_ratio", "reversal_rate", "chunk_jump_ratio"):
        assert getattr(b, name) == pytest.approx(getattr(a, name), rel=1e-4)


@pytest.mark.parametrize("T", [1, 2, 3])
def test_short_episodes_are_defined(T):
    found = smoothness(alternating(T), RATE, np.arange(T) == 0).to_json()
    assert all(np.isfinite(v) for v in found.values())
    assert found["rms_jerk"] == found["high_frequency_ratio"] == 0
    assert found["action_rate"] == (0 if T == 1 else pytest.approx(2 * RATE))
    assert found["chunk_jump"] == 0


def test_empty_episode_is_refused():
    with pytest.raises(ValueError, match="T >= 1"):
        smoothness(np.zeros((0, 2), np.float32), RATE)


def test_reversals_ignore_pauses_and_rounding():
    x = column([0, 1, 2, 2, 2, 3, 2, 2, 1])  # one reversal among seven chances
    assert reversal_rate(x, RATE) == pytest.approx(RATE / 7)
    jitter = column(np.float32(1) + 1e-7 * (-1.0) ** np.arange(50))
    assert reversal_rate(jitter, RATE) == 0
    assert high_frequency_ratio(jitter, RATE) == 0


def test_chunk_jump():
    # Chunks of 3: steps of 1 inside, a step of (3, 4) at each boundary.
    steps = np.array([[1, 0], [1, 0], [3, 4], [1, 0], [1, 0], [3, 4]], np.float32)
    x = np.concatenate([np.zeros((1, 2), np.float32), steps.cumsum(axis=0)])
    assert chunk_boundary_jump(x, np.arange(7) % 3 == 0) == pytest.approx((5.0, 5.0))
    assert chunk_boundary_jump(x, None) == (0.0, 1.0)


def test_chunk_jump_ratio_is_always_finite():
    x = column([0, 0, 1, 1, 2, 2])
    held = np.array([1, 0, 1, 0, 1, 0], bool)
    assert chunk_boundary_jump(x, held) == (1.0, RATIO_CAP)
    assert chunk_boundary_jump(x, ~held) == (0.0, 0.0)  # moves inside, never at a boundary
    assert chunk_boundary_jump(x, np.ones(6, bool)) == (pytest.approx(0.4), 1.0)
