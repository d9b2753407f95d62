"""One robot's place in a fleet: clips commands, counts steps, ends episodes, stops chunks."""

import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError
from outrider.core.simulation.types import ChunkResult, Simulator
from outrider.core.types import Float, TaskSpec

Rows = npt.NDArray[np.void]
"""What chunks came to, one record of `row_type` per robot."""


def row_type(spec: TaskSpec, execute: int) -> np.dtype[np.void]:
    """The record of one executed chunk: the fields of `ChunkResult` for a single robot.

    Args:
        spec: gives the sizes O and A.
        execute: E.
    """
    E, O, A = execute, spec.observation.size, spec.action.size  # noqa: E741
    return np.dtype(
        [
            ("observations", np.float32, (E, O)),
            ("actions", np.float32, (E, A)),
            ("rewards", np.float32, (E,)),
            ("success", np.bool_, (E,)),
            ("steps", np.int64),
            ("next_observation", np.float32, (O,)),
            ("terminated", np.bool_),
            ("truncated", np.bool_),
        ],
        align=True,
    )


def result_of(rows: Rows) -> ChunkResult:
    """The records of N robots as contiguous arrays."""
    return ChunkResult(
        **{name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}
    )


class Slot:
    """One simulated robot with its episode limits.

    Args:
        simulator: the robot; closed with the slot.
        spec: limits of the action, of the episode, and how it ends.
        robot: number in the fleet, for messages.
    """

    def __init__(self, simulator: Simulator, spec: TaskSpec, robot: int) -> None:
        self.simulator, self.spec, self.robot = simulator, spec, robot
        self._low, self._high = spec.action.low, spec.action.high
        self._shape = (spec.observation.size,)
        self._steps = 0
        self._running = False
        self._observation: Float = np.zeros(self._shape, np.float32)

    def reset(self, seed: int) -> Float:
        """Start the episode of `seed`; returns the observation (O,).

        Raises:
            OutriderError: when the observation has the wrong shape or is not finite.
        """
        self._steps, self._running = 0, False
        observation = np.array(self.simulator.reset(seed), np.float32)
        self._require_shape(observation)
        self._require_finite(observation[None], first=0)
        self._observation, self._running = observation, True
        return observation

    def execute(self, chunk: Float | None, row: np.void) -> None:
        """Execute a chunk (E, A), up to the end of the episode, and fill in its record.

        Args:
            chunk: commands, or None for a robot that does nothing.
            row: a zeroed record of `row_type`.

        Raises:
            OutriderError: when the episode is over, or a number is not finite; it names the task,
                the robot and the step.
        """
        if chunk is not None:
            self._play(self._clipped(chunk), row)
        row["next_observation"] = self._observation

    def _play(self, commands: Float, row: np.void) -> None:
        """The loop that every simulated step passes: nothing is checked in it that can wait."""
        self._require_running()
        step, limit, ends_on_success = (
            self.simulator.step,
            self.spec.max_steps - self._steps,
            self.spec.ends_on_success,
        )
        observations, rewards, success = row["observations"], row["rewards"], row["success"]
        taken, terminated = 0, False
        for command in commands[:limit]:
            observation, reward, achieved, terminated = step(command)
            if observation.shape != self._shape:
                self._require_shape(observation)
            observations[taken], rewards[taken], success[taken] = observation, reward, achieved
            taken += 1
            terminated = bool(terminated or (ends_on_success and achieved))
            if terminated:
                break
        self._require_finite(observations[:taken], self._steps + 1, rewards[:taken])
        row["actions"][:taken] = commands[:taken]
        row["steps"], row["terminated"] = taken, terminated
        row["truncated"] = taken == limit and not terminated
        self._steps += taken
        self._observation = observations[taken - 1].copy()
        self._running = not (terminated or taken == limit)

    def close(self) -> None:
        """Free the simulator."""
        self.simulator.close()

    def _clipped(self, chunk: Float) -> Float:
        finite = np.isfinite(chunk)
        if not finite.all():
            bad = int(np.argmin(finite.all(axis=1)))
            raise OutriderError(
                f"the action is not finite ({chunk[bad].tolist()})",
                where=self._place(self._steps + bad + 1),
            )
        return np.asarray(np.minimum(np.maximum(chunk, self._low), self._high), np.float32)

    def _require_running(self) -> None:
        if not self._running:
            raise OutriderError(
                "the episode is over or was never begun",
                where=self._place(self._steps),
                fix="Reset the robot before it acts.",
            )

    def _require_shape(self, observation: Float) -> None:
        if observation.shape != self._shape:
            raise OutriderError(
                f"the observation has shape {observation.shape}, expected {self._shape}",
                where=self._place(self._steps),
            )

    def _require_finite(
        self, observations: Float, first: int, rewards: Float | None = None
    ) -> None:
        """Check observations (n, O), and rewards (n,), of the steps from `first` on."""
        finite = np.isfinite(observations)
        if not finite.all():
            bad, element = (int(i) for i in np.argwhere(~finite)[0])
            label = self.spec.observation.labels()[element]
            raise OutriderError(
                f"the observation {label} is not finite", where=self._place(first + bad)
            )
        if rewards is not None and not np.isfinite(rewards).all():
            bad = int(np.argmin(np.isfinite(rewards)))
            raise OutriderError("the reward is not finite", where=self._place(first + bad))

    def _place(self, step: int) -> str:
        return f"{self.spec.task}, robot {self.robot}, step {step}"
