"""Every hook of Outrider, plugin API version 1. This is the page that a plugin author reads.

A plugin is a class with `name`, `api = 1`, a pydantic `Config` and any of these methods, marked
with `hookimpl`. The host makes one instance per run: `Plugin(config)`. Hooks are called at
set-up; what they hand over is checked, timed and then called by the loops. Four families:

* offers: lists of providers, collected from every installed plugin; two of one name are an error;
* makers: one object for this run, or None to abstain; asked only of plugins that the run's
  configuration names;
* notices: told to everyone that the configuration names; one that raises is switched off and
  named in the log and in the run's results;
* the gate: everyone may refuse; a crash is a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from outrider.core.host.objects import (
    CommandProvider,
    Diagnostic,
    FilterProvider,
    FinetunerProvider,
    Planner,
    PolicyProvider,
    ReaderProvider,
    RunContext,
    TaskProvider,
    Verdict,
)
from outrider.core.types import Episode

if TYPE_CHECKING:
    from outrider.core.learning.types import (
        ActorRegularizer,
        CriticRegularizer,
        CriticTarget,
        Explorer,
        GradientTransform,
    )

API = 1
GROUP = "outrider.plugins"

hookspec = pluggy.HookspecMarker("outrider")
hookimpl = pluggy.HookimplMarker("outrider")


# Offers


@hookspec
def tasks() -> Sequence[TaskProvider]:  # type: ignore[empty-body]
    """Families of simulated tasks, with their scripted experts."""


@hookspec
def policies() -> Sequence[PolicyProvider]:  # type: ignore[empty-body]
    """Policies that can be pretrained on demonstrations."""


@hookspec
def finetuners() -> Sequence[FinetunerProvider]:  # type: ignore[empty-body]
    """Ways to finetune a pretrained policy."""


@hookspec
def filters() -> Sequence[FilterProvider]:  # type: ignore[empty-body]
    """Command filters for the robot's control loop."""


@hookspec
def readers() -> Sequence[ReaderProvider]:  # type: ignore[empty-body]
    """Dataset formats that can be read as demonstrations."""


@hookspec
def commands() -> Sequence[CommandProvider]:  # type: ignore[empty-body]
    """Further verbs of the command line."""


# Makers: once per run, None abstains


@hookspec
def explorer(ctx: RunContext) -> Explorer | None:
    """Choose among candidate chunks during collection. At most one plugin may answer."""


@hookspec
def critic_target(ctx: RunContext) -> CriticTarget | None:
    """Replace the Bellman target of the critics. At most one plugin may answer."""


@hookspec
def critic_regularizer(ctx: RunContext) -> CriticRegularizer | None:
    """Add losses to the critics; the losses of all plugins are summed."""


@hookspec
def actor_regularizer(ctx: RunContext) -> ActorRegularizer | None:
    """Add losses to the actor; the losses of all plugins are summed."""


@hookspec
def gradient_transform(ctx: RunContext) -> GradientTransform | None:
    """Edit gradients before the optimiser's step, in the order of the configuration."""


@hookspec
def planner(ctx: RunContext) -> Planner | None:
    """Give subgoals to a goal-conditioned policy. At most one plugin may answer."""


@hookspec
def diagnostic(ctx: RunContext) -> Diagnostic | None:
    """Examine demonstrations and evaluation episodes and write a section of the report."""


@hookspec
def bundle_parts(ctx: RunContext) -> Mapping[str, bytes] | None:
    """Files that travel in the bundle under `parts/PLUGIN/`: relative name -> content."""


# Notices


@hookspec
def run_started(run: Path, config: Mapping[str, Any]) -> None:
    """A run begins; `config` is the resolved configuration."""


@hookspec
def metrics(run: Path, step: int, values: Mapping[str, float]) -> None:
    """Metrics were written at this many environment (or gradient) steps."""


@hookspec
def episode_finished(run: Path, episode: Episode) -> None:
    """An evaluation episode has ended."""


@hookspec
def bundle_verified(bundle: Path, report: Mapping[str, Any]) -> None:
    """A bundle was verified on this device; `report` is the parity certificate."""


@hookspec
def rollout_changed(change: Mapping[str, Any]) -> None:
    """A staged rollout advanced, paused or was taken back."""


# The gate


@hookspec
def may_deploy(bundle: Path, report: Mapping[str, Any], robot: str) -> Verdict | None:
    """May this bundle go to this robot? None abstains; a crash is a refusal."""


OFFERS = ("tasks", "policies", "finetuners", "filters", "readers", "commands")
SINGLE_MAKERS = ("explorer", "critic_target", "planner")
MAKERS = (
    *SINGLE_MAKERS,
    "critic_regularizer",
    "actor_regularizer",
    "gradient_transform",
    "diagnostic",
    "bundle_parts",
)
NOTICES = ("run_started", "metrics", "episode_finished", "bundle_verified", "rollout_changed")
GATES = ("may_deploy",)
