"""The plugin of the gymnasium tasks."""

import importlib.util
from collections.abc import Sequence

from outrider.core.config import NoConfig
from outrider.core.errors import MissingDependency, OutriderError, nearest
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import TaskProvider
from outrider.core.simulation.types import Simulator

NAMES = ("hopper", "walker2d", "halfcheetah")


class GymnasiumPlugin:
    """Offers `gymnasium/hopper`, `gymnasium/walker2d` and `gymnasium/halfcheetah`."""

    name = "gymnasium"
    api = 1
    Config = NoConfig

    def __init__(self, config: NoConfig) -> None:
        self.config = config

    @hookimpl
    def tasks(self) -> Sequence[TaskProvider]:
        """The family `gymnasium`."""
        return [TaskProvider("gymnasium", names, NoConfig, build)]


def names() -> tuple[str, ...]:
    """The three robots.

    Raises:
        MissingDependency: when they cannot be simulated here.
    """
    for package in ("gymnasium", "mujoco"):
        if importlib.util.find_spec(package) is None:
            raise MissingDependency(package, "sim", "the task family gymnasium")
    return NAMES


def build(name: str, config: NoConfig) -> Simulator:
    """One of the robots."""
    if name not in names():
        raise OutriderError(
            "there is no such task", where=f"gymnasium/{name}", fix=nearest(name, list(NAMES))
        )
    from outrider.robots.gymnasium.simulator import GymnasiumSimulator

    return GymnasiumSimulator(name)
