"""The episodes of one evaluated policy, what they amount to, and how two policies compare."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core import seeds
from outrider.core.errors import OutriderError
from outrider.core.evaluation.noise import EpisodeNoise
from outrider.core.evaluation.smoothness import smoothness
from outrider.core.evaluation.statistics import (
    Interval,
    PairedSuccess,
    bootstrap_mean,
    paired_difference,
    paired_success,
    wilson,
)
from outrider.core.types import Bool, Episode, Float, Int, TaskSpec

CHUNK_START = "chunk_start"
"""Key of `Episode.extra`: (T,) bool, where the first command of a chunk was executed."""


@dataclass(frozen=True, slots=True)
class EpisodeTable:
    """n episodes of one policy, in the order of the seeds that were asked for.

    Attributes:
        task: specs of the task.
        execute: E, steps of a chunk that are executed.
        noise: where the noise of each decision came from.
        episodes: the n episodes, each with `chunk_start` in its `extra`.
    """

    task: TaskSpec
    execute: int
    noise: EpisodeNoise
    episodes: tuple[Episode, ...]

    @property
    def seeds(self) -> Int:
        """(n,) reset seeds."""
        return np.array([e.seed for e in self.episodes], np.int64)

    @property
    def success(self) -> Bool:
        """(n,) whether any step reported success."""
        return np.array([e.succeeded for e in self.episodes], bool)

    @property
    def returns(self) -> npt.NDArray[np.float64]:
        """(n,) undiscounted sums of the task's own reward."""
        return np.array([e.reward.sum(dtype=np.float64) for e in self.episodes])

    @property
    def lengths(self) -> Int:
        """(n,) control steps."""
        return np.array([len(e) for e in self.episodes], np.int64)

    def smoothness(self) -> dict[str, npt.NDArray[np.float64]]:
        """Measure -> (n,), see `core/evaluation/smoothness.py`."""
        rows = [
            smoothness(e.action, self.task.rate_hz, e.extra[CHUNK_START]).to_json()
            for e in self.episodes
        ]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def summary(self) -> dict[str, Any]:
        """What `results.json` says of a policy: intervals, and means of the smoothness measures."""
        rng = seeds.generator(self.noise.seed, "summary")
        return {
            "success": wilson(int(self.success.sum()), len(self.episodes)).to_json(),
            "return": bootstrap_mean(self.returns, rng).to_json(),
            "length": bootstrap_mean(self.lengths, rng).to_json(),
            "smoothness": {name: float(v.mean()) for name, v in self.smoothness().items()},
        }

    def decisions(self, limit: int) -> tuple[Float, Float]:
        """Up to `limit` decisions spread evenly over all: observations (P, O), noise (P, H, A).

        These are the recorded observations that a bundle's parity is checked on.
        """
        where = [np.flatnonzero(e.extra[CHUNK_START]) for e in self.episodes]
        observations = [e.observation[at] for e, at in zip(self.episodes, where, strict=True)]
        noise = [self.noise.replayed(i, len(at)) for i, at in enumerate(where)]
        total = sum(map(len, where))
        chosen = np.unique(np.linspace(0, total - 1, min(limit, total)).round().astype(np.int64))
        return np.concatenate(observations)[chosen], np.concatenate(noise)[chosen]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate against a baseline on common seeds; every difference is candidate - baseline."""

    success: PairedSuccess
    returns: Interval
    length: Interval
    smoothness: dict[str, Interval]

    def to_json(self) -> dict[str, Any]:
        """A JSON value; keys as in `EpisodeTable.summary`."""
        return {
            "success": self.success.to_json(),
            "return": self.returns.to_json(),
            "length": self.length.to_json(),
            "smoothness": {name: x.to_json() for name, x in self.smoothness.items()},
        }


def compare(
    baseline: EpisodeTable, candidate: EpisodeTable, rng: np.random.Generator
) -> Comparison:
    """Pair the episodes of two policies by seed.

    Raises:
        OutriderError: when the two did not meet the same seeds in the same order.
    """
    if not np.array_equal(baseline.seeds, candidate.seeds):
        raise OutriderError(
            "the two policies were evaluated on different seeds",
            where="paired comparison",
            fix="Evaluate both with the same evaluate.seed and evaluate.episodes.",
        )
    before, after = baseline.smoothness(), candidate.smoothness()
    return Comparison(
        success=paired_success(baseline.success, candidate.success, rng),
        returns=paired_difference(baseline.returns, candidate.returns, rng),
        length=paired_difference(baseline.lengths, candidate.lengths, rng),
        smoothness={name: paired_difference(before[name], after[name], rng) for name in before},
    )
