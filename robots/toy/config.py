"""Settings of the corridor task and of its expert."""

from typing import Literal

from pydantic import Field

from outrider.core.config import StrictModel

Route = Literal["random", "low", "middle", "high"]


class CorridorsConfig(StrictModel):
    """The point mass.

    Attributes:
        half_width: of each corridor, m.
        goal_radius: how close to the goal is a success, m.
        response: share by which the velocity approaches the command in one control step.
    """

    half_width: float = Field(default=0.07, gt=0, lt=0.3)
    goal_radius: float = Field(default=0.08, gt=0)
    response: float = Field(default=0.6, gt=0, le=1)


class CorridorExpertConfig(StrictModel):
    """A demonstrator that is multimodal and imperfect on purpose.

    Attributes:
        route: which corridor it takes.
        speed: mean speed as a share of the top speed.
        speed_spread: half the range over which the speed varies between episodes.
        noise: standard deviation of the noise on each command.
        aim: standard deviation of the error with which it aims at a corridor's axis, m.
    """

    route: Route = "random"
    speed: float = Field(default=0.7, gt=0, le=1)
    speed_spread: float = Field(default=0.15, ge=0)
    noise: float = Field(default=0.1, ge=0)
    aim: float = Field(default=0.05, ge=0)
