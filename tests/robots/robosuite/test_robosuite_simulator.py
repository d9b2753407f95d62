"""The simulator: its promises about seeds, specs, layouts, pictures and bad settings."""

import random
from functools import cache

import numpy as np
import pytest

from outrider.core.config import validate
from outrider.core.errors import OutriderError
from outrider.robots.robosuite.config import RobosuiteConfig
from outrider.robots.robosuite.simulator import RobosuiteSimulator, count_substeps
from outrider.robots.robosuite.tasks import RELEASED, TASKS, task_spec

task_names = pytest.mark.parametrize("name", list(TASKS))


@cache
def simulator(name):
    return RobosuiteSimulator(name, RobosuiteConfig())


def episode(sim, seed, steps=15):
    """Everything that an episode shows, and the physics state at its end."""
    rng = np.random.default_rng(seed)
    rows = [sim.reset(seed)]
    for _ in range(steps):
        step = sim.step(rng.uniform(-1, 1, 7).astype(np.float32))
        rows.append(step.observation)
    return np.stack(rows), sim.state()


@task_names
def test_an_episode_depends_on_its_seed_alone(name):
    sim = simulator(name)
    first, first_state = episode(sim, 5)
    other, _ = episode(sim, 6, steps=3)
    np.random.rand(7)
    again, again_state = episode(sim, 5)
    assert np.array_equal(first, again)
    assert all(np.array_equal(first_state[key], again_state[key]) for key in ("qpos", "qvel"))
    assert not np.array_equal(first[0], other[0])


def test_two_simulators_show_the_same_episode():
    fresh = RobosuiteSimulator("lift", RobosuiteConfig())
    assert np.array_equal(episode(fresh, 9)[0], episode(simulator("lift"), 9)[0])


def test_the_build_seed_draws_the_cube():
    def cube(seed):
        sim = RobosuiteSimulator("lift", RobosuiteConfig(build_seed=seed))
        return sim.model.geom("cube_g0").size.copy()

    assert np.array_equal(cube(1), cube(1))
    assert not np.array_equal(cube(1), cube(2))


def test_global_generators_are_left_alone():
    np.random.seed(3)
    random.seed(3)
    expected = np.random.rand(), random.random()
    np.random.seed(3)
    random.seed(3)
    sim = RobosuiteSimulator("lift", RobosuiteConfig())
    episode(sim, 1, steps=2)
    assert (np.random.rand(), random.random()) == expected


@task_names
def test_what_it_gives_is_what_its_spec_says(name):
    sim = simulator(name)
    observation = sim.reset(0)
    step = sim.step(np.zeros(7, np.float32))
    size = 19 if name == "lift" else 23
    assert sim.spec.observation.size == size
    for row in (observation, step.observation):
        assert row.shape == (size,) and row.dtype == np.float32 and np.isfinite(row).all()
    assert sim.spec.action.size == 7
    assert (sim.spec.action.low == -1).all() and (sim.spec.action.high == 1).all()
    assert (sim.spec.task, sim.spec.rate_hz) == (f"robosuite/{name}", 20.0)
    assert sim.spec.max_steps == {"lift": 300, "can": 300, "square": 400}[name]
    assert (step.reward, step.success, step.terminated) == (0.0, False, False)
    assert {key: value.ndim for key, value in sim.state().items()} == {"qpos": 1, "qvel": 1}


def test_state_is_a_copy():
    sim = simulator("lift")
    sim.reset(0)
    before = sim.state()
    kept = before["qpos"].copy()
    sim.step(np.ones(7, np.float32))
    assert np.array_equal(before["qpos"], kept)
    assert not np.array_equal(sim.state()["qpos"], kept)


@pytest.mark.parametrize(("axis", "sign"), [(0, 1), (1, -1), (2, 1)])
def test_a_full_command_moves_the_hand_that_way(axis, sign):
    sim = simulator("lift")
    start = sim.reset(2)[:3]
    action = np.zeros(7, np.float32)
    action[axis] = sign
    for _ in range(6):
        observation = sim.step(action).observation
    moved = observation[:3] - start
    assert 0.05 < sign * moved[axis] < 0.3
    assert np.abs(np.delete(moved, axis)).max() < 0.02


def test_the_gripper_closes_on_plus_one():
    sim = simulator("lift")
    opening = sim.reset(2)[7:9]
    action = np.array([0, 0, 0, 0, 0, 0, 1], np.float32)
    for _ in range(12):
        observation = sim.step(action).observation
    assert np.abs(observation[7:9]).max() < 0.5 * np.abs(opening).max()


@task_names
def test_no_orientation_flips_its_sign(name):
    sim = simulator(name)
    observation = sim.reset(4)
    rng, previous = np.random.default_rng(4), observation
    quaternions = [s for f, s in sim.spec.observation.slices().items() if "quat" in f]
    assert len(quaternions) == (2 if name == "lift" else 3)
    for _ in range(60):
        observation = sim.step(rng.uniform(-1, 1, 7).astype(np.float32)).observation
        for part in quaternions:
            assert observation[part] @ previous[part] > 0.5
            assert np.linalg.norm(observation[part]) == pytest.approx(1, abs=1e-5)
        previous = observation


