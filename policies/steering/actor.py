"""The noise actor, and the policy that it makes together with a frozen decoder."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from outrider.core.learning.types import ChunkPolicy

LOG_STD_RANGE = (-5.0, 2.0)
_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


@dataclass(frozen=True, slots=True)
class NoiseSample:
    """Noise drawn by the actor.

    Attributes:
        noise: (B, D), b * tanh(z).
        log_prob: (B,), log density of the noise under the actor.
        log_prior: (B,), log density of the noise under the standard normal.
    """

    noise: Tensor
    log_prob: Tensor
    log_prior: Tensor


class NoiseActor(nn.Module):
    """A squashed Gaussian over the noise of a whole chunk: w = b * tanh(mu + std * eps).

    The last layer starts at zero, so that at first the noise does not depend on the observation
    and has standard deviation `b * initial_std` (before squashing).
    """

    def __init__(
        self,
        observation_size: int,
        noise_size: int,
        *,
        width: int,
        layers: int,
        activation: Literal["tanh", "relu"],
        bound: float,
        initial_std: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.bound = bound
        sizes = [observation_size, *[width] * layers]
        blocks: list[nn.Module] = []
        for fan_in, fan_out in pairwise(sizes):
            blocks += [_linear(fan_in, fan_out, generator), nn.LayerNorm(fan_out)]
            blocks += [_ACTIVATIONS[activation]()]
        self.trunk = nn.Sequential(*blocks)
        self.head = _linear(width, 2 * noise_size, generator)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        with torch.no_grad():
            self.head.bias[noise_size:] = math.log(initial_std)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised (B, O) -> mean and log standard deviation of z, each (B, D)."""
        mean, log_std = self.head(self.trunk(observation)).chunk(2, dim=-1)
        return mean, log_std.clamp(*LOG_STD_RANGE)

    def mean_noise(self, observation: Tensor) -> Tensor:
        """Normalised (B, O) -> the noise at eps = 0, (B, D)."""
        return self.bound * torch.tanh(self(observation)[0])

    def noise(self, observation: Tensor, eps: Tensor) -> Tensor:
        """Normalised (B, O), standard normal (B, D) -> noise (B, D)."""
        mean, log_std = self(observation)
        return self.bound * torch.tanh(mean + log_std.exp() * eps)

    def sample(self, observation: Tensor, eps: Tensor) -> NoiseSample:
        """The same, with log densities, differentiable in the actor's parameters."""
        mean, log_std = self(observation)
        z = mean + log_std.exp() * eps
        noise = self.bound * torch.tanh(z)
        gaussian = -0.5 * eps.square() - log_std - 0.5 * math.log(2 * math.pi)
        log_prior = -0.5 * noise.square() - 0.5 * math.log(2 * math.pi)
        # log d(b tanh z)/dz, in the form that does not lose digits where tanh saturates
        log_slope = math.log(self.bound) + 2 * (math.log(2.0) - z - nn.functional.softplus(-2 * z))
        return NoiseSample(noise, (gaussian - log_slope).sum(dim=-1), log_prior.sum(dim=-1))


def _linear(fan_in: int, fan_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer whose initial weights come from the generator, not from torch's global one."""
    layer: nn.Linear = skip_init(nn.Linear, fan_in, fan_out)  # type: ignore[no-untyped-call]
    reach = 1.0 / math.sqrt(fan_in)
    nn.init.uniform_(layer.weight, -reach, reach, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


class SteeredPolicy(nn.Module):
    """The base policy behind the noise actor. Has the base's face: noise in, executed chunk out."""

    def __init__(self, base: ChunkPolicy, actor: NoiseActor) -> None:
        super().__init__()
        self.base, self.actor = base, actor
        self.observation_size, self.action_size = base.observation_size, base.action_size
        self.horizon, self.execute = base.horizon, base.execute

    def normalize_observation(self, observation: Tensor) -> Tensor:
        """Physical (B, O) -> normalised (B, O)."""
        return self.base.normalize_observation(observation)

    def normalize_action(self, chunk: Tensor) -> Tensor:
        """Physical (..., A) -> normalised (..., A)."""
        return self.base.normalize_action(chunk)

    def denormalize_action(self, chunk: Tensor) -> Tensor:
        """Normalised (..., A) -> physical (..., A)."""
        return self.base.denormalize_action(chunk)

    def decode(self, normalized_observation: Tensor, noise: Tensor) -> Tensor:
        """Standard normal noise (B, H, A) -> executed chunk (B, E, A), normalised."""
        steered = self.actor.noise(normalized_observation, noise.flatten(1))
        return self.base.decode(normalized_observation, steered.view_as(noise))

    def forward(self, observation: Tensor, noise: Tensor) -> Tensor:
        """Physical observation (B, O), noise (B, H, A) -> executed chunk (B, E, A), physical."""
        normalized = self.normalize_observation(observation)
        return self.denormalize_action(self.decode(normalized, noise))
