"""The fast decoder against the plain denoiser in a plain DDIM loop."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.policies.diffusion import decoder
from outrider.policies.diffusion.config import DiffusionConfig
from outrider.policies.diffusion.policy import DiffusionPolicy
from outrider.policies.diffusion.sampler import ddim
from outrider.policies.diffusion.schedule import alpha_bars, cosine_betas

torch.set_num_threads(1)


def make_policy(observation=5, action=2, seed=0, **settings):
    config = DiffusionConfig(**{"width": 16, **settings})
    limit = np.ones(action, np.float32)
    policy = DiffusionPolicy(config, observation, -limit, limit)
    policy.initialize(torch.Generator().manual_seed(seed))
    return policy.eval()


def inputs(policy, batch, seed=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    observation = torch.randn(batch, policy.observation_size, generator=generator, dtype=dtype)
    shape = (batch, policy.horizon, policy.action_size)
    return observation, torch.randn(shape, generator=generator, dtype=dtype)


def plain(policy, observation, noise):
    """The paper's loop: the network called at each step with everything concatenated."""

    def denoise(z, t):
        return policy.network(z, torch.full((len(z),), t), observation)

    config = policy.config
    bars = alpha_bars(cosine_betas(config.denoising_steps))
    clean = ddim(
        denoise, noise.flatten(1), bars, policy.timesteps, config.prediction, config.clip_sample
    )
    return clean.view(noise.shape)[:, : policy.execute]


@settings(max_examples=40, deadline=None)
@given(
    depth=st.sampled_from([3, 5, 7]),
    prediction=st.sampled_from(["epsilon", "sample"]),
    spacing=st.sampled_from(["trailing", "leading"]),
    clip=st.booleans(),
    activation=st.sampled_from(["relu", "mish"]),
    samples=st.integers(1, 20),
    seed=st.integers(0, 100),
)
def test_decoder_equals_the_plain_loop(depth, prediction, spacing, clip, activation, samples, seed):
    policy = make_policy(
        depth=depth,
        prediction=prediction,
        spacing=spacing,
        clip_sample=clip,
        activation=activation,
        sampling_steps=samples,
        seed=seed,
    ).double()
    observation, noise = inputs(policy, 3, seed, torch.float64)
    with torch.no_grad():
        expected, got = plain(policy, observation, noise), policy.decode(observation, noise)
    scale = expected.abs().max().clamp(min=1)
    torch.testing.assert_close(got / scale, expected / scale, rtol=0, atol=1e-9)


@pytest.mark.parametrize("activation", ["relu", "mish"])
def test_decoder_equals_the_plain_loop_in_single_precision(activation):
    policy = make_policy(19, 7, width=64, prediction="sample", activation=activation)
    observation, noise = inputs(policy, 50)
    with torch.no_grad():
        expected, got = plain(policy, observation, noise), policy.decode(observation, noise)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-6)


def test_many_rows_are_decoded_in_pieces_with_equal_results(monkeypatch):
    policy = make_policy(prediction="sample")
    observation, noise = inputs(policy, 50)
    with torch.no_grad():
        whole = policy.decode(observation, noise)
        monkeypatch.setattr(decoder, "CPU_ROWS", 16)
        pieces = policy.decode(observation, noise)
    torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("depth", [3, 5])
@pytest.mark.parametrize("activation", ["relu", "mish"])
def test_gradients_equal_those_of_the_plain_loop(depth, activation):
    policy = make_policy(depth=depth, activation=activation, clip_sample=False).double()
    observation, noise = inputs(policy, 3, dtype=torch.float64)
    noise.requires_grad_()
    parameters = [*policy.network.parameters(), noise]
    expected = torch.autograd.grad(plain(policy, observation, noise).sum(), parameters)
    got = torch.autograd.grad(policy.decode(observation, noise).sum(), parameters)
    for a, b in zip(got, expected, strict=True):
        scale = b.abs().max().clamp(min=1)
        torch.testing.assert_close(a / scale, b / scale, rtol=0, atol=1e-9)


def test_frozen_policy_passes_gradients_to_its_inputs():
    policy = make_policy(prediction="sample")
    policy.requires_grad_(False)
    observation, noise = inputs(policy, 3)
    noise.requires_grad_()
    policy.decode(observation, noise).sum().backward()
    assert noise.grad is not None and noise.grad.abs().sum() > 0


def test_decoding_in_inference_mode_does_not_spoil_later_gradients():
    policy = make_policy(prediction="sample").requires_grad_(False)
    observation, noise = inputs(policy, 3)
    with torch.inference_mode():
        first = policy.decode(observation, noise).clone()
    noise.requires_grad_()
    second = policy.decode(observation, noise)
    second.sum().backward()
    assert torch.equal(first, second) and noise.grad is not None


@pytest.mark.parametrize("change", ["optimizer", "load", "double", "copy"])
def test_changed_weights_are_folded_again(change):
    policy = make_policy(prediction="sample").requires_grad_(change == "optimizer")
    observation, noise = inputs(policy, 4)
    with torch.no_grad():
        before = policy.decode(observation, noise)
    if change == "optimizer":
        optimizer = torch.optim.AdamW(policy.parameters(), lr=0.1, fused=True)
        policy.decode(observation, noise).sum().backward()
        optimizer.step()
    elif change == "load":
        policy.load_state_dict(make_policy(prediction="sample", seed=5).state_dict())
    elif change == "double":
        policy.double()
        observation, noise = observation.double(), noise.double()
    else:
        with torch.no_grad():
            policy.network.output.weight.mul_(2)
    with torch.no_grad():
        after = policy.decode(observation, noise)
        expected = plain(policy, observation, noise)
    torch.testing.assert_close(after, expected, rtol=0, atol=1e-6)
    assert change == "double" or not torch.equal(after, before)


def test_frozen_weights_are_folded_once_for_many_calls(monkeypatch):
    policy = make_policy().requires_grad_(False)
    calls = []
    original = policy._fold
    monkeypatch.setattr(policy, "_fold", lambda: calls.append(1) or original())
    observation, noise = inputs(policy, 2)
    with torch.no_grad():
        for _ in range(3):
            policy.decode(observation, noise)
    assert len(calls) == 1
