import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.config import NoConfig
from outrider.core.errors import OutriderError
from outrider.core.simulation.build import ExpertFactory, SimulatorFactory, build_fleet
from outrider.core.simulation.demonstrate import collect_demonstrations, pack
from outrider.robots.toy import plugin
from outrider.robots.toy.config import CorridorExpertConfig, CorridorsConfig
from outrider.robots.toy.corridors import CORRIDORS, GOAL_X, ROOM, START_X, WALL, Corridors

FACTORY = SimulatorFactory(plugin.build, "corridors", CorridorsConfig, "{}")


def expert(options="{}"):
    return ExpertFactory(plugin.build_expert, "corridors", CorridorExpertConfig, options)


def corridors(**options):
    return Corridors(CorridorsConfig(**options))


def push(x, y):
    return np.array([x, y], np.float32)


def test_velocity_follows_the_command_with_the_stated_lag():
    """v_k = 1 - (1 - response)^k for a full push, and the position is its sum times dt."""
    robot = corridors(response=0.6)
    start = robot.reset(1)
    velocities = 1 - 0.4 ** np.arange(1, 4)
    for k, v in enumerate(velocities, start=1):
        seen = robot.step(push(1, 0)).observation
        assert seen[2] == pytest.approx(v)
        assert seen[0] == pytest.approx(START_X + 0.1 * velocities[:k].sum())
    np.testing.assert_array_equal(seen[4:], start[4:])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_no_push_enters_a_wall_or_leaves_the_room(seed, pushes):
    robot, rng = corridors(), np.random.default_rng(pushes)
    robot.reset(seed)
    x = START_X
    for _ in range(40):
        seen = robot.step(rng.uniform((-0.2, -1), (1, 1)).astype(np.float32)).observation
        assert np.abs(seen[:2]).max() <= ROOM
        assert not robot.blocks(*robot.state()["qpos"])
        assert not (x < -WALL and seen[0] > WALL)  # nobody jumps over the wall
        x = seen[0]


def test_the_wall_blocks_between_corridors_and_each_corridor_lets_through():
    for axis in CORRIDORS:
        for offset, passes in ((0.0, True), (0.2, False)):
            robot = corridors()
            robot.reset(0)
            robot._position = (START_X, axis + offset)
            for _ in range(40):
                seen = robot.step(push(1, 0)).observation
            assert (seen[0] > WALL) == passes
            assert passes or seen[2] == 0.0


def test_success_is_the_goals_radius_and_pays_once():
    robot = corridors(goal_radius=0.1)
    robot.reset(0)
    robot._position = (GOAL_X - 0.101, robot._goal[1])
    assert robot.step(push(0, 0))[1:] == (0.0, False, False)
    robot._position = (GOAL_X - 0.099, robot._goal[1])
    assert robot.step(push(0, 0))[1:] == (1.0, True, False)


def test_success_ends_the_episode_in_a_fleet():
    assert corridors().spec.ends_on_success


def test_a_seed_is_an_episode_whatever_came_before():
    robot = corridors()
    first = robot.reset(7)
    robot.step(push(1, 1))
    np.testing.assert_array_equal(robot.reset(7), first)
    assert (robot.reset(8) != first).any()
    starts = np.array([robot.reset(seed) for seed in range(200)])
    for column in (1, 5):  # heights of start and goal fill the room
        assert starts[:, column].min() < -0.6 < 0.6 < starts[:, column].max()


def test_both_forms_of_fleet_agree_bit_for_bit():
    serial, spread = (build_fleet(FACTORY, 5, workers) for workers in (0, 2))
    try:
        seeds = {n: 50 + n for n in range(5)}
        assert serial.reset(seeds).tobytes() == spread.reset(seeds).tobytes()
        rng = np.random.default_rng(0)
        for _ in range(5):
            sent = rng.uniform(-0.3, 1, (5, 8, 2)).astype(np.float32)
            one, other = serial.step(sent), spread.step(sent)
            for name in one.__dataclass_fields__:
                assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    finally:
        spread.close()


def test_the_expert_uses_every_corridor_and_mostly_succeeds():
    result = collect_demonstrations(FACTORY, expert(), episodes=60, max_attempts=80)
    heights = [np.interp(0, e.observation[:, 0], e.observation[:, 1]) for e in result.episodes]
    taken = np.histogram(heights, bins=[-1, -0.3, 0.3, 1])[0]
    assert taken.min() >= 10
    starts = np.array([e.observation[0, 1] for e in result.episodes])
    assert abs(np.corrcoef(starts, heights)[0, 1]) < 0.4  # the choice ignores the shortest way


def test_the_expert_can_be_told_its_way_and_made_worse():
    low = collect_demonstrations(FACTORY, expert('{"route": "low"}'), episodes=5, max_attempts=9)
    assert all(np.interp(0, e.observation[:, 0], e.observation[:, 1]) < -0.5 for e in low.episodes)
    poor = collect_demonstrations(FACTORY, expert('{"aim": 0.2}'), episodes=9, max_attempts=99)
    assert poor.attempts > poor.successes


def test_demonstrations_do_not_depend_on_the_workers():
    alone, shared = (
        collect_demonstrations(FACTORY, expert(), episodes=4, max_attempts=9, workers=w)
        for w in (0, 2)
    )
    assert [pack(e) for e in alone.episodes] == [pack(e) for e in shared.episodes]
    assert set(alone.episodes[0].extra) == {"qpos", "qvel", "goal"}


def test_the_picture_shows_the_mass_the_goal_and_three_corridors():
    robot = corridors()
    robot.reset(3)
    robot._position, robot._goal = (-0.5, 0.5), (0.85, -0.5)
    picture = robot.render(210, 210)  # 100 pixels per metre, centre at 105
    assert picture.shape == (210, 210, 3)
    assert picture.dtype == np.uint8
    red, green = picture[105 - 50, 105 - 50], picture[105 + 50, 105 + 85]
    assert red[0] > red[1] + 100  # y points up
    assert green[1] > green[0] + 50
    middle = picture[:, 105, 0] > 200
    assert np.count_nonzero(np.diff(middle.astype(int)) == 1) == len(CORRIDORS)
    assert robot.render(64, 48).shape == (48, 64, 3)


def test_the_plugin_offers_the_task_and_refuses_others():
    (provider,) = plugin.ToyPlugin(NoConfig()).tasks()
    assert (provider.family, provider.names()) == ("toy", ("corridors",))
    robot = provider.build("corridors", provider.config())
    assert robot.spec.task == "toy/corridors"
    assert robot.spec.observation.size == 6
    for build in (provider.build, provider.expert):
        with pytest.raises(OutriderError, match=r"toy/corridor: .*did you mean 'corridors'"):
            build("corridor", None)
