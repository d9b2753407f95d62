"""The denoiser: a residual MLP on the flattened chunk, the denoising step and the observation."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from outrider.policies.diffusion.config import Activation

Activate = Callable[[Tensor], Tensor]


def mish(x: Tensor) -> Tensor:
    """Mish, x tanh(softplus(x)); spelled out for export, as ONNX Runtime has no CPU kernel."""
    if torch.compiler.is_exporting():
        return x * torch.tanh(functional.softplus(x))
    return functional.mish(x)


ACTIVATIONS: dict[Activation, Activate] = {"relu": torch.relu, "mish": mish}


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer whose weights are not drawn yet; see `initialize`."""
    layer: nn.Linear = skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
    return layer


def initialize(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every linear layer's weights and biases from U(-1/sqrt(inputs), 1/sqrt(inputs))."""
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, nn.Linear):
                bound = 1 / math.sqrt(layer.in_features)
                layer.weight.uniform_(-bound, bound, generator=generator)
                layer.bias.uniform_(-bound, bound, generator=generator)


class TimeEmbedding(nn.Module):
    """Sinusoids of the denoising step, then two layers: step (B,) -> (B, D)."""

    sinusoids: Tensor

    def __init__(self, steps: int, size: int) -> None:
        super().__init__()
        half = size // 2
        rates = torch.exp(-math.log(10_000) / (half - 1) * torch.arange(half, dtype=torch.float64))
        angles = torch.arange(steps, dtype=torch.float64)[:, None] * rates
        table = torch.cat([angles.sin(), angles.cos()], dim=-1).float()
        self.register_buffer("sinusoids", table, persistent=False)
        self.hidden = linear(size, 2 * size)
        self.output = linear(2 * size, size)

    def forward(self, step: Tensor) -> Tensor:
        """Step (B,) int -> (B, D)."""
        embedding: Tensor = self.output(functional.mish(self.hidden(self.sinusoids[step])))
        return embedding


class ResidualBlock(nn.Module):
    """x + W2 f(W1 f(x)), the activation before each layer."""

    def __init__(self, width: int, activation: Activation) -> None:
        super().__init__()
        self.first = linear(width, width)
        self.second = linear(width, width)
        self._activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """(B, W) -> (B, W)."""
        activate = ACTIVATIONS[self._activation]
        hidden: Tensor = self.second(activate(self.first(activate(x))))
        return x + hidden


class Denoiser(nn.Module):
    """Noisy chunk (B, D), step (B,), observation (B, O) -> prediction (B, D); D = H*A.

    All normalised. Weights are drawn by `initialize`, not by the constructor.
    """

    def __init__(
        self,
        observation: int,
        chunk: int,
        *,
        width: int,
        blocks: int,
        steps: int,
        time_embedding: int,
        activation: Activation,
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        self.time = TimeEmbedding(steps, time_embedding)
        self.input = linear(chunk + time_embedding + observation, width)
        self.blocks = nn.ModuleList([ResidualBlock(width, activation) for _ in range(blocks)])
        self.output = linear(width, chunk)

    def forward(self, noisy: Tensor, step: Tensor, observation: Tensor) -> Tensor:
        """Noisy chunk (B, D), step (B,), observation (B, O) -> prediction (B, D)."""
        x = self.input(torch.cat([noisy, self.time(step), observation], dim=-1))
        for block in self.blocks:
            x = block(x)
        prediction: Tensor = self.output(x)
        return prediction
