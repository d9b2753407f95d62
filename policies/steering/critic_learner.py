"""A critic ensemble and how it learns: temporal differences, or regression on given values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from outrider.core.host.objects import FinetuneContext
from outrider.core.learning.critics import CriticEnsemble, polyak, reduce_heads
from outrider.core.learning.types import Batch, Candidates, CriticView, TargetView
from outrider.core.types import Float
from outrider.policies.steering.config import DsrlConfig
from outrider.policies.steering.parts import Decoder, Optimized, Recorder

Decide = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Next observation (B, O) -> next decision (B, D) and its entropy bonus (B,)."""


class CriticLearner:
    """K critics of one decision variable with their optimiser.

    Args:
        config: sizes, rates and reductions.
        ctx: of the run.
        variable: what the critics take: the executed action or the decoder's noise.
        decoder: the frozen base.
        recorder: of metrics.
        has_target: whether slowly following target critics are kept.
    """

    def __init__(
        self,
        config: DsrlConfig,
        ctx: FinetuneContext,
        variable: Literal["action", "noise"],
        decoder: Decoder,
        recorder: Recorder,
        *,
        has_target: bool,
    ) -> None:
        self.config, self.variable, self.decoder, self.recorder = (
            config,
            variable,
            decoder,
            recorder,
        )
        self.generator, self.hooks = ctx.generator, ctx.hooks
        self.network = self._build(ctx)
        self.optimized = Optimized(
            f"critic_{variable}",
            self.network,
            config.learning_rate,
            ctx.hooks.gradient_transforms,
        )
        self.target: CriticEnsemble | None = None
        if has_target:
            self.target = self._build(ctx)
            self.target.load_state_dict(self.network.state_dict())
            self.target.requires_grad_(False)

    def _build(self, ctx: FinetuneContext) -> CriticEnsemble:
        sizes = {"action": self.decoder.decision_size, "noise": self.decoder.noise_size}
        return CriticEnsemble(
            ctx.base.observation_size,
            sizes[self.variable],
            critics=self.config.critics,
            width=self.config.width,
            layers=self.config.layers,
            activation=self.config.activation,
            initial_value=self.config.initial_value,
            generator=ctx.generator,
        ).to(ctx.device)

    @torch.no_grad()
    def score(self, observation: Float, candidates: Candidates) -> Float:
        """Every head on every candidate, (K, N, M)."""
        robots, count = candidates.critic_input.shape[:2]
        rows = self.decoder.observe(observation).repeat_interleave(count, dim=0)
        values = self.network(rows, candidates.critic_input.flatten(0, 1))
        scores: Float = values.view(-1, robots, count).cpu().numpy()
        return scores

    def learn(self, batch: Batch, decide: Decide) -> None:
        """One temporal-difference step, then the target critics follow."""
        assert self.target is not None
        target = self.bellman_target(batch, decide, self.target)
        self.recorder.add(target=target.mean())
        self.regress(batch.observation, batch.next_observation, batch.decision, target)
        polyak(self.target, self.network, self.config.tau)

    @torch.no_grad()
    def bellman_target(self, batch: Batch, decide: Decide, critics: CriticEnsemble) -> Tensor:
        """Return R + bootstrap * (red_k Qbar_k(s', a') + bonus), or what a plugin makes of it."""

        def reduce(values: Tensor) -> Tensor:
            return reduce_heads(
                values,
                self.config.target_reduction,
                subset=self.config.subset,
                generator=self.generator,
            )

        def next_value(observation: Tensor) -> Tensor:
            decision, bonus = decide(observation)
            return reduce(critics(observation, decision)) + bonus

        if self.hooks.critic_target is None:
            return batch.reward + batch.bootstrap * next_value(batch.next_observation)
        view = TargetView(
            next_decision=lambda observation: decide(observation)[0],
            critics=critics,
            reduce=reduce,
            next_value=next_value,
        )
        return self.hooks.critic_target.target(batch, view)

    def regress(
        self, observation: Tensor, next_observation: Tensor, decision: Tensor, target: Tensor
    ) -> None:
        """One descent step on 0.5 * sum_k MSE(Q_k(s, x), target), target (B,) or (K, B).

        Every head keeps an error of its own: averaging heads before squaring would couple their
        gradients and shrink the disagreement that explorers rely on.
        """
        values = self.network(observation, decision)
        loss = 0.5 * (values - target).square().mean(dim=1).sum()
        view = CriticView(self.variable, self.network, observation, next_observation, decision)
        name = self.variable
        scalars = self.optimized.step(loss + self._penalty(view))
        self.recorder.add(
            **{
                f"{name}_loss": loss,
                f"{name}_value": values.mean(),
                f"{name}_disagreement": values.std(dim=0).mean(),
                **scalars,
            }
        )

    def _penalty(self, view: CriticView) -> Tensor | float:
        total: Tensor | float = 0.0
        for regularizer in self.hooks.critic_regularizers:
            for name, loss in regularizer.losses(view).items():
                self.recorder.add(**{f"{self.variable}_{name}": loss})
                total = total + loss
        return total

    def state_dict(self) -> dict[str, Any]:
        """The network, its optimiser and the target critics."""
        target = {} if self.target is None else self.target.state_dict()
        return {"network": self.optimized.state_dict(), "target": target}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.optimized.load_state_dict(state["network"])
        if self.target is not None:
            self.target.load_state_dict(state["target"])
