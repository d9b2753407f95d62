"""A point mass that must pass a thick wall through one of three corridors to reach its goal.

The room is a square of 2 m by 2 m around the origin. The mass starts on the left and the goal
lies on the right, both at random heights. Between them stands a wall with three corridors. The
wall and the sides of the room block whatever motion would enter them, and the mass slides along:
who misses a corridor must back off and aim again, which demonstrations hardly show.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core import seeds
from outrider.core.simulation.types import Step
from outrider.core.types import Field, Float, Spec, TaskSpec
from outrider.robots.toy.config import CorridorsConfig
from outrider.robots.toy.picture import draw

RATE_HZ = 10.0
TOP_SPEED = 1.0  # m/s along each axis
ROOM = 1.0  # m, half the side of the room
WALL = 0.3  # m, half the thickness of the wall
CORRIDORS = (-0.6, 0.0, 0.6)  # m, heights of the corridors' axes
START_X, GOAL_X, HEIGHTS = -0.85, 0.85, 0.7  # m; heights are drawn from +-HEIGHTS
SUBSTEPS = 2  # so that no move cuts a corner by more than 5 cm

OBSERVATION = Spec(
    (
        Field("position", (2,), "m", (-ROOM, -ROOM), (ROOM, ROOM)),
        Field("velocity", (2,), "m/s", (-TOP_SPEED, -TOP_SPEED), (TOP_SPEED, TOP_SPEED)),
        Field("goal", (2,), "m", (-ROOM, -ROOM), (ROOM, ROOM)),
    )
)
ACTION = Spec((Field("velocity_command", (2,), "", (-1.0, -1.0), (1.0, 1.0)),))
SPEC = TaskSpec(
    task="toy/corridors",
    observation=OBSERVATION,
    action=ACTION,
    rate_hz=RATE_HZ,
    max_steps=60,
    ends_on_success=True,
    reward="1 at the step that reaches the goal, else 0",
)


class Corridors:
    """The simulated point mass. Implements `Simulator`.

    Args:
        config: sizes and inertia.
    """

    def __init__(self, config: CorridorsConfig) -> None:
        self.spec = SPEC
        self.config = config
        self._position = (START_X, 0.0)
        self._velocity = (0.0, 0.0)
        self._goal = (GOAL_X, 0.0)

    def reset(self, seed: int) -> Float:
        """Draw the heights of start and goal."""
        start, goal = seeds.generator(seed, "corridors").uniform(-HEIGHTS, HEIGHTS, 2).tolist()
        self._position, self._velocity, self._goal = (START_X, start), (0.0, 0.0), (GOAL_X, goal)
        return self._observe()

    def step(self, action: Float) -> Step:
        """Move for a tenth of a second."""
        response = self.config.response
        self._velocity = (
            self._velocity[0] + response * (TOP_SPEED * float(action[0]) - self._velocity[0]),
            self._velocity[1] + response * (TOP_SPEED * float(action[1]) - self._velocity[1]),
        )
        for _ in range(SUBSTEPS):
            self._move(1.0 / (RATE_HZ * SUBSTEPS))
        success = math.dist(self._position, self._goal) <= self.config.goal_radius
        return Step(self._observe(), float(success), success, terminated=False)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Position, velocity and goal in float64."""
        return {
            "qpos": np.array(self._position),
            "qvel": np.array(self._velocity),
            "goal": np.array(self._goal),
        }

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        """The room from above, x to the right and y up."""
        return draw(self.blocks, self._position, self._goal, self.config.goal_radius, width, height)

    def close(self) -> None:
        """Nothing is held."""

    def blocks(self, x: Any, y: Any) -> Any:
        """Whether the wall is at (x, y), m; numbers or arrays."""
        free = [abs(y - axis) < self.config.half_width for axis in CORRIDORS]
        return (abs(x) <= WALL) & ~np.bool_(free[0] | free[1] | free[2])

    def _move(self, seconds: float) -> None:
        """One axis after the other; one that is blocked comes to rest."""
        (x, y), (vx, vy) = self._position, self._velocity
        if self._is_free(x + seconds * vx, y):
            x += seconds * vx
        else:
            vx = 0.0
        if self._is_free(x, y + seconds * vy):
            y += seconds * vy
        else:
            vy = 0.0
        self._position, self._velocity = (x, y), (vx, vy)

    def _is_free(self, x: float, y: float) -> bool:
        return max(abs(x), abs(y)) <= ROOM and not self.blocks(x, y)

    def _observe(self) -> Float:
        return np.array([*self._position, *self._velocity, *self._goal], np.float32)
