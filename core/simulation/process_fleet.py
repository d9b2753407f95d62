"""A fleet whose robots live in worker processes: one message per worker and chunk."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from outrider.core.errors import OutriderError
from outrider.core.simulation import workers as processes
from outrider.core.simulation.fleet import execute
from outrider.core.simulation.roster import Roster
from outrider.core.simulation.slot import Slot, result_of, row_type
from outrider.core.simulation.types import ChunkResult, Simulator
from outrider.core.simulation.workers import Worker
from outrider.core.task_json import task_from_json, task_to_json
from outrider.core.types import Bool, Float, TaskSpec

RESET, EXECUTE = 1, 2
RESET_ROW = np.dtype([("robot", np.int64), ("seed", np.int64)])


@dataclass(frozen=True, slots=True)
class RobotsMaker:
    """Makes the robots of one worker. Picklable where `factory` is.

    Attributes:
        factory: makes one simulator.
        first: number of the worker's first robot in the fleet.
        count: how many robots.
        max_steps: episode limit; None takes the task's own.
    """

    factory: Callable[[], Simulator]
    first: int
    count: int
    max_steps: int | None

    def __call__(self) -> "Robots":
        """Make them, in the worker process."""
        simulators = [self.factory() for _ in range(self.count)]
        spec = limited(simulators[0].spec, self.max_steps)
        return Robots([Slot(s, spec, self.first + i) for i, s in enumerate(simulators)], spec)


def limited(spec: TaskSpec, max_steps: int | None) -> TaskSpec:
    """The task with another episode limit; None leaves it as it is."""
    return spec if max_steps is None else replace(spec, max_steps=max_steps)


class Robots:
    """The robots of one worker, as a service. Robots are numbered from 0 in each worker."""

    def __init__(self, slots: list[Slot], spec: TaskSpec) -> None:
        self._slots, self._spec = slots, spec

    def greeting(self) -> bytes:
        """The task as JSON."""
        return json.dumps(task_to_json(self._spec)).encode()

    def answer(self, kind: int, payload: memoryview) -> bytes:
        """Reset robots -> their observations; or execute chunks -> their records."""
        if kind == RESET:
            orders = np.frombuffer(bytes(payload), RESET_ROW)
            found = [self._slots[o["robot"]].reset(int(o["seed"])) for o in orders]
            return b"".join(observation.tobytes() for observation in found)
        n = len(self._slots)
        active = np.frombuffer(payload[:n], np.bool_)
        flat = np.frombuffer(bytes(payload[n:]), np.float32)
        chunks = flat.reshape(n, -1, self._spec.action.size)
        return execute(self._slots, chunks, active).tobytes()

    def close(self) -> None:
        """Free the simulators."""
        for slot in self._slots:
            slot.close()


class ProcessFleet:
    """N simulated robots spread over worker processes. Implements `Fleet`.

    `submit` returns at once, so that a learner can work while the robots move. Results equal
    those of `SerialFleet` bit for bit. After an error of a simulator or a worker the fleet is
    closed.

    Args:
        factory: makes one simulator; picklable, called in the workers.
        size: N.
        workers: processes, at most N of which are started, all at the same time.
        max_steps: episode limit; None takes the task's own.

    Raises:
        OutriderError: when a worker does not start.
    """

    def __init__(
        self,
        factory: Callable[[], Simulator],
        size: int,
        workers: int,
        max_steps: int | None = None,
    ) -> None:
        if size < 1 or workers < 1:
            raise OutriderError(f"no fleet of {size} robots in {workers} workers", where="fleet")
        count = min(workers, size)
        bounds = [size * w // count for w in range(count + 1)]
        self._shares = list(pairwise(bounds))
        self._workers, greetings = processes.start(
            [
                (RobotsMaker(factory, a, b - a, max_steps), f"worker {w} (robots {a}-{b - 1})")
                for w, (a, b) in enumerate(self._shares)
            ]
        )
        self.spec = task_from_json(json.loads(greetings[0]))
        self.size = size
        self._roster = Roster(self.spec, size)
        self._record = row_type(self.spec, 1)

    def reset(self, seeds: Mapping[int, int]) -> Float:
        """Reset the robots named by the keys; returns their observations (len(seeds), O)."""
        orders = np.array(self._roster.reset(seeds), RESET_ROW)
        asked = []
        for worker, (a, b) in zip(self._workers, self._shares, strict=True):
            places = np.flatnonzero((orders["robot"] >= a) & (orders["robot"] < b))
            if places.size:
                share = orders[places]
                share["robot"] -= a
                self._send(worker, RESET, share.tobytes())
                asked.append((worker, places))
        observations = np.zeros((len(orders), self.spec.observation.size), np.float32)
        for worker, places in asked:
            answer = np.frombuffer(self._receive(worker), np.float32)
            observations[places] = answer.reshape(len(places), -1)
        return observations

    def submit(self, chunks: Float, active: Bool | None = None) -> None:
        """Send one chunk (E, A) to each active robot, (N, E, A) in all, and return."""
        chunks, active = self._roster.submit(chunks, active)
        self._record = row_type(self.spec, chunks.shape[1])
        for worker, (a, b) in zip(self._workers, self._shares, strict=True):
            self._send(worker, EXECUTE, active[a:b].tobytes() + chunks[a:b].tobytes())

    def collect(self) -> ChunkResult:
        """Wait for the chunks of the last `submit` to end.

        Raises:
            OutriderError: of the simulator that failed or the worker that died.
        """
        self._roster.collect()
        shares = [np.frombuffer(self._receive(w), self._record) for w in self._workers]
        return self._roster.finished(result_of(np.concatenate(shares)))

    def step(self, chunks: Float, active: Bool | None = None) -> ChunkResult:
        """`submit` and `collect` in one."""
        self.submit(chunks, active)
        return self.collect()

    def close(self) -> None:
        """End and reap the processes."""
        if self._roster.close():
            processes.close(self._workers)

    def _send(self, worker: Worker, kind: int, payload: bytes) -> None:
        try:
            worker.send(kind, payload)
        except OutriderError:
            self.close()
            raise

    def _receive(self, worker: Worker) -> memoryview:
        try:
            return worker.receive()
        except OutriderError:
            self.close()
            raise
