"""The plugin of the DeepMind control suite."""

from collections.abc import Sequence

from outrider.core.config import NoConfig
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import TaskProvider
from outrider.core.simulation.types import Simulator


class DmControlPlugin:
    """Offers `dm_control/DOMAIN-TASK`, such as `dm_control/humanoid-walk`."""

    name = "dm_control"
    api = 1
    Config = NoConfig

    def __init__(self, config: NoConfig) -> None:
        self.config = config

    @hookimpl
    def tasks(self) -> Sequence[TaskProvider]:
        """The family `dm_control`."""
        return [TaskProvider("dm_control", names, NoConfig, build)]


def names() -> tuple[str, ...]:
    """Every task of the suite, as `DOMAIN-TASK`.

    Raises:
        MissingDependency: when dm_control is not installed.
    """
    from outrider.robots.dm_control.suite import task_names

    return task_names()


def build(name: str, config: NoConfig) -> Simulator:
    """One robot of the suite with its task."""
    from outrider.robots.dm_control.simulator import DmControlSimulator

    return DmControlSimulator(name)
