"""The plugin of the toy tasks."""

from collections.abc import Sequence
from typing import Any

from outrider.core.config import NoConfig
from outrider.core.errors import OutriderError, nearest
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import TaskProvider
from outrider.core.simulation.types import Expert, Simulator
from outrider.robots.toy.config import CorridorExpertConfig, CorridorsConfig

TASK = "corridors"


class ToyPlugin:
    """Offers `toy/corridors`."""

    name = "toy"
    api = 1
    Config = NoConfig

    def __init__(self, config: NoConfig) -> None:
        self.config = config

    @hookimpl
    def tasks(self) -> Sequence[TaskProvider]:
        """The family `toy`."""
        return [
            TaskProvider("toy", names, CorridorsConfig, build, CorridorExpertConfig, build_expert)
        ]


def names() -> tuple[str, ...]:
    """The one task."""
    return (TASK,)


def build(name: str, config: CorridorsConfig) -> Simulator:
    """A point mass in its corridors."""
    from outrider.robots.toy.corridors import Corridors

    _require(name)
    return Corridors(config)


def build_expert(name: str, config: Any) -> Expert:
    """A scripted expert that chooses a corridor at random."""
    from outrider.robots.toy.expert import CorridorExpert

    _require(name)
    return CorridorExpert(config)


def _require(name: str) -> None:
    if name != TASK:
        raise OutriderError("there is no such task", where=f"toy/{name}", fix=nearest(name, [TASK]))
