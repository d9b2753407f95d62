"""One control step of robosuite's Panda: delta pose and gripper command -> physics steps.

Computes what robosuite's composite controller computes (`OSC_POSE` with fixed gains and uncoupled
position and orientation, `GRIP`), about ten times as fast: addresses are looked up once, nothing
is read that the control law does not use, and the arithmetic is compiled (`osc.py`).
"""

from typing import Any

import mujoco
import numpy as np

from outrider.core.errors import OutriderError
from outrider.core.types import Float
from outrider.robots.robosuite.osc import (
    Actuators,
    ArmState,
    Array,
    Goal,
    arm_torques,
    arm_torques_singular,
)

ARM = "right"
GRIPPER = "right_gripper"
ASSUMED = {
    "impedance_mode": "fixed",
    "input_type": "delta",
    "input_ref_frame": "base",
    "uncoupling": True,
    "interpolator_pos": None,
    "interpolator_ori": None,
    "position_limits": None,
    "orientation_limits": None,
    "_goal_update_mode": "achieved",
}
"""robosuite's defaults for a Panda, without which `PandaControl` would compute something else."""


class PandaControl:
    """Drives the arm and the gripper of a robosuite environment.

    Args:
        environment: a robosuite environment with one Panda and its default controllers.
        substeps: physics steps of one control step.

    Raises:
        OutriderError: when its controllers are not the ones that this class computes.
    """

    def __init__(self, environment: Any, substeps: int) -> None:
        from robosuite.utils import transform_utils

        self._transforms = transform_utils
        self._robot = environment.robots[0]
        self._model: mujoco.MjModel = environment.sim.model._model
        self._data: mujoco.MjData = environment.sim.data._data
        self._substeps = substeps
        controller = self._robot.part_controllers[ARM]
        _check(controller)
        addresses = self._robot._ref_actuators_indexes_dict
        self._arm = _actuators(self._model, addresses[ARM])
        self._gripper = _actuators(self._model, addresses[GRIPPER])
        self._input = np.stack([controller.input_min, controller.input_max])
        self._site = environment.sim.model.site_name2id(controller.ref_name)
        self._origin = _fixed_site(self._model, f"{controller.naming_prefix}{ARM}_center")
        self._gains = np.array([controller.kp, controller.kd])
        self._scale = _scale(controller)
        self._state = self._views(controller)
        self._jacobians = self._state.jac[:3], self._state.jac[3:]
        self._inertia, self._ctrl = self._data.qM, self._data.ctrl
        self.reset()

    def reset(self) -> None:
        """Take over the environment's state after its reset.

        robosuite's controller looks at the arm while it is reset, before the fingers are placed,
        and does not look again in the first physics step. So does this one.
        """
        controller, dofs = self._robot.part_controllers[ARM], self._state.dofs
        self._posture = np.array(controller.initial_joint)
        self._fingers = np.zeros(len(self._gripper.address))
        self._state.jac[:, dofs] = controller.J_full
        self._state.mass[np.ix_(dofs, dofs)] = controller.mass_matrix
        self._up_to_date = True

    def execute(self, action: Float) -> None:
        """Run the physics for one control step under one action (7,), clipped to [-1, 1]."""
        model, data, state, arm, ctrl = self._model, self._data, self._state, self._arm, self._ctrl
        mujoco.mj_step1(model, data)
        goal = self._goal(np.asarray(action, dtype=np.float64))
        ctrl[self._gripper.address] = self._finger_command(float(action[6]))
        for substep in range(self._substeps):
            if substep:
                mujoco.mj_step1(model, data)
            if not self._up_to_date:
                mujoco.mj_jacSite(model, data, *self._jacobians, self._site)
                mujoco.mj_fullM(model, state.mass, self._inertia)
            self._up_to_date = False
            if not arm_torques(*state, *goal, self._gains, *arm, ctrl):
                torques = arm_torques_singular(state, goal, self._gains)
                ctrl[arm.address] = np.clip(torques, arm.low, arm.high)
            mujoco.mj_step2(model, data)

    def _goal(self, action: Array) -> Goal:
        """The pose reached now, moved by the action in the frame of the arm's base."""
        low, high = self._input
        centre, scale, shift = self._scale
        delta = (np.clip(action[:6], low, high) - centre) * scale + shift
        origin = self._data.site_xpos[self._origin]
        base = self._data.site_xmat[self._origin].reshape(3, 3)
        position = base.T @ self._state.position - base.T @ origin + delta[:3]
        turn = self._rotation(delta[3:]) @ (base.T @ self._state.rotation.reshape(3, 3))
        return Goal(origin + base @ position, base @ turn, self._posture)

    def _finger_command(self, command: float) -> Array:
        """Fingers move by `speed` of their range per control step; +1 closes, -1 opens."""
        speed = self._robot.gripper[ARM].speed
        step = np.array([-1.0, 1.0]) * speed * np.sign(command)
        self._fingers = np.clip(self._fingers + step, -1.0, 1.0)
        low, high = self._gripper.low, self._gripper.high
        target = 0.5 * (high + low) + 0.5 * (high - low) * self._fingers
        return np.clip(target, low, high)

    def _rotation(self, vector: Array) -> Array:
        """Rotation matrix (3, 3) of a rotation vector (3,), in robosuite's single precision."""
        return np.asarray(self._transforms.quat2mat(self._transforms.axisangle2quat(vector)))

    def _views(self, controller: Any) -> ArmState:
        model, data = self._model, self._data
        return ArmState(
            jac=np.zeros((6, model.nv)),
            mass=np.zeros((model.nv, model.nv)),
            bias=data.qfrc_bias,
            qpos=data.qpos,
            qvel=data.qvel,
            position=data.site_xpos[self._site],
            rotation=data.site_xmat[self._site],
            joints=np.array(controller.qpos_index, dtype=np.int64),
            dofs=np.array(controller.qvel_index, dtype=np.int64),
        )


def _actuators(model: Any, index: list[int]) -> Actuators:
    limits = model.actuator_ctrlrange[index]
    return Actuators(np.array(index, dtype=np.int64), limits[:, 0].copy(), limits[:, 1].copy())


def _check(controller: Any) -> None:
    for name, expected in ASSUMED.items():
        found = getattr(controller, name, None)
        if found is not expected and found != expected:
            raise OutriderError(
                f"robosuite's arm controller has {name}={found!r}, expected {expected!r}",
                fix="Use a robosuite of the range that pyproject.toml names (1.5).",
            )


def _fixed_site(model: Any, name: str) -> int:
    site = int(model.site(name).id)
    if model.body_weldid[model.site_bodyid[site]] != 0:
        raise OutriderError(f"the base of the arm moves: site {name} is not fixed to the world")
    return site


def _scale(controller: Any) -> tuple[Array, Array, Array]:
    """Centre of the input range, output per input, centre of the output range; each (6,)."""
    low, high = controller.input_min, controller.input_max
    out_low, out_high = controller.output_min, controller.output_max
    scale = abs(out_high - out_low) / abs(high - low)
    return (high + low) / 2.0, scale, (out_high + out_low) / 2.0
