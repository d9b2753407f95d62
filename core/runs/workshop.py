"""What every stage of a run needs, opened once: the folder, the task, the plugins, a display."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import BaseModel

from outrider.core import seeds
from outrider.core.config import validate
from outrider.core.errors import OutriderError, nearest
from outrider.core.files import read_json, write_json
from outrider.core.host.host import Host
from outrider.core.host.objects import FinetunerProvider, PolicyProvider, RunContext
from outrider.core.host.session import PluginSession
from outrider.core.learning.types import Capabilities
from outrider.core.progress import Reporter
from outrider.core.recipe import FinetuneSection, Recipe
from outrider.core.runs.folder import RunFolder
from outrider.core.simulation.build import BuiltTask, task_of
from outrider.core.task_json import task_from_json, task_to_json
from outrider.core.types import ActFunction, Float, TaskSpec

if TYPE_CHECKING:
    from outrider.core.learning.types import ChunkPolicy

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Workshop:
    """An opened run.

    Attributes:
        folder: where its files lie.
        host: installed plugins.
        session: the plugins of this run.
        task: builds simulators.
        reporter: progress display.
    """

    folder: RunFolder
    host: Host
    session: PluginSession
    task: BuiltTask
    reporter: Reporter

    def spec(self) -> TaskSpec:
        """The task's spec with the episode limit of the recipe; a simulator is built only once."""
        path = self.folder.path / "task.json"
        if not path.exists():
            simulator = self.task.simulator()
            try:
                write_json(path, task_to_json(self.task.spec(simulator)))
            finally:
                simulator.close()
        return task_from_json(read_json(path))

    def policy_provider(self) -> tuple[PolicyProvider, Any]:
        """The provider of the recipe's policy, and its validated config."""
        choice = self.folder.recipe.policy
        provider: PolicyProvider = self.host.provider("policies", choice.use)
        return provider, validate(provider.config, choice.options, "policy")

    def finetuner_provider(self, section: FinetuneSection) -> tuple[FinetunerProvider, Any]:
        """The provider of the recipe's finetuner, and its validated config."""
        choice = section.algorithm
        provider: FinetunerProvider = self.host.provider("finetuners", choice.use)
        return provider, validate(provider.config, choice.options, "finetune.algorithm")

    def capabilities(self) -> Capabilities | None:
        """What the recipe's finetuner declares; None without finetuning."""
        section = self.folder.recipe.finetune
        if section is None:
            return None
        provider, config = self.finetuner_provider(section)
        return provider.capabilities(config)

    def context_for(self, chunk: tuple[int, int]) -> Callable[[str], RunContext]:
        """Contexts of the makers, one for each plugin with a generator of its own.

        Args:
            chunk: (E, A).
        """
        recipe, spec = self.folder.recipe, self.spec()
        section, capabilities = recipe.finetune, self.capabilities()

        @functools.cache
        def context(plugin: str) -> RunContext:
            return RunContext(
                run=self.folder.path,
                task=spec,
                capabilities=capabilities,
                fleet_size=section.fleet if section else 0,
                chunk=chunk,
                discount=section.discount if section else 1.0,
                rng=seeds.generator(recipe.seed, "plugin", plugin),
                device=section.device if section else "cpu",
            )

        return context


def resolve(recipe: Recipe, host: Host) -> Recipe:
    """The recipe with every provider's own defaults filled in, as a run folder keeps it.

    Raises:
        OutriderError: naming the section, the key and what is valid there.
    """
    family, name = host.task(recipe.task.name)
    if name not in family.names():
        raise OutriderError(
            f"the family {family.family!r} has no task {name!r}",
            where="task.name",
            fix=nearest(name, list(family.names())),
        )
    policy: PolicyProvider = host.provider("policies", recipe.policy.use)
    changes: dict[str, Any] = {
        "task": _filled(recipe.task, "options", family.config, "task.options"),
        "policy": _filled(recipe.policy, "options", policy.config, "policy"),
        "plugins": host.session(recipe.plugins, "plugins").configs,
    }
    if recipe.demos.path is None:
        changes["demos"] = _filled(recipe.demos, "expert", family.expert_config, "demos.expert")
    if recipe.finetune is not None:
        choice = recipe.finetune.algorithm
        finetuner: FinetunerProvider = host.provider("finetuners", choice.use)
        algorithm = _filled(choice, "options", finetuner.config, "finetune.algorithm")
        changes["finetune"] = recipe.finetune.model_copy(update={"algorithm": algorithm})
    return recipe.model_copy(update=changes)


def _filled(section: S, field: str, config: type[BaseModel], where: str) -> S:
    values = validate(config, getattr(section, field), where).model_dump(mode="json")
    return section.model_copy(update={field: values})


def open_workshop(folder: RunFolder, host: Host, reporter: Reporter) -> Workshop:
    """Make what the stages of a run share; the recipe is one that `resolve` gave.

    Raises:
        OutriderError: when a plugin of the recipe is not there any more.
    """
    session = host.session(folder.recipe.plugins, "plugins")
    return Workshop(folder, host, session, task_of(host, folder.recipe.task), reporter)


def as_act(policy: ChunkPolicy) -> ActFunction:
    """A torch policy as a function of numpy arrays, without gradients."""
    import torch

    def act(observation: Float, noise: Float) -> Float:
        with torch.inference_mode():
            chunk = policy(torch.from_numpy(observation), torch.from_numpy(noise))
        return np.asarray(chunk.numpy(), np.float32)

    return act
