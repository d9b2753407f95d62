"""Action-value critics: an ensemble of K networks as one batched module."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

Activation = Literal["tanh", "relu"]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}

Reduction = Literal["min", "subset", "mean"]


class CriticEnsemble(nn.Module):
    """K independent networks Q_k(observation, decision), evaluated by batched matrix products.

    Each network has `layers` hidden layers of linear map, layer norm and activation, then a linear
    output. All heads see the same input, so the first layer is one plain matrix product; the rest
    are K at a time. Heads are initialised independently, which is where disagreement comes from.

    Args:
        observation_size: O.
        decision_size: D.
        critics: K.
        width: of the hidden layers.
        layers: number of hidden layers, at least one.
        activation: `tanh` (smooth; what DSRL uses) or `relu`.
        initial_value: bias of the outputs. Starting at the base policy's value level keeps
            decisions that were never tried from looking better than those that were.
        generator: source of the initial weights.
    """

    def __init__(
        self,
        observation_size: int,
        decision_size: int,
        *,
        critics: int,
        width: int,
        layers: int,
        activation: Activation,
        initial_value: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.critics, self.width = critics, width
        self.activation = activation
        size = observation_size + decision_size
        sizes = [size, *[width] * layers, 1]
        self.weights = nn.ParameterList(
            _uniform((critics, fan_in, fan_out), fan_in, generator)
            for fan_in, fan_out in pairwise(sizes)
        )
        self.biases = nn.ParameterList(
            _uniform((critics, 1, fan_out), fan_in, generator)
            for fan_in, fan_out in pairwise(sizes)
        )
        self.scales = nn.ParameterList(
            nn.Parameter(torch.ones(critics, 1, width)) for _ in range(layers)
        )
        self.shifts = nn.ParameterList(
            nn.Parameter(torch.zeros(critics, 1, width)) for _ in range(layers)
        )
        nn.init.constant_(self.biases[-1], initial_value)

    def forward(self, observation: Tensor, decision: Tensor) -> Tensor:
        """(B, O), (B, D) -> (K, B)."""
        activate = _ACTIVATIONS[self.activation]
        hidden = self._first_layer(torch.cat([observation, decision], dim=-1))
        for i, (scale, shift) in enumerate(zip(self.scales, self.shifts, strict=True)):
            if i > 0:
                hidden = torch.baddbmm(self.biases[i], hidden, self.weights[i])
            normed = nn.functional.layer_norm(hidden, (self.width,))
            hidden = activate(normed * scale + shift)
        return torch.baddbmm(self.biases[-1], hidden, self.weights[-1]).squeeze(-1)

    def _first_layer(self, x: Tensor) -> Tensor:
        shared = x.expand(self.critics, *x.shape)
        return torch.baddbmm(self.biases[0], shared, self.weights[0])


def _uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator) -> nn.Parameter:
    """Torch's own initialisation of a linear layer: uniform within 1/sqrt(fan_in)."""
    bound = 1.0 / math.sqrt(fan_in)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))


def reduce_heads(
    values: Tensor, reduction: Reduction, *, subset: int = 2, generator: torch.Generator
) -> Tensor:
    """Reduce (K, B) to (B,).

    `min` is the minimum over all heads (DSRL), `subset` the minimum over `subset` heads drawn
    anew for every call (REDQ), `mean` the mean.
    """
    if reduction == "mean":
        return values.mean(dim=0)
    if reduction == "subset" and subset < values.shape[0]:
        chosen = torch.randperm(values.shape[0], generator=generator)[:subset]
        values = values[chosen.to(values.device)]
    return values.amin(dim=0)


@torch.no_grad()
def polyak(target: nn.Module, online: nn.Module, tau: float) -> None:
    """Move all parameters of `target` towards those of `online` by the share `tau`."""
    ours: list[Tensor] = list(target.parameters())
    theirs: list[Tensor] = list(online.parameters())
    torch._foreach_lerp_(ours, theirs, tau)
