"""The noise actor and how it learns: it climbs critics on noise under a constraint."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from outrider.core.host.objects import FinetuneContext
from outrider.core.learning.collect import Phase
from outrider.core.learning.critics import CriticEnsemble, reduce_heads
from outrider.core.learning.types import ActorView, Batch, Candidates
from outrider.core.types import Float
from outrider.policies.steering.actor import NoiseActor, SteeredPolicy
from outrider.policies.steering.config import DsrlConfig
from outrider.policies.steering.parts import Constraint, Decoder, Optimized, Recorder, frozen

POLICY, PRIOR = 0, 1


class ActorLearner:
    """A noise actor with its optimiser and its constraint."""

    def __init__(
        self, config: DsrlConfig, ctx: FinetuneContext, decoder: Decoder, recorder: Recorder
    ) -> None:
        self.config, self.decoder, self.recorder = config, decoder, recorder
        self.generator = ctx.generator
        self.regularizers = ctx.hooks.actor_regularizers
        self.network = NoiseActor(
            ctx.base.observation_size,
            decoder.noise_size,
            width=config.width,
            layers=config.layers,
            activation=config.activation,
            bound=config.noise_bound,
            initial_std=config.initial_std or 1.0 / config.noise_bound,
            generator=ctx.generator,
        ).to(ctx.device)
        self.optimized = Optimized(
            "actor", self.network, config.learning_rate, ctx.hooks.gradient_transforms
        )
        self.constraint = Constraint(
            config.constraint, config.constraint_target, config.temperature, config.learning_rate
        )

    @torch.no_grad()
    def propose(
        self, observation: Float, n_policy: int, n_prior: int, *, score_noise: bool
    ) -> Candidates:
        """Draw noises of the actor and of the prior for each robot; decode them in one batch.

        A sample of the pretrained policy is plain normal noise that bypasses the actor: DSRL
        never changes the decoder. Prior noise is not clipped to the actor's bound.

        Args:
            observation: (N, O), physical units.
            n_policy: candidates of the steered policy.
            n_prior: candidates of the pretrained policy.
            score_noise: whether critics score the noise instead of the decoded chunk.
        """
        robots, candidates = len(observation), n_policy + n_prior
        normalized = self.decoder.observe(observation)
        noise = self.decoder.normal(robots * candidates).view(robots, candidates, -1)
        if n_policy:
            rows = normalized.repeat_interleave(n_policy, dim=0)
            steered = self.network.noise(rows, noise[:, :n_policy].flatten(0, 1))
            noise[:, :n_policy] = steered.view(robots, n_policy, -1)
        rows = normalized.repeat_interleave(candidates, dim=0)
        decision = self.decoder.decode(rows, noise.flatten(0, 1)).view(robots, candidates, -1)
        source = torch.tensor([POLICY] * n_policy + [PRIOR] * n_prior, dtype=torch.int8)
        return Candidates(
            chunk=self.decoder.physical(decision),
            critic_input=noise if score_noise else decision,
            source=source.expand(robots, candidates),
        )

    @torch.no_grad()
    def next_noise(self, observation: Tensor, phase: Phase) -> tuple[Tensor, Tensor]:
        """Noise that would be decoded at (B, O), and its entropy bonus (B,), already weighted.

        During the warm-up the pretrained policy acts, so it is the one to be valued.
        """
        eps = self.decoder.normal(len(observation))
        if phase == "warmup":
            return eps, eps.new_zeros(len(eps))
        drawn = self.network.sample(observation, eps)
        if self.config.constraint == "entropy" and self.config.entropy_in_backup:
            return drawn.noise, -self.constraint.weight * drawn.log_prob
        return drawn.noise, torch.zeros_like(drawn.log_prob)

    def climb(self, critics: CriticEnsemble, batch: Batch) -> None:
        """One ascent step on critics of noise: mean( weight * cost - red_k Q^W_k(s, w) )."""
        drawn = self.network.sample(batch.observation, self.decoder.normal(len(batch.observation)))
        with frozen(critics):
            values = critics(batch.observation, drawn.noise)
        value = reduce_heads(
            values,
            self.config.actor_reduction,
            subset=self.config.subset,
            generator=self.generator,
        )
        cost = self.constraint.cost(drawn.log_prob, drawn.log_prior)
        loss = (self.constraint.weight * cost - value).mean()
        self.recorder.add(**self.optimized.step(loss + self._penalty(batch)))
        self.constraint.adapt(cost)
        saturated = drawn.noise.detach().abs() > 0.9 * self.config.noise_bound
        self.recorder.add(
            actor_loss=loss,
            actor_cost=cost.mean(),
            constraint_weight=self.constraint.weight,
            noise_saturation=saturated.float().mean(),
        )

    def _penalty(self, batch: Batch) -> Tensor | float:
        view = ActorView(
            "noise", self.network.mean_noise, batch.observation, batch.next_observation
        )
        total: Tensor | float = 0.0
        for regularizer in self.regularizers:
            for name, loss in regularizer.losses(view).items():
                self.recorder.add(**{f"actor_{name}": loss})
                total = total + loss
        return total

    def policy(self) -> SteeredPolicy:
        """The base behind the actor."""
        return SteeredPolicy(self.decoder.base, self.network)

    def state_dict(self) -> dict[str, Any]:
        """The network, its optimiser, the constraint, and the generator that all draws share."""
        return {
            "network": self.optimized.state_dict(),
            "constraint": self.constraint.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.optimized.load_state_dict(state["network"])
        self.constraint.load_state_dict(state["constraint"])
        self.generator.set_state(state["generator"])
