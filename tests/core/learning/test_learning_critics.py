"""The batched ensemble against K separate networks, and the reductions."""

import math

import pytest
import torch
from torch import nn

from outrider.core.learning.critics import CriticEnsemble, polyak, reduce_heads


def ensemble(critics=3, width=8, layers=2, initial_value=0.0, seed=0):
    return CriticEnsemble(
        4,
        2,
        critics=critics,
        width=width,
        layers=layers,
        activation="tanh",
        initial_value=initial_value,
        generator=torch.Generator().manual_seed(seed),
    )


def alone(critics, head):
    """Head number `head` as an ordinary sequential network."""
    blocks = []
    count = len(critics.weights)
    for i in range(count):
        weight, bias = critics.weights[i][head], critics.biases[i][head, 0]
        linear = nn.Linear(*weight.shape)
        linear.weight.data, linear.bias.data = weight.T.clone(), bias.clone()
        blocks.append(linear)
        if i < count - 1:
            norm = nn.LayerNorm(critics.width)
            norm.weight.data = critics.scales[i][head, 0].clone()
            norm.bias.data = critics.shifts[i][head, 0].clone()
            blocks += [norm, nn.Tanh()]
    return nn.Sequential(*blocks)


def test_each_head_is_an_ordinary_network():
    critics = ensemble()
    for scale in critics.scales:
        nn.init.uniform_(scale, 0.5, 2.0)
    observation, decision = torch.randn(5, 4), torch.randn(5, 2)
    values = critics(observation, decision)
    assert values.shape == (3, 5)
    for head in range(3):
        single = alone(critics, head)(torch.cat([observation, decision], 1)).squeeze(1)
        assert torch.allclose(values[head], single, atol=1e-6)


def test_heads_do_not_share_gradients():
    critics = ensemble()
    critics(torch.randn(5, 4), torch.randn(5, 2))[1].sum().backward()
    for parameter in critics.parameters():
        assert parameter.grad[0].abs().sum() == 0
        assert parameter.grad[2].abs().sum() == 0
    assert critics.weights[0].grad[1].abs().sum() > 0


def test_heads_start_apart_at_the_initial_value():
    values = ensemble(critics=10, width=64, initial_value=-25.0)(
        torch.randn(50, 4), torch.randn(50, 2)
    )
    assert values.std(dim=0).mean() > 0.05
    assert values.mean().item() == pytest.approx(-25.0, abs=0.5)


def test_second_derivatives_exist():
    critics, decision = ensemble(), torch.randn(5, 2, requires_grad=True)
    gradient = torch.autograd.grad(
        critics(torch.randn(5, 4), decision).sum(), decision, create_graph=True
    )[0]
    gradient.square().sum().backward()
    assert torch.isfinite(decision.grad).all() and decision.grad.abs().sum() > 0


def test_initial_weights_come_from_the_generator():
    assert torch.equal(ensemble(seed=3).weights[1], ensemble(seed=3).weights[1])
    assert not torch.equal(ensemble(seed=3).weights[1], ensemble(seed=4).weights[1])


def test_reductions():
    values = torch.tensor([[1.0, 9.0], [2.0, 5.0], [3.0, 1.0]])
    generator = torch.Generator().manual_seed(0)
    assert reduce_heads(values, "min", generator=generator).tolist() == [1, 1]
    assert reduce_heads(values, "mean", generator=generator).tolist() == [2, 5]
    seen = {
        tuple(reduce_heads(values, "subset", subset=2, generator=generator).tolist())
        for _ in range(100)
    }
    assert seen == {(1.0, 5.0), (1.0, 1.0), (2.0, 1.0)}  # the minima of the three pairs


def test_polyak_is_a_weighted_mean():
    target, online = ensemble(seed=0), ensemble(seed=1)
    before = target.weights[0].detach().clone()
    polyak(target, online, 0.25)
    assert torch.allclose(target.weights[0], 0.75 * before + 0.25 * online.weights[0], atol=1e-7)


def test_uniform_initialisation_bound():
    weight = ensemble(width=64).weights[1]
    assert weight.abs().max() <= 1 / math.sqrt(64)
    assert weight.std().item() == pytest.approx(1 / math.sqrt(64) / math.sqrt(3), rel=0.05)
