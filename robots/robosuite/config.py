"""Settings of the robosuite tasks and of their experts. Imports no simulator."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from outrider.core.config import StrictModel


class RobosuiteConfig(StrictModel):
    """Settings of a robosuite task.

    Attributes:
        physics_timestep: s. robosuite's own is 0.002; 0.005 steps twice as fast and its contacts
            are coarser. The control period must be a multiple of it.
        control_freq: control rate, Hz.
        max_steps: episode limit in control steps; None takes the task's own.
        observation: `continuous` names every part, and no orientation flips its sign within an
            episode; `robomimic` has the fields and the signs of robomimic's files, for policies
            that were trained on them.
        camera: what `render` looks through.
        build_seed: robosuite draws the size of Lift's cube when the model is built, and a reset
            keeps it. One seed for all builds gives every process the same task.
    """

    physics_timestep: PositiveFloat = 0.002
    control_freq: PositiveFloat = 20.0
    max_steps: PositiveInt | None = None
    observation: Literal["continuous", "robomimic"] = "continuous"
    camera: str = "agentview"
    build_seed: int = Field(default=0, ge=0, lt=2**32)


class ExpertConfig(StrictModel):
    """Imperfection of a scripted expert: what is drawn anew for every episode, and how widely.

    With the defaults the expert of Lift fails in about half of its episodes, on purpose. With
    `CLEAN_EXPERT` it hardly ever does, and still approaches from varying sides.

    Attributes:
        min_speed: the episode's speed factor is uniform from here to 1.
        grasp_offset: standard deviation of the horizontal error of the grasp, m.
        early_close: the gripper closes uniformly up to this far above the grasp height, m.
        action_noise: upper end of the uniform standard deviation of the noise on translations, in
            units of the action range; rotations get 0.3 of it, a closing hand none.
        yaw: the hand turns uniformly up to this far either way before it grasps, rad.
        sides: directions from which the object is approached; 0 goes straight above it.
    """

    min_speed: float = Field(default=0.5, gt=0, le=1)
    grasp_offset: float = Field(default=0.012, ge=0)
    early_close: float = Field(default=0.03, ge=0)
    action_noise: float = Field(default=0.5, ge=0)
    yaw: float = Field(default=0.3, ge=0)
    sides: int = Field(default=4, ge=0)


CLEAN_EXPERT = ExpertConfig(grasp_offset=0.0, early_close=0.0, action_noise=0.0, yaw=0.0)
"""An expert that does its best."""
