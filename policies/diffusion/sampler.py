"""Forward noising, DDIM and ancestral sampling, as the papers write them.

These are the plain forms: the tests hold them against another library, and hold the fast decoder
of `decoder.py` against them. All noise is an argument.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from outrider.policies.diffusion.config import Prediction
from outrider.policies.diffusion.schedule import Table

Denoise = Callable[[Tensor, int], Tensor]
"""Noisy chunk (B, D) and step t -> the network's prediction (B, D)."""


def add_noise(clean: Tensor, noise: Tensor, alpha_bar: Tensor) -> Tensor:
    """q(z_t | x_0) with its noise given; alpha_bar broadcasts against the chunks."""
    return alpha_bar.sqrt() * clean + (1 - alpha_bar).sqrt() * noise


def predicted_clean(
    noisy: Tensor, output: Tensor, alpha_bar: float, prediction: Prediction, clip: bool
) -> Tensor:
    """x_0 as the network's output implies it, clipped to [-1, 1] if asked."""
    clean = output
    if prediction == "epsilon":
        clean = (noisy - math.sqrt(1 - alpha_bar) * output) / math.sqrt(alpha_bar)
    return clean.clamp(-1, 1) if clip else clean


def ddim(
    denoise: Denoise,
    noise: Tensor,
    alpha_bar: Table,
    timesteps: Sequence[int],
    prediction: Prediction,
    clip: bool,
) -> Tensor:
    """DDIM with eta = 0: noise (B, D) -> clean chunk (B, D).

    Epsilon is recomputed from the clipped x_0, so that the two always explain z_t together.
    """
    z = noise
    following = [float(alpha_bar[t]) for t in timesteps[1:]] + [1.0]
    for t, next_bar in zip(timesteps, following, strict=True):
        bar = float(alpha_bar[t])
        clean = predicted_clean(z, denoise(z, t), bar, prediction, clip)
        epsilon = (z - math.sqrt(bar) * clean) / math.sqrt(1 - bar)
        z = math.sqrt(next_bar) * clean + math.sqrt(1 - next_bar) * epsilon
    return z


def ddpm(
    denoise: Denoise,
    noise: Tensor,
    step_noise: Tensor,
    betas: Table,
    prediction: Prediction,
    clip: bool,
) -> Tensor:
    """Ancestral sampling through all T steps: noise (B, D) -> clean chunk (B, D).

    `step_noise` (T, B, D) is the noise added after each step t; that of t = 0 has no effect.
    """
    alpha_bar = np.cumprod(1 - betas)
    z = noise
    for t in reversed(range(len(betas))):
        bar, previous = float(alpha_bar[t]), float(alpha_bar[t - 1]) if t else 1.0
        clean = predicted_clean(z, denoise(z, t), bar, prediction, clip)
        beta = float(betas[t])
        mean = (
            math.sqrt(previous) * beta / (1 - bar) * clean
            + math.sqrt(1 - beta) * (1 - previous) / (1 - bar) * z
        )
        deviation = math.sqrt((1 - previous) / (1 - bar) * beta)
        z = torch.add(mean, step_noise[t], alpha=deviation)
    return z
