"""The policy as a module: normalisers, limits, loss, determinism, and its provider."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from outrider.core.config import validate
from outrider.core.errors import OutriderError
from outrider.core.types import Field, Spec, TaskSpec
from outrider.policies.diffusion.config import DiffusionConfig
from outrider.policies.diffusion.network import TimeEmbedding
from outrider.policies.diffusion.normalizer import MinMaxNormalizer
from outrider.policies.diffusion.plugin import DiffusionPlugin
from outrider.policies.diffusion.policy import build

torch.set_num_threads(1)

O, A, H = 3, 2, 4  # noqa: E741


def make_task(low=(-1.0, -0.5), high=(1.0, 0.5)):
    return TaskSpec(
        task="test/reach",
        observation=Spec((Field("position", (O,), "m"),)),
        action=Spec((Field("velocity", (A,), "m/s", low, high),)),
        rate_hz=20,
        max_steps=50,
        ends_on_success=True,
        reward="none",
    )


def make_policy(**settings):
    return build(DiffusionConfig(**{"width": 16, "prediction": "sample", **settings}), make_task())


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_normalizer_maps_the_range_of_the_data_to_one():
    normalizer = MinMaxNormalizer(2, range_floor=0.01)
    normalizer.fit(np.array([[0, -3], [4, 5], [1, 0]], np.float32), "data")
    got = normalizer.normalize(torch.tensor([[0.0, 5.0], [4.0, -3.0], [2.0, 1.0]]))
    torch.testing.assert_close(got, torch.tensor([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]))


def test_nearly_constant_elements_are_scaled_by_the_floor():
    normalizer = MinMaxNormalizer(2, range_floor=0.5)
    normalizer.fit(np.array([[2, 0.1], [2, 0.1 + 1e-6]], np.float32), "data")
    got = normalizer.normalize(torch.tensor([[2.25, 0.1]]))
    torch.testing.assert_close(got, torch.tensor([[1.0, 0.0]]), rtol=0, atol=1e-5)


def test_normalizer_refuses_what_has_no_range():
    normalizer = MinMaxNormalizer(1, range_floor=0.5)
    with pytest.raises(OutriderError, match="no values"):
        normalizer.fit(np.zeros((0, 1), np.float32), "data")
    with pytest.raises(OutriderError, match="data: a value is NaN or infinite"):
        normalizer.fit(np.array([[np.nan]], np.float32), "data")


def test_actions_round_trip_and_are_clipped_to_the_limits_of_the_task():
    policy = make_policy()
    rng = np.random.default_rng(0)
    action = rng.uniform(-0.4, 0.4, (100, A)).astype(np.float32)
    policy.fit_normalizer(np.zeros((100, O), np.float32), action)
    physical = torch.from_numpy(action)
    back = policy.denormalize_action(policy.normalize_action(physical))
    torch.testing.assert_close(back, physical, rtol=0, atol=1e-6)
    wild = policy.denormalize_action(torch.full((1, A), 9.0))
    torch.testing.assert_close(wild, torch.tensor([[1.0, 0.5]]))


@pytest.mark.parametrize(("execute", "rows"), [(None, 4), (1, 1), (3, 3)])
def test_shapes_limits_and_purity(execute, rows):
    policy = make_policy(execute=execute)
    observation, noise = 5 * normal(6, O), normal(6, H, A, seed=1)
    state = torch.random.get_rng_state()
    with torch.no_grad():
        first, second = policy(observation, noise), policy(observation, noise)
    assert first.shape == (6, rows, A) and policy.execute == rows
    assert torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (first <= policy.action_high).all() and (first >= policy.action_low).all()


def test_call_is_decode_between_normalisers():
    policy = make_policy(execute=2)
    rng = np.random.default_rng(0)
    policy.fit_normalizer(
        rng.normal(size=(50, O)).astype(np.float32),
        rng.uniform(-0.5, 0.5, (50, A)).astype(np.float32),
    )
    observation, noise = normal(5, O), normal(5, H, A, seed=1)
    inside = policy.decode(policy.normalize_observation(observation), noise)
    torch.testing.assert_close(policy(observation, noise), policy.denormalize_action(inside))


def test_weights_come_from_the_generator_alone():
    state = torch.random.get_rng_state()
    one, two = make_policy(), make_policy()
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    two.initialize(torch.Generator().manual_seed(7))
    assert not torch.equal(one.network.input.weight, two.network.input.weight)
    assert torch.equal(torch.random.get_rng_state(), state)
    bound = 1 / one.network.input.in_features**0.5
    assert one.network.input.weight.abs().max() <= bound
    assert one.network.input.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)


def test_time_embedding_distinguishes_every_step():
    embedding = TimeEmbedding(100, 16)
    table = embedding.sinusoids
    assert table.shape == (100, 16)
    torch.testing.assert_close(table[0], torch.tensor([0.0] * 8 + [1.0] * 8))
    distances = torch.cdist(table, table) + 9 * torch.eye(100)
    assert distances.min() > 0.1


def test_loss_is_that_of_its_definition(monkeypatch):
    policy = make_policy(prediction="epsilon")
    observation, chunk = normal(2, O), normal(2, H, A, seed=1).clamp(-1, 1)
    valid = torch.tensor([[True, True, False, False], [True, True, True, True]])
    generator = torch.Generator().manual_seed(3)
    step = torch.randint(20, (2,), generator=generator)
    noise = torch.randn((2, H * A), generator=generator)
    bar = policy.alpha_bar[step, None]
    noisy = bar.sqrt() * chunk.flatten(1) + (1 - bar).sqrt() * noise
    error = (policy.network(noisy, step, observation) - noise).view(2, H, A) ** 2
    expected = (error[0, :2].sum() + error[1].sum()) / (6 * A)
    got = policy.loss(observation, chunk, valid, torch.Generator().manual_seed(3))
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("prediction", ["epsilon", "sample"])
def test_loss_ignores_the_error_of_padding(prediction):
    """Padding reaches the network's input, but its own error pulls at nothing."""
    policy = make_policy(prediction=prediction)
    observation, chunk = normal(4, O), normal(4, H, A, seed=1)
    nothing = torch.zeros(4, H, dtype=torch.bool)
    loss = policy.loss(observation, chunk, nothing, torch.Generator().manual_seed(0))
    assert loss == 0
    loss.backward()
    assert all((p.grad == 0).all() for p in policy.parameters())


