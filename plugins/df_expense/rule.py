"""The rule of DF-ExpEnse as pure functions of arrays (arXiv 2606.19656, equations 2 and 6 to 12).

Subtracting the fleet's averages cannot change what a robot picks among its own candidates. What
fleet normalisation does is to set the exchange rate between value and disagreement from data:
the rule is arg-max over m of v + alpha_eff * d with alpha_eff = alpha * std(v) / std(d).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from outrider.core.types import Float, Int

Double = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and sum of squared deviations: what a fleet has to exchange, and no more."""

    count: int
    mean: float
    squares: float

    @staticmethod
    def of(values: Double) -> "Moments":
        """The moments of an array."""
        mean = float(values.mean())
        return Moments(values.size, mean, float(np.square(values - mean).sum()))

    def merge(self, other: "Moments") -> "Moments":
        """The moments of both sets together (Chan, Golub and LeVeque)."""
        count = self.count + other.count
        delta = other.mean - self.mean
        return Moments(
            count,
            self.mean + delta * other.count / count,
            self.squares + other.squares + delta**2 * self.count * other.count / count,
        )

    @property
    def std(self) -> float:
        """Population standard deviation, floored so that constant scores do not divide by zero."""
        floor = 1e-6 * (1.0 + abs(self.mean))
        return max(float(np.sqrt(self.squares / self.count)), floor)


@dataclass(frozen=True, slots=True)
class Scores:
    """Value and disagreement of every candidate, each (N, M)."""

    value: Double
    disagreement: Double


def score(heads: Float, value: Literal["min", "mean"]) -> Scores:
    """Critic heads (K, N, M) -> value (min or mean over heads) and standard deviation (eq. 2)."""
    wide = heads.astype(np.float64)
    reduced = wide.min(axis=0) if value == "min" else wide.mean(axis=0)
    return Scores(reduced, wide.std(axis=0))


def exchange_rate(scores: Scores, alpha: float, fleet_normalization: bool) -> float:
    """alpha_eff, what one unit of disagreement is worth in units of value (eqs. 6 to 11)."""
    if alpha == 0.0 or not fleet_normalization:
        return alpha
    return alpha * Moments.of(scores.value).std / Moments.of(scores.disagreement).std


def combine(scores: Scores, rate: float) -> Double:
    """The score by which candidates compete, (N, M)."""
    return scores.value + rate * scores.disagreement


def best(combined: Double, rng: np.random.Generator) -> Int:
    """The best candidate of each robot, (N,); ties are broken at random.

    A fixed order would always favour the same source among equals and so bias the share of
    prior candidates.
    """
    lottery = rng.random(combined.shape)
    tied = combined == combined.max(axis=1, keepdims=True)
    index: Int = np.where(tied, lottery, -1.0).argmax(axis=1)
    return index


def draw(combined: Double, temperature: float, rng: np.random.Generator) -> Int:
    """One candidate per robot in proportion to exp(score / temperature), by the Gumbel trick."""
    gumbel = -np.log(-np.log(rng.uniform(np.finfo(float).tiny, 1.0, combined.shape)))
    index: Int = (combined / temperature + gumbel).argmax(axis=1)
    return index


def pessimism(heads: Float) -> float:
    """Mean distance of the lowest head from the mean head, in standard deviations.

    The rule is optimistic only where alpha_eff exceeds it: the minimum of K heads already lies
    that far below their mean (about 1.0 for two heads, 1.7 for ten).
    """
    wide = heads.astype(np.float64)
    spread = wide.std(axis=0)
    gap = wide.mean(axis=0) - wide.min(axis=0)
    return float(np.mean(gap / np.maximum(spread, 1e-12)))


def head_correlation(heads: Float) -> float:
    """Mean correlation between pairs of heads; close to one, disagreement is mere noise."""
    flat = heads.reshape(len(heads), -1).astype(np.float64)
    centred = flat - flat.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1)
    if len(flat) < 2 or not (norms > 0).all():
        return 1.0
    correlation = (centred @ centred.T) / np.outer(norms, norms)
    return float(correlation[np.triu_indices(len(flat), 1)].mean())
