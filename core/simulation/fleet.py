"""A fleet whose robots live in this process."""

from collections.abc import Mapping, Sequence

import numpy as np

from outrider.core.errors import OutriderError
from outrider.core.simulation.roster import Roster
from outrider.core.simulation.slot import Rows, Slot, result_of, row_type
from outrider.core.simulation.types import ChunkResult, Simulator
from outrider.core.types import Bool, Float, TaskSpec


class SerialFleet:
    """N simulated robots, stepped one after another. Implements `Fleet`.

    A chunk runs when it is submitted, so an error of a simulator is raised by `submit`. After an
    error that names a robot and a step, the fleet can only be closed.

    Args:
        simulators: one per robot; closed with the fleet.
        spec: the task, with the episode limit that holds in this fleet.
    """

    def __init__(self, simulators: Sequence[Simulator], spec: TaskSpec) -> None:
        if not simulators:
            raise OutriderError("a fleet needs at least one robot", where=spec.task)
        self.spec = spec
        self.size = len(simulators)
        self._slots = [Slot(s, spec, robot) for robot, s in enumerate(simulators)]
        self._roster = Roster(spec, self.size)
        self._rows: Rows = np.zeros(self.size, row_type(spec, 1))

    def reset(self, seeds: Mapping[int, int]) -> Float:
        """Reset the robots named by the keys; returns their observations (len(seeds), O)."""
        orders = self._roster.reset(seeds)
        observations = np.zeros((len(orders), self.spec.observation.size), np.float32)
        for observation, (robot, seed) in zip(observations, orders, strict=True):
            observation[:] = self._slots[robot].reset(seed)
        return observations

    def submit(self, chunks: Float, active: Bool | None = None) -> None:
        """Execute one chunk (E, A) on each active robot, (N, E, A) in all."""
        chunks, active = self._roster.submit(chunks, active)
        self._rows = execute(self._slots, chunks, active)

    def collect(self) -> ChunkResult:
        """The result of the last `submit`."""
        self._roster.collect()
        return self._roster.finished(result_of(self._rows))

    def step(self, chunks: Float, active: Bool | None = None) -> ChunkResult:
        """`submit` and `collect` in one."""
        self.submit(chunks, active)
        return self.collect()

    def close(self) -> None:
        """Free the simulators."""
        if self._roster.close():
            for slot in self._slots:
                slot.close()


def execute(slots: Sequence[Slot], chunks: Float, active: Bool) -> Rows:
    """Execute chunks (n, E, A) on n slots, one after another; inactive ones do nothing."""
    rows = np.zeros(len(slots), row_type(slots[0].spec, chunks.shape[1]))
    for slot, chunk, acts, row in zip(slots, chunks, active, rows, strict=True):
        slot.execute(chunk if acts else None, row)
    return rows
