"""What plugins offer and what hooks hand over: providers, contexts, report sections, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pydantic import BaseModel

from outrider.core.config import NoConfig
from outrider.core.learning.types import Capabilities
from outrider.core.simulation.types import Expert, Simulator
from outrider.core.types import Episode, Float, TaskSpec

if TYPE_CHECKING:
    import torch

    from outrider.core.learning.types import ChunkPolicy, Finetuner, Hooks, TrainablePolicy


@dataclass(frozen=True, slots=True)
class TaskProvider:
    """A family of simulated tasks; a task is named `family/name`.

    Attributes:
        family: first part of the task's name.
        names: the tasks that the family knows (called when somebody asks; may import a simulator).
        config: type of the task's options.
        build: name, config -> one simulator. A module-level function: worker processes import it.
        expert_config: type of the scripted expert's options.
        expert: name, expert config -> a scripted expert, or None where the family has none.
    """

    family: str
    names: Callable[[], tuple[str, ...]]
    config: type[BaseModel]
    build: Callable[[str, Any], Simulator]
    expert_config: type[BaseModel] = NoConfig
    expert: Callable[[str, Any], Expert] | None = None


@dataclass(frozen=True, slots=True)
class PolicyProvider:
    """A kind of policy that can be pretrained; `build` imports torch, the config does not."""

    name: str
    config: type[BaseModel]
    build: Callable[[Any, TaskSpec], TrainablePolicy]


@dataclass(frozen=True, slots=True)
class FinetuneContext:
    """What a finetuner is built from.

    Attributes:
        base: the pretrained policy, frozen.
        task: specs of the task.
        hooks: the plugin objects of this run.
        generator: source of every random draw of the finetuner.
        device: torch device name.
    """

    base: ChunkPolicy
    task: TaskSpec
    hooks: Hooks
    generator: torch.Generator
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class FinetunerProvider:
    """A way to finetune; its capabilities are known from the config alone."""

    name: str
    config: type[BaseModel]
    capabilities: Callable[[Any], Capabilities]
    build: Callable[[Any, FinetuneContext], Finetuner]


class Filter(Protocol):
    """Edits a command just before it is sent. Built before the loop starts, never inside it."""

    def apply(self, observation: Float, action: Float) -> Float:
        """Observation (O,), command (A,) -> command (A,)."""
        ...


@dataclass(frozen=True, slots=True)
class FilterProvider:
    """A command filter for the robot's control loop."""

    name: str
    config: type[BaseModel]
    build: Callable[[Any, TaskSpec], Filter]


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What a reader knows about a dataset before it reads the steps."""

    task: TaskSpec
    episodes: int
    source: Mapping[str, Any] = field(default_factory=dict)


class DatasetReader(Protocol):
    """An open dataset."""

    info: DatasetInfo

    def episodes(self) -> Iterator[Episode]:
        """Episodes one at a time, in the file's order."""
        ...


@dataclass(frozen=True, slots=True)
class ReaderProvider:
    """A dataset format. `recognizes` looks at a path cheaply; `open` may import a library."""

    name: str
    recognizes: Callable[[Path], bool]
    open: Callable[[Path], DatasetReader]


@dataclass(frozen=True, slots=True)
class CommandProvider:
    """A verb added to the command line; `app` is a typer application, imported when asked for."""

    name: str
    help: str
    app: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a maker hook learns about the run that it takes part in.

    Attributes:
        run: the run folder.
        task: specs of the task.
        capabilities: of the finetuner, or None where no finetuning takes place.
        fleet_size: N.
        chunk: (E, A), the executed chunk.
        discount: per control step.
        rng: private to this plugin, derived from the run's seed and the plugin's name.
        device: torch device name.
    """

    run: Path
    task: TaskSpec
    capabilities: Capabilities | None
    fleet_size: int
    chunk: tuple[int, int]
    discount: float
    rng: np.random.Generator
    device: str = "cpu"


class Planner(Protocol):
    """Gives subgoals to a goal-conditioned policy."""

    def plan(self, observation: Float, goal: Float, elapsed: float) -> Float:
        """Observation (O,), goal (G,), seconds since the episode began -> subgoal (G,)."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a diagnostic wants a person to look at."""

    where: str
    what: str
    value: float
    threshold: float


@dataclass(frozen=True, slots=True)
class ReportSection:
    """One section of a report.

    Attributes:
        title: heading.
        numbers: name -> value, finite.
        tables: caption -> (column names, rows).
        figures: caption -> PNG bytes.
        findings: what to look at.
        text: a paragraph of plain text.
    """

    title: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]] = field(
        default_factory=dict
    )
    figures: Mapping[str, bytes] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    text: str = ""


class Diagnostic(Protocol):
    """Looks at episodes and writes a section of the report."""

    def examine(self, label: str, episodes: list[Episode], task: TaskSpec) -> ReportSection | None:
        """`label` says what the episodes are ("demonstrations", "finetuned"); None to abstain."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """A gate's answer: may this be deployed, and why (not)."""

    allow: bool
    reason: str
