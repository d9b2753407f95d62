"""Specs, errors, seeds and progress."""

import io
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from outrider.core import seeds
from outrider.core.errors import CheckFailed, MissingDependency, OutriderError, nearest
from outrider.core.progress import Silent, Terminal
from outrider.core.types import Episode, Field, Spec

ARM = Spec(
    (
        Field("q", (2,), "rad", (-3.0, -2.0), (3.0, 2.0)),
        Field("grip", (), "m", (0.0,), (0.08,)),
        Field("force", (3,), "N"),
    )
)


def test_a_spec_lays_fields_out_in_order():
    assert ARM.size == 6
    assert ARM.slices() == {"q": slice(0, 2), "grip": slice(2, 3), "force": slice(3, 6)}
    assert ARM.labels() == ["q[0]", "q[1]", "grip", "force[0]", "force[1]", "force[2]"]
    assert ARM.low[:3].tolist() == [-3, -2, 0] and np.isinf(ARM.low[3:]).all()
    assert ARM.high.dtype == np.float32


@given(
    st.lists(
        st.tuples(st.text("abc", min_size=1), st.lists(st.integers(1, 3), max_size=2)),
        unique_by=lambda f: f[0],
        max_size=4,
    )
)
def test_json_round_trip(fields):
    spec = Spec(tuple(Field(name, tuple(shape), "m") for name, shape in fields))
    assert Spec.from_json(spec.to_json()) == spec
    assert spec.refusals(spec) == []


def test_refusals_say_why():
    swapped = Spec(ARM.fields[::-1])
    assert "in this order" in ARM.refusals(swapped)[0]
    other = Spec((ARM.fields[0], Field("grip", (), "mm", (0.0,), (80.0,)), ARM.fields[2]))
    assert ARM.refusals(other) == [
        "grip: unit is 'mm', expected 'm'",
        "grip: high is (80.0,), expected (0.08,)",
    ]


def test_bad_specs_are_refused():
    with pytest.raises(OutriderError, match="names repeat"):
        Spec((Field("a"), Field("a")))
    with pytest.raises(OutriderError, match="low has 1 numbers for shape"):
        Field("a", (2,), low=(0.0,))


def test_an_episode_knows_its_length_and_success():
    zeros = np.zeros((3, 1), np.float32)
    success = np.array([False, True, False])
    episode = Episode(zeros, zeros, zeros[:, 0], success, zeros[0], True, False, 1)
    assert len(episode) == 3 and episode.succeeded


def test_errors_are_one_line_with_what_where_and_fix():
    error = OutriderError("is\n wrong", where="file", fix="Mend it")
    assert str(error) == "file: is wrong. Mend it"
    assert (error.exit_code, CheckFailed("x").exit_code) == (2, 1)
    assert "pip install 'outrider[sim]'" in str(MissingDependency("torch", "sim", "training"))
    assert nearest("lfit", ["lift", "can"]) == "did you mean 'lift'? valid: can, lift"
    assert nearest("zzz", []) == "valid: none"


def test_named_seeds_are_stable_and_apart():
    assert seeds.integer(1, "a", 2) == seeds.integer(1, "a", 2)
    places = [(1, "a", 2), (1, "a", 3), (1, "b", 2), (2, "a", 2), (1, "a")]
    assert len({seeds.integer(*place) for place in places}) == len(places)
    assert all(0 <= seeds.integer(i, "x") < 2**32 for i in range(50))
    before = random.getstate(), np.random.get_state()[1].copy()
    seeds.generator(3, "x").random()
    assert before[0] == random.getstate() and (before[1] == np.random.get_state()[1]).all()


def test_plain_progress_ends_with_the_last_state():
    stream = io.StringIO()
    terminal = Terminal(Console(file=stream, force_terminal=False, width=200))
    with terminal.bar("train", 10) as bar:
        bar.update(4, {"loss": 0.5})
        bar.update(10, {"loss": 0.25})
    assert stream.getvalue() == "train: 10/10  loss 0.25\n"


def test_live_progress_shows_title_count_and_figures():
    stream = io.StringIO()
    terminal = Terminal(Console(file=stream, force_terminal=True, width=100))
    with terminal.bar("train", 10) as bar:
        bar.update(10, {"loss": 0.25})
    assert "train" in stream.getvalue() and "10/10" in stream.getvalue()
    assert "loss 0.25" in stream.getvalue()


def test_silent_says_nothing(capsys):
    silent = Silent()
    silent.say("x")
    with silent.bar("train", 3) as bar:
        bar.update(1)
    assert capsys.readouterr() == ("", "")
