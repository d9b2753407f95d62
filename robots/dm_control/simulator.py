"""One robot of the control suite as a `Simulator`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError
from outrider.core.simulation.types import Step
from outrider.core.types import Field, Float, Spec, TaskSpec
from outrider.robots.dm_control.suite import load_task
from outrider.robots.rendering import Renderer

UNLIMITED_STEPS = 1000  # for the tasks to which the suite sets no time limit
REWARD = "the suite's own reward of one step"


class DmControlSimulator:
    """A task of the suite. Implements `Simulator`.

    The observation is the suite's, flattened in the order in which the suite gives its parts;
    the suite does not say their units. The tasks have no notion of success: `Step.success` is
    always False, and what counts is the return.

    Args:
        name: `DOMAIN-TASK`.
    """

    def __init__(self, name: str) -> None:
        self._environment, seconds = load_task(name)
        rate_hz = 1.0 / self._environment.control_timestep()
        self.spec = TaskSpec(
            task=f"dm_control/{name}",
            observation=_observation(self._environment.observation_spec()),
            action=_action(self._environment.action_spec(), name),
            rate_hz=round(rate_hz, 6),
            max_steps=round(seconds * rate_hz) if math.isfinite(seconds) else UNLIMITED_STEPS,
            ends_on_success=False,
            reward=REWARD,
        )
        self._renderer = Renderer(self._environment.physics.model.ptr)

    def reset(self, seed: int) -> Float:
        """Draw the initial state from a fresh random state of this seed."""
        words = np.random.SeedSequence(seed).generate_state(4)
        # the suite offers no other way to seed one episode than to build the task anew
        self._environment.task._random = np.random.RandomState(words)
        observation = self._environment.reset().observation
        if self._environment.physics.model.nhfield:
            self._renderer.close()  # a terrain that was drawn anew must reach the graphics context
        return _flat(observation)

    def step(self, action: Float) -> Step:
        """Execute one action; terminated where the suite ends an episode with discount 0."""
        now = self._environment.step(action)
        terminated = bool(now.last() and now.discount == 0.0)
        return Step(_flat(now.observation), float(now.reward), False, terminated)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """`qpos` and `qvel` in float64."""
        data = self._environment.physics.data
        return {"qpos": np.array(data.qpos), "qvel": np.array(data.qvel)}

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        """The view of the model's first camera, or the free one."""
        physics = self._environment.physics
        camera = 0 if physics.model.ncam else -1
        return self._renderer.render(physics.data.ptr, camera, width, height)

    def close(self) -> None:
        """Free the renderer and the physics."""
        self._renderer.close()
        self._environment.close()


def _observation(parts: Mapping[str, Any]) -> Spec:
    return Spec(tuple(Field(name, tuple(part.shape)) for name, part in parts.items()))


def _action(limits: Any, name: str) -> Spec:
    shape = tuple(limits.shape)
    low, high = (np.broadcast_to(side, shape) for side in (limits.minimum, limits.maximum))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise OutriderError(
            "the suite sets no limits to this robot's actions, and commands must have some",
            where=f"dm_control/{name}",
        )
    return Spec((Field("action", shape, "", tuple(low.tolist()), tuple(high.tolist())),))


def _flat(observation: Mapping[str, Any]) -> Float:
    return np.concatenate([np.ravel(part) for part in observation.values()]).astype(np.float32)
