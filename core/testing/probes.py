"""Torch probes: a tiny critic and actor, and what each maker's object makes of them.

Imported only where torch is. Every probe goes through the host's checks of shape and finiteness,
and returns what came out as numpy arrays, so that two runs can be compared bit for bit.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from outrider.core import seeds
from outrider.core.learning.types import (
    ActorView,
    Batch,
    CriticView,
    Hooks,
    TargetView,
)

Variable = Literal["action", "noise", "residual"]
Arrays = list[npt.NDArray[Any]]
B, K = 8, 3
OBSERVATION, DECISION = 4, 6


class _Critics(nn.Module):
    """K critics as one batched bilinear form, smooth in the decision."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(K, OBSERVATION + DECISION, generator=generator))

    def forward(self, observation: Tensor, decision: Tensor) -> Tensor:
        joint = torch.cat([observation, decision], dim=-1)
        return torch.tanh(joint @ self.weight.T).T


class _Actor(nn.Module):
    """Observation (B, O) -> decision (B, D)."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(OBSERVATION, DECISION, generator=generator))

    def forward(self, observation: Tensor) -> Tensor:
        return torch.tanh(observation @ self.weight)


def exercise(hooks: Hooks, seed: int) -> Arrays:
    """Ask every torch object once, on inputs that depend on the seed alone.

    Raises:
        OutriderError: when the host's checks refuse what an object gives.
        AssertionError: when an object gives gradients that are not finite, or a transform edits
            more than gradients.
    """
    generator = torch.Generator().manual_seed(seeds.integer(seed, "probe"))
    batch, critics, actor = _batch(generator), _Critics(generator), _Actor(generator)
    found: Arrays = []
    if hooks.critic_target is not None:
        with torch.no_grad():
            target = hooks.critic_target.target(batch, _target_view(critics, actor))
        found.append(target.numpy().copy())
    for variable in get_args(Variable):
        found += _critic_losses(hooks, variable, batch, critics)
        found += _actor_losses(hooks, variable, batch, actor)
    for group, module in (("critic", critics), ("actor", actor)):
        found += _transformed(hooks, group, module, generator)
    return found


def _batch(generator: torch.Generator) -> Batch:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    bootstrap = torch.full((B,), 0.97)
    bootstrap[0] = 0.0  # one of the transitions ended its episode
    return Batch(
        observation=normal(B, OBSERVATION),
        decision=normal(B, DECISION),
        reward=normal(B),
        bootstrap=bootstrap,
        next_observation=normal(B, OBSERVATION),
    )


def _target_view(critics: _Critics, actor: _Actor) -> TargetView:
    def reduce(values: Tensor) -> Tensor:
        return values.amin(dim=0)

    def next_value(observation: Tensor) -> Tensor:
        return reduce(critics(observation, actor(observation)))

    return TargetView(actor, critics, reduce, next_value)


def _critic_losses(hooks: Hooks, variable: Variable, batch: Batch, critics: _Critics) -> Arrays:
    found: Arrays = []
    for regularizer in hooks.critic_regularizers:
        view = CriticView(
            variable, critics, batch.observation, batch.next_observation, batch.decision
        )
        found += _with_gradients(regularizer.losses(view), critics, "critic_regularizer")
    return found


def _actor_losses(hooks: Hooks, variable: Variable, batch: Batch, actor: _Actor) -> Arrays:
    found: Arrays = []
    for regularizer in hooks.actor_regularizers:
        view = ActorView(variable, actor, batch.observation, batch.next_observation)
        found += _with_gradients(regularizer.losses(view), actor, "actor_regularizer")
    return found


def _with_gradients(losses: dict[str, Tensor], module: nn.Module, hook: str) -> Arrays:
    """The losses by name, and their gradient with respect to the network."""
    module.zero_grad(set_to_none=True)
    steep = [loss for loss in losses.values() if loss.requires_grad]
    if steep:
        torch.stack(steep).sum().backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    for gradient in gradients:
        assert bool(gradient.isfinite().all()), f"the gradient of its {hook} is not finite"
    ordered = [losses[name] for name in sorted(losses)]
    return [tensor.detach().numpy().copy() for tensor in (*ordered, *gradients)]


def _transformed(hooks: Hooks, group: str, module: nn.Module, generator: torch.Generator) -> Arrays:
    """Gradients after every transform; one parameter has none, as an unused layer would."""
    found: Arrays = []
    for transform in hooks.gradient_transforms:
        unused = nn.Parameter(torch.ones(2))
        parameters = [*module.parameters(), unused]
        for parameter in module.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        before = [p.detach().clone() for p in parameters]
        figures = transform.apply(group, parameters)
        for old, parameter in zip(before, parameters, strict=True):
            assert torch.equal(old, parameter.detach()), (
                "its gradient_transform edits parameters; it may edit their gradients only"
            )
        found += [p.grad.numpy().copy() for p in parameters if p.grad is not None]
        found.append(np.asarray([figures[name] for name in sorted(figures)], np.float64))
    return found
