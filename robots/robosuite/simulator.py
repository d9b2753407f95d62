"""A robosuite task as a simulator: robosuite builds and places, we step and observe."""

from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError
from outrider.core.simulation.types import Step
from outrider.core.types import Float
from outrider.robots.robosuite.config import RobosuiteConfig
from outrider.robots.robosuite.control import ARM, PandaControl
from outrider.robots.robosuite.library import make_environment, reset_environment
from outrider.robots.robosuite.observation import Observer
from outrider.robots.robosuite.tasks import find_task, task_spec

COLLISION_GROUP, HIDDEN_GROUP = 0, 3
"""robosuite's geom group of collision shapes, and one that renderers do not show by default."""


class RobosuiteSimulator:
    """One Panda with one task.

    Args:
        name: `lift`, `can` or `square`.
        config: settings of the task.

    Raises:
        OutriderError: for an unknown task, a control period that is no multiple of the physics
            timestep, or a robosuite whose controllers are not the ones that are computed here.
    """

    def __init__(self, name: str, config: RobosuiteConfig) -> None:
        self._task = find_task(name)
        self.spec = task_spec(name, config)
        substeps = count_substeps(config)
        self.environment = make_environment(self._task.environment, config.build_seed)
        self.model: Any = self.environment.sim.model._model
        self.data: Any = self.environment.sim.data._data
        _prepare(self.model, config.physics_timestep)
        reset_environment(self.environment, config.build_seed)
        self._control = PandaControl(self.environment, substeps)
        self._observer = self._make_observer(config)
        self._camera = config.camera
        self._renderer: Any = None

    def reset(self, seed: int) -> Float:
        """Place the objects and the arm; the episode depends on the seed alone. Returns (O,)."""
        reset_environment(self.environment, seed)
        self._control.reset()
        return self._observer.read()

    def step(self, action: Float) -> Step:
        """Execute one delta-pose command (7,): 1 is 0.05 m, 0.5 rad, closing; frame of the base."""
        self._control.execute(action)
        observer = self._observer
        success = self._task.solved(
            self.environment, observer.thing_position, observer.hand_position
        )
        return Step(observer.read(), float(success), success, terminated=False)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Generalized positions (nq,) and velocities (nv,) of the whole scene."""
        return {"qpos": self.data.qpos.copy(), "qvel": self.data.qvel.copy()}

    def render(self, width: int, height: int) -> npt.NDArray[np.uint8]:
        """An RGB frame (height, width, 3) through the configured camera, upright."""
        if self._renderer is None:
            from outrider.robots.rendering import Renderer

            self._renderer = Renderer(self.model)
        frame: npt.NDArray[np.uint8] = self._renderer.render(self.data, self._camera, width, height)
        return frame

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _make_observer(self, config: RobosuiteConfig) -> Observer:
        robot = self.environment.robots[0]
        return Observer(
            self.model,
            self.data,
            hand=robot.robot_model.eef_name[ARM],
            site=robot.gripper[ARM].important_sites["grip_site"],
            fingers=np.array(robot._ref_gripper_joint_pos_indexes[ARM], dtype=np.int64),
            thing=self._task.body,
            relative_pose=self._task.relative_pose,
            positive=config.observation == "robomimic",
        )


def _prepare(model: Any, timestep: float) -> None:
    """Leave out what nobody reads or looks at: force sensors, and collision shapes in pictures."""
    model.opt.timestep = timestep
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR.value
    model.geom_group[model.geom_group == COLLISION_GROUP] = HIDDEN_GROUP


def count_substeps(config: RobosuiteConfig) -> int:
    """Physics steps of one control step.

    Raises:
        OutriderError: when the control period is no multiple of the physics timestep.
    """
    steps = 1.0 / (config.control_freq * config.physics_timestep)
    if round(steps) < 1 or abs(steps - round(steps)) > 1e-6:
        raise OutriderError(
            f"physics_timestep {config.physics_timestep} s does not divide the control period "
            f"{1.0 / config.control_freq:g} s",
            where="robosuite",
            fix="At 20 Hz, 0.002 and 0.005 do.",
        )
    return round(steps)
