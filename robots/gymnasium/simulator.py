"""One gymnasium robot as a `Simulator`.

The environment's class is used as it is, without the wrappers of `gymnasium.make`: time limits
are the fleet's business, and the checks of the wrappers would be paid at every step.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.simulation.types import Step
from outrider.core.types import Field, Float, Spec, TaskSpec
from outrider.robots.rendering import Renderer, load_mujoco

MAX_STEPS = 1000  # the limit that published results use
CAMERA = "track"


@dataclass(frozen=True, slots=True)
class Robot:
    """Where an environment is found, and what its reward is."""

    module: str
    cls: str
    reward: str


ROBOTS = {
    "hopper": Robot(
        "hopper_v5",
        "HopperEnv",
        "forward velocity in m/s, plus 1 while healthy, minus 0.001 times the squared action",
    ),
    "walker2d": Robot(
        "walker2d_v5",
        "Walker2dEnv",
        "forward velocity in m/s, plus 1 while healthy, minus 0.001 times the squared action",
    ),
    "halfcheetah": Robot(
        "half_cheetah_v5",
        "HalfCheetahEnv",
        "forward velocity in m/s, minus 0.1 times the squared action",
    ),
}


class GymnasiumSimulator:
    """A planar robot that is paid for running. Implements `Simulator`.

    These tasks have no notion of success: `Step.success` is always False, and what counts is the
    return. Hopper and walker terminate when they fall, the cheetah never does.

    Args:
        name: key of `ROBOTS`.
    """

    def __init__(self, name: str) -> None:
        load_mujoco()  # so that a missing OpenGL library is reported in one line
        robot = ROBOTS[name]
        module = importlib.import_module(f"gymnasium.envs.mujoco.{robot.module}")
        self._env: Any = getattr(module, robot.cls)()
        self.spec = TaskSpec(
            task=f"gymnasium/{name}",
            observation=_observation(self._env.model),
            action=_action(self._env.model),
            rate_hz=round(1.0 / self._env.dt, 6),
            max_steps=MAX_STEPS,
            ends_on_success=False,
            reward=robot.reward,
        )
        self._renderer = Renderer(self._env.model)

    def reset(self, seed: int) -> Float:
        """Stand up, with a little noise that the seed determines."""
        observation, _ = self._env.reset(seed=seed)
        return np.asarray(observation, np.float32)

    def step(self, action: Float) -> Step:
        """Execute one action; reward and termination are the environment's own."""
        observation, reward, terminated, _, _ = self._env.step(action)
        return Step(np.asarray(observation, np.float32), float(reward), False, bool(terminated))

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """`qpos` and `qvel` in float64."""
        return {"qpos": self._env.data.qpos.copy(), "qvel": self._env.data.qvel.copy()}

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        """The robot from the side; the camera runs along."""
        return self._renderer.render(self._env.data, CAMERA, width, height)

    def close(self) -> None:
        """Free the renderer and the environment."""
        self._renderer.close()
        self._env.close()


def _observation(model: Any) -> Spec:
    """Joint positions without the first, which is the distance run, then joint velocities."""
    joints = [model.joint(i) for i in range(model.njnt)]
    units = ["m" if joint.type == _slide() else "rad" for joint in joints]
    positions = [Field(f"{j.name}_position", (), u) for j, u in zip(joints, units, strict=True)]
    velocities = [
        Field(f"{j.name}_velocity", (), f"{u}/s") for j, u in zip(joints, units, strict=True)
    ]
    return Spec((*positions[1:], *velocities))


def _action(model: Any) -> Spec:
    """Torques as shares of each actuator's largest."""
    limits = model.actuator_ctrlrange.tolist()
    names = [model.joint(model.actuator(i).trnid[0]).name for i in range(model.nu)]
    return Spec(
        tuple(
            Field(f"{name}_torque", (), "", (low,), (high,))
            for name, (low, high) in zip(names, limits, strict=True)
        )
    )


def _slide() -> int:
    return int(load_mujoco().mjtJoint.mjJNT_SLIDE)
