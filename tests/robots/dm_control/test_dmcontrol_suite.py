import numpy as np
import pytest

from outrider.core.config import NoConfig
from outrider.core.errors import OutriderError
from outrider.core.simulation.build import SimulatorFactory, build_fleet
from outrider.robots.dm_control import plugin

pytest.importorskip("dm_control")

TASKS = ("humanoid-walk", "cheetah-run")


@pytest.fixture
def make():
    made = []

    def build(name):
        made.append(plugin.build(name, NoConfig()))
        return made[-1]

    yield build
    for robot in made:
        robot.close()


def test_every_task_of_the_suite_has_a_name():
    names = plugin.names()
    assert len(names) == len(set(names)) >= 40
    assert set(TASKS) <= set(names)


@pytest.mark.parametrize(
    ("name", "observed", "commanded", "rate", "steps"),
    [("humanoid-walk", 67, 21, 40.0, 1000), ("cheetah-run", 17, 6, 100.0, 1000)],
)
def test_the_spec_is_what_the_suite_has(make, name, observed, commanded, rate, steps):
    spec = make(name).spec
    assert (spec.observation.size, spec.action.size) == (observed, commanded)
    assert (spec.rate_hz, spec.max_steps) == (rate, steps)
    assert set(spec.action.low) == {-1.0}
    assert set(spec.action.high) == {1.0}


@pytest.mark.parametrize("name", TASKS)
def test_rewards_and_observations_are_the_suites_in_its_own_order(make, name):
    robot = make(name)
    from dm_control import suite

    reference = suite.load(*name.split("-"))
    reference.task._random = np.random.RandomState(np.random.SeedSequence(5).generate_state(4))
    now, seen = reference.reset(), robot.reset(5)
    rng = np.random.default_rng(0)
    places = robot.spec.observation.slices()
    for _ in range(20):
        assert list(places) == list(now.observation)
        for part, place in places.items():
            np.testing.assert_array_equal(
                seen[place], np.ravel(now.observation[part]).astype(np.float32)
            )
        action = rng.uniform(-1, 1, robot.spec.action.size).astype(np.float32)
        now, step = reference.step(action), robot.step(action)
        assert step.reward == now.reward
        assert (step.success, step.terminated) == (False, False)
        seen = step.observation


@pytest.mark.parametrize("name", [*TASKS, "point_mass-hard", "finger-turn_hard"])
def test_an_episode_depends_on_its_seed_and_actions_alone(make, name):
    """`point_mass-hard` redraws its actuators and `finger` its target at each reset."""
    robot = make(name)
    rng = np.random.default_rng(1)
    actions = rng.uniform(-1, 1, (10, robot.spec.action.size)).astype(np.float32)

    def play(seed):
        return [robot.reset(seed), *(robot.step(a).observation for a in actions)]

    first, other, again = play(3), play(4), play(3)
    np.testing.assert_array_equal(first, again)
    assert (first[0] != other[0]).any()


def test_the_suites_own_clock_does_not_end_episodes(make):
    robot = make("cartpole-balance")
    robot.reset(0)
    idle = np.zeros(1, np.float32)
    for _ in range(robot.spec.max_steps + 5):
        step = robot.step(idle)
        assert not step.terminated
    assert robot.state()["qpos"].shape == (2,)


def test_both_forms_of_fleet_agree_bit_for_bit():
    factory = SimulatorFactory(plugin.build, "cheetah-run", NoConfig, "{}")
    serial, spread = (build_fleet(factory, 2, workers, max_steps=15) for workers in (0, 2))
    try:
        seeds = {0: 5, 1: 6}
        assert serial.reset(seeds).tobytes() == spread.reset(seeds).tobytes()
        sent = np.random.default_rng(0).uniform(-1, 1, (2, 20, 6)).astype(np.float32)
        one, other = serial.step(sent), spread.step(sent)
        assert one.truncated.all()
        for name in one.__dataclass_fields__:
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    finally:
        spread.close()
        serial.close()


def test_an_unknown_task_is_refused_with_the_nearest():
    with pytest.raises(OutriderError, match=r"dm_control/cheetah-runs: .*'cheetah-run'"):
        plugin.build("cheetah-runs", NoConfig())


def test_the_plugin_offers_the_family():
    (provider,) = plugin.DmControlPlugin(NoConfig()).tasks()
    assert (provider.family, provider.expert) == ("dm_control", None)
