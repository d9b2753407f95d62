"""Explore with the candidate that the critics, on average, value most."""

from pydantic import NonNegativeInt, PositiveInt

from outrider.core.config import StrictModel
from outrider.core.host.hookspecs import hookimpl
from outrider.core.learning.types import Selection


class GreedyMeanConfig(StrictModel):
    n_policy: PositiveInt = 4  # candidates to draw from the current policy
    n_prior: NonNegativeInt = 0  # and from the pretrained one


class GreedyMeanPlugin:
    name = "greedy-mean"
    api = 1
    Config = GreedyMeanConfig

    def __init__(self, config):
        self.config, self.episodes = config, 0

    @hookimpl
    def explorer(self, ctx):
        return GreedyMean(self.config)

    @hookimpl
    def episode_finished(self, episode):
        self.episodes += 1


class GreedyMean:
    def __init__(self, config):
        self.n_policy, self.n_prior = config.n_policy, config.n_prior

    def refusals(self, capabilities):
        return [] if capabilities.critic_ensemble else ["it needs critics of candidates"]

    def choose(self, observation, candidates, values, rng):
        return Selection(values.mean(axis=0).argmax(axis=1), {"mean_value": float(values.mean())})
