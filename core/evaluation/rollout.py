"""Seeded evaluation of a policy on a fleet of simulated robots.

Episode i is reset with `seeds[i]` and draws its noise from a stream of its own, so neither the
size of the fleet nor the robot that happens to run it has a say. One thing does: a matrix product
may round differently for another batch size. The policy is therefore always called with all N
robots, idle ones included (their observation and noise are zero), and the same N gives the same
episodes bit for bit. Another N gives the same episodes up to that rounding, which contacts and
long horizons can amplify.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from outrider.core.errors import OutriderError
from outrider.core.evaluation.noise import EpisodeNoise, NoiseKind, NoiseStream
from outrider.core.evaluation.table import CHUNK_START, EpisodeTable
from outrider.core.progress import Reporter, Silent
from outrider.core.simulation.types import ChunkResult, Fleet
from outrider.core.types import ActFunction, Bool, Episode, Float


@dataclass(slots=True)
class _Run:
    """An episode in progress on one robot."""

    index: int
    seed: int
    noise: NoiseStream
    observation: Float  # (O,), the current one
    observations: list[Float] = field(default_factory=list)
    actions: list[Float] = field(default_factory=list)
    rewards: list[Float] = field(default_factory=list)
    success: list[Bool] = field(default_factory=list)
    chunk_start: list[Bool] = field(default_factory=list)

    def record(self, result: ChunkResult, robot: int) -> None:
        """Append the steps that this robot executed of its chunk."""
        steps = int(result.steps[robot])
        if steps == 0:
            raise OutriderError(
                "the robot executed no step of its chunk", where=f"episode of seed {self.seed}"
            )
        seen = result.observations[robot, : steps - 1]
        self.observations.append(np.concatenate([self.observation[None], seen]))
        self.actions.append(result.actions[robot, :steps].copy())
        self.rewards.append(result.rewards[robot, :steps].copy())
        self.success.append(result.success[robot, :steps].copy())
        self.chunk_start.append(np.arange(steps) == 0)
        self.observation = result.next_observation[robot].copy()

    def finish(self, *, terminated: bool, truncated: bool) -> Episode:
        """The whole episode."""
        return Episode(
            observation=np.concatenate(self.observations),
            action=np.concatenate(self.actions),
            reward=np.concatenate(self.rewards),
            success=np.concatenate(self.success),
            final_observation=self.observation,
            terminated=terminated,
            truncated=truncated,
            seed=self.seed,
            extra={CHUNK_START: np.concatenate(self.chunk_start)},
        )


def evaluate(
    act: ActFunction,
    fleet: Fleet,
    horizon: int,
    execute: int,
    seeds: Sequence[int],
    noise: NoiseKind = "sample",
    noise_seed: int = 0,
    *,
    on_episode: Callable[[Episode], None] | None = None,
    reporter: Reporter | None = None,
    title: str = "evaluate",
) -> EpisodeTable:
    """Roll out one episode per seed.

    Args:
        act: the policy, observation (N, O), noise (N, H, A) -> chunk (N, E, A).
        fleet: N robots; they are reset as needed and left as they end.
        horizon: H of the noise.
        execute: E of the chunk.
        seeds: reset seed of each episode, at least one.
        noise: `sample` or `zero`.
        noise_seed: of all noise; use the same one for policies that are to be compared.
        on_episode: told of each episode as it ends, in the order of ending.
        reporter: shows the progress.
        title: of the progress bar.

    Raises:
        OutriderError: when there is no seed, or when the policy gives a command that is not
            finite or a chunk of another shape; it names the episode and the step.
    """
    if not seeds:
        raise OutriderError("no seed to evaluate on", where="evaluate", fix="Give one or more.")
    source = EpisodeNoise(noise, noise_seed, horizon, fleet.spec.action.size)
    waiting = deque(enumerate(seeds))
    running: dict[int, _Run] = {}
    finished: dict[int, Episode] = {}
    with (reporter or Silent()).bar(title, len(seeds)) as bar:
        while len(finished) < len(seeds):
            _start(fleet, source, waiting, running)
            result = fleet.step(
                _decide(act, fleet, source, execute, running),
                np.isin(np.arange(fleet.size), list(running)),
            )
            for index, episode in _advance(result, running):
                finished[index] = episode
                if on_episode is not None:
                    on_episode(episode)
            bar.update(len(finished), _figures(finished))
    return EpisodeTable(fleet.spec, execute, source, tuple(finished[i] for i in range(len(seeds))))


def _start(
    fleet: Fleet, source: EpisodeNoise, waiting: deque[tuple[int, int]], running: dict[int, _Run]
) -> None:
    """Give waiting episodes to free robots, the lowest robot first."""
    free = [robot for robot in range(fleet.size) if robot not in running][: len(waiting)]
    if not free:
        return
    taken = [waiting.popleft() for _ in free]
    observations = fleet.reset({robot: seed for robot, (_, seed) in zip(free, taken, strict=True)})
    for robot, (index, seed), observation in zip(free, taken, observations, strict=True):
        running[robot] = _Run(index, seed, source.stream(index), observation.copy())


def _decide(
    act: ActFunction, fleet: Fleet, source: EpisodeNoise, execute: int, running: dict[int, _Run]
) -> Float:
    """One chunk (N, E, A) for the whole fleet; idle robots see zeros."""
    A = source.action_size
    observation = np.zeros((fleet.size, fleet.spec.observation.size), np.float32)
    noise = np.zeros((fleet.size, source.horizon, A), np.float32)
    for robot, run in running.items():
        observation[robot] = run.observation
        noise[robot] = run.noise.draw(1)[0]
    chunk = np.asarray(act(observation, noise), np.float32)
    if chunk.shape != (fleet.size, execute, A):
        raise OutriderError(
            f"the policy gave a chunk of shape {chunk.shape}, "
            f"expected {(fleet.size, execute, A)} (robots, executed steps, action)",
            where=fleet.spec.task,
        )
    for robot, run in running.items():
        if not np.isfinite(chunk[robot]).all():
            raise OutriderError(
                "the policy gave a command that is not finite",
                where=f"episode of seed {run.seed}, step {sum(map(len, run.actions))}",
            )
    return chunk


def _advance(result: ChunkResult, running: dict[int, _Run]) -> list[tuple[int, Episode]]:
    """Record a tick; remove and return the episodes that it ended."""
    ended = []
    for robot, run in list(running.items()):
        run.record(result, robot)
        if result.done[robot]:
            episode = running.pop(robot).finish(
                terminated=bool(result.terminated[robot]),
                truncated=bool(result.truncated[robot]),
            )
            ended.append((run.index, episode))
    return ended


def _figures(finished: dict[int, Episode]) -> dict[str, float] | None:
    if not finished:
        return None
    return {"success": sum(e.succeeded for e in finished.values()) / len(finished)}
