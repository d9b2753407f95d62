"""A scripted expert for the corridors: waypoints, with variations drawn for each episode."""

import numpy as np

from outrider.core.types import Float
from outrider.robots.toy.config import CorridorExpertConfig
from outrider.robots.toy.corridors import CORRIDORS, WALL

ROUTES = {"low": 0, "middle": 1, "high": 2}
MARGIN = 0.15  # m, how far before and behind the wall the waypoints lie
REACHED = 0.06  # m
GAIN = 4.0  # 1/s, the command is this times the distance, up to the chosen speed


class CorridorExpert:
    """Steers through one corridor, chosen without regard to the shortest way.

    Args:
        config: the variations.
    """

    def __init__(self, config: CorridorExpertConfig) -> None:
        self.config = config
        self._rng = np.random.default_rng(0)
        self._speed = config.speed
        self._ahead: list[Float] = []

    def begin(self, rng: np.random.Generator) -> None:
        """Draw the corridor, the speed, and how badly the corridor is aimed at."""
        config = self.config
        route = int(rng.integers(len(CORRIDORS)))
        axis = CORRIDORS[ROUTES.get(config.route, route)]
        spread = config.speed_spread
        self._speed = float(np.clip(config.speed + rng.uniform(-spread, spread), 0.1, 1.0))
        entry, exit_ = axis + config.aim * rng.standard_normal(2)
        self._ahead = [
            np.array([-WALL - MARGIN, entry], np.float32),
            np.array([WALL + MARGIN, exit_], np.float32),
        ]
        self._rng = rng

    def act(self, observation: Float) -> Float:
        """Head for the next waypoint, the goal being the last."""
        position, goal = observation[:2], observation[4:6]
        while self._ahead and _passed(position, self._ahead[0]):
            self._ahead.pop(0)
        offset = (self._ahead[0] if self._ahead else goal) - position
        distance = float(np.hypot(*offset))
        speed = min(self._speed, GAIN * distance)
        command = offset * (speed / max(distance, 1e-6))
        noise = self.config.noise * self._rng.standard_normal(2)
        return np.asarray(command + noise, np.float32)


def _passed(position: Float, waypoint: Float) -> bool:
    return bool(np.hypot(*(waypoint - position)) < REACHED)
