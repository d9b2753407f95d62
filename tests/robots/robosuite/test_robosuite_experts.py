"""Scripted experts: drawn from a generator, varied, good when clean and imperfect otherwise."""

from functools import cache

import numpy as np
import pytest

from outrider.core.config import validate
from outrider.core.errors import OutriderError
from outrider.core.seeds import generator
from outrider.robots.robosuite.config import CLEAN_EXPERT, ExpertConfig, RobosuiteConfig
from outrider.robots.robosuite.experts import (
    SCRIPTS,
    Scene,
    draw_variation,
    make_expert,
)
from outrider.robots.robosuite.simulator import RobosuiteSimulator


@cache
def simulator(name):
    return RobosuiteSimulator(name, RobosuiteConfig(physics_timestep=0.005))


def attempt(name, config, seed, steps=300):
    """Actions of one episode, and whether it succeeded."""
    sim, expert = simulator(name), make_expert(name, config)
    observation, actions = sim.reset(seed), []
    expert.begin(generator(seed, "expert"))
    for _ in range(steps):
        actions.append(expert.act(observation))
        step = sim.step(actions[-1])
        observation = step.observation
        if step.success:
            return np.stack(actions), True
    return np.stack(actions), False


@pytest.mark.parametrize(("name", "episodes"), [("lift", 8), ("can", 2)])
def test_the_clean_expert_succeeds(name, episodes):
    results = [attempt(name, CLEAN_EXPERT, seed) for seed in range(episodes)]
    assert sum(ok for _, ok in results) >= episodes - 1
    assert all((np.abs(actions) <= 1).all() for actions, _ in results)
    assert all(actions.dtype == np.float32 for actions, _ in results)


def test_the_default_expert_of_lift_fails_at_times():
    results = [attempt("lift", ExpertConfig(), seed, 100)[1] for seed in range(16)]
    assert 3 <= sum(results) <= 13


def test_an_episode_repeats_under_its_seed():
    first, again, other = (attempt("lift", ExpertConfig(), seed, 60)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first[:10], other[:10])


def test_begin_forgets_the_episode_before():
    expert, observation = make_expert("can", ExpertConfig()), simulator("can").reset(0)
    expert.begin(generator(0, "a"))
    first = [expert.act(observation) for _ in range(30)]
    expert.begin(generator(0, "a"))
    assert np.array_equal([expert.act(observation) for _ in range(30)], first)


def draws(config, n=400):
    return [draw_variation(config, generator(seed, "draw")) for seed in range(n)]


def test_variations_stay_in_their_ranges():
    config = ExpertConfig()
    for v in draws(config):
        assert config.min_speed <= v.speed <= 1
        assert 0 <= v.noise <= config.action_noise
        assert abs(v.yaw) <= config.yaw
        assert 0 <= v.offset[2] <= config.early_close
        assert 0.02 <= np.linalg.norm(v.side[:2]) <= 0.07
        assert 3 <= v.closing <= 5


def test_sides_are_disjoint_modes():
    angles = np.array([np.arctan2(v.side[1], v.side[0]) for v in draws(ExpertConfig(sides=4))])
    quarter = np.round(angles / (np.pi / 2)).astype(int) % 4
    assert set(quarter) == {0, 1, 2, 3}
    assert np.abs(np.sin(2 * angles)).max() <= np.sin(0.4) + 1e-9


def test_detours_go_to_both_sides():
    detours = np.array([v.detour for v in draws(ExpertConfig())])
    assert (detours > 0.05).mean() > 0.2 and (detours < -0.05).mean() > 0.2


def test_the_spread_of_the_grasp_is_the_one_asked_for():
    offsets = np.array([v.offset[:2] for v in draws(ExpertConfig(grasp_offset=0.02))])
    assert offsets.std() == pytest.approx(0.02, rel=0.1)


def test_a_clean_expert_has_no_error():
    for v in draws(CLEAN_EXPERT, 20):
        assert np.array_equal(v.offset, [0, 0, 0]) and v.noise == 0 and v.yaw == 0


def test_without_sides_the_hand_goes_straight_above():
    assert all(np.array_equal(v.side[:2], [0, 0]) for v in draws(ExpertConfig(sides=0), 20))


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_every_script_closes_before_it_lifts_and_ends_waiting(name):
    stages = SCRIPTS[name](draw_variation(ExpertConfig(), generator(0)))
    grips = [stage.gripper for stage in stages]
    first = grips.index(1.0)
    assert first == 3 and stages[first].still
    scene = Scene(np.array([0.0, 0, 1]), np.zeros(3))
    assert not stages[-1].done(scene)
    assert stages[-1].target(scene)[2] > scene.hand[2]


def test_square_has_no_expert():
    with pytest.raises(OutriderError, match=r"robosuite/square has no scripted expert.*lift, can"):
        make_expert("square", ExpertConfig())


def test_an_unknown_task_is_named():
    with pytest.raises(OutriderError, match="no task 'stack'"):
        make_expert("stack", ExpertConfig())


def test_an_unknown_knob_is_refused():
    with pytest.raises(OutriderError, match="unknown key"):
        validate(ExpertConfig, {"noise": 0.1}, "demos.expert")
