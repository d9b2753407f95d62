"""The plugin that offers the robosuite tasks. Imports no simulator until a task is built."""

from collections.abc import Sequence
from typing import Any

from outrider.core.config import NoConfig
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import TaskProvider
from outrider.core.simulation.types import Expert, Simulator
from outrider.robots.robosuite.config import ExpertConfig, RobosuiteConfig
from outrider.robots.robosuite.tasks import TASKS


class RobosuitePlugin:
    """Lift, PickPlaceCan and NutAssemblySquare with a Panda; experts for the first two."""

    name = "robosuite"
    api = 1
    Config = NoConfig

    def __init__(self, config: NoConfig) -> None:
        self.config = config

    @hookimpl
    def tasks(self) -> Sequence[TaskProvider]:
        """The family `robosuite`."""
        return [
            TaskProvider(
                family="robosuite",
                names=task_names,
                config=RobosuiteConfig,
                build=build,
                expert_config=ExpertConfig,
                expert=build_expert,
            )
        ]


def task_names() -> tuple[str, ...]:
    """The tasks of the family."""
    return tuple(TASKS)


def build(name: str, config: Any) -> Simulator:
    """One simulator.

    Args:
        name: `lift`, `can` or `square`.
        config: a `RobosuiteConfig`.

    Raises:
        MissingDependency: when robosuite or MuJoCo is not installed.
        OutriderError: for an unknown task or settings that do not fit together.
    """
    from outrider.robots.robosuite.library import require_packages

    require_packages(name)
    from outrider.robots.robosuite.simulator import RobosuiteSimulator

    return RobosuiteSimulator(name, config)


def build_expert(name: str, config: Any) -> Expert:
    """A scripted expert.

    Args:
        name: `lift` or `can`.
        config: an `ExpertConfig`.

    Raises:
        OutriderError: when the task has no expert, or does not exist.
    """
    from outrider.robots.robosuite.experts import make_expert

    return make_expert(name, config)
