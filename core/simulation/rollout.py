"""One episode, step by step: for experts, and wherever physics states are recorded."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.simulation.slot import Slot, row_type
from outrider.core.simulation.types import Simulator
from outrider.core.types import Episode, Float, TaskSpec


def roll_episode(
    simulator: Simulator, spec: TaskSpec, act_step: Callable[[Float], Float], seed: int
) -> Episode:
    """Play one episode to its end.

    Args:
        simulator: the robot; left as the episode ends.
        spec: limits of the action and of the episode.
        act_step: observation (O,) -> command (A,), clipped to the limits when executed.
        seed: of the reset.

    Returns:
        The episode; `extra` holds what `simulator.state()` gave before each action.

    Raises:
        OutriderError: when a number is not finite; it names the task and the step.
    """
    slot = Slot(simulator, spec, robot=0)
    first = observation = slot.reset(seed)
    rows = np.zeros(spec.max_steps, row_type(spec, execute=1))
    states = []
    for row in rows:
        states.append({name: np.array(value) for name, value in simulator.state().items()})
        slot.execute(np.asarray(act_step(observation), np.float32)[None], row)
        observation = row["next_observation"]
        if row["terminated"]:
            break
    rows = rows[: len(states)]
    return Episode(
        observation=np.concatenate([first[None], rows["next_observation"][:-1]]),
        action=rows["actions"][:, 0].copy(),
        reward=rows["rewards"][:, 0].copy(),
        success=rows["success"][:, 0].copy(),
        final_observation=observation.copy(),
        terminated=bool(rows["terminated"][-1]),
        truncated=bool(rows["truncated"][-1]),
        seed=seed,
        extra=_stacked(states),
    )


def _stacked(states: list[dict[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.stack([state[name] for state in states]) for name in states[0]}
