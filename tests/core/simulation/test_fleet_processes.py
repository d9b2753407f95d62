import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from counting_robot import SPEC, CountingFactory

from outrider.core.errors import OutriderError
from outrider.core.simulation.build import build_fleet
from outrider.core.simulation.process_fleet import ProcessFleet

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _no_process_is_left():
    yield
    assert multiprocessing.active_children() == []


def chunks(n, e, value=0.0):
    return np.full((n, e, 2), value, np.float32)


def assert_equal_results(a, b):
    for name in a.__dataclass_fields__:
        one, other = getattr(a, name), getattr(b, name)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.flags.c_contiguous
        assert one.tobytes() == other.tobytes(), name


def test_both_forms_give_bitwise_equal_results_through_resets_and_idle_robots():
    """Seven robots in three workers, uneven chunks, episodes that end at different times."""
    factory = CountingFactory(falls_at=6)
    serial = build_fleet(factory, 7, max_steps=5)
    spread = build_fleet(factory, 7, workers=3, max_steps=5)
    assert spread.spec == serial.spec
    assert spread.spec.max_steps == 5
    rng = np.random.default_rng(0)
    wants_reset = np.ones(7, bool)
    try:
        for tick in range(12):
            seeds = {
                int(n): 10 * tick + int(n) for n in rng.permutation(np.flatnonzero(wants_reset))
            }
            assert serial.reset(seeds).tobytes() == spread.reset(seeds).tobytes()
            sent = rng.uniform(-3, 3, (7, 1 + tick % 4, 2)).astype(np.float32)
            active = rng.random(7) < 0.8
            spread.submit(sent, active)
            expected = serial.step(sent, active)
            assert_equal_results(spread.collect(), expected)
            wants_reset = expected.done
    finally:
        spread.close()


def test_submit_returns_while_the_robots_still_move(tmp_path):
    gate = tmp_path / "open"
    fleet = ProcessFleet(CountingFactory(waits_for=str(gate)), 2, 2)
    try:
        fleet.reset({0: 0, 1: 1})
        fleet.submit(chunks(2, 1))
        assert not gate.exists()  # the robots wait for it, and yet we are here
        gate.touch()
        assert fleet.collect().steps.tolist() == [1, 1]
    finally:
        fleet.close()


def test_no_more_workers_than_robots():
    fleet = ProcessFleet(CountingFactory(), 2, 9)
    assert len(multiprocessing.active_children()) == 2
    fleet.close()
    fleet.close()


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (CountingFactory(nan_at=2), "test/counting, robot 0, step 2: the observation count is"),
        (CountingFactory(raises_at=2), "in a worker process: ValueError: two lines"),
        (CountingFactory(dies_at=2), r"worker 0 \(robots 0-0\): .*exit code 7"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_one_line_here_and_closes_the_fleet(factory, message):
    fleet = ProcessFleet(factory, 2, 2)
    fleet.reset({0: 0, 1: 1})
    with pytest.raises(OutriderError, match=message) as caught:
        fleet.step(chunks(2, 3))
    assert "\n" not in str(caught.value)
    assert multiprocessing.active_children() == []
    with pytest.raises(OutriderError, match="closed"):
        fleet.reset({0: 0})


def test_a_worker_that_is_killed_is_named_with_its_signal():
    fleet = ProcessFleet(CountingFactory(), 4, 2)
    fleet.reset({n: n for n in range(4)})
    os.kill(fleet._workers[1]._process.pid, signal.SIGKILL)
    with pytest.raises(OutriderError, match=r"worker 1 \(robots 2-3\).*-9 \(SIGKILL\).*memory"):
        for _ in range(3):  # the first request may still find room in the pipe
            fleet.step(chunks(4, 1))


def test_a_robot_that_does_not_start_is_reported_and_the_others_are_reaped():
    with pytest.raises(OutriderError, match="the motor is unplugged"):
        ProcessFleet(CountingFactory(no_start=True), 2, 2)


def test_a_factory_that_cannot_travel_is_refused():
    with pytest.raises(OutriderError, match=r"cannot be sent to another process.*module-level"):
        ProcessFleet(lambda: CountingFactory()(), 1, 1)


def test_a_worker_that_does_not_listen_is_ended_all_the_same(tmp_path):
    fleet = ProcessFleet(CountingFactory(waits_for=str(tmp_path / "never")), 1, 1)
    fleet.reset({0: 0})
    fleet.submit(chunks(1, 1))
    worker = fleet._workers[0]
    worker.close(patience_s=0.1)
    fleet._workers.clear()
    fleet.close()
    assert not multiprocessing.active_children()


def test_a_fleet_of_nothing_is_refused():
    for size, workers in ((0, 0), (0, 2)):
        with pytest.raises(OutriderError, match="robot"):
            build_fleet(CountingFactory(), size, workers)


SCRIPT = """
import os, sys
import numpy as np
from counting_robot import CountingFactory
from outrider.core.simulation.process_fleet import ProcessFleet

if __name__ == "__main__":
    fleet = ProcessFleet(CountingFactory(waits_for="/nonexistent/gate"), 2, 2)
    fleet.reset({0: 0, 1: 1})
    print(*[w._process.pid for w in fleet._workers], flush=True)
    if "crash" in sys.argv:
        os._exit(1)  # nothing is closed
    fleet.step(np.zeros((2, 1, 2), np.float32))  # waits for ever
"""


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("manner", ["interrupt", "crash"])
def test_no_worker_outlives_its_parent(tmp_path, manner):
    """Ctrl-C goes to the whole group; workers leave it to their parent, and end with it."""
    script = tmp_path / "drive.py"
    script.write_text(SCRIPT)
    parent = subprocess.Popen(
        [sys.executable, str(script), manner],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        start_new_session=True,
    )
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    if manner == "interrupt":
        os.killpg(parent.pid, signal.SIGINT)
    _, err = parent.communicate(timeout=60)
    assert err.count("Traceback") == (1 if manner == "interrupt" else 0)  # the parent's own
    deadline = time.monotonic() + 30
    while not all(map(is_gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert all(map(is_gone, pids))


def test_the_spec_comes_from_the_workers_unchanged():
    fleet = ProcessFleet(CountingFactory(), 1, 1)
    try:
        assert fleet.spec == SPEC
    finally:
        fleet.close()
