"""From executed chunks to transitions: the return of a chunk and the factor before the next value.

Published codes differ here by a factor of four to five in effective horizon, so it is a choice
that a recipe states: `within` discounts every control step (gamma^i inside, gamma^n before the
next value); `once` sums the rewards of a chunk and applies gamma once (what DSRL's simulation
code does). In both, a time limit does not cut the bootstrap: only termination does.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from outrider.core.simulation.types import ChunkResult
from outrider.core.types import Bool, Float, Int

ChunkDiscount = Literal["within", "once"]


@dataclass(frozen=True, slots=True)
class Discounting:
    """How rewards of control steps become the reward of a chunk.

    Attributes:
        gamma: discount per control step (`within`) or per chunk (`once`).
        mode: see the module's page.
        scale: multiplies the task's reward ...
        offset: ... and is then added to the reward of each executed step.
    """

    gamma: float
    mode: ChunkDiscount
    scale: float = 1.0
    offset: float = 0.0

    def chunk(self, rewards: Float, steps: Int, terminated: Bool) -> tuple[Float, Float]:
        """Rewards (n, E), executed steps (n,), termination (n,) -> reward (n,), bootstrap (n,)."""
        executed = np.arange(rewards.shape[1]) < steps[:, None]
        shaped = np.where(executed, self.scale * rewards + self.offset, 0.0)
        if self.mode == "within":
            shaped = shaped * self.gamma ** np.arange(rewards.shape[1])
            factor = self.gamma ** steps.astype(np.float64)
        else:
            factor = np.full(len(steps), self.gamma)
        bootstrap = np.where(terminated, 0.0, factor)
        return shaped.sum(axis=1).astype(np.float32), bootstrap.astype(np.float32)


def executed_chunks(commanded: Float, result: ChunkResult) -> Float:
    """The chunks as stored, (N, E, A): what was executed, and beyond an early end what was asked.

    A chunk that the episode's end cuts short keeps its commanded tail: the critic values the
    whole chunk that the policy chose, and a tail of zeros would be a chunk nobody chose.
    """
    executed = np.arange(commanded.shape[1]) < result.steps[:, None]
    return np.where(executed[..., None], result.actions, commanded).astype(np.float32)
