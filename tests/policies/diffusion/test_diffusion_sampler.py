"""Whole sampling loops against the diffusers library, in float64."""

import warnings

import numpy as np
import pytest
import torch

from outrider.policies.diffusion.sampler import add_noise, ddim, ddpm
from outrider.policies.diffusion.schedule import alpha_bars, cosine_betas, ddim_timesteps

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the reference library's own imports
    from diffusers import DDIMScheduler, DDPMScheduler

T, B, D = 20, 6, 28
BETAS = cosine_betas(T)
BARS = alpha_bars(BETAS)


def network(seed=0):
    """Something nonlinear of moderate size, with the step in it."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(D, D, generator=generator, dtype=torch.float64) / D**0.5
    return lambda z, t: torch.tanh(z @ weight + 0.1 * t)


def draw(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def exact(scheduler):
    """Give the reference our float64 table: its own is rounded to float32, and 1 - 0.999 is then
    off by 5e-5 of itself, which the first trailing step divides by."""
    scheduler.betas = torch.from_numpy(BETAS)
    scheduler.alphas = 1 - scheduler.betas
    scheduler.alphas_cumprod = torch.from_numpy(BARS)
    scheduler.final_alpha_cumprod = scheduler.one = torch.tensor(1.0, dtype=torch.float64)
    return scheduler


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("prediction", ["epsilon", "sample"])
@pytest.mark.parametrize(
    ("spacing", "samples"),
    # Where S does not divide T, the reference's trailing steps end beside its own next timestep.
    [("trailing", 5), ("trailing", 10), ("trailing", 20), ("leading", 5), ("leading", 8)],
)
def test_ddim_is_that_of_the_reference_library(spacing, samples, prediction, clip):
    scheduler = exact(
        DDIMScheduler(
            num_train_timesteps=T,
            beta_schedule="squaredcos_cap_v2",
            prediction_type=prediction,
            clip_sample=clip,
            timestep_spacing=spacing,
        )
    )
    scheduler.set_timesteps(samples)
    denoise, noise = network(), draw(B, D)
    expected = noise
    for t in scheduler.timesteps.tolist():
        expected = scheduler.step(
            denoise(expected, t), t, expected, eta=0, use_clipped_model_output=clip
        ).prev_sample
    got = ddim(denoise, noise, BARS, ddim_timesteps(T, samples, spacing), prediction, clip)
    scale = expected.abs().max().clamp(min=1)
    torch.testing.assert_close(got / scale, expected / scale, rtol=0, atol=1e-6)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("prediction", ["epsilon", "sample"])
def test_ancestral_sampling_is_that_of_the_reference_library(prediction, clip, monkeypatch):
    scheduler = exact(
        DDPMScheduler(
            num_train_timesteps=T,
            beta_schedule="squaredcos_cap_v2",
            prediction_type=prediction,
            clip_sample=clip,
        )
    )
    scheduler.set_timesteps(T)
    denoise, noise, step_noise = network(), draw(B, D), draw(T, B, D, seed=2)
    module = "diffusers.schedulers.scheduling_ddpm.randn_tensor"
    expected = noise
    for t in scheduler.timesteps.tolist():
        monkeypatch.setattr(module, lambda *_, t=t, **__: step_noise[t])
        expected = scheduler.step(denoise(expected, t), t, expected).prev_sample
    got = ddpm(denoise, noise, step_noise, BETAS, prediction, clip)
    scale = expected.abs().max().clamp(min=1)
    torch.testing.assert_close(got / scale, expected / scale, rtol=0, atol=1e-6)


def test_forward_noising_is_that_of_the_reference_library():
    scheduler = exact(DDPMScheduler(num_train_timesteps=T, beta_schedule="squaredcos_cap_v2"))
    clean, noise, t = draw(B, D), draw(B, D, seed=2), torch.tensor([0, 3, 7, 11, 15, 19])
    expected = scheduler.add_noise(clean, noise, t)
    got = add_noise(clean, noise, torch.from_numpy(BARS)[t, None])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("samples", [1, 5, 20])
def test_ddim_recovers_the_data_when_the_network_knows_it(samples):
    """A point mass has the exact score; DDIM must land on it from any noise."""
    target = torch.linspace(-0.9, 0.9, D, dtype=torch.float64)

    def denoise(z, t):
        return (z - BARS[t] ** 0.5 * target) / (1 - BARS[t]) ** 0.5

    got = ddim(denoise, draw(B, D), BARS, ddim_timesteps(T, samples, "trailing"), "epsilon", True)
    torch.testing.assert_close(got, target.expand(B, D), rtol=0, atol=1e-9)


def test_trailing_ddim_reproduces_a_gaussian_and_leading_does_not():
    """Data N(0, s^2) has the linear score; trailing starts at the right variance, leading at one
    that is too large for its first step."""
    s = 0.3

    def denoise(z, t):
        return z * (1 - BARS[t]) ** 0.5 / (BARS[t] * s**2 + 1 - BARS[t])

    noise = draw(1, 1).new_ones(1, 1)  # DDIM is linear here: the gain is the standard deviation
    gain = {
        spacing: float(ddim(denoise, noise, BARS, ddim_timesteps(T, 20, spacing), "epsilon", False))
        for spacing in ("trailing", "leading")
    }
    assert gain["trailing"] == pytest.approx(gain["leading"])  # S = T: both visit every step
    few = {
        spacing: float(ddim(denoise, noise, BARS, ddim_timesteps(T, 8, spacing), "epsilon", False))
        for spacing in ("trailing", "leading")
    }
    ideal = s / np.sqrt(BARS[14] * s**2 + 1 - BARS[14])  # what unit noise becomes from t = 14
    assert few["leading"] == pytest.approx(ideal, rel=0.2)
    assert few["leading"] > few["trailing"]
