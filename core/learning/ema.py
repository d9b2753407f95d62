"""Exponential moving average of weights."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def averaging_share(step: int, share: float) -> float:
    """How far the average moves at `step` = 1, 2, ...: 9 / (9 + step) until that is below `share`.

    With the constant share from the start, a run of a few hundred steps would end near its
    random initial weights. The first steps average over what there is.
    """
    return max(share, 9 / (9 + step))


class WeightAverage:
    """The averaged weights of a module, kept beside it.

    Args:
        module: whose parameters are averaged; the average begins as a copy of them.
        share: how far the average moves towards the weights at every step.
    """

    def __init__(self, module: nn.Module, share: float) -> None:
        self._share = share
        self._steps = 0
        self._average = {n: p.detach().clone() for n, p in module.named_parameters()}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Move towards the module's weights; call it after each step of the optimiser."""
        self._steps += 1
        weights = [p for _, p in module.named_parameters()]
        share = averaging_share(self._steps, self._share)
        _lerp(self._average.values(), weights, share)

    @torch.no_grad()
    def copy_to(self, module: nn.Module) -> None:
        """Overwrite the module's weights by the average."""
        for name, parameter in module.named_parameters():
            parameter.copy_(self._average[name])

    def state_dict(self) -> dict[str, Any]:
        """The average and the number of steps in it."""
        return {"steps": self._steps, "average": dict(self._average)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._steps = int(state["steps"])
        for name, average in self._average.items():
            average.copy_(state["average"][name])


def _lerp(averages: Iterable[Tensor], weights: list[nn.Parameter], share: float) -> None:
    torch._foreach_lerp_(list(averages), list(weights), share)
