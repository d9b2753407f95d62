"""The plugin of the gymnasium tasks."""

import importlib.util
from collections.abc import Sequence

from outrider.core.config import NoConfig
from outrider.core.errors import MissingDependency, OutriderError, nearest
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import TaskProvider
from outrider.core.simulation.types import Expert, Simulator
from outrider.robots.gymnasium.config import ExpertConfig

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
        return [
            TaskProvider("gymnasium", names, NoConfig, build, ExpertConfig, build_expert),
        ]


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
    names()
    _require(name)
    from outrider.robots.gymnasium.simulator import GymnasiumSimulator

    return GymnasiumSimulator(name)


def build_expert(name: str, config: ExpertConfig) -> Expert:
    """A linear expert; it imports no simulator.

    Raises:
        OutriderError: when the task has no expert, or does not exist.
    """
    _require(name)
    from outrider.robots.gymnasium.expert import make_expert

    return make_expert(name, config)


def _require(name: str) -> None:
    if name not in NAMES:
        raise OutriderError(
            "there is no such task", where=f"gymnasium/{name}", fix=nearest(name, list(NAMES))
        )
