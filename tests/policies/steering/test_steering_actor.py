"""The noise actor against torch's own distributions, and the steered policy as a pure function."""

import math

import numpy as np
import pytest
import torch
from steering_fakes import A, AffinePolicy, H, O

from outrider.policies.steering.actor import NoiseActor, SteeredPolicy


def actor(bound=1.5, std=0.7, seed=0, randomize=True):
    net = NoiseActor(
        O,
        H * A,
        width=16,
        layers=2,
        activation="tanh",
        bound=bound,
        initial_std=std,
        generator=torch.Generator().manual_seed(seed),
    )
    if randomize:
        torch.manual_seed(seed)
        torch.nn.init.normal_(net.head.weight, 0, 0.3)
    return net


def test_log_density_is_that_of_the_squashed_gaussian():
    net, observation, eps = actor(), torch.randn(50, O), torch.randn(50, H * A)
    drawn = net.sample(observation, eps)
    mean, log_std = net(observation)
    squashed = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(mean, log_std.exp()),
        [
            torch.distributions.transforms.TanhTransform(cache_size=1),
            torch.distributions.transforms.AffineTransform(0.0, 1.5),
        ],
    )
    expected = squashed.log_prob(drawn.noise).sum(-1)
    assert torch.allclose(drawn.log_prob, expected, atol=2e-3)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(drawn.noise).sum(-1)
    assert torch.allclose(drawn.log_prior, prior, atol=1e-5)


def test_log_density_stays_finite_where_tanh_saturates():
    net = actor()
    drawn = net.sample(torch.zeros(1, O), torch.full((1, H * A), 40.0))
    assert drawn.noise.abs().max() <= 1.5
    assert torch.isfinite(drawn.log_prob).all()


def test_density_integrates_to_one():
    """One dimension, by quadrature over the noise itself."""
    net = NoiseActor(
        1,
        1,
        width=4,
        layers=1,
        activation="tanh",
        bound=1.5,
        initial_std=0.8,
        generator=torch.Generator().manual_seed(0),
    )
    eps = torch.linspace(-6, 6, 4001)[:, None]
    with torch.no_grad():
        drawn = net.sample(torch.zeros(4001, 1), eps)
    w, p = drawn.noise[:, 0].double().numpy(), drawn.log_prob.exp().double().numpy()
    assert np.trapezoid(p, w) == pytest.approx(1.0, abs=1e-4)


def test_starts_near_the_prior():
    net = actor(bound=2.5, std=1 / 2.5, randomize=False)
    noise = net.noise(torch.randn(4000, O), torch.randn(4000, H * A)).detach()
    assert noise.mean().item() == pytest.approx(0, abs=0.05)
    assert noise.std().item() == pytest.approx(0.9, abs=0.1)  # a little below one: squashed tails
    assert torch.equal(net.mean_noise(torch.randn(3, O)), torch.zeros(3, H * A))


def test_steered_policy_is_the_base_behind_the_actor():
    base, net = AffinePolicy(), actor()
    policy = SteeredPolicy(base, net)
    observation, noise = torch.randn(5, O), torch.randn(5, H, A)
    w = net.noise(base.normalize_observation(observation), noise.flatten(1)).view(5, H, A)
    assert torch.equal(policy(observation, noise), base(observation, w))
    assert (policy.horizon, policy.execute, policy.action_size) == (H, H, A)


def test_zero_noise_is_the_deterministic_policy():
    base, net = AffinePolicy(), actor()
    observation = torch.randn(5, O)
    chunk = SteeredPolicy(base, net)(observation, torch.zeros(5, H, A))
    mean = net.mean_noise(base.normalize_observation(observation)).view(5, H, A)
    assert torch.allclose(chunk, base(observation, mean))
    assert math.isfinite(chunk.sum().item())
