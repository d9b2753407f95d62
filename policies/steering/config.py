"""Settings of the DSRL finetuners. Imports no torch."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from outrider.core.config import StrictModel
from outrider.core.learning.types import Capabilities


class DsrlConfig(StrictModel):
    """What both forms of DSRL share (Wagenmaker et al., arXiv 2506.15799).

    Attributes:
        critics: K, heads of each critic ensemble.
        width: hidden units of actor and critics.
        layers: hidden layers of actor and critics.
        activation: of actor and critics.
        learning_rate: of Adam, for all networks.
        tau: share by which target critics follow.
        noise_bound: b, the actor's noise is b * tanh(z). The released code ignores its setting and
            always bounds by one; here the bound is what it says.
        initial_std: standard deviation of z at the start; None takes 1 / noise_bound, with which
            the steered policy starts close to the pretrained one.
        target_reduction: of K target values to one: all heads' minimum, that of a random `subset`,
            or the mean.
        subset: heads of a random subset.
        actor_reduction: of K values in the actor's loss.
        constraint: `entropy` holds the entropy of the noise at `constraint_target` (nats; 0 in the
            released code); `kl` holds its divergence from the standard normal noise that the
            decoder was trained with.
        constraint_target: in nats, over the whole chunk of noise.
        temperature: initial weight of the constraint; it is adapted to meet the target.
        entropy_in_backup: whether the entropy bonus enters the target (entropy constraint only).
        initial_value: of the critics' outputs.
        actor_warmup: whether the actor already learns during the warm-up of the loop.
    """

    critics: PositiveInt = 10
    width: PositiveInt = 256
    layers: PositiveInt = 3
    activation: Literal["tanh", "relu"] = "tanh"
    learning_rate: PositiveFloat = 3e-4
    tau: float = Field(default=0.005, gt=0, le=1)
    noise_bound: PositiveFloat = 1.5
    initial_std: PositiveFloat | None = None
    target_reduction: Literal["min", "subset", "mean"] = "min"
    subset: PositiveInt = 2
    actor_reduction: Literal["min", "subset", "mean"] = "min"
    constraint: Literal["entropy", "kl"] = "entropy"
    constraint_target: float = 0.0
    temperature: PositiveFloat = 1.0
    entropy_in_backup: bool = True
    initial_value: float = 0.0
    actor_warmup: bool = False


class NoiseAliasedConfig(DsrlConfig):
    """DSRL-NA: critics on executed actions, distilled into critics on noise.

    Attributes:
        distill_fraction: rows of a distillation step, relative to the batch, in every update (the
            released code takes ten full steps for every twenty updates, hence a half).
        distill_policy_fraction: share of those rows whose noise comes from the actor; the rest is
            standard normal. 0 is the released code.
    """

    distill_fraction: float = Field(default=0.5, gt=0, le=4)
    distill_policy_fraction: float = Field(default=0.0, ge=0, le=1)

    def capabilities(self) -> Capabilities:
        """K critics on executed chunks, and samples of the pretrained policy."""
        return Capabilities(self.critics, "action", has_prior=True)


class NoiseSpaceConfig(DsrlConfig):
    """DSRL-SAC: plain soft actor-critic whose action is the noise."""

    critics: PositiveInt = 2

    def capabilities(self) -> Capabilities:
        """K critics on noise, and samples of the pretrained policy."""
        return Capabilities(self.critics, "noise", has_prior=True)