def turned_can(sim):
    """Observations while the can is turned once about the vertical under a still hand."""
    import mujoco

    sim.reset(0)
    address, rows = sim.model.jnt_qposadr[sim.model.body("Can_main").jntadr[0]], []
    for half in np.linspace(0, np.pi, 25):
        sim.data.qpos[address + 3 : address + 7] = [np.cos(half), 0, 0, np.sin(half)]
        mujoco.mj_kinematics(sim.model, sim.data)
        rows.append(sim._observer.read())
    return np.stack(rows)


def test_robomimics_layout_flips_where_ours_does_not():
    """Why the default is not robomimic's: an upright can under the hand is half a turn away."""
    other = RobosuiteSimulator("can", RobosuiteConfig(observation="robomimic"))
    names = [field.name for field in other.spec.observation.fields]
    assert names == ["robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "object"]
    assert simulator("can").spec.observation.refusals(other.spec.observation)
    ours, theirs = turned_can(simulator("can")), turned_can(other)
    assert np.array_equal(ours[:, :19], theirs[:, :19])
    assert np.array_equal(np.abs(ours[:, 19:]), np.abs(theirs[:, 19:]))
    assert (theirs[:, 22] >= 0).all()
    turns = [(rows[1:, 19:] * rows[:-1, 19:]).sum(axis=1) for rows in (ours, theirs)]
    assert turns[0].min() > 0.9 and turns[1].min() < -0.9


@pytest.mark.parametrize(
    ("config", "substeps"),
    [
        (RobosuiteConfig(), 25),
        (RobosuiteConfig(physics_timestep=0.005), 10),
        (RobosuiteConfig(physics_timestep=0.001, control_freq=50), 20),
    ],
)
def test_physics_steps_of_a_control_step(config, substeps):
    assert count_substeps(config) == substeps


@pytest.mark.parametrize("timestep", [0.003, 0.1])
def test_a_timestep_that_does_not_fit_is_refused(timestep):
    with pytest.raises(OutriderError, match=r"does not divide the control period 0\.05 s"):
        RobosuiteSimulator("lift", RobosuiteConfig(physics_timestep=timestep))


def test_max_steps_can_be_overridden():
    assert task_spec("lift", RobosuiteConfig(max_steps=100)).max_steps == 100


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(OutriderError, match="did you mean 'square'"):
        RobosuiteSimulator("sqare", RobosuiteConfig())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"timestep": 0.002}, "unknown key"),
        ({"physics_timestep": 0}, "greater than 0"),
        ({"observation": "images"}, "continuous"),
        ({"build_seed": -1}, "greater than or equal to 0"),
    ],
)
def test_bad_settings_are_named(values, message):
    with pytest.raises(OutriderError, match=message):
        validate(RobosuiteConfig, values, "task.options")


def test_released_is_robosuites_reach_threshold():
    assert 1 - np.tanh(10 * RELEASED) == pytest.approx(0.6)


@task_names
def test_success_equals_robosuites_own_check(name):
    """On objects put all over the place, in the hand's reach and out of it."""
    import mujoco

    sim = simulator(name)
    sim.reset(0)
    rng = np.random.default_rng(0)
    centre = {"lift": (0, 0, 0.84), "can": (0.2, 0.4, 0.86), "square": (0.23, 0.1, 0.86)}[name]
    joint = sim.model.body(TASKS[name].body).jntadr[0]
    address, seen = sim.model.jnt_qposadr[joint], set()
    for _ in range(200):
        place = np.array(centre) + rng.uniform(-0.1, 0.1, 3)
        sim.data.qpos[address : address + 3] = place
        mujoco.mj_kinematics(sim.model, sim.data)
        observer = sim._observer
        ours = TASKS[name].solved(sim.environment, observer.thing_position, observer.hand_position)
        assert ours == bool(sim.environment._check_success())
        seen.add(ours)
    assert seen == {True, False}


def test_the_object_in_the_hand_does_not_count_as_placed():
    environment = simulator("can").environment
    can = np.array([0.2, 0.4, 0.86])
    assert TASKS["can"].solved(environment, can, [0.2, 0.4, 0.91])
    assert not TASKS["can"].solved(environment, can, [0.2, 0.4, 0.90])


def test_render():
    sim = simulator("lift")
    sim.reset(0)
    try:
        frame = sim.render(64, 48)
    except OutriderError as error:
        pytest.skip(str(error))
    before = sim.state()["qpos"].copy()
    assert frame.shape == (48, 64, 3) and frame.dtype == np.uint8
    assert frame.std() > 10
    assert np.array_equal(before, sim.state()["qpos"])
    assert np.array_equal(sim.render(64, 48), frame)
    sim.close()
