"""Settings of DF-ExpEnse; the defaults are the paper's, for every task."""

from typing import Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from outrider.core.config import StrictModel


class DfExpEnseConfig(StrictModel):
    """DF-ExpEnse (arXiv 2606.19656), its ablations, and Max-Q, by configuration alone.

    Attributes:
        rule: `df-expense`, or `max-q`, which executes the candidate of highest value: no
            disagreement, no fleet normalisation and, unless `prior` says so, no prior candidate.
        candidates: M, for each robot and decision.
        prior: p of the M are samples of the pretrained policy (BC sampling regularisation); None
            takes 1, and 0 for `max-q`.
        alpha: weight of the disagreement; `max-q` ignores it.
        fleet_normalization: standardise values and disagreements over the whole fleet; off, each
            robot's raw value plus alpha times raw disagreement decides.
        value: reduce the heads by their minimum or their mean.
        select: execute the best candidate, or draw one in proportion to exp(score / temperature).
        temperature: of the softmax.
    """

    rule: Literal["df-expense", "max-q"] = "df-expense"
    candidates: PositiveInt = 3
    prior: int | None = Field(default=None, ge=0)
    alpha: float = Field(default=0.5, ge=0)
    fleet_normalization: bool = True
    value: Literal["min", "mean"] = "min"
    select: Literal["argmax", "softmax"] = "argmax"
    temperature: PositiveFloat = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.n_prior > self.candidates:
            raise ValueError(f"prior ({self.n_prior}) exceeds candidates ({self.candidates})")
        return self

    @property
    def n_prior(self) -> int:
        """p, with the rule's own default."""
        default = 0 if self.rule == "max-q" else min(1, self.candidates)
        return default if self.prior is None else self.prior