def test_timesteps_of_the_loss_are_uniform(monkeypatch):
    policy = make_policy()
    seen = []
    forward = policy.network.forward
    monkeypatch.setattr(
        policy.network, "forward", lambda z, t, o: seen.append(t) or forward(z, t, o)
    )
    B = 20_000
    valid = torch.ones(B, H, dtype=torch.bool)
    policy.loss(torch.zeros(B, O), torch.zeros(B, H, A), valid, torch.Generator().manual_seed(0))
    counts = torch.bincount(seen[0], minlength=20).double()
    chi_squared = ((counts - B / 20) ** 2 / (B / 20)).sum()
    assert chi_squared < 44  # 19 degrees of freedom, p < 0.001


def test_unbounded_actions_are_refused():
    task = make_task(low=(-1.0, -np.inf))
    with pytest.raises(OutriderError, match=r"test/reach: actions without finite.*velocity\[1\]"):
        build(DiffusionConfig(), task)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"horizn": 3}, r"policy.horizn: unknown key. did you mean 'horizon'"),
        ({"execute": 9}, "execute 9 is more than horizon 4"),
        ({"sampling_steps": 30}, "sampling_steps 30 is more than the 19"),
        ({"depth": 4}, "depth 4 is even"),
        ({"time_embedding": 15}, "policy.time_embedding"),
        ({"activation": "gelu"}, "policy.activation"),
    ],
)
def test_bad_settings_are_named(values, message):
    with pytest.raises(OutriderError, match=message):
        validate(DiffusionConfig, values, "policy")


def test_plugin_offers_the_policy_and_builds_it():
    (provider,) = DiffusionPlugin().policies()
    policy = provider.build(validate(provider.config, {"width": 8}, "policy"), make_task())
    assert (provider.name, policy.horizon, policy.observation_size) == ("diffusion", 4, O)


def test_plugin_and_config_import_without_torch():
    code = (
        "import sys; from outrider.policies.diffusion.plugin import DiffusionPlugin;"
        "DiffusionPlugin().policies();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
