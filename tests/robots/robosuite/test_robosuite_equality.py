"""Ours against plain robosuite: same seed, same actions, same state, step for step."""

from functools import cache

import numpy as np
import pytest

from outrider.core.seeds import generator
from outrider.robots.robosuite.config import CLEAN_EXPERT, RobosuiteConfig
from outrider.robots.robosuite.experts import SCRIPTS, ScriptedExpert
from outrider.robots.robosuite.library import make_environment, reset_environment
from outrider.robots.robosuite.simulator import RobosuiteSimulator
from outrider.robots.robosuite.tasks import TASKS

STEPS = {"lift": 50, "can": 190, "square": 60}
TOLERANCE = {"lift": 1e-9, "can": 1e-2, "square": 1e-9}
"""Largest difference of a joint, rad or m. A tumbling can is chaotic: moving our own arm by 1e-14
rad changes its episode by as much as replacing robosuite's control step by ours does (3e-12 to
8e-2 over eight seeds, against 3e-12 to 6e-3)."""

BODY = {"lift": "cube", "can": "Can", "square": "SquareNut"}
task_names = pytest.mark.parametrize("name", list(TASKS))


@cache
def pair(name):
    """Our simulator and a plain environment, built alike."""
    sim = RobosuiteSimulator(name, RobosuiteConfig())
    return sim, make_environment(TASKS[name].environment, 0)


def start(name, seed):
    sim, plain = pair(name)
    observation = sim.reset(seed)
    reset_environment(plain, seed)
    return sim, plain, observation


def difference(sim, plain, joints=slice(None)):
    return np.abs(sim.data.qpos - plain.sim.data.qpos)[joints].max()


def task_joints(sim, name):
    """Arm, fingers and the task's own object; PickPlaceCan and NutAssemblySquare hide others."""
    joint = next(
        j
        for j in range(sim.model.njnt)
        if sim.model.body(sim.model.jnt_bodyid[j]).name == TASKS[name].body
    )
    address = sim.model.jnt_qposadr[joint]
    return np.r_[0:9, address : address + 7]


def expert_for(name, seed):
    expert = ScriptedExpert(SCRIPTS["lift" if name == "lift" else "can"], CLEAN_EXPERT)
    expert.begin(generator(seed, "equality"))
    return expert


@task_names
@pytest.mark.parametrize("seed", [3, 8])
def test_random_actions_in_free_space_agree_to_rounding(name, seed):
    sim, plain, _ = start(name, seed)
    assert difference(sim, plain) == 0.0
    rng = np.random.default_rng(seed)
    for _ in range(30):
        action = rng.uniform(-1, 1, 7).astype(np.float32)
        action[2] = abs(action[2])
        sim.step(action)
        plain.step(action)
        assert difference(sim, plain, np.r_[0:9]) < 1e-11


def successful_seed(name):
    """The first whose episode ends well; which one it is depends on robosuite's version."""
    sim, _ = pair(name)
    for seed in range(10):
        observation, expert = sim.reset(seed), expert_for(name, seed)
        for _ in range(STEPS[name]):
            step = sim.step(expert.act(observation))
            observation = step.observation
            if step.success:
                return seed
    raise AssertionError("the clean expert fails always")


@task_names
def test_a_whole_episode_with_grasp_agrees(name):
    seed = 0 if name == "square" else successful_seed(name)
    sim, plain, observation = start(name, seed)
    expert, joints, solved = expert_for(name, seed), task_joints(sim, name), []
    for _ in range(STEPS[name]):
        action = expert.act(observation)
        step = sim.step(action)
        plain.step(action)
        observation = step.observation
        assert difference(sim, plain, joints) < TOLERANCE[name]
        assert step.success == bool(plain._check_success())
        assert step.reward == float(step.success)
        solved.append(step.success)
    if name != "square":  # the can's script closes on the nut, but knows nothing of pegs
        assert any(solved) and not solved[0]


@task_names
@pytest.mark.parametrize("layout", ["continuous", "robomimic"])
def test_observation_equals_robosuites_observables(name, layout):
    sim = RobosuiteSimulator(name, RobosuiteConfig(observation=layout))
    observation = sim.reset(11)
    rng = np.random.default_rng(11)
    for _ in range(5):
        check_observation(sim, name, observation, layout)
        observation = sim.step(rng.uniform(-1, 1, 7).astype(np.float32)).observation


def check_observation(sim, name, observation, layout):
    for _ in range(2):  # the relative pose is computed from the cache of the update before
        theirs = sim.environment._get_observations(force_update=True)
    thing = BODY[name]
    keys = ["robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos"]
    exact = [*keys, f"{thing}_pos", f"{thing}_quat"]
    expected = np.concatenate([theirs[key] for key in exact]).astype(np.float32)
    assert np.array_equal(observation[:16], expected)
    if name == "lift":  # robosuite 1.5 turned the sign that robomimic's files have
        assert np.array_equal(observation[16:], -theirs["gripper_to_cube_pos"].astype(np.float32))
        return
    position, quat = (theirs[f"{thing}_to_robot0_eef_{part}"] for part in ("pos", "quat"))
    assert np.allclose(observation[16:19], position, atol=1e-6)  # theirs are in single precision
    ours = (
        observation[19:] if layout == "robomimic" else observation[19:] * np.sign(observation[22])
    )
    assert np.allclose(ours, quat, atol=2e-6)


def test_episodes_agree_at_another_timestep(monkeypatch):
    from robosuite import macros

    sim = RobosuiteSimulator("lift", RobosuiteConfig(physics_timestep=0.005))
    monkeypatch.setattr(macros, "SIMULATION_TIMESTEP", 0.005)
    plain = make_environment("Lift", 0)
    sim.reset(1)
    reset_environment(plain, 1)
    rng = np.random.default_rng(1)
    for _ in range(20):
        action = rng.uniform(-1, 1, 7).astype(np.float32)
        sim.step(action)
        plain.step(action)
    assert difference(sim, plain, np.r_[0:9]) < 1e-10
