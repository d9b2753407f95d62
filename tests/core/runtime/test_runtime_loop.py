"""The control loop in a time of the test's own making: every figure is exact."""

import gc
import weakref

import bundle_fakes as fakes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.core import seeds
from outrider.core.bundle.session import Session
from outrider.core.errors import CheckFailed, OutriderError
from outrider.core.runtime import loop
from outrider.core.runtime.loop import control
from outrider.core.runtime.robot import SimulatedRobot, parse_uri, require_compatible
from outrider.core.simulation.types import Step
from outrider.core.types import Field, Spec, TaskSpec

PERIOD = 1 / fakes.TASK.rate_hz


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return fakes.opened(tmp_path_factory.mktemp("bundle") / "fake.outrider")


def drive(bundle, robot, clock=None, **changes):
    settings = {"episodes": 1, "seed": 0, "noise": "zero"} | changes
    return control(bundle, robot, clock=clock, **settings)


# --- time ---------------------------------------------------------------------------------------


def test_tick_k_is_due_at_start_plus_k_over_rate(bundle):
    clock = fakes.FakeClock(start=1234.5)
    robot = fakes.FakeRobot(clock)
    record = drive(bundle, robot, clock)
    due = [1234.5 + k / 50.0 for k in range(10)]
    assert clock.waits == due == robot.began
    assert record.ticks == 10 and record.deadline_misses == 0 and record.worst_lateness_s == 0


def test_a_late_tick_does_not_move_those_after_it(bundle):
    """Tick 2 takes 2.5 periods: it and tick 3 end too late, and from tick 5 all is as before."""
    clock = fakes.FakeClock()
    robot = fakes.FakeRobot(clock, lasts=lambda tick: 2.5 * PERIOD if tick == 2 else 0.0)
    record = drive(bundle, robot, clock)
    due = [100 + k / 50.0 for k in range(10)]
    late = 100 + 2 / 50.0 + 2.5 * PERIOD
    assert clock.waits == due
    assert robot.began == [*due[:3], late, late, *due[5:]]
    assert record.deadline_misses == 2  # tick 2, and tick 3, which was due to end half a period ago
    assert record.worst_lateness_s == late - due[3]


def test_a_tick_that_ends_exactly_in_time_is_no_miss(bundle):
    clock = fakes.FakeClock(start=0.0)
    robot = fakes.FakeRobot(clock, lasts=lambda tick: (tick + 1) / 50.0 - clock.time)
    record = drive(bundle, robot, clock)
    assert record.deadline_misses == 0


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.floats(0, 0.1), min_size=10, max_size=10))
def test_misses_and_lateness_against_a_plain_account(bundle, lasts):
    clock = fakes.FakeClock()
    record = drive(bundle, fakes.FakeRobot(clock, lasts=lambda tick: lasts[tick]), clock)
    time, misses, worst = 100.0, 0, 0.0
    for k, duration in enumerate(lasts):
        time = max(time, 100 + k / 50.0)
        worst = max(worst, time - (100 + k / 50.0))
        time += duration
        misses += time > 100 + (k + 1) / 50.0
    assert (record.deadline_misses, record.worst_lateness_s) == (misses, worst)
    assert record.durations["write"].maximum == pytest.approx(max(lasts), abs=1e-9)
    assert record.durations["tick"].count == 10


def test_each_episode_has_a_start_of_its_own(bundle):
    clock = fakes.FakeClock()
    robot = fakes.FakeRobot(clock, lasts=lambda tick: 3 * PERIOD if tick == 9 else 0.0)
    record = drive(bundle, robot, clock, episodes=3)
    assert record.ticks == 30 and record.deadline_misses == 1
    assert clock.waits[10] == pytest.approx(100 + 9 * PERIOD + 3 * PERIOD)
    assert robot.seeds == [0, 1, 2] and record.episodes == [True] * 3


def test_without_deadlines_the_commands_are_the_same(bundle):
    robots = [fakes.FakeRobot(), fakes.FakeRobot(fakes.FakeClock())]
    fast = drive(bundle, robots[0], real_time=False, noise="sample", episodes=2)
    slow = drive(bundle, robots[1], robots[1].clock, noise="sample", episodes=2)
    np.testing.assert_array_equal(robots[0].commands, robots[1].commands)
    assert not fast.real_time and fast.deadline_misses == 0 and fast.worst_lateness_s == 0
    assert slow.real_time


def test_a_slow_machine_is_no_miss_where_nobody_waits(bundle):
    clock = fakes.FakeClock()
    robot = fakes.FakeRobot(clock, lasts=lambda tick: 1.0)
    record = drive(bundle, robot, clock, real_time=False)
    assert record.deadline_misses == 0 and clock.waits == []


# --- inference ----------------------------------------------------------------------------------


def test_inference_at_chunk_boundaries_only(bundle):
    robot = fakes.FakeRobot()
    record = drive(bundle, robot, real_time=False, episodes=2)
    assert record.durations["infer"].count == 2 * 10 // fakes.E
    assert record.durations["filter"].count == 20


