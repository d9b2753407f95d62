"""Windows of demonstrations: the observation at a step, and the chunk of actions from there on.

The padding rule. Every step `t` of every episode starts one window, so that an episode of `T`
steps has `T` windows, the last ones included. Where a chunk reaches beyond its episode, the
episode's last action is repeated and `valid` is False there; a window never holds an action of
another episode. The first action of a chunk is always valid.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from outrider.core.data.demonstrations import Demonstrations
from outrider.core.types import Bool, Float, Int


class Windows(NamedTuple):
    """A batch of windows.

    Attributes:
        observation: (B, O), at the first step of the chunk.
        chunk: (B, H, A).
        valid: (B, H) bool, False for padding.
    """

    observation: Float
    chunk: Float
    valid: Bool


class WindowSampler:
    """Draws windows from demonstrations in memory.

    Beside the demonstrations it holds 16 bytes per step and the actions once more, padded.

    Attributes:
        horizon: H.
        observation_size: O.
        action_size: A.
    """

    def __init__(self, demonstrations: Demonstrations, horizon: int) -> None:
        if horizon < 1:
            raise ValueError(f"horizon is {horizon}")
        self.horizon = horizon
        self.observation_size = demonstrations.observation.shape[1]
        self.action_size = demonstrations.action.shape[1]
        self._observation = np.ascontiguousarray(demonstrations.observation, np.float32)
        self._rows, self._row_of_start = _padded(demonstrations, horizon)
        lengths = demonstrations.lengths
        left = np.repeat(demonstrations.ends, lengths) - np.arange(demonstrations.steps)
        self._left = np.minimum(left, horizon)
        self._masks = np.tri(horizon + 1, horizon, -1, dtype=np.bool_)
        self._offsets = np.arange(horizon)

    def __len__(self) -> int:
        """Number of windows: one for each step."""
        return len(self._left)

    def sample(self, rng: np.random.Generator, batch: int, out: Windows | None = None) -> Windows:
        """Draw `batch` windows uniformly and independently, that is, with replacement.

        Args:
            rng: the only source of randomness; one call draws `batch` integers from it.
            batch: B.
            out: arrays of an earlier call to fill and return; fresh ones without it.

        Returns:
            `batch` whole windows.
        """
        return self._fill(rng.integers(len(self), size=batch), out or self.empty(batch))

    def at(self, starts: Int, out: Windows | None = None) -> Windows:
        """The windows that start at these steps, (B,) indices into the flat arrays.

        Raises:
            IndexError: when there is no such step.
        """
        if len(starts) and not (starts.min() >= 0 and starts.max() < len(self)):
            raise IndexError(f"starts {starts.min()} to {starts.max()} of {len(self)} windows")
        return self._fill(starts, out or self.empty(len(starts)))

    def _fill(self, starts: Int, out: Windows) -> Windows:
        # `take` copies straight into its output only with a mode other than 'raise'.
        np.take(self._observation, starts, axis=0, out=out.observation, mode="clip")
        rows = self._row_of_start[starts][:, None] + self._offsets
        np.take(self._rows, rows, axis=0, out=out.chunk, mode="clip")
        np.take(self._masks, self._left[starts], axis=0, out=out.valid, mode="clip")
        return out

    def empty(self, batch: int) -> Windows:
        """Arrays of the right shapes for `out`."""
        return Windows(
            np.empty((batch, self.observation_size), np.float32),
            np.empty((batch, self.horizon, self.action_size), np.float32),
            np.empty((batch, self.horizon), np.bool_),
        )

    def batches(self, batch: int) -> Iterator[Windows]:
        """Every window once, in the order of the steps; the last batch may be smaller."""
        for first in range(0, len(self), batch):
            yield self.at(np.arange(first, min(first + batch, len(self))))


def _padded(demonstrations: Demonstrations, horizon: int) -> tuple[Float, Int]:
    """Actions with each episode's last one repeated H-1 times; and the row of each step."""
    lengths = demonstrations.lengths + horizon - 1
    ends = np.cumsum(lengths)
    step = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
    source = np.minimum(
        step + np.repeat(demonstrations.starts, lengths),
        np.repeat(demonstrations.ends - 1, lengths),
    )
    rows = np.ascontiguousarray(demonstrations.action[source], np.float32)
    episode = np.repeat(np.arange(len(demonstrations)), demonstrations.lengths)
    return rows, np.arange(demonstrations.steps) + episode * (horizon - 1)
