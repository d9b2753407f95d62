import numpy as np
import pytest
from data_fakes import make_demonstrations
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.data.windows import WindowSampler

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=5)
HORIZON = st.integers(1, 12)


def naive(demonstrations, horizon):
    """The padding rule, one window at a time."""
    for episode in demonstrations.episodes():
        for t in range(len(episode)):
            steps = [min(t + h, len(episode) - 1) for h in range(horizon)]
            valid = [t + h < len(episode) for h in range(horizon)]
            yield episode.observation[t], episode.action[steps], np.array(valid)


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, horizon=HORIZON, batch=st.integers(1, 7))
def test_every_window_matches_the_rule(lengths, horizon, batch):
    demonstrations = make_demonstrations(lengths)
    sampler = WindowSampler(demonstrations, horizon)
    batches = list(sampler.batches(batch))
    assert len(sampler) == demonstrations.steps == sum(len(b.observation) for b in batches)
    expected = list(naive(demonstrations, horizon))
    for side, parts in enumerate(zip(*batches, strict=True)):
        np.testing.assert_array_equal(np.concatenate(parts), np.stack([e[side] for e in expected]))


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, horizon=HORIZON, seed=st.integers(0, 2**32))
def test_no_window_crosses_an_episode(lengths, horizon, seed):
    demonstrations = make_demonstrations(lengths)
    owner = np.repeat(np.arange(len(demonstrations)), demonstrations.lengths)
    demonstrations.observation[:, 0] = owner
    demonstrations.action[:] = owner[:, None]
    windows = WindowSampler(demonstrations, horizon).sample(np.random.default_rng(seed), 64)
    assert (windows.chunk == windows.observation[:, None, :1]).all()
    assert windows.valid[:, 0].all()


def test_shapes_and_dtypes():
    sampler = WindowSampler(make_demonstrations(), 4)
    observation, chunk, valid = sampler.sample(np.random.default_rng(0), 10)
    assert (observation.shape, observation.dtype) == ((10, 6), np.float32)
    assert (chunk.shape, chunk.dtype) == ((10, 4, 2), np.float32)
    assert (valid.shape, valid.dtype) == ((10, 4), np.bool_)


def test_every_start_is_equally_likely():
    demonstrations = make_demonstrations((1, 7, 2))
    demonstrations.observation[:, 0] = np.arange(10)
    sampler = WindowSampler(demonstrations, 3)
    draws = 20_000
    windows = sampler.sample(np.random.default_rng(7), draws)
    counts = np.bincount(windows.observation[:, 0].astype(int), minlength=10)
    chi_square = float(((counts - draws / 10) ** 2 / (draws / 10)).sum())
    assert chi_square < 27.9  # 99.9% quantile, 9 degrees of freedom


def test_only_the_given_generator_decides():
    sampler = WindowSampler(make_demonstrations(), 3)
    a = sampler.sample(np.random.default_rng(3), 32)
    np.random.seed(0)
    b = sampler.sample(np.random.default_rng(3), 32)
    c = sampler.sample(np.random.default_rng(4), 32)
    assert all((x == y).all() for x, y in zip(a, b, strict=True))
    assert (a.observation != c.observation).any()


def test_output_is_reused_only_when_asked():
    sampler = WindowSampler(make_demonstrations(), 3)
    rng = np.random.default_rng(0)
    first = sampler.sample(rng, 8)
    kept = first.chunk.copy()
    assert not np.shares_memory(first.chunk, sampler.sample(rng, 8).chunk)
    np.testing.assert_array_equal(first.chunk, kept)
    again = sampler.sample(rng, 8, out=first)
    assert again.chunk is first.chunk


@pytest.mark.parametrize("start", [-1, 17])
def test_a_start_that_does_not_exist(start):
    with pytest.raises(IndexError, match="of 17 windows"):
        WindowSampler(make_demonstrations(), 2).at(np.array([3, start]))


def test_horizon_must_be_positive():
    with pytest.raises(ValueError, match="horizon is 0"):
        WindowSampler(make_demonstrations(), 0)
