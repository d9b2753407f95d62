"""The room drawn with numpy alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

SIDE = 2.1  # m, shown along the shorter side of the picture
MASS_RADIUS = 0.04  # m
FLOOR, WALL, GOAL, MASS = (245, 245, 242), (70, 76, 84), (46, 160, 92), (200, 62, 46)


def draw(
    blocks: Callable[[Any, Any], Any],
    position: tuple[float, float],
    goal: tuple[float, float],
    goal_radius: float,
    width: int,
    height: int,
) -> npt.NDArray[np.uint8]:
    """A picture (height, width, 3).

    Args:
        blocks: whether the wall is at (x, y), for arrays of m.
        position: of the mass, m.
        goal: m.
        goal_radius: m.
        width: pixels.
        height: pixels.
    """
    scale = SIDE / min(width, height)  # m per pixel
    x = (np.arange(width) + 0.5 - width / 2) * scale
    y = (height / 2 - np.arange(height) - 0.5) * scale
    x, y = np.broadcast_arrays(x[None, :], y[:, None])
    room = np.maximum(abs(x), abs(y)) <= 1.0
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = WALL
    picture[room & ~blocks(x, y)] = FLOOR
    picture[np.hypot(x - goal[0], y - goal[1]) <= goal_radius] = GOAL
    picture[np.hypot(x - position[0], y - position[1]) <= MASS_RADIUS] = MASS
    return picture
