"""From a task's name in a configuration to simulators, experts and fleets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from outrider.core.config import validate
from outrider.core.errors import OutriderError
from outrider.core.host.objects import TaskProvider
from outrider.core.recipe import TaskSection
from outrider.core.simulation.fleet import SerialFleet
from outrider.core.simulation.process_fleet import ProcessFleet, limited
from outrider.core.simulation.types import Expert, Fleet, Simulator
from outrider.core.types import TaskSpec


class TaskHost(Protocol):
    """What is needed of the plugin host."""

    def task(self, name: str) -> tuple[TaskProvider, str]:
        """`family/name` -> the family's provider and the name within it."""
        ...


@dataclass(frozen=True, slots=True)
class SimulatorFactory:
    """Makes simulators of one task; travels to worker processes.

    Attributes:
        build: module-level function of the task's provider.
        name: the task's name within its family.
        config_type: type of the task's options.
        options: the validated options as JSON.
    """

    build: Callable[[str, Any], Simulator]
    name: str
    config_type: type[BaseModel]
    options: str

    def __call__(self) -> Simulator:
        """Make one simulator."""
        return self.build(self.name, self.config_type.model_validate_json(self.options))


@dataclass(frozen=True, slots=True)
class ExpertFactory:
    """Makes scripted experts of one task; travels to worker processes.

    Attributes are those of `SimulatorFactory`.
    """

    build: Callable[[str, Any], Expert]
    name: str
    config_type: type[BaseModel]
    options: str

    def __call__(self) -> Expert:
        """Make one expert."""
        return self.build(self.name, self.config_type.model_validate_json(self.options))


@dataclass(frozen=True, slots=True)
class BuiltTask:
    """A task that a configuration names, ready to make simulators of.

    Attributes:
        provider: of the family.
        name: within the family.
        factory: makes simulators.
        max_steps: episode limit; None takes the task's own.
    """

    provider: TaskProvider
    name: str
    factory: SimulatorFactory
    max_steps: int | None = None

    @property
    def full_name(self) -> str:
        """`family/name`."""
        return f"{self.provider.family}/{self.name}"

    def simulator(self) -> Simulator:
        """One simulator, in this process. Its own spec does not know of `max_steps`."""
        return self.factory()

    def spec(self, simulator: Simulator) -> TaskSpec:
        """The spec of a simulator of this task, with the episode limit that holds."""
        return limited(simulator.spec, self.max_steps)

    def fleet(self, size: int, workers: int = 0) -> Fleet:
        """N robots, in this process or (workers > 0) in others."""
        return build_fleet(self.factory, size, workers, self.max_steps)

    def expert(self, options: Mapping[str, Any]) -> ExpertFactory:
        """A factory of the task's scripted expert.

        Raises:
            OutriderError: when the family has no expert or an option is wrong.
        """
        provider = self.provider
        if provider.expert is None:
            raise OutriderError(
                "there is no scripted expert for this task",
                where=self.full_name,
                fix="Give demonstrations by `demos.path`.",
            )
        config = validate(provider.expert_config, options, "demos.expert")
        return ExpertFactory(
            provider.expert, self.name, provider.expert_config, config.model_dump_json()
        )


def task_of(host: TaskHost, section: TaskSection) -> BuiltTask:
    """Resolve a task and validate its options.

    Raises:
        OutriderError: when there is no such task, or an option is wrong.
    """
    provider, name = host.task(section.name)
    config = validate(provider.config, section.options, "task.options")
    factory = SimulatorFactory(provider.build, name, provider.config, config.model_dump_json())
    return BuiltTask(provider, name, factory, section.max_steps)


def build_fleet(
    factory: Callable[[], Simulator], size: int, workers: int = 0, max_steps: int | None = None
) -> Fleet:
    """A fleet of N robots.

    Args:
        factory: makes one simulator; picklable where there are workers.
        size: N.
        workers: processes that step the robots; 0 steps them in this one.
        max_steps: episode limit; None takes the task's own.
    """
    if workers > 0:
        return ProcessFleet(factory, size, workers, max_steps)
    simulators = [factory() for _ in range(max(size, 0))]
    if not simulators:
        raise OutriderError("a fleet needs at least one robot")
    return SerialFleet(simulators, limited(simulators[0].spec, max_steps))
