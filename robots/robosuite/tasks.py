"""The three tasks: which robosuite environment, which object, when solved. Imports no simulator."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outrider.core.errors import OutriderError, nearest
from outrider.core.types import Field, Spec, TaskSpec
from outrider.robots.robosuite.config import RobosuiteConfig

RELEASED = math.atanh(0.4) / 10.0
"""m. robosuite counts an object as placed when `1 - tanh(10 distance)` to the hand is below 0.6."""

CAN, SQUARE_NUT = 3, 0
"""Numbers of the objects in robosuite's lists of bins and pegs."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    Attributes:
        environment: robosuite's name.
        thing: what fields of the observation call the object.
        body: its root body in the model.
        relative_pose: whether its whole pose in the frame of the hand is observed, or only where
            the hand is relative to it.
        max_steps: episode limit in control steps.
        solved: environment, object position (3,), hand position (3,) -> robosuite's own check,
            restricted to this task's object.
    """

    environment: str
    thing: str
    body: str
    relative_pose: bool
    max_steps: int
    solved: Callable[[Any, Any, Any], bool]


def cube_lifted(environment: Any, cube: Any, hand: Any) -> bool:
    """The cube's centre is 4 cm above the plane of the table."""
    return bool(cube[2] > environment.model.mujoco_arena.table_offset[2] + 0.04)


def can_placed(environment: Any, can: Any, hand: Any) -> bool:
    """The can lies in its compartment and the hand has let go."""
    return not environment.not_in_bin(can, CAN) and math.dist(can, hand) > RELEASED


def nut_placed(environment: Any, nut: Any, hand: Any) -> bool:
    """The nut lies around its peg and the hand has let go."""
    return bool(environment.on_peg(nut, SQUARE_NUT)) and math.dist(nut, hand) > RELEASED


TASKS = {
    "lift": Task("Lift", "cube", "cube_main", False, 300, cube_lifted),
    "can": Task("PickPlaceCan", "can", "Can_main", True, 300, can_placed),
    "square": Task("NutAssemblySquare", "nut", "SquareNut_main", True, 400, nut_placed),
}


def find_task(name: str) -> Task:
    """The task of this name.

    Raises:
        OutriderError: when there is none; it lists the names.
    """
    try:
        return TASKS[name]
    except KeyError:
        raise OutriderError(
            f"no task {name!r}", where="robosuite", fix=nearest(name, list(TASKS))
        ) from None


def task_spec(name: str, config: RobosuiteConfig) -> TaskSpec:
    """What the task promises under this configuration."""
    task = find_task(name)
    return TaskSpec(
        task=f"robosuite/{name}",
        observation=_observation_spec(task, config),
        action=Spec(
            tuple(
                Field(part, (size,), "", (-1.0,) * size, (1.0,) * size)
                for part, size in (("delta_position", 3), ("delta_rotation", 3), ("gripper", 1))
            )
        ),
        rate_hz=config.control_freq,
        max_steps=config.max_steps or task.max_steps,
        ends_on_success=True,
        reward="1 after a step at whose end the task's own check holds, else 0",
    )


def _observation_spec(task: Task, config: RobosuiteConfig) -> Spec:
    hand = (
        Field("robot0_eef_pos", (3,), "m"),
        Field("robot0_eef_quat", (4,)),
        Field("robot0_gripper_qpos", (2,), "m"),
    )
    if config.observation == "robomimic":
        return Spec((*hand, Field("object", (14 if task.relative_pose else 10,))))
    thing = task.thing
    pose = (Field(f"{thing}_pos", (3,), "m"), Field(f"{thing}_quat_xyzw", (4,)))
    relative = (
        (Field(f"{thing}_in_hand_pos", (3,), "m"), Field(f"{thing}_in_hand_quat_xyzw", (4,)))
        if task.relative_pose
        else (Field(f"{thing}_to_hand_pos", (3,), "m"),)
    )
    return Spec((*hand[:1], Field("robot0_eef_quat_xyzw", (4,)), *hand[2:], *pose, *relative))
