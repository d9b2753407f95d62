"""The noise of evaluation: one stream per episode, whichever robot runs it."""

from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np

from outrider.core import seeds
from outrider.core.types import Float

NoiseKind = Literal["sample", "zero"]


@dataclass(frozen=True, slots=True)
class EpisodeNoise:
    """Decoder noise (H, A) for every decision of every episode, a function of its place alone.

    Attributes:
        kind: `sample` is standard normal, `zero` is the mean.
        seed: of all episodes together.
        horizon: H.
        action_size: A.
    """

    kind: NoiseKind
    seed: int
    horizon: int
    action_size: int

    def stream(self, index: int) -> "NoiseStream":
        """The noise of episode `index`, decision after decision."""
        return NoiseStream(self, seeds.generator(self.seed, "noise", index))

    def replayed(self, index: int, decisions: int) -> Float:
        """(decisions, H, A): what the first decisions of episode `index` drew."""
        return self.stream(index).draw(decisions)


@dataclass(frozen=True, slots=True)
class NoiseStream:
    """The noise of one episode, from where its generator stands."""

    source: EpisodeNoise
    rng: np.random.Generator

    def draw(self, decisions: int) -> Float:
        """The next (decisions, H, A)."""
        shape = (decisions, self.source.horizon, self.source.action_size)
        match self.source.kind:
            case "sample":
                return self.rng.standard_normal(shape, dtype=np.float32)
            case "zero":
                return np.zeros(shape, np.float32)
            case never:
                assert_never(never)
