"""The rule of DF-ExpEnse: equations 2 and 6 to 12, and what follows from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from outrider.core.config import validate
from outrider.core.errors import OutriderError
from outrider.core.learning.types import CandidateView, Capabilities
from outrider.plugins.df_expense import rule
from outrider.plugins.df_expense.config import DfExpEnseConfig
from outrider.plugins.df_expense.explorer import DfExpEnse

SHAPES = st.tuples(st.integers(2, 6), st.integers(1, 5), st.integers(1, 5))


def heads_of(seed, shape=(10, 4, 3)):
    return np.random.default_rng(seed).normal(-20, 3, shape).astype(np.float32)


def view(values, n_prior=1):
    _, n, m = values.shape
    source = np.zeros((n, m), np.int64)
    source[:, m - n_prior :] = 1
    return CandidateView(np.zeros((n, m, 2, 1), np.float32), source)


def choose(values, seed=0, **config):
    explorer = DfExpEnse(DfExpEnseConfig(candidates=values.shape[2], **config))
    observation = np.zeros((values.shape[1], 3), np.float32)
    return explorer.choose(observation, view(values), values, np.random.default_rng(seed))


def paper(values, alpha):
    """Equations 2 and 6 to 12, written out as printed."""
    v = values.astype(np.float64).min(axis=0)
    d = values.astype(np.float64).std(axis=0)
    vbar = (v - v.mean()) / v.std()
    dbar = (d - d.mean()) / d.std()
    return (vbar + alpha * dbar).argmax(axis=1)


@pytest.mark.parametrize("seed", range(50))
def test_choice_is_that_of_the_printed_equations(seed):
    values = heads_of(seed)
    assert (choose(values).index == paper(values, 0.5)).all()


def test_hand_computed_case():
    # two robots, two candidates, two heads
    values = np.array([[[1.0, 0.0], [4.0, 5.0]], [[1.0, 4.0], [4.0, 5.0]]], np.float32)
    scores = rule.score(values, "min")
    assert scores.value.tolist() == [[1, 0], [4, 5]]
    assert scores.disagreement.tolist() == [[0, 2], [0, 0]]
    v, d = np.array([1, 0, 4, 5.0]), np.array([0, 2, 0, 0.0])
    rate = rule.exchange_rate(scores, 0.5, fleet_normalization=True)
    assert rate == pytest.approx(0.5 * v.std() / d.std(), rel=1e-12)
    assert choose(values, prior=0).index.tolist() == [1, 1]  # 2 * rate > 1: disagreement wins
    assert choose(values, prior=0, fleet_normalization=False, alpha=0.4).index.tolist() == [0, 1]


@given(st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-50, 50))
@settings(max_examples=60, deadline=None)
def test_scaling_and_shifting_all_critics_changes_nothing(seed, scale, shift):
    values = np.random.default_rng(seed).normal(0, 1, (5, 4, 3))
    wide = (scale * values + shift).astype(np.float64)
    assert (choose(values).index == choose(wide).index).all()


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_robots_and_candidates_are_interchangeable(seed):
    values = heads_of(seed)
    robots = np.random.default_rng(seed).permutation(4)
    candidates = np.random.default_rng(seed + 1).permutation(3)
    base = choose(values).index
    assert (choose(values[:, robots]).index == base[robots]).all()
    assert (candidates[choose(values[:, :, candidates]).index] == base).all()


@given(st.integers(0, 10_000), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_fleet_moments_merge_to_those_of_the_whole(seed, split):
    values = np.random.default_rng(seed).normal(1e3, 2, (4, 3))
    merged = rule.Moments.of(values[:split]).merge(rule.Moments.of(values[split:]))
    assert merged.count == 12
    assert merged.mean == pytest.approx(values.mean(), rel=1e-12)
    assert merged.std == pytest.approx(values.std(), rel=1e-9)


@given(SHAPES, st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_identical_heads_reduce_to_the_highest_value(shape, seed):
    _, n, m = shape
    one = np.random.default_rng(seed).normal(size=(1, n, m)).astype(np.float32)
    values = np.repeat(one, shape[0], axis=0)
    selection = choose(values, prior=0)
    assert (selection.index == one[0].argmax(axis=1)).all()
    assert all(np.isfinite(list(selection.scalars.values())))


@given(arrays(np.float32, SHAPES, elements=st.floats(-100, 100, width=32)))
@settings(max_examples=60, deadline=None)
def test_any_finite_values_give_valid_indices_and_finite_figures(values):
    selection = choose(values, prior=0)
    assert selection.index.shape == (values.shape[1],)
    assert ((selection.index >= 0) & (selection.index < values.shape[2])).all()
    assert all(np.isfinite(list(selection.scalars.values())))


def test_alpha_zero_without_fleet_is_max_q():
    values = heads_of(3)
    expected = values.min(axis=0).argmax(axis=1)
    assert (choose(values, alpha=0.0, fleet_normalization=False).index == expected).all()
    assert (choose(values, rule="max-q").index == expected).all()


def test_max_q_has_no_prior_candidate_unless_asked():
    assert DfExpEnse(DfExpEnseConfig(rule="max-q")).n_prior == 0
    assert DfExpEnse(DfExpEnseConfig(rule="max-q", prior=1)).n_prior == 1
    explorer = DfExpEnse(DfExpEnseConfig())
    assert (explorer.n_policy, explorer.n_prior) == (2, 1)


def test_ddof_of_either_deviation_is_irrelevant_with_fleet_normalisation():
    values = heads_of(5)
    scores = rule.score(values, "min")
    sample = rule.Scores(scores.value, values.astype(np.float64).std(axis=0, ddof=1))
    a = rule.combine(scores, rule.exchange_rate(scores, 0.5, True))
    b = rule.combine(sample, rule.exchange_rate(sample, 0.5, True))
    assert np.allclose(a, b, rtol=1e-12)


def test_ties_are_broken_by_the_generator_and_without_bias():
    tied = np.zeros((4000, 3))
    counts = np.bincount(rule.best(tied, np.random.default_rng(0)), minlength=3)
    # a fair three-sided die: each count within five standard deviations of 4000/3
    assert np.abs(counts - 4000 / 3).max() < 5 * np.sqrt(4000 * 2 / 9)
    again = rule.best(tied, np.random.default_rng(0))
    assert (again == rule.best(tied, np.random.default_rng(0))).all()


def test_softmax_draws_in_proportion():
    scores = np.tile(np.log([1.0, 2.0, 7.0]), (20_000, 1))
    share = np.bincount(rule.draw(scores, 1.0, np.random.default_rng(1))) / 20_000
    assert share == pytest.approx([0.1, 0.2, 0.7], abs=0.02)


@pytest.mark.parametrize(("heads", "expected"), [(2, 1.0), (5, 1.38), (10, 1.67)])
def test_pessimism_of_gaussian_heads(heads, expected):
    values = np.random.default_rng(0).normal(size=(heads, 200, 200)).astype(np.float32)
    assert rule.pessimism(values) == pytest.approx(expected, abs=0.01)


def test_head_correlation_sees_shared_and_independent_heads():
    shared = np.repeat(heads_of(1, (1, 40, 5)), 4, axis=0)
    assert rule.head_correlation(shared) == pytest.approx(1.0)
    assert abs(rule.head_correlation(heads_of(2, (4, 200, 5)))) < 0.05


def test_prior_wins_are_counted():
    values = np.zeros((2, 4, 3), np.float32)
    values[:, :3, 2] = 1.0  # the prior candidate is best for three of four robots
    values[:, 3, 0] = 1.0
    assert choose(values).scalars["prior_wins"] == 0.75


def test_capabilities_that_do_not_suit_are_refused_in_a_sentence():
    explorer = DfExpEnse(DfExpEnseConfig())
    assert explorer.refusals(Capabilities(10, "action", has_prior=True)) == []
    assert "no" in explorer.refusals(Capabilities(0, "none", has_prior=True))[0]
    assert "off policy" in explorer.refusals(Capabilities(0, "none", True, on_policy=True))[0]
    assert "two critics" in explorer.refusals(Capabilities(1, "action", has_prior=True))[0]
    assert "prior: 0" in explorer.refusals(Capabilities(10, "action", has_prior=False))[0]


def test_more_prior_candidates_than_candidates_is_an_error():
    with pytest.raises(OutriderError, match="exceeds candidates"):
        validate(DfExpEnseConfig, {"candidates": 2, "prior": 3}, "plugins.df-expense")


def test_a_misspelt_key_names_the_nearest():
    with pytest.raises(OutriderError, match="did you mean 'candidates'"):
        validate(DfExpEnseConfig, {"candidate": 2}, "plugins.df-expense")
