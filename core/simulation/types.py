"""What a simulated robot and a fleet of them must do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from outrider.core.types import Bool, Float, Int, TaskSpec


class Step(NamedTuple):
    """What one control step returns.

    Attributes:
        observation: (O,) after the step.
        reward: the task's own reward of this step.
        success: whether the task's own check holds after the step.
        terminated: the task ended (a fall, say); time limits are not the simulator's business.
    """

    observation: Float
    reward: float
    success: bool
    terminated: bool


class Simulator(Protocol):
    """One simulated robot with its task. Knows neither time limits nor chunks."""

    spec: TaskSpec

    def reset(self, seed: int) -> Float:
        """Start an episode and return the observation (O,).

        The episode depends on `seed` and later actions alone, not on what happened before.
        """
        ...

    def step(self, action: Float) -> Step:
        """Execute one action (A,), which the caller has clipped to the action limits."""
        ...

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Physics state to record beside observations (`qpos`, `qvel`); empty if there is none."""
        ...

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        """An RGB frame (height, width, 3), upright."""
        ...

    def close(self) -> None:
        """Free what the simulator holds."""
        ...


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What came of executing one action chunk on each of N robots.

    Rows beyond `steps[n]` are zero. A chunk stops at the step that ends the episode.

    Attributes:
        observations: (N, E, O), after each step.
        actions: (N, E, A), as executed, that is, clipped to the limits.
        rewards: (N, E).
        success: (N, E) bool.
        steps: (N,) how many steps were executed; 0 for robots that were not asked to act.
        next_observation: (N, O), the last observation; at an episode's end the true terminal one.
        terminated: (N,) bool, the task ended the episode.
        truncated: (N,) bool, the time limit ended it (False where `terminated` holds).
    """

    observations: Float
    actions: Float
    rewards: Float
    success: Bool
    steps: Int
    next_observation: Float
    terminated: Bool
    truncated: Bool

    @property
    def done(self) -> Bool:
        """(N,) bool: the episode is over and the robot wants a reset."""
        return self.terminated | self.truncated


class Fleet(Protocol):
    """N simulated robots as one; serial and multi-process forms give equal results."""

    spec: TaskSpec
    size: int

    def reset(self, seeds: Mapping[int, int]) -> Float:
        """Reset the robots named by the keys; returns their observations (len(seeds), O)."""
        ...

    def submit(self, chunks: Float, active: Bool | None = None) -> None:
        """Send one chunk (E, A) to each robot, (N, E, A) in all; inactive robots do nothing.

        Returns at once where robots live in other processes.
        """
        ...

    def collect(self) -> ChunkResult:
        """Wait for the chunks of the last `submit` to end."""
        ...

    def step(self, chunks: Float, active: Bool | None = None) -> ChunkResult:
        """`submit` and `collect` in one."""
        ...

    def close(self) -> None:
        """Free simulators and processes."""
        ...


class Expert(Protocol):
    """A scripted demonstrator of one task."""

    def begin(self, rng: np.random.Generator) -> None:
        """Draw this episode's variations (side, height, speed, error)."""
        ...

    def act(self, observation: Float) -> Float:
        """The command (A,) for one observation (O,)."""
        ...
