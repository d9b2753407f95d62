"""The noise schedule of DDPM and the steps that DDIM visits. numpy, float64.

Notation of the papers: beta_t is the variance added at step t, alpha-bar_t the product of
(1 - beta) up to t. A noisy chunk is z_t = sqrt(alpha-bar_t) x_0 + sqrt(1 - alpha-bar_t) eps.
"""

import math

import numpy as np
import numpy.typing as npt

from outrider.policies.diffusion.config import Spacing

Table = npt.NDArray[np.float64]

MAX_BETA = 0.999


def cosine_betas(steps: int, offset: float = 0.008) -> Table:
    """The cosine schedule of Nichol and Dhariwal, (T,), clipped so that alpha-bar stays positive.

    Args:
        steps: T.
        offset: s, which keeps the first betas from being vanishingly small.
    """

    def signal(fraction: float) -> float:
        return math.cos((fraction + offset) / (1 + offset) * math.pi / 2) ** 2

    ratios = [signal((t + 1) / steps) / signal(t / steps) for t in range(steps)]
    return np.minimum(1 - np.asarray(ratios, dtype=np.float64), MAX_BETA)


def alpha_bars(betas: Table) -> Table:
    """The share of signal variance that is left at each step, (T,)."""
    return np.cumprod(1 - betas, dtype=np.float64)


def ddim_timesteps(steps: int, samples: int, spacing: Spacing) -> list[int]:
    """The S of T steps that DDIM visits, from noisy to clean.

    Args:
        steps: T.
        samples: S <= T.
        spacing: `trailing` counts down from T - 1 in strides of T / S; `inner` does the same on
            the first T - 1 steps; `leading` counts up from 0 in strides of floor(T / S).
    """
    if spacing == "inner":
        return ddim_timesteps(steps - 1, samples, "trailing")
    if spacing == "leading":
        return [j * (steps // samples) for j in reversed(range(samples))]
    strided = np.round(np.arange(steps, 0, -steps / samples)[:samples])
    return [int(t) - 1 for t in strided]
