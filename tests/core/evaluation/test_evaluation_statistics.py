import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core.evaluation.statistics import (
    bootstrap_mean,
    mcnemar,
    paired_difference,
    paired_success,
    wilson,
)


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (8, 10, 0.49016, 0.94332),  # Brown, Cai and DasGupta's formula, by hand
        (0, 10, 0.0, 0.27753),
        (10, 10, 0.72247, 1.0),
        (25, 50, 0.36645, 0.63355),
        (1, 1, 0.20655, 1.0),
    ],
)
def test_wilson_known_values(successes, n, low, high):
    interval = wilson(successes, n)
    assert interval.value == successes / n
    assert interval.n == n
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-5)


def test_wilson_ends_solve_the_score_equation():
    # The interval is where |p_hat - p| = z sqrt(p (1 - p) / n).
    interval, z = wilson(13, 40), 1.959963985
    for p in (interval.low, interval.high):
        assert abs(13 / 40 - p) == pytest.approx(z * math.sqrt(p * (1 - p) / 40), rel=1e-6)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_its_value_and_mirrors(pair):
    k, n = pair
    interval, mirror = wilson(k, n), wilson(n - k, n)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirror.high, abs=1e-12)


@pytest.mark.parametrize(("k", "n"), [(0, 0), (-1, 4), (5, 4)])
def test_wilson_refuses_what_is_no_share(k, n):
    with pytest.raises(ValueError, match="no share"):
        wilson(k, n)


def test_bootstrap_approaches_the_normal_interval():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    interval = bootstrap_mean(values, rng())
    half = 1.96 * values.std() / math.sqrt(400)
    assert interval.value == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_bootstrap_is_seeded_and_blocks_do_not_matter(monkeypatch):
    values = np.arange(7.0)
    whole = bootstrap_mean(values, rng(), resamples=1000)
    assert whole == bootstrap_mean(values, rng(), resamples=1000)
    monkeypatch.setattr("outrider.core.evaluation.statistics._BLOCK", 100)
    assert whole == bootstrap_mean(values, rng(), resamples=1000)


def test_bootstrap_of_one_episode_has_no_width():
    interval = bootstrap_mean([4.0], rng())
    assert (interval.value, interval.low, interval.high, interval.n) == (4.0, 4.0, 4.0, 1)


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [[1.0], [2.0]]])
def test_bootstrap_refuses(values):
    with pytest.raises(ValueError):
        bootstrap_mean(values, rng())


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_binomial_sign_test(gained, lost):
    n = gained + lost
    weights = [math.comb(n, k) / 2**n for k in range(n + 1)]
    oracle = sum(w for w in weights if w <= weights[gained] * (1 + 1e-9))
    assert mcnemar(gained, lost) == pytest.approx(oracle, rel=1e-9)


def test_mcnemar_known_values():
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 0) == 2 / 32
    assert mcnemar(1, 9) == 2 * (1 + 10) / 1024
    assert 0 < mcnemar(1000, 0) < 1e-290


def test_pairing_cancels_what_the_seeds_share():
    seeds = np.random.default_rng(2).normal(0, 100, 50)
    interval = paired_difference(seeds, seeds + 1.0, rng())
    assert (interval.low, interval.high) == pytest.approx((1.0, 1.0))
    assert bootstrap_mean(seeds, rng()).high - bootstrap_mean(seeds, rng()).low > 30


def test_paired_success_counts_discordant_episodes():
    before = np.array([0, 0, 0, 0, 1, 1, 0, 1], bool)
    after = np.array([1, 1, 1, 1, 1, 0, 0, 1], bool)
    paired = paired_success(before, after, rng())
    assert (paired.gained, paired.lost) == (4, 1)
    assert paired.difference.value == pytest.approx(3 / 8)
    assert paired.p_value == pytest.approx(2 * (1 + 5) / 32)


def test_pairs_must_match():
    with pytest.raises(ValueError, match="not pairs"):
        paired_difference([1.0, 2.0], [1.0], rng())
