"""Settings of the gymnasium experts. Imports no simulator."""

from pydantic import Field, NonNegativeInt

from outrider.core.config import StrictModel


class ExpertConfig(StrictModel):
    """What is drawn anew for every episode, and how widely.

    With the defaults the demonstrations show every gait that was found, a little sloppily. With
    `CLEAN_EXPERT` the expert does what the search found.

    Attributes:
        gaits: which of the task's gaits are shown, by number; None shows all of them. One of them
            is drawn for each episode.
        action_noise: upper end of the uniform standard deviation of the noise on each action
            element, in units of the action range's half.
        gain_spread: the episode's factor on the commands before clipping is uniform within this
            distance of 1; less force means a slower gait, and more falls.
    """

    gaits: tuple[NonNegativeInt, ...] | None = Field(default=None, min_length=1)
    action_noise: float = Field(default=0.1, ge=0)
    gain_spread: float = Field(default=0.1, ge=0, lt=1)


CLEAN_EXPERT = ExpertConfig(action_noise=0.0, gain_spread=0.0)
"""An expert that does what the search found."""
