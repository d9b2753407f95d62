"""Percentiles against numpy, bounded memory, and the benchmark in a time of the test's own."""

import json
import math
import time

import bundle_fakes as fakes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core.cli.app import run
from outrider.core.errors import CheckFailed, OutriderError
from outrider.core.runtime.clock import SystemClock
from outrider.core.runtime.latency import bench
from outrider.core.runtime.timing import Durations


@given(st.lists(st.floats(0, 10), min_size=1, max_size=200))
def test_percentiles_are_numpys(values):
    durations = Durations(1000)
    for value in values:
        durations.add(value)
    summary = durations.summary_ms()
    for name, q in (("p50", 50), ("p99", 99), ("p999", 99.9)):
        assert summary[name] == pytest.approx(1e3 * np.percentile(values, q))
    assert summary["max"] == 1e3 * max(values) and summary["n"] == len(values)


def test_the_last_ones_are_kept_and_the_maximum_is_never_forgotten():
    durations = Durations(4)
    kept = durations._kept
    for value in [9.0, 1, 2, 3, 4, 5]:
        durations.add(value)
    assert durations._kept is kept and sorted(kept) == [2, 3, 4, 5]
    assert durations.summary_ms() == pytest.approx(
        {"p50": 3500, "p99": 4970, "p999": 4997, "max": 9000, "n": 6}
    )


def test_nothing_measured():
    assert Durations(4).summary_ms() == {"p50": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0, "n": 0}


def test_the_system_clock_waits_and_never_returns_early():
    clock = SystemClock()
    for wait in (0.0, 1e-4, 3e-3):
        deadline = clock.now() + wait
        clock.sleep_until(deadline)
        assert clock.now() >= deadline
    before = time.perf_counter()
    clock.sleep_until(before - 1)
    assert clock.now() >= before


class CountingClock(fakes.FakeClock):
    """Each look at the clock costs a millisecond."""

    def now(self):
        self.time += 1e-3
        return self.time


def test_bench_counts_and_paces_exactly(tmp_path):
    bundle = fakes.opened(tmp_path / "b")
    clock = CountingClock(start=0.0)
    found = bench(bundle, repeats=30, spaced_s=0.4, clock=clock)
    assert found["n"] == 30 and found["p50"] == pytest.approx(1) == found["max"]
    assert found["cold"] == pytest.approx(1) and found["budget"] == 20
    pace = fakes.E / fakes.TASK.rate_hz
    assert found["spaced"]["n"] == 10 == len(clock.waits)
    np.testing.assert_allclose(np.diff(clock.waits), pace)
    assert found["provider"] == "cpu" and found["threads"] == 1


def test_bench_refuses_numbers_without_sense(tmp_path):
    bundle = fakes.opened(tmp_path / "b")
    for wrong in ({"repeats": 0}, {"spaced_s": -1}, {"spaced_s": math.inf}, {"spaced_s": math.nan}):
        with pytest.raises(OutriderError, match="bench"):
            bench(bundle, **wrong)


def test_bench_of_a_graph_that_does_not_fit(tmp_path):
    graph = fakes.graph(np.zeros((7, fakes.A)), sizes=(7, fakes.H, fakes.E, fakes.A))
    with pytest.raises(CheckFailed, match="inference failed"):
        bench(fakes.opened(tmp_path / "b", graph=graph))


def test_bench_on_the_command_line(tmp_path, capsys):
    path = fakes.make_bundle(tmp_path / "b.outrider")
    assert run(["bench", str(path), "--repeats", "20", "--seconds", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == 20 and found["spaced"]["n"] == 0 and found["cold"] > 0
    assert run(["bench", str(path), "--repeats", "20", "--seconds", "0"]) == 0
    assert "back to back" in capsys.readouterr().out
    assert run(["bench", str(path), "--repeats", "0"]) == 2
    assert run(["bench", str(tmp_path / "none")]) == 2
    assert "no such bundle" in capsys.readouterr().err


def test_the_spaced_part_ends_in_time_where_inferences_are_slow(tmp_path, monkeypatch):
    clock = fakes.FakeClock()
    bundle = fakes.opened(tmp_path / "b")
    pace = fakes.E / fakes.TASK.rate_hz

    def slow(self, observation, noise):
        clock.time += 10 * pace
        return np.zeros((fakes.E, fakes.A), np.float32)

    monkeypatch.setattr("outrider.core.bundle.session.Session.infer", slow)
    spaced = bench(bundle, repeats=1, spaced_s=100 * pace, clock=clock)["spaced"]
    assert 10 <= spaced["n"] <= 11 and spaced["p50"] == pytest.approx(1e4 * pace)


def test_a_pace_slower_than_the_time_given_is_measured_once(tmp_path):
    bundle = fakes.opened(tmp_path / "b")
    found = bench(bundle, repeats=1, spaced_s=1e-6, clock=fakes.FakeClock())
    assert found["spaced"]["n"] == 1
