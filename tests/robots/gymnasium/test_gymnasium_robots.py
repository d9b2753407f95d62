import numpy as np
import pytest

from outrider.core.config import NoConfig
from outrider.core.errors import OutriderError
from outrider.core.simulation.build import SimulatorFactory, build_fleet
from outrider.robots.gymnasium import plugin

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

ENVS = {"hopper": "Hopper-v5", "walker2d": "Walker2d-v5", "halfcheetah": "HalfCheetah-v5"}
SIZES = {"hopper": (11, 3, 125.0), "walker2d": (17, 6, 125.0), "halfcheetah": (17, 6, 20.0)}


@pytest.fixture
def make():
    made = []

    def build(name):
        made.append(plugin.build(name, NoConfig()))
        return made[-1]

    yield build
    for robot in made:
        robot.close()


@pytest.mark.parametrize("name", list(ENVS))
def test_every_step_is_that_of_gymnasium(make, name):
    """Against `gymnasium.make`, in the same process, from the same seed."""
    robot, reference = make(name), gymnasium.make(ENVS[name])
    seen, _ = reference.reset(seed=11)
    np.testing.assert_array_equal(robot.reset(11), seen.astype(np.float32))
    rng = np.random.default_rng(0)
    for _ in range(60):
        action = rng.uniform(-1, 1, robot.spec.action.size).astype(np.float32)
        seen, reward, terminated, _, _ = reference.step(action)
        step = robot.step(action)
        np.testing.assert_array_equal(step.observation, seen.astype(np.float32))
        assert (step.reward, step.terminated, step.success) == (reward, terminated, False)
        if terminated:
            break
    reference.close()


@pytest.mark.parametrize("name", list(ENVS))
def test_the_spec_is_what_the_robot_has(make, name):
    spec = make(name).spec
    assert (spec.observation.size, spec.action.size, spec.rate_hz) == SIZES[name]
    assert spec.action.low.tolist() == [-1.0] * spec.action.size
    assert spec.action.high.tolist() == [1.0] * spec.action.size
    assert spec.max_steps == 1000
    units = {f.unit for f in spec.observation.fields}
    assert units == {"m", "rad", "m/s", "rad/s"}


def test_fields_are_named_after_the_joints_that_they_measure(make):
    robot = make("hopper")
    places = robot.spec.observation.slices()
    robot.reset(0)
    seen = robot.step(np.array([0.3, -0.2, 0.1], np.float32)).observation
    state = robot.state()
    assert robot.spec.observation.labels()[0] == "rootz_position"
    assert seen[places["rootz_position"]] == np.float32(state["qpos"][1])
    assert seen[places["foot_joint_position"]] == np.float32(state["qpos"][5])
    assert seen[places["rootx_velocity"]] == np.float32(state["qvel"][0])


@pytest.mark.parametrize("name", list(ENVS))
def test_an_episode_depends_on_its_seed_and_actions_alone(make, name):
    robot = make(name)
    rng = np.random.default_rng(1)
    actions = rng.uniform(-1, 1, (15, robot.spec.action.size)).astype(np.float32)

    def play(seed):
        return [robot.reset(seed), *(robot.step(a).observation for a in actions)]

    first, other, again = play(3), play(4), play(3)
    np.testing.assert_array_equal(first, again)
    assert (first[0] != other[0]).any()


def test_a_fallen_hopper_is_terminated_and_a_cheetah_runs_into_the_limit(make):
    action = {"hopper": -1.0, "halfcheetah": 0.0}
    for name, value in action.items():
        factory = SimulatorFactory(plugin.build, name, NoConfig, "{}")
        fleet = build_fleet(factory, 1, max_steps=200)
        fleet.reset({0: 0})
        sent = np.full((1, 300, fleet.spec.action.size), value, np.float32)
        result = fleet.step(sent)
        fell = name == "hopper"
        assert (result.terminated[0], result.truncated[0]) == (fell, not fell)
        assert (result.steps[0] < 200) == fell
        assert not result.success.any()
        fleet.close()


def test_both_forms_of_fleet_agree_bit_for_bit():
    factory = SimulatorFactory(plugin.build, "hopper", NoConfig, "{}")
    serial, spread = (build_fleet(factory, 3, workers) for workers in (0, 2))
    try:
        rng, wants_reset = np.random.default_rng(0), np.ones(3, bool)
        for tick in range(8):
            seeds = {int(n): 9 * tick + int(n) for n in np.flatnonzero(wants_reset)}
            assert serial.reset(seeds).tobytes() == spread.reset(seeds).tobytes()
            sent = rng.uniform(-1, 1, (3, 10, 3)).astype(np.float32)
            one, other = serial.step(sent), spread.step(sent)
            for name in one.__dataclass_fields__:
                assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
            wants_reset = one.done
        assert tick == 7
    finally:
        spread.close()
        serial.close()


def test_an_unknown_robot_is_refused_with_the_nearest():
    with pytest.raises(OutriderError, match=r"gymnasium/hoper: .*did you mean 'hopper'"):
        plugin.build("hoper", NoConfig())


def test_the_plugin_offers_the_family():
    (provider,) = plugin.GymnasiumPlugin(NoConfig()).tasks()
    assert provider.family == "gymnasium"
    assert provider.names() == tuple(ENVS)
    assert provider.expert is plugin.build_expert
