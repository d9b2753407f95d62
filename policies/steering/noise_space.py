"""DSRL-SAC: soft actor-critic whose action is the noise that the frozen policy decodes.

Wagenmaker et al., arXiv 2506.15799. Nothing is decoded in an update, which makes it the cheaper
form; critics have to learn by themselves which noises decode to the same action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outrider.core.host.objects import FinetuneContext
from outrider.core.learning.collect import Phase
from outrider.core.learning.types import Batch, Candidates
from outrider.core.types import Float, Int
from outrider.policies.steering.actor import SteeredPolicy
from outrider.policies.steering.actor_learner import ActorLearner
from outrider.policies.steering.config import NoiseSpaceConfig
from outrider.policies.steering.critic_learner import CriticLearner
from outrider.policies.steering.parts import Decoder, Recorder


class NoiseSpace:
    """The DSRL-SAC learner; see `outrider.core.learning.types.Finetuner` for its face."""

    def __init__(self, config: NoiseSpaceConfig, ctx: FinetuneContext) -> None:
        self.config = config
        self.capabilities = config.capabilities()
        self.recorder = Recorder()
        self.decoder = Decoder(ctx.base, ctx.generator, ctx.device)
        shared = (self.decoder, self.recorder)
        self.actor = ActorLearner(config, ctx, *shared)
        self.critics = CriticLearner(config, ctx, "noise", *shared, has_target=True)

    def propose(self, observation: Float, n_policy: int, n_prior: int) -> Candidates:
        """Candidates of actor and prior; critics score the noise."""
        return self.actor.propose(observation, n_policy, n_prior, score_noise=True)

    def critic_values(self, observation: Float, candidates: Candidates) -> Float:
        """Q^W on every candidate, (K, N, M)."""
        return self.critics.score(observation, candidates)

    def payload_sizes(self) -> dict[str, int]:
        """Nothing beside the noise is stored."""
        return {}

    def executed_decision(self, candidates: Candidates, index: Int, executed: Float) -> Float:
        """The noise that was decoded, (N, H*A)."""
        noise: Float = candidates.critic_input.cpu().numpy()[np.arange(len(index)), index]
        return noise

    def update(self, sample: Callable[[], Batch], phase: Phase) -> None:
        """One update of Q^W and the actor."""
        batch = sample()
        self.critics.learn(batch, lambda observation: self.actor.next_noise(observation, phase))
        if phase == "learn" or self.config.actor_warmup:
            self.actor.climb(self.critics.network, batch)

    def drain_metrics(self) -> dict[str, float]:
        """Means since the last call."""
        return self.recorder.drain("dsrl")

    def policy(self) -> SteeredPolicy:
        """The base behind the actor."""
        return self.actor.policy()

    def state_dict(self) -> dict[str, Any]:
        """Everything that learns."""
        return {"actor": self.actor.state_dict(), "critics": self.critics.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.actor.load_state_dict(state["actor"])
        self.critics.load_state_dict(state["critics"])
