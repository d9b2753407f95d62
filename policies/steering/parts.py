"""What the two DSRL learners are made of: optimised networks, the constraint, the decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from outrider.core.learning.types import ChunkPolicy, GradientTransform
from outrider.core.types import Float


class Optimized:
    """A network with its optimiser, and the gradient transforms before each step."""

    def __init__(
        self,
        group: str,
        network: nn.Module,
        learning_rate: float,
        transforms: Sequence[GradientTransform],
    ) -> None:
        self.group, self.network = group, network
        self.parameters = list(network.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=learning_rate, fused=True)
        self._transforms = transforms

    def step(self, loss: Tensor) -> dict[str, float]:
        """One descent step; returns what the gradient transforms report."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        scalars: dict[str, float] = {}
        for transform in self._transforms:
            reported = transform.apply(self.group, self.parameters)
            scalars |= {f"{self.group}/{name}": value for name, value in reported.items()}
        self.optimizer.step()
        return scalars

    def state_dict(self) -> dict[str, Any]:
        """Weights and the optimiser's state."""
        return {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])


class Constraint:
    """The weight that holds an entropy or a divergence at its target (a dual variable).

    Args:
        kind: `entropy` keeps -log pi at least at the target, `kl` keeps log pi - log prior at most
            at the target.
        target: in nats.
        weight: initial.
        learning_rate: of Adam on the logarithm of the weight.
    """

    def __init__(
        self, kind: Literal["entropy", "kl"], target: float, weight: float, learning_rate: float
    ) -> None:
        self.kind, self.target = kind, target
        self.log_weight = torch.tensor(math.log(weight), requires_grad=True)
        self._optimizer = torch.optim.Adam([self.log_weight], lr=learning_rate)

    @property
    def weight(self) -> Tensor:
        """The current weight, without gradient."""
        return self.log_weight.detach().exp()

    def cost(self, log_prob: Tensor, log_prior: Tensor) -> Tensor:
        """What the actor pays per sample (before weighting), (B,)."""
        return log_prob if self.kind == "entropy" else log_prob - log_prior

    def adapt(self, cost: Tensor) -> None:
        """Raise the weight where the constraint is violated, lower it where there is slack."""
        allowed = -self.target if self.kind == "entropy" else self.target
        violation = cost.detach().mean() - allowed
        self._optimizer.zero_grad()
        (-self.log_weight * violation).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """The weight and its optimiser."""
        return {"log_weight": self.log_weight, "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        with torch.no_grad():
            self.log_weight.copy_(state["log_weight"])
        self._optimizer.load_state_dict(state["optimizer"])


class Decoder:
    """The frozen base policy, as learners use it: physical numbers in, normalised chunks out."""

    def __init__(self, base: ChunkPolicy, generator: torch.Generator, device: str) -> None:
        self.base, self.generator, self.device = base, generator, device
        self.noise_size = base.horizon * base.action_size
        self.decision_size = base.execute * base.action_size
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        base.eval()

    def normal(self, rows: int) -> Tensor:
        """Standard normal noise (rows, H*A)."""
        drawn = torch.randn(rows, self.noise_size, generator=self.generator)
        return drawn.to(self.device)

    def observe(self, observation: Float) -> Tensor:
        """Physical (N, O) -> normalised tensor (N, O)."""
        return self.base.normalize_observation(torch.from_numpy(observation).to(self.device))

    @torch.no_grad()
    def decode(self, observation: Tensor, noise: Tensor) -> Tensor:
        """Normalised (B, O), noise (B, H*A) -> chunk (B, E*A), normalised as executed.

        Commands outside the task's limits are executed clipped, and critics learn on what is
        executed, so the clipping is part of the decoder.
        """
        shaped = noise.view(-1, self.base.horizon, self.base.action_size)
        chunk = self.base.decode(observation, shaped)
        executed = self.base.normalize_action(self.base.denormalize_action(chunk))
        return executed.flatten(1)

    def physical(self, decision: Tensor) -> Tensor:
        """Normalised (..., E*A) -> physical chunk (..., E, A)."""
        shape = (*decision.shape[:-1], self.base.execute, self.base.action_size)
        return self.base.denormalize_action(decision.reshape(shape))

    def normalized(self, chunk: Float) -> Float:
        """Executed physical chunk (N, E, A) -> decision (N, E*A)."""
        tensor = torch.from_numpy(chunk).to(self.device)
        flat: Float = self.base.normalize_action(tensor).flatten(1).cpu().numpy()
        return flat


class Recorder:
    """Sums of scalars since they were last read; values stay tensors until then."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor | float] = {}
        self._counts: dict[str, int] = {}

    def add(self, **values: Tensor | float) -> None:
        """Record scalars, without synchronising with a device."""
        for name, value in values.items():
            scalar = value.detach() if isinstance(value, Tensor) else value
            self._sums[name] = self._sums.get(name, 0.0) + scalar
            self._counts[name] = self._counts.get(name, 0) + 1

    def drain(self, prefix: str) -> dict[str, float]:
        """Means since the last call."""
        found = {
            f"{prefix}/{name}": float(s) / self._counts[name] for name, s in self._sums.items()
        }
        self._sums.clear()
        self._counts.clear()
        return found


class frozen:  # noqa: N801  (reads as a statement: `with frozen(network):`)
    """Within the block, gradients pass through a network to its inputs but not to its weights."""

    def __init__(self, network: nn.Module) -> None:
        self._parameters = list(network.parameters())

    def __enter__(self) -> None:
        for parameter in self._parameters:
            parameter.requires_grad_(False)

    def __exit__(self, *exception: object) -> None:
        for parameter in self._parameters:
            parameter.requires_grad_(True)
