"""Settings of the diffusion policy. Imports no torch, so that every plugin listing can read it."""

from typing import Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from outrider.core.config import StrictModel

Activation = Literal["relu", "mish"]
Prediction = Literal["epsilon", "sample"]
Spacing = Literal["trailing", "leading"]


class DiffusionConfig(StrictModel):
    """A residual MLP that denoises flattened action chunks.

    Attributes:
        horizon: H, steps of a chunk.
        execute: E, steps of it that are executed before the next inference; None executes all.
        width: units of each hidden layer.
        depth: hidden layers: one input layer and (depth - 1) / 2 residual blocks of two layers;
            `width: 512, depth: 3` is the network that papers call 3x512.
        time_embedding: size of the embedding of the denoising step, even.
        activation: mish is what DPPO uses for manipulation; relu trains about as well here and
            decodes almost twice as fast.
        denoising_steps: T, steps of the noise schedule in training.
        sampling_steps: S <= T, DDIM steps of inference.
        spacing: which S of the T steps. `trailing` starts at T - 1, where the signal is gone, as
            it is in the noise that the decoder is given. `leading` starts S-dependently lower
            (T = 20, S = 8: at alpha-bar 0.144) and is kept to replicate released policies.
        prediction: whether the network predicts the noise or the clean chunk.
        clip_sample: clip the clean chunk to [-1, 1] at each step. The normaliser maps the range
            of the demonstrations to exactly this interval, which is what makes the clip right.
        cosine_offset: s of the cosine schedule.
        observation_range_floor: the smallest range (maximum - minimum) by which an observation
            is scaled, in its own unit: a nearly constant one must not blow up its sensor noise.
        action_range_floor: the same for actions.
    """

    horizon: PositiveInt = 4
    execute: PositiveInt | None = None
    width: PositiveInt = 256
    depth: int = Field(default=3, ge=3)
    time_embedding: int = Field(default=16, ge=4, multiple_of=2)
    activation: Activation = "relu"
    denoising_steps: int = Field(default=20, ge=2)
    sampling_steps: PositiveInt = 5
    spacing: Spacing = "trailing"
    prediction: Prediction = "epsilon"
    clip_sample: bool = True
    cosine_offset: PositiveFloat = 0.008
    observation_range_floor: PositiveFloat = 0.01
    action_range_floor: PositiveFloat = 0.05

    @property
    def executed_steps(self) -> int:
        """E."""
        return self.horizon if self.execute is None else self.execute

    @property
    def blocks(self) -> int:
        """Residual blocks."""
        return (self.depth - 1) // 2

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.executed_steps > self.horizon:
            raise ValueError(f"execute {self.execute} is more than horizon {self.horizon}")
        if self.sampling_steps > self.denoising_steps:
            raise ValueError(
                f"sampling_steps {self.sampling_steps} is more than "
                f"denoising_steps {self.denoising_steps}"
            )
        if self.depth % 2 == 0:
            raise ValueError(f"depth {self.depth} is even; blocks have two layers, so it is odd")
        return self
