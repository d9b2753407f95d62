"""What every form of fleet checks before it does anything: shapes, seeds, order of calls."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError
from outrider.core.simulation.types import ChunkResult
from outrider.core.types import Bool, Float, TaskSpec

SEEDS = np.iinfo(np.int64).max


class Roster:
    """Who is in an episode, and whether chunks are under way.

    Args:
        spec: the task.
        size: N.
    """

    def __init__(self, spec: TaskSpec, size: int) -> None:
        self.spec, self.size = spec, size
        self._running: Bool = np.zeros(size, np.bool_)
        self._submitted = False
        self._closed = False

    def reset(self, seeds: Mapping[int, int]) -> list[tuple[int, int]]:
        """Check the seeds of a reset; returns (robot, seed) in the order of the mapping."""
        self._require_idle("reset")
        for robot, seed in seeds.items():
            self._require(0 <= robot < self.size, f"there is no robot {robot} among {self.size}")
            self._require(
                0 <= seed <= SEEDS, f"robot {robot} has the seed {seed}, not in 0..2^63-1"
            )
        self._running[list(seeds)] = True
        return [(int(robot), int(seed)) for robot, seed in seeds.items()]

    def submit(self, chunks: npt.ArrayLike, active: Bool | None) -> tuple[Float, Bool]:
        """Check a submission; returns chunks (N, E, A) and the mask (N,) of who acts."""
        self._require_idle("submit")
        chunks = np.ascontiguousarray(chunks, np.float32)
        shape, A = chunks.shape, self.spec.action.size
        self._require(
            len(shape) == 3 and shape[0] == self.size and shape[1] > 0 and shape[2] == A,
            f"chunks have shape {shape}, expected ({self.size}, E, {A})",
        )
        mask = np.ones(self.size, np.bool_) if active is None else np.asarray(active, np.bool_)
        self._require(
            mask.shape == (self.size,), f"active has shape {mask.shape}, expected ({self.size},)"
        )
        idle = np.flatnonzero(mask & ~self._running)
        self._require(
            idle.size == 0,
            f"robots {idle.tolist()} are asked to act, but their episode is over or never began",
            "Reset them first.",
        )
        self._submitted = True
        return chunks, mask

    def collect(self) -> None:
        """Check that there is something to wait for."""
        self._require(self._submitted, "collect without a submit before it")
        self._submitted = False

    def finished(self, result: ChunkResult) -> ChunkResult:
        """Note whose episode has ended."""
        self._running &= ~result.done
        return result

    def close(self) -> bool:
        """Note that the fleet is closed; returns whether it was open."""
        was_open, self._closed = not self._closed, True
        return was_open

    def _require_idle(self, what: str) -> None:
        self._require(not self._closed, f"{what} on a fleet that is closed")
        self._require(not self._submitted, f"{what} while chunks are under way", "Collect first.")

    def _require(self, holds: bool, what: str, fix: str = "") -> None:
        if not holds:
            raise OutriderError(what, where=f"fleet of {self.spec.task}", fix=fix)
