"""The moving average of weights and the learning-rate schedule, by arithmetic."""

import pytest
import torch

from outrider.core.learning.ema import WeightAverage, averaging_share
from outrider.core.learning.pretrain import learning_rate
from outrider.core.recipe import PretrainSection


def test_share_falls_from_nearly_one_to_the_constant():
    assert averaging_share(1, 0.005) == pytest.approx(0.9)
    assert averaging_share(91, 0.005) == pytest.approx(0.09)
    assert averaging_share(10_000, 0.005) == 0.005


def test_average_follows_its_recursion_and_leaves_the_module_alone():
    module = torch.nn.Linear(1, 1)
    with torch.no_grad():
        module.weight.fill_(0.0)
    average, expected = WeightAverage(module, 0.5), 0.0
    for step in range(1, 30):
        with torch.no_grad():
            module.weight.fill_(float(step))
        average.update(module)
        expected += averaging_share(step, 0.5) * (step - expected)
    assert module.weight.item() == 29
    average.copy_to(module)
    assert module.weight.item() == pytest.approx(expected, rel=1e-6)


def test_average_state_round_trips():
    module = torch.nn.Linear(2, 2)
    one = WeightAverage(module, 0.1)
    with torch.no_grad():
        module.weight.add_(1)
    one.update(module)
    two = WeightAverage(torch.nn.Linear(2, 2), 0.1)
    two.load_state_dict(one.state_dict())
    one.update(module)
    two.update(module)
    assert torch.equal(one.state_dict()["average"]["weight"], two.state_dict()["average"]["weight"])


def test_learning_rate_warms_up_linearly_and_falls_to_a_tenth():
    section = PretrainSection(steps=1100, warmup=100, learning_rate=1e-3)
    assert learning_rate(1, section) == pytest.approx(1e-5)
    assert learning_rate(100, section) == pytest.approx(1e-3)
    assert learning_rate(600, section) == pytest.approx(0.55e-3)
    assert learning_rate(1100, section) == pytest.approx(1e-4)


@pytest.mark.parametrize("warmup", [0, 10, 20])
def test_learning_rate_without_or_with_nothing_but_warm_up(warmup):
    section = PretrainSection(steps=10, warmup=warmup)
    rates = [learning_rate(step, section) for step in range(1, 11)]
    assert all(0 < rate <= 1e-3 for rate in rates)
