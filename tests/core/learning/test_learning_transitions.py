"""Chunk returns and bootstrap factors against sums written out by hand."""

import numpy as np
import pytest

from outrider.core.learning.transitions import Discounting, executed_chunks
from outrider.core.simulation.types import ChunkResult


def chunk(mode, rewards, steps, terminated, **shape):
    return Discounting(0.9, mode, **shape).chunk(
        np.array([rewards], np.float32), np.array([steps]), np.array([terminated])
    )


def test_within_discounts_every_step_and_bootstraps_with_the_whole_chunk():
    reward, bootstrap = chunk("within", [1, 2, 4, 8], 4, False)
    assert reward[0] == pytest.approx(1 + 2 * 0.9 + 4 * 0.81 + 8 * 0.729)
    assert bootstrap[0] == pytest.approx(0.9**4)


def test_once_sums_and_discounts_once():
    reward, bootstrap = chunk("once", [1, 2, 4, 8], 4, False)
    assert (reward[0], bootstrap[0]) == (15.0, pytest.approx(0.9))


@pytest.mark.parametrize("mode", ["within", "once"])
def test_termination_cuts_the_bootstrap_and_the_chunk(mode):
    reward, bootstrap = chunk(mode, [1, 2, 0, 0], 2, True)
    assert bootstrap[0] == 0.0
    assert reward[0] == pytest.approx(1 + 2 * (0.9 if mode == "within" else 1))


def test_a_time_limit_inside_a_chunk_bootstraps_with_the_executed_steps():
    _, bootstrap = chunk("within", [1, 1, 0, 0], 2, False)
    assert bootstrap[0] == pytest.approx(0.81)


def test_reward_shaping_counts_executed_steps_only():
    reward, _ = chunk("once", [0, 1, 0, 0], 2, True, scale=2.0, offset=-1.0)
    assert reward[0] == pytest.approx((0 - 1) + (2 - 1))


def test_two_half_chunks_compose_to_a_whole_one():
    """R(4) + g^4 V must equal R(2) + g^2 (R'(2) + g^2 V)."""
    whole, factor = chunk("within", [3, 1, 4, 1], 4, False)
    first, factor_a = chunk("within", [3, 1], 2, False)
    second, factor_b = chunk("within", [4, 1], 2, False)
    value = 7.0
    assert whole[0] + factor[0] * value == pytest.approx(
        first[0] + factor_a[0] * (second[0] + factor_b[0] * value), rel=1e-6
    )


def test_what_is_stored_is_what_was_executed_and_the_commanded_tail():
    commanded = np.full((2, 3, 1), 5.0, np.float32)
    executed = np.zeros((2, 3, 1), np.float32)
    executed[0] = 1.0
    executed[1, :1] = 1.0  # robot 1 stopped after one step
    zeros = np.zeros((2, 3), np.float32)
    result = ChunkResult(
        observations=np.zeros((2, 3, 1), np.float32),
        actions=executed,
        rewards=zeros,
        success=zeros.astype(bool),
        steps=np.array([3, 1]),
        next_observation=np.zeros((2, 1), np.float32),
        terminated=np.array([False, True]),
        truncated=np.array([False, False]),
    )
    assert executed_chunks(commanded, result)[..., 0].tolist() == [[1, 1, 1], [1, 5, 5]]
