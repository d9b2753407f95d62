"""Robots behind one small interface, and the one that is embedded: a simulator."""

from typing import Protocol

import numpy as np

from outrider.core.errors import OutriderError
from outrider.core.simulation.types import Simulator
from outrider.core.types import Float, TaskSpec

SCHEMES = ("sim",)


class Robot(Protocol):
    """What the control loop needs of a robot."""

    spec: TaskSpec

    def prepare(self) -> None:
        """Do what is slow and need not happen inside the loop; nothing moves."""
        ...

    def begin(self, seed: int) -> None:
        """Make ready for an episode; a real robot waits for its operator here."""
        ...

    def read(self) -> Float:
        """The newest observation (O,)."""
        ...

    def write(self, action: Float) -> None:
        """Execute one command (A,)."""
        ...

    def over(self) -> bool:
        """Whether the episode has ended."""
        ...

    def succeeded(self) -> bool:
        """Whether the episode has succeeded so far."""
        ...

    def stop(self) -> None:
        """Come to rest; called at the end and on every error."""
        ...


class SimulatedRobot:
    """A simulator as a robot: it steps in lock-step with the loop's ticks.

    Args:
        simulator: the robot's simulator.
        spec: its task, with the episode limit that holds.
    """

    def __init__(self, simulator: Simulator, spec: TaskSpec) -> None:
        self.spec = spec
        self._simulator = simulator
        self._observation: Float = np.zeros(spec.observation.size, np.float32)
        self._steps, self._success, self._terminated = 0, False, True

    def prepare(self) -> None:
        """Reset and step once: simulators compile and allocate when they are first used."""
        self._simulator.reset(0)
        self._simulator.step(np.zeros(self.spec.action.size, np.float32))

    def begin(self, seed: int) -> None:
        """Reset with a seed."""
        self._observation = self._simulator.reset(seed)
        self._steps, self._success, self._terminated = 0, False, False

    def read(self) -> Float:
        """The observation after the last step."""
        return self._observation

    def write(self, action: Float) -> None:
        """Step once."""
        step = self._simulator.step(action)
        self._observation = step.observation
        self._steps += 1
        self._success |= step.success
        self._terminated = step.terminated or (step.success and self.spec.ends_on_success)

    def over(self) -> bool:
        """Whether the task ended or the time is up."""
        return self._terminated or self._steps >= self.spec.max_steps

    def succeeded(self) -> bool:
        """Whether any step of the episode reported success."""
        return self._success

    def stop(self) -> None:
        """A simulator is at rest between steps."""


def parse_uri(uri: str) -> tuple[str, str]:
    """Split `sim:robosuite/lift` into its scheme and the rest.

    Raises:
        OutriderError: when the scheme is unknown; it lists the known ones.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme not in SCHEMES or not rest:
        known = ", ".join(f"{name}:TASK" for name in SCHEMES)
        raise OutriderError(f"cannot reach a robot by {uri!r}", where="--robot", fix=f"Say {known}")
    return scheme, rest


def require_compatible(bundle: TaskSpec, robot: TaskSpec) -> None:
    """Refuse a robot whose observations, actions or rate are not those of the bundle.

    Raises:
        OutriderError: with every reason.
    """
    reasons = [f"observation: {r}" for r in bundle.observation.refusals(robot.observation)]
    reasons += [f"action: {r}" for r in bundle.action.refusals(robot.action)]
    if abs(bundle.rate_hz - robot.rate_hz) > 1e-9:
        reasons.append(f"rate is {robot.rate_hz:g} Hz, expected {bundle.rate_hz:g} Hz")
    if reasons:
        raise OutriderError(
            f"the robot does not fit the bundle: {'; '.join(reasons)}",
            where=robot.task,
            fix="Use a bundle that was exported for this robot.",
        )