def expected_commands(seed, episodes, noise):
    """10 ticks an episode; observation of tick t of the whole run is 0.1 t."""
    low, high, found = fakes.TASK.action.low, fakes.TASK.action.high, []
    for episode in range(episodes):
        rng = seeds.generator(seed, "noise", episode)
        for boundary in range(0, 10, fakes.E):
            drawn = np.zeros((fakes.H, fakes.A), np.float32)
            if noise == "sample":
                drawn = rng.standard_normal((fakes.H, fakes.A), dtype=np.float32)
            observation = np.full((1, fakes.O), 0.1 * (10 * episode + boundary), np.float32)
            found += list(np.clip(fakes.answer(observation, drawn[None])[0], low, high))
    return np.array(found)


@pytest.mark.parametrize("noise", ["sample", "zero"])
def test_commands_are_those_of_the_policy(bundle, noise):
    robot = fakes.FakeRobot()
    record = drive(bundle, robot, real_time=False, noise=noise, seed=5, episodes=3)
    np.testing.assert_allclose(robot.commands, expected_commands(5, 3, noise), atol=1e-6)
    assert robot.seeds == [5, 6, 7]
    assert record.changed.keys() <= {"limits"}


def test_an_episodes_noise_does_not_depend_on_those_before(bundle):
    def commands(steps):
        robot = fakes.FakeRobot(steps=steps, observe=lambda tick: np.zeros(fakes.O, np.float32))
        drive(bundle, robot, real_time=False, noise="sample", episodes=2)
        return robot.commands[steps:]

    short, long = commands(3), commands(10)
    np.testing.assert_array_equal(short, long[:3])


def test_filters_are_counted(bundle):
    robot = fakes.FakeRobot(observe=lambda tick: np.full(fakes.O, 50.0, np.float32))
    record = drive(bundle, robot, real_time=False)
    assert record.changed == {"limits": 10}
    assert (np.abs(robot.commands) <= fakes.TASK.action.high).all()


def test_the_bundles_envelope_holds(tmp_path):
    narrow = fakes.opened(tmp_path / "b", safety={"low": [-0.1, -0.2], "high": [0.1, 0.2]})
    robot = fakes.FakeRobot(observe=lambda tick: np.full(fakes.O, 50.0, np.float32))
    drive(narrow, robot, real_time=False)
    assert (np.abs(robot.commands) <= np.float32([0.1, 0.2])).all()


# --- what goes wrong ----------------------------------------------------------------------------


def test_a_person_stops_it(bundle):
    def observe(tick):
        return KeyboardInterrupt() if tick == 14 else np.full(fakes.O, 50.0, np.float32)

    robot = fakes.FakeRobot(observe=observe)
    record = drive(bundle, robot, real_time=False, episodes=5)
    assert record.interrupted and robot.stops == 1
    assert record.ticks == 14 and record.episodes == [True]
    assert record.changed == {"limits": 14}, "what happened until then is told"
    assert record.to_json()["interrupted"] is True


@pytest.mark.parametrize(
    "bad, words",
    [
        (np.full(fakes.O, np.nan, np.float32), "observation is not finite"),
        (np.float32([0, np.inf, 0]), "observation is not finite"),
        (np.zeros(fakes.O + 1, np.float32), "observation has shape"),
        (np.zeros(1, np.float32), "observation has shape"),
    ],
)
def test_observations_that_no_policy_may_see(bundle, bad, words):
    zeros = np.zeros(fakes.O, np.float32)
    robot = fakes.FakeRobot(observe=lambda tick: bad if tick == 4 else zeros)
    with pytest.raises(CheckFailed, match=words):
        drive(bundle, robot, real_time=False)
    assert robot.stops == 1 and len(robot.commands) == 4


def test_a_policy_that_gives_no_number(tmp_path):
    poisoned = fakes.opened(tmp_path / "b", graph=fakes.graph(poison=np.nan))
    robot = fakes.FakeRobot()
    with pytest.raises(CheckFailed, match="command that is not finite"):
        drive(poisoned, robot, real_time=False)
    assert robot.stops == 1 and robot.commands == []


def test_an_inference_that_fails(bundle, monkeypatch):
    robot, calls = fakes.FakeRobot(), []
    infer = Session.infer

    def failing(self, observation, noise):
        calls.append(1)
        if len(calls) > 5:  # three of them warm up
            raise CheckFailed("inference failed (on purpose)")
        return infer(self, observation, noise)

    monkeypatch.setattr(Session, "infer", failing)
    with pytest.raises(CheckFailed, match="on purpose"):
        drive(bundle, robot, real_time=False)
    assert robot.stops == 1 and len(robot.commands) == 2 * fakes.E


def test_a_filter_that_fails(bundle, monkeypatch):
    class Broken:
        def apply(self, observation, action):
            raise ZeroDivisionError("no")

    chain = loop.FilterChain([("mine", Broken())])
    monkeypatch.setattr(loop, "built_in_chain", lambda *_: chain)
    robot = fakes.FakeRobot()
    with pytest.raises(CheckFailed, match="the filter 'mine' raised ZeroDivisionError: no"):
        drive(bundle, robot, real_time=False)
    assert robot.stops == 1 and robot.commands == []


