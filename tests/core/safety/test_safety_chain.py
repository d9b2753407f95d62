"""Whatever comes in: what goes out is finite, within limits, and accounted for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from outrider.core.errors import CheckFailed, OutriderError
from outrider.core.safety.chain import (
    Attribution,
    FieldLimits,
    FilterChain,
    HoldIfNotFinite,
    built_in_chain,
)
from outrider.core.types import Field, Spec

SPEC = Spec(
    (
        Field("arm", (2,), "rad", (-1.0, 0.5), (1.0, 2.0)),
        Field("gripper", (), "", (0.0,), (1.0,)),
    )
)
FREE = Spec((Field("wheel", (2,), "rad/s"), Field("brake", (), "", (0.0,), (1.0,))))
NOTHING = np.zeros(1, np.float32)

ANY = arrays(np.float32, 3, elements=st.floats(width=32, allow_nan=True, allow_infinity=True))


def within(command, spec=SPEC):
    return bool((np.isfinite(command) & (command >= spec.low) & (command <= spec.high)).all())


@given(st.lists(ANY, max_size=8))
def test_what_goes_out_is_finite_and_within_limits(commands):
    chain = built_in_chain(SPEC)
    for command in commands:
        before = command.copy()
        out = chain.apply(NOTHING, command)
        assert within(out) and out.dtype == np.float32 and out.shape == (3,)
        np.testing.assert_array_equal(command, before)  # the policy's chunk is left alone


@given(st.lists(ANY, max_size=8))
def test_elements_without_limits_are_finite_all_the_same(commands):
    chain = built_in_chain(FREE)
    for command in commands:
        assert within(chain.apply(NOTHING, command), FREE)


@given(arrays(np.float32, 3, elements=st.floats(0.5, 1.0, width=32)))
def test_a_good_command_passes_unchanged(command):
    chain = built_in_chain(SPEC)
    np.testing.assert_array_equal(chain.apply(NOTHING, command), command)
    assert chain.changed == {}


@given(st.lists(ANY, max_size=8))
def test_passing_twice_changes_nothing_more(commands):
    for command in commands:
        once = built_in_chain(SPEC).apply(NOTHING, command)
        np.testing.assert_array_equal(built_in_chain(SPEC).apply(NOTHING, once), once)


@given(st.lists(ANY, max_size=8))
def test_attribution_is_exact(commands):
    chain, last = built_in_chain(SPEC), np.float32([0, 1.25, 0.5])
    held = clipped = 0
    largest = 0.0
    for command in commands:
        finite = np.where(np.isfinite(command), command, last)
        out = np.clip(finite, SPEC.low, SPEC.high)
        held += not np.isfinite(command).all()
        clipped += not np.array_equal(finite, out)
        largest = max(largest, float(np.abs(finite.astype(np.float64) - out).max()))
        np.testing.assert_array_equal(chain.apply(NOTHING, command), out)
        last = finite
    assert chain.changed.get("finite", Attribution()).commands == held
    assert chain.changed.get("limits", Attribution()) == Attribution(clipped, largest)


def test_holding_starts_at_the_middle_and_goes_on_with_the_last():
    hold = HoldIfNotFinite(SPEC)
    nan = np.full(3, np.nan, np.float32)
    np.testing.assert_array_equal(hold.apply(NOTHING, nan), np.float32([0, 1.25, 0.5]))
    np.testing.assert_array_equal(
        hold.apply(NOTHING, np.float32([1, np.inf, 0])), np.float32([1, 1.25, 0])
    )
    np.testing.assert_array_equal(hold.apply(NOTHING, nan), np.float32([1, 1.25, 0]))
    np.testing.assert_array_equal(
        HoldIfNotFinite(FREE).apply(NOTHING, nan), np.float32([0, 0, 0.5])
    )


def test_the_middle_of_enormous_limits_is_finite():
    huge = Spec((Field("x", (), "", (3e38,), (3.3e38,)),))
    held = HoldIfNotFinite(huge).apply(NOTHING, np.float32([np.nan]))
    assert np.isfinite(held).all()


def test_an_envelope_narrows_and_never_widens():
    limits = FieldLimits(SPEC, {"low": [-9, 1, 0], "high": [0.25, 9, 1]})
    for value, expected in ((-50, [-1, 1, 0]), (50, [0.25, 2, 1])):
        np.testing.assert_array_equal(
            limits.apply(NOTHING, np.full(3, value, np.float32)), np.float32(expected)
        )


def test_an_envelope_beyond_float32_limits_nothing():
    item = FieldLimits(SPEC, {"low": [-1e308] * SPEC.size, "high": [1e308] * SPEC.size})
    command = np.full(SPEC.size, 1e30, np.float32)
    assert np.array_equal(item.apply(command, command), FieldLimits(SPEC).apply(command, command))


def test_an_envelope_outside_the_limits_is_refused():
    with pytest.raises(OutriderError, match="envelope lies outside"):
        built_in_chain(SPEC, {"low": [2, 1, 0], "high": [3, 2, 1]})


class Act:
    def __init__(self, function):
        self.apply = lambda observation, action: function(action)


def raising(action):
    raise ValueError("broken\nin two lines")


@pytest.mark.parametrize(
    "function, words",
    [
        (raising, "'mine' raised ValueError"),
        (lambda action: None, "'mine' gave shape ()"),
        (lambda action: action[:1], r"'mine' gave shape (1,), expected (3,)"),
        (lambda action: action[None], r"'mine' gave shape (1, 3)"),
        (lambda action: ["a", "b", "c"], "'mine' raised ValueError"),
    ],
)
def test_a_broken_filter_fails_the_check(function, words):
    chain = FilterChain([("mine", Act(function))])
    with pytest.raises(CheckFailed) as caught:
        chain.apply(NOTHING, np.zeros(3, np.float32))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_person_passes_through_a_filter():
    def stop(action):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FilterChain([("mine", Act(stop))]).apply(NOTHING, np.zeros(3, np.float32))


def test_a_filter_that_edits_in_place_is_found_out():
    def edit(action):
        action += 0.25
        return action

    chain = FilterChain([("mine", Act(edit)), ("idle", Act(lambda action: action))])
    command = np.zeros(3, np.float32)
    out = chain.apply(NOTHING, command)
    np.testing.assert_array_equal(command, 0)
    np.testing.assert_array_equal(out, np.float32(0.25))
    assert chain.changed == {"mine": Attribution(1, 0.25)}


def test_filters_act_in_order_and_limits_have_the_last_word():
    double = ("double", Act(lambda action: 2 * action))
    chain = FilterChain([double, *built_in_chain(SPEC).filters])
    out = chain.apply(NOTHING, np.float32([0.75, 0.75, 0.25]))
    np.testing.assert_array_equal(out, np.float32([1, 1.5, 0.5]))
    assert chain.changed["double"] == Attribution(1, 0.75)
    assert chain.changed["limits"] == Attribution(1, 0.5)


def test_a_float64_answer_becomes_float32():
    chain = FilterChain([("mine", Act(lambda action: action.astype(np.float64)))])
    assert chain.apply(NOTHING, np.zeros(3, np.float32)).dtype == np.float32
