"""The replay ring against a list that does the same."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.errors import OutriderError
from outrider.core.learning.replay import ReplayBuffer


def rows(start, count):
    """Transitions whose every number is their own serial number."""
    serial = np.arange(start, start + count, dtype=np.float32)
    return {
        "observation": np.repeat(serial[:, None], 3, 1),
        "next_observation": np.repeat(serial[:, None], 3, 1) + 0.5,
        "decision": np.repeat(serial[:, None], 2, 1),
        "reward": serial,
        "bootstrap": serial / 1000,
    }


@given(st.lists(st.integers(1, 7), max_size=12))
@settings(max_examples=40, deadline=None)
def test_holds_the_last_transitions(counts):
    buffer, kept, start = ReplayBuffer(10, 3, 2), [], 0
    for count in counts:
        buffer.add(rows(start, count))
        kept = (kept + list(range(start, start + count)))[-10:]
        start += count
    assert len(buffer) == len(kept)
    assert sorted(buffer.field("reward")[:, 0].tolist()) == kept


def test_a_batch_keeps_rows_together_and_normalises_observations():
    buffer = ReplayBuffer(50, 3, 2)
    buffer.add(rows(0, 50))
    batch = buffer.sample(np.random.default_rng(0), 200, lambda x: x * 10)
    assert (batch.observation[:, 0] == batch.reward * 10).all()
    assert (batch.next_observation[:, 1] == (batch.reward + 0.5) * 10).all()
    assert (batch.decision[:, 1] == batch.reward).all()
    assert batch.bootstrap == pytest.approx(batch.reward.numpy() / 1000)
    assert len(torch.unique(batch.reward)) > 40  # uniform draws reach nearly all of 50 rows


def test_same_generator_same_batches():
    buffer = ReplayBuffer(50, 3, 2)
    buffer.add(rows(0, 20))
    a = buffer.sample(np.random.default_rng(1), 8, lambda x: x)
    b = buffer.sample(np.random.default_rng(1), 8, lambda x: x)
    assert (a.reward == b.reward).all()


def test_state_round_trip_continues_the_ring():
    one, two = ReplayBuffer(10, 3, 2), ReplayBuffer(10, 3, 2)
    one.add(rows(0, 13))
    two.load_state_dict(one.state_dict())
    one.add(rows(13, 4))
    two.add(rows(13, 4))
    assert (one.field("reward") == two.field("reward")).all()


def test_what_does_not_fit_is_refused():
    buffer = ReplayBuffer(10, 3, 2)
    bad = rows(0, 2)
    bad["reward"] = np.array([0.0, np.nan], np.float32)
    with pytest.raises(OutriderError, match="not finite"):
        buffer.add(bad)
    with pytest.raises(OutriderError, match="'decision' is missing"):
        buffer.add({k: v for k, v in rows(0, 1).items() if k != "decision"})
    wide = rows(0, 1) | {"decision": np.zeros((1, 5), np.float32)}
    with pytest.raises(OutriderError, match="has 5 numbers, expected 2"):
        buffer.add(wide)
    assert len(buffer) == 0
