from dataclasses import replace

import numpy as np
import pytest
from counting_robot import SPEC, CountingFactory
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.errors import OutriderError
from outrider.core.simulation.fleet import SerialFleet

A, O = 2, 3  # noqa: E741


def fleet_of(*plans, **spec):
    return SerialFleet([plan() for plan in plans], replace(SPEC, **spec))


def chunks(n, e, value=0.0):
    return np.full((n, e, A), value, np.float32)


def test_a_chunk_stops_at_the_step_that_ends_the_episode():
    fleet = fleet_of(CountingFactory(falls_at=2), CountingFactory())
    fleet.reset({0: 0, 1: 1})
    result = fleet.step(chunks(2, 5, 0.5))
    assert result.steps.tolist() == [2, 5]
    assert result.rewards.tolist() == [[1, 2, 0, 0, 0], [1, 2, 3, 4, 5]]
    assert not result.observations[0, 2:].any()
    assert not result.actions[0, 2:].any()
    assert (result.actions[1] == 0.5).all()


def test_the_next_observation_is_the_true_terminal_one():
    fleet = fleet_of(CountingFactory(falls_at=3))
    fleet.reset({0: 4})
    result = fleet.step(chunks(1, 5))
    assert result.next_observation[0, 2] == 3
    np.testing.assert_array_equal(result.next_observation[0], result.observations[0, 2])


@pytest.mark.parametrize(
    ("plan", "spec", "terminated", "truncated", "steps"),
    [
        (CountingFactory(falls_at=3), {}, True, False, 3),
        (CountingFactory(success_at=3), {}, True, False, 3),
        (CountingFactory(success_at=3), {"ends_on_success": False}, False, False, 5),
        (CountingFactory(), {"max_steps": 4}, False, True, 4),
        (CountingFactory(falls_at=4), {"max_steps": 4}, True, False, 4),
        (CountingFactory(), {"max_steps": 6}, False, False, 5),
    ],
)
def test_termination_and_truncation_are_told_apart(plan, spec, terminated, truncated, steps):
    fleet = fleet_of(plan, **spec)
    fleet.reset({0: 0})
    result = fleet.step(chunks(1, 5))
    assert (result.terminated[0], result.truncated[0]) == (terminated, truncated)
    assert result.steps[0] == steps
    assert result.done[0] == (terminated or truncated)


def test_success_is_reported_where_it_does_not_end_the_episode():
    fleet = fleet_of(CountingFactory(success_at=2), ends_on_success=False)
    fleet.reset({0: 0})
    assert fleet.step(chunks(1, 3)).success.tolist() == [[False, True, False]]


def test_the_limit_counts_over_chunks_and_starts_again_at_a_reset():
    fleet = fleet_of(CountingFactory(), max_steps=5)
    for _ in range(2):
        fleet.reset({0: 0})
        assert not fleet.step(chunks(1, 3)).truncated[0]
        result = fleet.step(chunks(1, 3))
        assert (result.truncated[0], result.steps[0]) == (True, 2)


def test_commands_are_clipped_to_the_limits_and_returned_as_executed():
    fleet = fleet_of(CountingFactory())
    fleet.reset({0: 0})
    actions = fleet.step(chunks(1, 2, 9.0)).actions
    assert actions.tolist() == [[[1, 2], [1, 2]]]
    assert actions.dtype == np.float32
    assert fleet.step(chunks(1, 1, -9.0)).actions.tolist() == [[[-1, -2]]]


def test_idle_robots_do_nothing_and_keep_their_observation():
    fleet = fleet_of(*[CountingFactory()] * 3)
    first = fleet.reset({0: 0, 2: 2})
    result = fleet.step(chunks(3, 2), np.array([True, False, False]))
    assert result.steps.tolist() == [2, 0, 0]
    assert not result.done.any()
    np.testing.assert_array_equal(result.next_observation[2], first[1])
    assert not result.next_observation[1].any()  # it was never reset


def test_a_reset_returns_observations_in_the_order_of_its_keys():
    fleet = fleet_of(*[CountingFactory()] * 3)
    straight, turned = fleet.reset({0: 5, 2: 6}), fleet.reset({2: 6, 0: 5})
    np.testing.assert_array_equal(straight, turned[::-1])
    assert straight.shape == (2, O)
    assert straight.dtype == np.float32
    assert fleet.reset({}).shape == (0, O)


