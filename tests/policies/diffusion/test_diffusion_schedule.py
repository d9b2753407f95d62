"""The noise schedule against closed forms and against the diffusers library."""

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.policies.diffusion.schedule import alpha_bars, cosine_betas, ddim_timesteps

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the reference library's own imports
    from diffusers import DDIMScheduler

STEPS = (2, 10, 20, 100, 1000)


def reference(steps, samples, spacing):
    scheduler = DDIMScheduler(
        num_train_timesteps=steps, beta_schedule="squaredcos_cap_v2", timestep_spacing=spacing
    )
    scheduler.set_timesteps(samples)
    return scheduler


@pytest.mark.parametrize("steps", STEPS)
def test_schedule_is_that_of_the_reference_library(steps):
    scheduler = reference(steps, 1, "trailing")
    betas = cosine_betas(steps)
    np.testing.assert_allclose(betas, scheduler.betas.numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        alpha_bars(betas), scheduler.alphas_cumprod.numpy(), rtol=0, atol=1e-6
    )


def test_schedule_before_the_clip_telescopes_to_the_cosine():
    steps, s = 20, 0.008
    bars = alpha_bars(cosine_betas(steps, s))
    for t in range(steps - 1):  # the last beta is clipped
        angle = ((t + 1) / steps + s) / (1 + s) * math.pi / 2
        expected = (math.cos(angle) / math.cos(s / (1 + s) * math.pi / 2)) ** 2
        assert bars[t] == pytest.approx(expected, abs=1e-12)
    assert cosine_betas(steps, s)[-1] == 0.999


@pytest.mark.parametrize("spacing", ["trailing", "leading"])
@pytest.mark.parametrize(("steps", "samples"), [(20, 5), (20, 8), (20, 10), (20, 20), (100, 16)])
def test_timesteps_are_those_of_the_reference_library(steps, samples, spacing):
    expected = reference(steps, samples, spacing).timesteps.tolist()
    assert ddim_timesteps(steps, samples, spacing) == expected


@given(st.integers(2, 200), st.data(), st.sampled_from(["trailing", "leading"]))
def test_timesteps_fall_strictly_and_stay_inside(steps, data, spacing):
    samples = data.draw(st.integers(1, steps))
    timesteps = ddim_timesteps(steps, samples, spacing)
    assert len(timesteps) == samples
    assert all(a > b for a, b in pairwise(timesteps))
    assert timesteps[-1] >= 0 and timesteps[0] < steps
    if spacing == "trailing":
        assert timesteps[0] == steps - 1


def test_leading_spacing_starts_where_a_seventh_of_the_signal_is_left():
    bars = alpha_bars(cosine_betas(20))
    start = {
        (spacing, samples): bars[ddim_timesteps(20, samples, spacing)[0]]
        for spacing in ("leading", "trailing")
        for samples in (5, 8, 10)
    }
    assert start["leading", 8] == pytest.approx(0.144, abs=1e-3)
    assert start["leading", 5] == pytest.approx(0.0537, abs=1e-3)
    assert start["leading", 10] == pytest.approx(0.006, abs=1e-3)
    assert max(start["trailing", n] for n in (5, 8, 10)) < 1e-5


def test_inner_spacing_is_trailing_without_the_last_step():
    assert ddim_timesteps(20, 5, "inner") == [18, 14, 10, 7, 3]
    assert ddim_timesteps(20, 19, "inner") == list(range(18, -1, -1))


def test_the_clean_chunk_is_well_conditioned_at_the_first_inner_step_only():
    """Rounding of a predicted noise is multiplied by sqrt(1 - alpha-bar) / sqrt(alpha-bar)."""
    alpha_bar = alpha_bars(cosine_betas(20, 0.008))
    gain = {
        spacing: np.sqrt(1 / alpha_bar[ddim_timesteps(20, 5, spacing)[0]] - 1)
        for spacing in ("inner", "trailing")
    }
    assert gain["inner"] < 15 and gain["trailing"] > 300
