"""Settings of the diffusion policy. Imports no torch, so that every plugin listing can read it."""

from typing import Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from outrider.core.config import StrictModel

Activation = Literal["relu", "mish"]
Prediction = Literal["epsilon", "sample"]
Spacing = Literal["inner", "trailing", "leading"]


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
        spacing: which S of the T steps. `trailing` starts at T - 1, where no signal is left, as
            none is in the noise that the decoder is given; but there the clean chunk is a
            difference divided by sqrt(alpha-bar) = 0.0025, which multiplies rounding by 400.
            `inner` starts one step lower, at alpha-bar 0.006: still noise, and well conditioned.
            `leading` starts S-dependently lower (T = 20, S = 8: at alpha-bar 0.144) and is kept
            to replicate released policies.
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
    spacing: Spacing = "inner"
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
        most = self.denoising_steps - (self.spacing == "inner")
        if self.sampling_steps > most:
            raise ValueError(
                f"sampling_steps {self.sampling_steps} is more than the {most} that "
                f"{self.denoising_steps} denoising_steps have with {self.spacing} spacing"
            )
        if self.depth % 2 == 0:
            raise ValueError(f"depth {self.depth} is even; blocks have two layers, so it is odd")
        return self