@settings(max_examples=60, deadline=None)
@given(
    ends=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4),
    executes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    limit=st.integers(1, 9),
)
def test_fleets_agree_with_robots_that_are_stepped_by_hand(ends, executes, limit):
    """Chunk by chunk against a plain loop over single steps."""
    plans = [CountingFactory(success_at=s, falls_at=f) for s, f in ends]
    fleet = fleet_of(*plans, max_steps=limit)
    fleet.reset({n: 100 + n for n in range(len(plans))})
    robots = [plan() for plan in plans]
    for n, robot in enumerate(robots):
        robot.reset(100 + n)
    over, rng = np.zeros(len(plans), bool), np.random.default_rng(0)
    for execute in executes:
        sent = rng.uniform(-2, 2, (len(plans), execute, A)).astype(np.float32)
        result = fleet.step(sent, ~over)
        for n, robot in enumerate(robots):
            taken = 0
            while not over[n] and taken < execute:
                step = robot.step(np.clip(sent[n, taken], [-1, -2], [1, 2]).astype(np.float32))
                np.testing.assert_array_equal(result.observations[n, taken], step.observation)
                assert result.rewards[n, taken] == step.reward
                taken += 1
                fell = step.terminated or step.success
                if fell or robot.count == limit:
                    over[n] = True
                    assert (result.terminated[n], result.truncated[n]) == (fell, not fell)
            assert result.steps[n] == taken
            assert not taken or result.next_observation[n, 2] == robot.count


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(4)), st.lists(st.booleans(), min_size=4, max_size=4))
def test_an_episode_depends_on_its_seed_alone(order, others_reset):
    """Neither the place in the fleet nor what the other robots do has a say."""
    alone = fleet_of(CountingFactory())
    alone.reset({0: 77})
    expected = alone.step(chunks(1, 3, 0.3)).observations[0]
    fleet = fleet_of(*[CountingFactory(falls_at=2)] * 4)
    place = order[0]
    fleet._slots[place] = fleet_of(CountingFactory())._slots[0]
    fleet.reset({n: n for n in order})
    fleet.step(chunks(4, 1, 1.0), np.array(others_reset))
    fleet.reset({place: 77})
    found = fleet.step(chunks(4, 3, 0.3), np.arange(4) == place).observations[place]
    np.testing.assert_array_equal(found, expected)


def test_stepping_a_robot_whose_episode_is_over_is_an_error():
    fleet = fleet_of(CountingFactory(falls_at=1), CountingFactory())
    with pytest.raises(OutriderError, match=r"robots \[0, 1\] are asked to act.*Reset"):
        fleet.step(chunks(2, 1))
    fleet.reset({0: 0, 1: 1})
    fleet.step(chunks(2, 1))
    with pytest.raises(OutriderError, match=r"robots \[0\] are asked to act"):
        fleet.step(chunks(2, 1))
    fleet.step(chunks(2, 1), np.array([False, True]))
    fleet.reset({0: 0})
    fleet.step(chunks(2, 1))


@pytest.mark.parametrize(
    ("plan", "value", "message"),
    [
        (CountingFactory(), np.nan, "test/counting, robot 1, step 3: the action is not finite"),
        (CountingFactory(), np.inf, "robot 1, step 3: the action is not finite"),
        (
            CountingFactory(nan_at=3),
            0.0,
            "test/counting, robot 1, step 3: the observation count is not finite",
        ),
    ],
)
def test_numbers_that_are_not_finite_are_refused_by_task_robot_and_step(plan, value, message):
    fleet = fleet_of(CountingFactory(), plan)
    fleet.reset({0: 0, 1: 1})
    sent = chunks(2, 4)
    sent[1, 2, 0] = value
    with pytest.raises(OutriderError, match=message) as caught:
        fleet.step(sent)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda f: f.step(np.zeros((1, 2, A))), r"chunks have shape \(1, 2, 2\), expected \(2, E"),
        (lambda f: f.step(np.zeros((2, 2, 5))), "chunks have shape"),
        (lambda f: f.step(np.zeros((2, 0, A))), "chunks have shape"),
        (lambda f: f.step(chunks(2, 1), np.ones(3, bool)), "active has shape"),
        (lambda f: f.reset({2: 0}), "there is no robot 2 among 2"),
        (lambda f: f.reset({0: -1}), "seed -1"),
        (lambda f: f.collect(), "collect without a submit"),
        (lambda f: (f.submit(chunks(2, 1)), f.submit(chunks(2, 1))), "under way"),
        (lambda f: (f.submit(chunks(2, 1)), f.reset({0: 0})), "under way"),
        (lambda f: (f.close(), f.reset({0: 0})), "closed"),
    ],
)
def test_wrong_use_is_refused_in_one_line(use, message):
    fleet = fleet_of(CountingFactory(), CountingFactory())
    fleet.reset({0: 0, 1: 1})
    with pytest.raises(OutriderError, match=message):
        use(fleet)


def test_closing_closes_every_simulator_once():
    fleet = fleet_of(CountingFactory(), CountingFactory())
    fleet.close()
    fleet.close()
    assert all(slot.simulator.closed for slot in fleet._slots)
