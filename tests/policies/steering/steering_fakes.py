"""A frozen base policy small enough to compute by hand."""

import torch
from torch import nn

from outrider.core.host.objects import FinetuneContext
from outrider.core.learning.types import Batch, Hooks
from outrider.core.types import Field, Spec, TaskSpec

O, A, H = 3, 2, 2  # noqa: E741  (the letters of the docstrings)

TASK = TaskSpec(
    task="fake/affine",
    observation=Spec((Field("x", (O,)),)),
    action=Spec((Field("u", (A,), "", (-2.0,) * A, (2.0,) * A),)),
    rate_hz=10.0,
    max_steps=20,
    ends_on_success=True,
    reward="none",
)


class AffinePolicy(nn.Module):
    """decode = tanh(noise); normalised = physical / 2; limits at +-2."""

    observation_size, action_size, horizon, execute = O, A, H, H

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))

    def normalize_observation(self, observation):
        return observation / 10

    def normalize_action(self, chunk):
        return chunk / 2

    def denormalize_action(self, chunk):
        return (chunk * 2).clamp(-2, 2)

    def decode(self, normalized_observation, noise):
        return torch.tanh(self.gain * noise)

    def forward(self, observation, noise):
        return self.denormalize_action(self.decode(self.normalize_observation(observation), noise))


def context(hooks=None, seed=0):
    return FinetuneContext(
        AffinePolicy(), TASK, hooks or Hooks(), torch.Generator().manual_seed(seed)
    )


def batch_of(rows=16, seed=1):
    g = torch.Generator().manual_seed(seed)
    return Batch(
        observation=torch.randn(rows, O, generator=g),
        decision=torch.rand(rows, H * A, generator=g) * 2 - 1,
        reward=torch.randn(rows, generator=g),
        bootstrap=torch.full((rows,), 0.9),
        next_observation=torch.randn(rows, O, generator=g),
    )
