"""DSRL-NA: critics learn on executed actions and are distilled into critics on noise.

Wagenmaker et al., arXiv 2506.15799, noise aliasing: many noises decode to one action, so temporal
differences are learnt where they generalise (actions), and the actor, which puts out noise,
climbs a distilled copy Q^W(s, w) ~ Q^A(s, g(s, w)). No gradient passes through the decoder g.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from outrider.core.host.objects import FinetuneContext
from outrider.core.learning.collect import Phase
from outrider.core.learning.types import Batch, Candidates
from outrider.core.types import Float, Int
from outrider.policies.steering.actor import SteeredPolicy
from outrider.policies.steering.actor_learner import ActorLearner
from outrider.policies.steering.config import NoiseAliasedConfig
from outrider.policies.steering.critic_learner import CriticLearner
from outrider.policies.steering.parts import Decoder, Recorder


class NoiseAliased:
    """The DSRL-NA learner; see `outrider.core.learning.types.Finetuner` for its face."""

    def __init__(self, config: NoiseAliasedConfig, ctx: FinetuneContext) -> None:
        self.config = config
        self.capabilities = config.capabilities()
        self.recorder = Recorder()
        self.decoder = Decoder(ctx.base, ctx.generator, ctx.device)
        shared = (self.decoder, self.recorder)
        self.actor = ActorLearner(config, ctx, *shared)
        self.action_critics = CriticLearner(config, ctx, "action", *shared, has_target=True)
        self.noise_critics = CriticLearner(config, ctx, "noise", *shared, has_target=False)

    def propose(self, observation: Float, n_policy: int, n_prior: int) -> Candidates:
        """Candidates of actor and prior; critics score the decoded chunk."""
        return self.actor.propose(observation, n_policy, n_prior, score_noise=False)

    def critic_values(self, observation: Float, candidates: Candidates) -> Float:
        """Q^A on every candidate, (K, N, M)."""
        return self.action_critics.score(observation, candidates)

    def payload_sizes(self) -> dict[str, int]:
        """Nothing beside the executed chunk is stored."""
        return {}

    def executed_decision(self, candidates: Candidates, index: Int, executed: Float) -> Float:
        """The chunk that was executed, normalised, (N, E*A)."""
        return self.decoder.normalized(executed)

    def update(self, sample: Callable[[], Batch], phase: Phase) -> None:
        """One update of Q^A, the actor, and the distillation into Q^W."""
        batch = sample()
        next_noise, bonus = self.actor.next_noise(batch.next_observation, phase)
        states = self._distillation_states(sample, len(batch.reward))
        noise = self._aliased_noise(states, phase)
        # Decoding dominates an update, and one large batch costs less than two small ones.
        decoded = self.decoder.decode(
            torch.cat([batch.next_observation, states]), torch.cat([next_noise, noise])
        )
        next_decision, aliased = decoded[: len(next_noise)], decoded[len(next_noise) :]

        def decide(observation: Tensor) -> tuple[Tensor, Tensor]:
            if observation is batch.next_observation:
                return next_decision, bonus
            other, its_bonus = self.actor.next_noise(observation, phase)
            return self.decoder.decode(observation, other), its_bonus

        self.action_critics.learn(batch, decide)
        if phase == "learn" or self.config.actor_warmup:
            self.actor.climb(self.noise_critics.network, batch)
        with torch.no_grad():
            target = self.action_critics.network(states, aliased)
        self.noise_critics.regress(states, states, noise, target)

    def _distillation_states(self, sample: Callable[[], Batch], batch: int) -> Tensor:
        rows = max(1, round(self.config.distill_fraction * batch))
        found = [sample().observation for _ in range(-(-rows // batch))]
        return torch.cat(found)[:rows]

    @torch.no_grad()
    def _aliased_noise(self, states: Tensor, phase: Phase) -> Tensor:
        noise = self.decoder.normal(len(states))
        count = round(self.config.distill_policy_fraction * len(states))
        if count and phase == "learn":
            noise[:count] = self.actor.network.noise(states[:count], noise[:count])
        return noise

    def drain_metrics(self) -> dict[str, float]:
        """Means since the last call."""
        return self.recorder.drain("dsrl")

    def policy(self) -> SteeredPolicy:
        """The base behind the actor."""
        return self.actor.policy()

    def state_dict(self) -> dict[str, Any]:
        """Everything that learns."""
        return {
            "actor": self.actor.state_dict(),
            "action_critics": self.action_critics.state_dict(),
            "noise_critics": self.noise_critics.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.actor.load_state_dict(state["actor"])
        self.action_critics.load_state_dict(state["action_critics"])
        self.noise_critics.load_state_dict(state["noise_critics"])
