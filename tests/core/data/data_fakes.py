"""Episodes, robomimic files, a task and a host for the tests of the data room."""

import json

import h5py
import numpy as np

from outrider.core.config import NoConfig, StrictModel
from outrider.core.data.demonstrations import gather
from outrider.core.data.plugin import RobomimicPlugin
from outrider.core.errors import OutriderError
from outrider.core.host.objects import TaskProvider
from outrider.core.simulation.types import Step
from outrider.core.types import Episode, Field, Spec, TaskSpec

TASK = TaskSpec(
    task="toy/reach",
    observation=Spec((Field("position", (2,), "m", (-9.0, -9.0), (9.0, 9.0)), Field("quat", (4,)))),
    action=Spec((Field("velocity", (2,), "m/s", (-1.0, -1.0), (1.0, 1.0)),)),
    rate_hz=10.0,
    max_steps=50,
    ends_on_success=True,
    reward="one at the goal",
)


def make_episode(steps=12, seed=0, extra=True):
    rng = np.random.default_rng([seed, steps])
    quat = np.tile(np.array([1.0, 0.1, 0.2, 0.3]), (steps + 1, 1))
    quat += 0.01 * rng.normal(size=quat.shape)
    path = np.concatenate([rng.uniform(-1, 1, size=(steps + 1, 2)), quat], axis=1)
    return Episode(
        observation=path[:-1].astype(np.float32),
        action=rng.uniform(-1, 1, size=(steps, 2)).astype(np.float32),
        reward=np.eye(1, steps, steps - 1, dtype=np.float32)[0],
        success=np.eye(1, steps, steps - 1, dtype=np.bool_)[0],
        final_observation=path[-1].astype(np.float32),
        terminated=True,
        truncated=False,
        seed=seed,
        extra={
            "qpos": rng.normal(size=(steps, 3)),
            "timestamp": np.arange(steps) / TASK.rate_hz,
        }
        if extra
        else {},
    )


def make_demonstrations(lengths=(5, 1, 8, 3), task=TASK):
    return gather(task, [make_episode(n, seed) for seed, n in enumerate(lengths)], {"by": "test"})


def assert_equal_episodes(a, b):
    for name in ("observation", "action", "reward", "success", "final_observation"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
        assert getattr(a, name).dtype == getattr(b, name).dtype, name
    assert (a.terminated, a.truncated, a.seed) == (b.terminated, b.truncated, b.seed)
    assert list(a.extra) == list(b.extra)
    for name in a.extra:
        np.testing.assert_array_equal(a.extra[name], b.extra[name], err_msg=name)
        assert a.extra[name].dtype == b.extra[name].dtype, name


ENV_ARGS_02 = {  # robosuite 1.2: flat controller, the rate is stated, no env_version
    "env_name": "NutAssemblySquare",
    "type": 1,
    "env_kwargs": {
        "robots": "Panda",
        "control_freq": 25,
        "controller_configs": {"type": "OSC_POSE", "input_max": 1, "control_delta": True},
        "reward_shaping": False,
    },
}


def write_robomimic(path, demos=3, steps=6, env_args=ENV_ARGS_02, next_obs=True, keys=None):
    """A file as robomimic 0.2 lays it out: float64, no num_samples surprises, demo_0 first."""
    keys = keys or {
        "robot0_eef_pos": 3,
        "robot0_eef_quat": 4,
        "robot0_gripper_qpos": 2,
        "object": 14,
    }
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = demos * steps
        if env_args is not None:
            data.attrs["env_args"] = json.dumps(env_args)
        for index in range(demos):
            demo = data.create_group(f"demo_{index}")
            demo.attrs["num_samples"] = steps
            demo["actions"] = rng.uniform(-1, 1, size=(steps, 7))
            demo["rewards"] = np.eye(1, steps, steps - 1)[0]
            demo["dones"] = np.eye(1, steps, steps - 1)[0].astype(np.int64)
            demo["states"] = rng.normal(size=(steps, 5))
            for key, size in keys.items():
                values = rng.normal(size=(steps + 1, size)) + 3  # positive: no quaternion flips
                demo[f"obs/{key}"] = values[:-1]
                if next_obs:
                    demo[f"next_obs/{key}"] = values[1:]
    return path


class Point:
    """A point that moves as told; success within 0.2 of the origin."""

    def __init__(self, config):
        self.spec = TaskSpec(
            "fake/point",
            Spec((Field("position", (1,), "m"),)),
            Spec((Field("velocity", (1,), "m/s", (-1.0,), (1.0,)),)),
            rate_hz=10.0,
            max_steps=config.max_steps,
            ends_on_success=True,
            reward="1 at the origin",
        )
        self._x = 0.0

    def reset(self, seed):
        self._x = float(np.random.default_rng(seed).uniform(0.5, 1.5))
        return self._observation()

    def step(self, action):
        self._x += 0.1 * float(action[0])
        success = abs(self._x) < 0.2
        return Step(self._observation(), float(success), success, False)

    def _observation(self):
        return np.array([self._x], np.float32)

    def state(self):
        return {"qpos": np.array([self._x])}

    def render(self, width, height):
        return np.zeros((height, width, 3), np.uint8)

    def close(self):
        pass


class PointExpert:
    """Drives to the origin, or away from it in a share of the episodes."""

    def __init__(self, config):
        self._failures = config.failures
        self._sign = -1.0

    def begin(self, rng):
        self._sign = 1.0 if rng.random() < self._failures else -1.0

    def act(self, observation):
        return np.array([self._sign], np.float32)


class PointConfig(StrictModel):
    max_steps: int = 20


class PointExpertConfig(StrictModel):
    failures: float = 0.5


class FakeHost:
    """The parts of the plugin host that the data room asks for."""

    def offers(self, family):
        assert family == "readers"
        return {p.name: p for p in RobomimicPlugin(NoConfig()).readers()}

    def task(self, name):
        family, _, rest = name.partition("/")
        provider = TaskProvider(
            family="fake",
            names=lambda: ("point",),
            config=PointConfig,
            build=lambda name, config: Point(config),
            expert_config=PointExpertConfig,
            expert=lambda name, config: PointExpert(config),
        )
        if (family, rest) != ("fake", "point"):
            raise OutriderError(f"no task {name!r}")
        return provider, rest
