"""Small stand-ins for what plugins meet: a task, a robot, episodes, a run. numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core import seeds
from outrider.core.host.objects import RunContext
from outrider.core.learning.types import Capabilities
from outrider.core.simulation.types import Step
from outrider.core.types import Episode, Field, Float, Spec, TaskSpec


def fake_task(
    observation_size: int = 4, action_size: int = 2, max_steps: int = 20, rate_hz: float = 20.0
) -> TaskSpec:
    """A task `fake/reach`: positions in m observed, velocities within 1 m/s commanded."""
    limit = (1.0,) * action_size
    return TaskSpec(
        task="fake/reach",
        observation=Spec((Field("position", (observation_size,), "m"),)),
        action=Spec(
            (Field("velocity", (action_size,), "m/s", tuple(-x for x in limit), limit),),
        ),
        rate_hz=rate_hz,
        max_steps=max_steps,
        ends_on_success=True,
        reward="1 at success",
    )


def fake_episode(
    steps: int = 20, task: TaskSpec | None = None, *, seed: int = 0, succeeded: bool = True
) -> Episode:
    """An episode of `steps` random steps (0 is allowed), whose last step succeeds or not."""
    spec, rng = task or fake_task(), seeds.generator(seed, "fake episode")
    success = np.zeros(steps, np.bool_)
    success[-1:] = succeeded
    observation = rng.standard_normal((steps + 1, spec.observation.size)).astype(np.float32)
    return Episode(
        observation=observation[:-1],
        action=rng.uniform(-1, 1, (steps, spec.action.size)).astype(np.float32),
        reward=success.astype(np.float32),
        success=success,
        final_observation=observation[-1],
        terminated=succeeded,
        truncated=not succeeded,
        seed=seed,
    )


def fake_capabilities(**changes: Any) -> Capabilities:
    """What an off-policy finetuner with four critics on actions declares, with changes."""
    usual: dict[str, Any] = {"critic_ensemble": 4, "critic_space": "action", "has_prior": True}
    return Capabilities(**usual | changes)


def fake_run_context(
    run: Path = Path("fake-run"),
    *,
    seed: int = 0,
    task: TaskSpec | None = None,
    capabilities: Capabilities | None = None,
    fleet_size: int = 5,
    execute: int = 3,
    discount: float = 0.99,
) -> RunContext:
    """What a maker hook is given; equal seeds give equal generators. `run` need not exist."""
    spec = task or fake_task()
    return RunContext(
        run=run,
        task=spec,
        capabilities=capabilities or fake_capabilities(),
        fleet_size=fleet_size,
        chunk=(execute, spec.action.size),
        discount=discount,
        rng=seeds.generator(seed, "fake run"),
    )


class FakeSimulator:
    """A point in space that drifts with its command; succeeds never, ends by the time limit."""

    def __init__(self, spec: TaskSpec | None = None) -> None:
        self.spec = spec or fake_task()
        self._position = np.zeros(self.spec.observation.size, np.float32)

    def reset(self, seed: int) -> Float:
        """A position drawn from the seed, (O,)."""
        rng = seeds.generator(seed, "fake simulator")
        self._position = rng.standard_normal(self._position.shape).astype(np.float32)
        return self._position.copy()

    def step(self, action: Float) -> Step:
        """Move by the command, repeated over the observation's elements."""
        drift = np.resize(action, self._position.shape) / np.float32(self.spec.rate_hz)
        self._position = (self._position + drift).astype(np.float32)
        return Step(self._position.copy(), -float(np.abs(self._position).sum()), False, False)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Nothing."""
        return {}

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        """A black frame."""
        return np.zeros((height, width, 3), np.uint8)

    def close(self) -> None:
        """Nothing to free."""
