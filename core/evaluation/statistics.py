"""Intervals and paired comparisons of two policies on common seeds.

Success is a share of n episodes, so it carries a Wilson score interval. Returns, lengths and
smoothness carry percentile bootstrap intervals of the mean. Two policies that met the same seeds
are compared episode by episode: the spread of the seeds cancels, which two separate intervals
cannot show.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
RESAMPLES = 10_000
_BLOCK = 1 << 20  # resampled indices held at a time


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, its confidence interval, and how many episodes stand behind it."""

    value: float
    low: float
    high: float
    n: int

    def to_json(self) -> dict[str, Any]:
        """`{value, low, high, n}`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PairedSuccess:
    """Success of a candidate against a baseline on common seeds.

    Attributes:
        difference: candidate minus baseline, with its paired bootstrap interval.
        gained: episodes in which the candidate alone succeeded.
        lost: episodes in which the baseline alone succeeded.
        p_value: two-sided exact McNemar (sign) test of `gained` against `lost`.
    """

    difference: Interval
    gained: int
    lost: int
    p_value: float

    def to_json(self) -> dict[str, Any]:
        """`{difference: {value, low, high, n}, gained, lost, p_value}`."""
        return asdict(self)


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson score interval of a share; sound at 0 and n successes and for small n.

    Raises:
        ValueError: unless 0 <= successes <= n and n >= 1.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} episodes is no share")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else centre - half  # exact at the ends, where rounding would show
    high = 1.0 if successes == n else centre + half
    return Interval(share, low, high, n)


def bootstrap_mean(
    values: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Interval:
    """Percentile bootstrap interval of the mean of `values` (n,).

    It is too narrow for a handful of episodes, and it has no width at all where every value is
    the same: n tells the reader how far to trust it.

    Raises:
        ValueError: when there is no value, or one is not finite.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError(f"the mean of an array of shape {sample.shape} has no interval")
    if not np.isfinite(sample).all():
        raise ValueError("cannot resample values that are not finite")
    means = np.concatenate(list(_resampled_means(sample, rng, resamples)))
    tail = 50 * (1 - confidence)
    low, high = np.percentile(means, (tail, 100 - tail))
    return Interval(float(sample.mean()), float(low), float(high), sample.size)


def _resampled_means(
    sample: npt.NDArray[np.float64], rng: np.random.Generator, resamples: int
) -> Iterator[npt.NDArray[np.float64]]:
    rows = max(1, _BLOCK // sample.size)
    for start in range(0, resamples, rows):
        shape = (min(rows, resamples - start), sample.size)
        yield sample[rng.integers(0, sample.size, shape)].mean(axis=1)


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p-value that `gained` of the discordant pairs arose from fair coins.

    1 where no pair is discordant: such data say nothing.
    """
    n, fewer = gained + lost, min(gained, lost)
    tail = sum(math.comb(n, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / (1 << n))


def paired_difference(
    baseline: npt.ArrayLike, candidate: npt.ArrayLike, rng: np.random.Generator
) -> Interval:
    """Mean of `candidate - baseline` over common seeds, both (n,), with a bootstrap interval."""
    before = np.asarray(baseline, dtype=np.float64)
    after = np.asarray(candidate, dtype=np.float64)
    if before.shape != after.shape:
        raise ValueError(f"{before.shape} and {after.shape} episodes are not pairs")
    return bootstrap_mean(after - before, rng)


def paired_success(
    baseline: npt.ArrayLike, candidate: npt.ArrayLike, rng: np.random.Generator
) -> PairedSuccess:
    """Compare success flags (n,) episode by episode."""
    before, after = np.asarray(baseline, dtype=bool), np.asarray(candidate, dtype=bool)
    difference = paired_difference(before, after, rng)
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    return PairedSuccess(difference, gained, lost, mcnemar(gained, lost))
