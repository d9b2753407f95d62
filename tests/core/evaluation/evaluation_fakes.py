"""A point robot, fleets of it, and policies in closed form."""

from collections.abc import Mapping

import numpy as np

from outrider.core.evaluation.noise import EpisodeNoise
from outrider.core.evaluation.table import CHUNK_START, EpisodeTable
from outrider.core.simulation.fleet import SerialFleet
from outrider.core.simulation.types import Step
from outrider.core.types import Episode, Field, Spec, TaskSpec

SPEC = TaskSpec(
    task="fake/push",
    observation=Spec((Field("position", (2,), "m"), Field("goal", (2,), "m"))),
    action=Spec((Field("delta", (2,), "m", (-1.0, -1.0), (1.0, 1.0)),)),
    rate_hz=20.0,
    max_steps=30,
    ends_on_success=True,
    reward="minus the distance to the goal",
)


class FakeSimulator:
    """A point that moves by 0.2 * action; success within 0.3 of a goal that the seed places."""

    spec = SPEC

    def reset(self, seed: int) -> np.ndarray:
        self.position = np.zeros(2)
        self.goal = np.random.default_rng(seed).uniform(-2, 2, 2)
        return self._observe()

    def step(self, action: np.ndarray) -> Step:
        self.position = self.position + 0.2 * np.asarray(action, np.float64)
        distance = float(np.linalg.norm(self.goal - self.position))
        return Step(self._observe(), -distance, distance < 0.3, distance < 0.3)

    def state(self) -> Mapping[str, np.ndarray]:
        return {}

    def render(self, width: int, height: int) -> np.ndarray:
        frame = np.full((height, width, 3), 32, np.uint8)
        for point, colour in ((self.goal, (60, 160, 90)), (self.position, (230, 190, 60))):
            x, y = ((np.clip(point, -3, 3) / 6.2 + 0.5) * (width - 1, height - 1)).astype(int)
            frame[max(y - 5, 0) : y + 5, max(x - 5, 0) : x + 5] = colour
        return frame

    def close(self) -> None:
        pass

    def _observe(self) -> np.ndarray:
        return np.concatenate([self.position, self.goal]).astype(np.float32)


def fleet_of(size: int, simulator: type = FakeSimulator) -> SerialFleet:
    return SerialFleet([simulator() for _ in range(size)], SPEC)


def seek(gain: float, spread: float, execute: int = 4):
    """Go to the goal with `gain`, noise scaled by `spread`; row by row, so exact at any N."""

    def act(observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
        towards = gain * (observation[:, None, 2:] - observation[:, None, :2])
        return (towards + spread * noise[:, :execute]).astype(np.float32)

    return act


def episode(action, seed: int = 0, reward=None, success: bool = False, chunk: int = 4) -> Episode:
    """An episode with these commands (T, 2) and nothing else of interest."""
    action = np.asarray(action, np.float32)
    T = len(action)
    return Episode(
        observation=np.arange(4 * T, dtype=np.float32).reshape(T, 4),
        action=action,
        reward=np.zeros(T, np.float32) if reward is None else np.asarray(reward, np.float32),
        success=np.arange(T) == (T - 1 if success else -1),
        final_observation=np.zeros(4, np.float32),
        terminated=success,
        truncated=not success,
        seed=seed,
        extra={CHUNK_START: np.arange(T) % chunk == 0},
    )


def table(*episodes: Episode, noise_seed: int = 5) -> EpisodeTable:
    return EpisodeTable(SPEC, 4, EpisodeNoise("sample", noise_seed, 8, 2), episodes)