def test_a_robot_that_fails_is_stopped_too(bundle):
    robot = fakes.FakeRobot(observe=lambda tick: ConnectionError("cable"))
    with pytest.raises(ConnectionError, match="cable"):
        drive(bundle, robot, real_time=False)
    assert robot.stops == 1


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_left_as_it_was(bundle, enabled, fails):
    def observe(tick):
        assert not gc.isenabled(), "no collection inside the loop"
        return RuntimeError("x") if fails else np.zeros(fakes.O, np.float32)

    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        if fails:
            with pytest.raises(RuntimeError):
                drive(bundle, fakes.FakeRobot(observe=observe), real_time=False)
        else:
            drive(bundle, fakes.FakeRobot(observe=observe), real_time=False)
        assert gc.isenabled() is enabled and gc.get_freeze_count() == 0
    finally:
        (gc.enable if before else gc.disable)()


def test_garbage_does_not_pile_up_from_episode_to_episode(bundle):
    class Knot:
        def __init__(self):
            self.itself = self  # only the collector frees it

    class Untidy(fakes.FakeRobot):
        knots, alive = [], []

        def begin(self, seed):
            super().begin(seed)
            self.alive.append(sum(knot() is not None for knot in self.knots))
            self.knots.append(weakref.ref(Knot()))

    drive(bundle, Untidy(), episodes=3, real_time=False)
    assert Untidy.alive == [0, 0, 0]


def test_a_robot_that_does_not_fit(bundle):
    task = fakes.TASK
    observation = Spec((Field("position", (2,), "mm"), Field("speed", (), "m/s")))
    other = TaskSpec("fake/other", observation, Spec(task.action.fields[::-1]), 20, 1, True, "")
    robot = fakes.FakeRobot(spec=other)
    with pytest.raises(OutriderError) as caught:
        drive(bundle, robot, real_time=False)
    text = str(caught.value)
    assert "position: unit is 'mm', expected 'm'" in text
    assert "fields are ['elbow', 'shoulder'], expected ['shoulder', 'elbow']" in text
    assert "rate is 20 Hz, expected 50 Hz" in text
    assert robot.stops == 0 and robot.seeds == [], "it was not touched"


def test_a_provider_that_is_not_there(bundle):
    robot = fakes.FakeRobot()
    with pytest.raises(OutriderError, match="unknown execution provider"):
        drive(bundle, robot, provider="gpu")
    assert robot.seeds == []


# --- the account --------------------------------------------------------------------------------


def test_success_of_some_episodes(bundle):
    robot = fakes.FakeRobot()
    robot.succeeded = lambda: robot.seeds[-1] % 2 == 0
    record = drive(bundle, robot, real_time=False, episodes=4, seed=10)
    assert record.episodes == [True, False, True, False]
    told = record.to_json()
    assert told["success"] == 0.5 and told["episodes"] == 4 and told["ticks"] == 40
    assert told["provider"] == "cpu" and told["latency_ms"]["tick"]["n"] == 40


def test_the_display_is_told_of_each_tick(bundle):
    seen = []
    drive(bundle, fakes.FakeRobot(), real_time=False, on_tick=lambda r: seen.append(r.ticks))
    assert seen == list(range(1, 11))


# --- robots -------------------------------------------------------------------------------------


class FakeSimulator:
    def __init__(self, success_at=None, ends_at=None):
        self.success_at, self.ends_at, self.steps = success_at, ends_at, 0

    def reset(self, seed):
        self.steps = 0
        return np.full(fakes.O, seed, np.float32)

    def step(self, action):
        self.steps += 1
        observation = np.full(fakes.O, self.steps, np.float32)
        done = self.steps == self.ends_at
        return Step(observation, 0.0, self.steps == self.success_at, done)


@pytest.mark.parametrize(
    "simulator, steps, success",
    [
        (FakeSimulator(), 10, False),
        (FakeSimulator(success_at=4), 4, True),
        (FakeSimulator(ends_at=6), 6, False),
    ],
)
def test_a_simulator_as_a_robot(bundle, simulator, steps, success):
    record = drive(bundle, SimulatedRobot(simulator, fakes.TASK), real_time=False, episodes=2)
    assert record.ticks == 2 * steps and record.episodes == [success] * 2


@pytest.mark.parametrize("uri", ["", "sim", "sim:", "ros:arm", "lift", ":x"])
def test_uris_that_lead_nowhere(uri):
    with pytest.raises(OutriderError, match="sim:TASK"):
        parse_uri(uri)


def test_uris():
    assert parse_uri("sim:robosuite/lift") == ("sim", "robosuite/lift")
    require_compatible(fakes.TASK, fakes.TASK)


def test_a_late_failure_does_not_claim_that_nothing_was_sent(bundle):
    robot = fakes.FakeRobot(
        observe=lambda tick: np.full(fakes.O, np.nan if tick >= 4 else 0.0, np.float32)
    )
    with pytest.raises(CheckFailed) as failure:
        control(bundle, robot, episodes=1, seed=0, real_time=False)
    assert len(robot.commands) == 4 and robot.stops == 1
    assert "nothing was sent" not in str(failure.value)
