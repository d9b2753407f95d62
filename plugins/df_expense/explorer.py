"""The explorer: scores the candidates of a fleet and picks one for each robot."""

import numpy as np

from outrider.core.learning.types import CandidateView, Capabilities, Selection
from outrider.core.types import Float, Int
from outrider.plugins.df_expense import rule
from outrider.plugins.df_expense.config import DfExpEnseConfig

PRIOR = 1


class DfExpEnse:
    """Candidate selection by value and disagreement, standardised over the fleet."""

    def __init__(self, config: DfExpEnseConfig) -> None:
        self.config = config
        self.n_prior = config.n_prior
        self.n_policy = config.candidates - config.n_prior
        self.alpha = 0.0 if config.rule == "max-q" else config.alpha

    def refusals(self, capabilities: Capabilities) -> list[str]:
        """Why this cannot work with such a finetuner."""
        reasons = []
        if capabilities.on_policy:
            reasons.append("it needs a finetuner that learns off policy")
        if capabilities.critic_ensemble == 0:
            reasons.append("it needs an ensemble of action-value critics, and there is none")
        elif self.alpha > 0 and capabilities.critic_ensemble < 2:
            reasons.append("disagreement needs at least two critics (critics: 2 or more)")
        if self.n_prior and not capabilities.has_prior:
            reasons.append("the finetuner cannot sample the pretrained policy (set prior: 0)")
        return reasons

    def choose(
        self,
        observation: Float,
        candidates: CandidateView,
        values: Float,
        rng: np.random.Generator,
    ) -> Selection:
        """Pick one of M candidates for each of N robots from critic values (K, N, M)."""
        scores = rule.score(values, self.config.value)
        normalize = self.config.fleet_normalization and self.config.rule == "df-expense"
        rate = rule.exchange_rate(scores, self.alpha, normalize)
        combined = rule.combine(scores, rate)
        if self.config.select == "argmax":
            index = rule.best(combined, rng)
        else:
            scale = rule.Moments.of(scores.value).std if normalize else 1.0
            index = rule.draw(combined / scale, self.config.temperature, rng)
        return Selection(index, self._figures(candidates, values, scores, rate, index))

    def _figures(
        self,
        candidates: CandidateView,
        values: Float,
        scores: rule.Scores,
        rate: float,
        index: Int,
    ) -> dict[str, float]:
        won = candidates.source[np.arange(len(index)), index]
        threshold = rule.pessimism(values) if self.config.value == "min" else 0.0
        return {
            "alpha_eff": rate,
            "optimism": rate - threshold,
            "std_value": float(scores.value.std()),
            "std_disagreement": float(scores.disagreement.std()),
            "disagreement": float(scores.disagreement.mean()),
            "head_correlation": rule.head_correlation(values),
            "prior_wins": float((won == PRIOR).mean()),
        }
