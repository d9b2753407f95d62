"""Plugins for the kit to judge: one sound explorer, from which each test breaks one rule."""

import pytest
from host_fakes import plugin

from outrider.core.errors import OutriderError
from outrider.core.learning.types import Selection
from outrider.core.testing import check_plugin


class Best:
    """A sound explorer; subclasses in tests break one rule each."""

    n_policy, n_prior = 3, 1

    def __init__(self, ctx):
        self.ctx, self.calls = ctx, 0

    def refusals(self, capabilities):
        return []

    def scores(self, values, rng):
        return values.mean(axis=0)

    def choose(self, observation, candidates, values, rng):
        self.calls += 1
        return Selection(self.scores(values, rng).argmax(axis=1), {"x": float(values.mean())})


def explorer(**changes):
    kind = type("Changed", (Best,), changes)
    return plugin(explorer=lambda self, ctx: kind(ctx))


def check_refused(cls, sentence, config=None, **options):
    with pytest.raises((AssertionError, OutriderError), match=sentence):
        check_plugin(cls, config, **options)
