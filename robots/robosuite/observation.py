"""The low-dimensional observation, read from the simulation at the end of a control step.

Order and signs are those of robomimic's files (robosuite 1.4): hand position, orientation of the
hand's body, finger positions, then the object: position, orientation, and either the vector from
the object to the hand (Lift) or the object's pose in the frame of the hand (Can, Square).
robosuite 1.5 puts the relative part first, turns the sign of Lift's vector, and hands out samples
that are one or two physics steps old, for the relative part a whole control step; here everything
belongs to one instant.

Quaternions are x-y-z-w. A body's quaternion is a continuous function of the joint angles, or is
integrated, so its sign does not flip within an episode. The relative one is their product and
inherits that; robomimic's files hold it with a scalar part that is never negative, which flips
back and forth around half a turn, where an upright object under a downward hand happens to be.
"""

from typing import Any

import mujoco
import numpy as np

from outrider.core.types import Float
from outrider.robots.robosuite.osc import Array, Index


class Observer:
    """Reads the observation of one task.

    Args:
        model: the compiled model.
        data: its state.
        hand: body of the hand.
        site: site between the fingertips.
        fingers: addresses of the finger joints in `qpos`.
        thing: body of the object.
        relative_pose: object's pose in the hand's frame, or only the vector from it to the hand.
        positive: whether the scalar part of the relative orientation is kept positive.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        hand: str,
        site: str,
        fingers: Index,
        thing: str,
        relative_pose: bool,
        positive: bool,
    ) -> None:
        self._qpos: Array = data.qpos
        self._fingers = fingers
        self._relative_pose = relative_pose
        self._positive = positive
        hand_id, thing_id = model.body(hand).id, model.body(thing).id
        self.hand_position: Array = data.site_xpos[model.site(site).id]
        self.thing_position: Array = data.xpos[thing_id]
        self._hand_quat: Array = data.xquat[hand_id]
        self._thing_quat: Array = data.xquat[thing_id]

    def read(self) -> Float:
        """The observation (19 or 23,)."""
        parts = [
            self.hand_position,
            _xyzw(self._hand_quat),
            self._qpos[self._fingers],
            self.thing_position,
            _xyzw(self._thing_quat),
        ]
        if self._relative_pose:
            parts.extend(self._pose_in_hand())
        else:
            parts.append(self.hand_position - self.thing_position)
        return np.concatenate(parts, dtype=np.float32, casting="same_kind")

    def _pose_in_hand(self) -> tuple[Array, Array]:
        inverse, position, quat = np.empty(4), np.empty(3), np.empty(4)
        mujoco.mju_negQuat(inverse, self._hand_quat)
        mujoco.mju_rotVecQuat(position, self.thing_position - self.hand_position, inverse)
        mujoco.mju_mulQuat(quat, inverse, self._thing_quat)
        if self._positive and quat[0] < 0.0:
            quat = -quat
        return position, _xyzw(quat)


def _xyzw(wxyz: Array) -> Array:
    return wxyz[[1, 2, 3, 0]]
