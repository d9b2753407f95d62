"""The diffusion policy as one torch module: physical units outside, normalised inside."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from outrider.core.errors import OutriderError
from outrider.core.types import Float, TaskSpec
from outrider.policies.diffusion.config import DiffusionConfig
from outrider.policies.diffusion.decoder import Decoder, fold
from outrider.policies.diffusion.network import Denoiser, initialize
from outrider.policies.diffusion.normalizer import MinMaxNormalizer
from outrider.policies.diffusion.sampler import add_noise
from outrider.policies.diffusion.schedule import alpha_bars, cosine_betas, ddim_timesteps


class DiffusionPolicy(nn.Module):
    """Observation (B, O) and noise (B, H, A) -> executed chunk (B, E, A); see `TrainablePolicy`.

    Args:
        config: of the network and the sampler.
        observation_size: O.
        action_low: (A,) lower limits of the task's actions, finite.
        action_high: (A,) upper limits.
    """

    alpha_bar: Tensor
    action_low: Tensor
    action_high: Tensor

    def __init__(
        self, config: DiffusionConfig, observation_size: int, action_low: Float, action_high: Float
    ) -> None:
        super().__init__()
        self.config = config
        self.observation_size, self.action_size = observation_size, len(action_low)
        self.horizon, self.execute = config.horizon, config.executed_steps
        self.observations = MinMaxNormalizer(observation_size, config.observation_range_floor)
        self.actions = MinMaxNormalizer(self.action_size, config.action_range_floor)
        self.network = Denoiser(
            observation_size,
            config.horizon * self.action_size,
            width=config.width,
            blocks=config.blocks,
            steps=config.denoising_steps,
            time_embedding=config.time_embedding,
            activation=config.activation,
        )
        self._alpha_bar = alpha_bars(cosine_betas(config.denoising_steps, config.cosine_offset))
        self.timesteps = ddim_timesteps(
            config.denoising_steps, config.sampling_steps, config.spacing
        )
        self.register_buffer(
            "alpha_bar", torch.from_numpy(self._alpha_bar).float(), persistent=False
        )
        self.register_buffer("action_low", torch.tensor(action_low), persistent=False)
        self.register_buffer("action_high", torch.tensor(action_high), persistent=False)
        self._decoder: tuple[tuple[int, ...], Decoder] | None = None
        self.initialize(torch.Generator().manual_seed(0))

    def initialize(self, generator: torch.Generator) -> None:
        """Draw fresh weights."""
        initialize(self.network, generator)

    def forward(self, observation: Tensor, noise: Tensor) -> Tensor:
        """Physical observation (B, O), noise (B, H, A) -> executed chunk (B, E, A), physical."""
        return self.denormalize_action(self.decode(self.normalize_observation(observation), noise))

    def normalize_observation(self, observation: Tensor) -> Tensor:
        """Physical (B, O) -> what the network sees."""
        return self.observations.normalize(observation)

    def normalize_action(self, chunk: Tensor) -> Tensor:
        """Physical (..., A) -> normalised."""
        return self.actions.normalize(chunk)

    def denormalize_action(self, chunk: Tensor) -> Tensor:
        """Normalised (..., A) -> physical, clipped to the task's action limits."""
        physical = self.actions.denormalize(chunk)
        return torch.minimum(torch.maximum(physical, self.action_low), self.action_high)

    def decode(self, normalized_observation: Tensor, noise: Tensor) -> Tensor:
        """Normalised observation (B, O), noise (B, H, A) -> executed chunk (B, E, A), normalised.

        While the weights are frozen (`requires_grad_(False)`) they are folded once, and again only
        after they were changed in place or replaced. A trainable network is folded at every call,
        since a fused optimiser's step leaves no trace that one could look for.
        """
        clean = self._folded()(normalized_observation, noise.flatten(1))
        return clean.view(-1, self.horizon, self.action_size)[:, : self.execute]

    def fit_normalizer(self, observation: Float, action: Float) -> None:
        """Take the ranges of observations (T, O) and actions (T, A), physical units."""
        self.observations.fit(observation, "observations of the demonstrations")
        self.actions.fit(action, "actions of the demonstrations")

    def loss(
        self, observation: Tensor, chunk: Tensor, valid: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Mean squared error of the prediction at uniformly drawn steps, over valid elements.

        Args:
            observation: (B, O), physical.
            chunk: (B, H, A), physical.
            valid: (B, H) bool, False for padding.
            generator: source of steps and noise.
        """
        clean = self.normalize_action(chunk).flatten(1)
        device, batch = clean.device, len(clean)
        step = torch.randint(len(self.alpha_bar), (batch,), generator=generator, device=device)
        noise = torch.randn(clean.shape, generator=generator, device=device, dtype=clean.dtype)
        noisy = add_noise(clean, noise, self.alpha_bar[step, None])
        output = self.network(noisy, step, self.normalize_observation(observation))
        target = noise if self.config.prediction == "epsilon" else clean
        error = functional.mse_loss(output, target, reduction="none").view(chunk.shape)
        count = (valid.sum() * chunk.shape[-1]).clamp(min=1)
        return torch.sum(error * valid[..., None]) / count

    def _folded(self) -> Decoder:
        if torch.compiler.is_exporting() and self._decoder is not None:
            return self._decoder[1]  # its tensors become constants of the graph
        weights = tuple(self.network.parameters())
        if any(weight.requires_grad for weight in weights):
            return self._fold()
        version = tuple(number for w in weights for number in (w.data_ptr(), w._version))
        if self._decoder is None or self._decoder[0] != version:
            # Tensors made in inference mode could not take part in gradients later on.
            with torch.inference_mode(False), torch.no_grad():
                self._decoder = version, self._fold()
        return self._decoder[1]

    def _fold(self) -> Decoder:
        config = self.config
        return fold(
            self.network, self._alpha_bar, self.timesteps, config.prediction, config.clip_sample
        )


def build(config: DiffusionConfig, task: TaskSpec) -> DiffusionPolicy:
    """The policy for a task, with weights that are drawn but not trained.

    Raises:
        OutriderError: when an action limit of the task is not finite.
    """
    low, high = task.action.low, task.action.high
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        bad = [
            label
            for label, a, b in zip(task.action.labels(), low, high, strict=True)
            if not (np.isfinite(a) and np.isfinite(b))
        ]
        raise OutriderError(
            f"actions without finite limits: {', '.join(bad)}",
            where=task.task,
            fix="Commands are clipped to the task's limits; give them in its action spec.",
        )
    return DiffusionPolicy(config, task.observation.size, low, high)
