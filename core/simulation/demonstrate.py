"""Demonstrations by a scripted expert, collected in this process or in several."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save

from outrider.core import seeds
from outrider.core.errors import OutriderError
from outrider.core.recipe import Keep
from outrider.core.simulation import workers as processes
from outrider.core.simulation.process_fleet import limited
from outrider.core.simulation.rollout import roll_episode
from outrider.core.simulation.types import Expert, Simulator
from outrider.core.simulation.workers import Worker
from outrider.core.task_json import task_from_json, task_to_json
from outrider.core.types import Episode, TaskSpec

ATTEMPT = 1
_ARRAYS = ("observation", "action", "reward", "success", "final_observation")
_EXTRA = "extra."
_OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """What a collection came to.

    Attributes:
        episodes: those that were kept, in the order of their seeds.
        attempts: episodes tried, up to the last one that was kept.
        spec: the task, with the episode limit that held.
    """

    episodes: tuple[Episode, ...]
    attempts: int
    spec: TaskSpec

    @property
    def successes(self) -> int:
        """How many attempts succeeded."""
        return sum(episode.succeeded for episode in self.episodes)


class Demonstrator:
    """One simulator with its expert.

    Args:
        simulator: the robot; closed with the demonstrator.
        expert: drives it.
        seed: of the collection. Attempt i is reset with `seed + i`, and the expert draws from a
            generator of its own, so an attempt does not depend on the ones before it.
        max_steps: episode limit; None takes the task's own.
    """

    def __init__(
        self, simulator: Simulator, expert: Expert, seed: int, max_steps: int | None = None
    ) -> None:
        self.simulator, self.expert, self.seed = simulator, expert, seed
        self.spec = limited(simulator.spec, max_steps)

    def attempts(self, limit: int) -> Iterator[Episode]:
        """Attempts 0 to `limit`, one after another."""
        return map(self.attempt, range(limit))

    def attempt(self, index: int) -> Episode:
        """Play attempt `index`."""
        self.expert.begin(seeds.generator(self.seed, "expert", index))
        return roll_episode(self.simulator, self.spec, self.expert.act, self.seed + index)

    def close(self) -> None:
        """Free the simulator."""
        self.simulator.close()


@dataclass(frozen=True, slots=True)
class DemonstratorMaker:
    """Makes a demonstrator; picklable where the factories are. Attributes as there."""

    simulator: Callable[[], Simulator]
    expert: Callable[[], Expert]
    seed: int
    max_steps: int | None

    def __call__(self) -> Demonstrator:
        """Make it."""
        return Demonstrator(self.simulator(), self.expert(), self.seed, self.max_steps)


def collect_demonstrations(
    factory: Callable[[], Simulator],
    expert: Callable[[], Expert],
    *,
    episodes: int,
    max_attempts: int,
    seed: int = 0,
    workers: int = 0,
    max_steps: int | None = None,
    keep: Keep = "successes",
    progress: Callable[[int, int], None] | None = None,
) -> Demonstrations:
    """Let the expert try until `episodes` attempts are kept: by default those that succeed.

    The result depends on the seed alone, not on the number of workers.

    Args:
        factory: makes a simulator; picklable where there are workers.
        expert: makes an expert; likewise.
        episodes: wanted.
        max_attempts: give up after this many attempts.
        seed: first reset seed.
        workers: processes that collect; with 0 or 1 this process does.
        max_steps: episode limit; None takes the task's own.
        keep: `successes`, or `all`: every attempt, whatever came of it.
        progress: told (kept, attempts) after each attempt, in the order of their seeds.

    Raises:
        OutriderError: when too few attempts are kept; it gives the expert's success rate.
    """
    maker = DemonstratorMaker(factory, expert, seed, max_steps)
    crew = _Crew(maker, workers) if workers > 1 else maker()
    kept: list[Episode] = []
    attempts = 0
    try:
        for attempts, episode in enumerate(crew.attempts(max_attempts), start=1):
            if keep == "all" or episode.succeeded:
                kept.append(episode)
            if progress is not None:
                progress(len(kept), attempts)
            if len(kept) == episodes:
                break
    finally:
        crew.close()
    if len(kept) < episodes:
        raise _too_few(len(kept), attempts, episodes, keep, crew.spec.task)
    return Demonstrations(tuple(kept), attempts, crew.spec)


def _too_few(kept: int, attempts: int, wanted: int, keep: Keep, task: str) -> OutriderError:
    what = f"the expert succeeded in {kept} of {attempts} attempts, {wanted} are wanted"
    fix = "Raise demos.max_attempts, ask for fewer episodes, or make the expert better."
    if keep == "all":
        what = f"{attempts} attempts are allowed, {wanted} episodes are wanted"
        fix = "Raise demos.max_attempts, or ask for fewer episodes."
    elif kept == 0:
        fix += " For a task without a notion of success, set demos.keep: all."
    return OutriderError(what, where=f"demonstrations of {task}", fix=fix)


class _Crew:
    """Demonstrators in worker processes."""

    def __init__(self, maker: DemonstratorMaker, workers: int) -> None:
        self._workers, greetings = processes.start(
            [(_ServiceMaker(maker), f"worker {w} (demonstrations)") for w in range(workers)]
        )
        self.spec = task_from_json(json.loads(greetings[0]))

    def attempts(self, limit: int) -> Iterator[Episode]:
        """Attempts 0 to `limit` in order, whichever worker plays them."""
        pending = iter(range(limit))
        under_way: dict[Worker, int] = {}
        played: dict[int, Episode] = {}

        def assign(worker: Worker) -> None:
            if (index := next(pending, None)) is not None:
                worker.send(ATTEMPT, index.to_bytes(8, "little"))
                under_way[worker] = index

        for worker in self._workers:
            assign(worker)
        for index in range(limit):
            while index not in played:
                ready = wait([w.connection for w in under_way])
                for worker in [w for w in under_way if w.connection in ready]:
                    played[under_way.pop(worker)] = unpack(bytes(worker.receive()))
                    assign(worker)
            yield played.pop(index)

    def close(self) -> None:
        """End the workers."""
        processes.close(self._workers)


@dataclass(frozen=True, slots=True)
class _ServiceMaker:
    maker: DemonstratorMaker

    def __call__(self) -> "_Service":
        return _Service(self.maker())


class _Service:
    """A demonstrator as a service: index -> packed episode."""

    def __init__(self, demonstrator: Demonstrator) -> None:
        self._demonstrator = demonstrator

    def greeting(self) -> bytes:
        return json.dumps(task_to_json(self._demonstrator.spec)).encode()

    def answer(self, kind: int, payload: memoryview) -> bytes:
        return pack(self._demonstrator.attempt(int.from_bytes(payload, "little")))

    def close(self) -> None:
        self._demonstrator.close()


def pack(episode: Episode) -> bytes:
    """An episode as safetensors."""
    arrays: dict[str, npt.NDArray[Any]] = {name: getattr(episode, name) for name in _ARRAYS}
    arrays[_OUTCOME] = np.array([episode.terminated, episode.truncated, episode.seed], np.int64)
    arrays |= {_EXTRA + name: value for name, value in episode.extra.items()}
    return bytes(save({name: np.ascontiguousarray(value) for name, value in arrays.items()}))


def unpack(content: bytes) -> Episode:
    """The inverse of `pack`."""
    arrays = load(content)
    terminated, truncated, seed = arrays[_OUTCOME].tolist()
    return Episode(
        **{name: arrays[name] for name in _ARRAYS},
        terminated=bool(terminated),
        truncated=bool(truncated),
        seed=seed,
        extra={k.removeprefix(_EXTRA): v for k, v in arrays.items() if k.startswith(_EXTRA)},
    )
