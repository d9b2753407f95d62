"""What the learning loop, the policies and the plugins say to each other.

This module imports torch for type checkers only, so that hook specifications can name its types
in an install without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from outrider.core.types import Float, Int

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

CriticSpace = Literal["none", "action", "noise", "combined"]


class ChunkPolicy(Protocol):
    """A torch module that turns an observation and noise into an action chunk.

    The noise is an argument: nothing is drawn inside. Normalisers are part of the module, so the
    outside speaks physical units. A finetuned policy (a noise actor before a frozen decoder, a
    residual on a base) has the same face, which is why one exporter and one evaluator serve all.

    Attributes:
        observation_size: O.
        action_size: A.
        horizon: H, steps of the noise and of the denoised chunk.
        execute: E <= H, steps of the chunk that are executed before the next inference.
    """

    observation_size: int
    action_size: int
    horizon: int
    execute: int

    def __call__(self, observation: Tensor, noise: Tensor) -> Tensor:
        """Physical observation (B, O), noise (B, H, A) -> executed chunk (B, E, A), physical."""
        ...

    def normalize_observation(self, observation: Tensor) -> Tensor:
        """Physical (B, O) -> what networks see, (B, O)."""
        ...

    def normalize_action(self, chunk: Tensor) -> Tensor:
        """Physical (..., A) -> normalised (..., A); the inverse of `denormalize_action`."""
        ...

    def denormalize_action(self, chunk: Tensor) -> Tensor:
        """Normalised (..., A) -> physical (..., A), clipped to the task's action limits."""
        ...

    def decode(self, normalized_observation: Tensor, noise: Tensor) -> Tensor:
        """Normalised (B, O), noise (B, H, A) -> executed chunk (B, E, A), normalised."""
        ...

    # The rest is what every torch module has.

    def eval(self) -> Any:  # noqa: D102
        ...

    def train(self, mode: bool = True) -> Any:  # noqa: D102
        ...

    def parameters(self) -> Iterator[nn.Parameter]:  # noqa: D102
        ...

    def state_dict(self) -> dict[str, Any]:  # noqa: D102
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:  # noqa: D102
        ...


class TrainablePolicy(ChunkPolicy, Protocol):
    """A policy that can be pretrained on demonstrations."""

    def initialize(self, generator: torch.Generator) -> None:
        """Draw fresh weights."""
        ...

    def fit_normalizer(self, observation: Float, action: Float) -> None:
        """Set the normalisers from all steps of the data, (T, O) and (T, A), physical units."""
        ...

    def loss(
        self, observation: Tensor, chunk: Tensor, valid: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Training loss (scalar) of windows in physical units.

        Args:
            observation: (B, O).
            chunk: (B, H, A).
            valid: (B, H) bool, False for padding after an episode's end.
            generator: source of timesteps and noise.
        """
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a finetuner can offer to plugins; declared from its config, before anything is built.

    Attributes:
        critic_ensemble: K, number of action-value critics; 0 if it has none.
        critic_space: what the critics that score candidates take beside the observation.
        has_prior: whether candidates of the pretrained policy can be drawn.
        on_policy: whether data must come from the current policy.
        greedy: whether its default acting already takes the best of several candidates.
    """

    critic_ensemble: int
    critic_space: CriticSpace
    has_prior: bool
    on_policy: bool = False
    greedy: bool = False


@dataclass(slots=True)
class Candidates:
    """M candidate chunks for each of N robots.

    Attributes:
        chunk: (N, M, E, A), physical units, as the robot would execute it.
        critic_input: (N, M, D), what the scoring critics take.
        source: (N, M) int8; 0 the current policy, 1 the pretrained one, 2 an edited sample.
        payload: what the finetuner wants back for the chosen candidate, each (N, M, ...).
    """

    chunk: Tensor
    critic_input: Tensor
    source: Tensor
    payload: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CandidateView:
    """What an explorer sees of the candidates, as numpy arrays.

    Attributes:
        chunk: (N, M, E, A), physical units.
        source: (N, M); 0 the current policy, 1 the pretrained one, 2 an edited sample.
    """

    chunk: Float
    source: Int


@dataclass(frozen=True, slots=True)
class Selection:
    """An explorer's answer.

    Attributes:
        index: (N,) the candidate that each robot executes.
        scalars: figures to log, each finite.
    """

    index: Int
    scalars: dict[str, float] = field(default_factory=dict)


class Explorer(Protocol):
    """Chooses among candidates while data are collected. Never asked during evaluation.

    Attributes:
        n_policy: candidates to draw from the current policy for each robot.
        n_prior: candidates to draw from the pretrained policy.
    """

    n_policy: int
    n_prior: int

    def refusals(self, capabilities: Capabilities) -> list[str]:
        """Why this explorer cannot work with such a finetuner; empty when it can."""
        ...

    def choose(
        self,
        observation: Float,
        candidates: CandidateView,
        values: Float,
        rng: np.random.Generator,
    ) -> Selection:
        """Pick one candidate for each robot.

        Args:
            observation: (N, O), physical units.
            candidates: M = n_policy + n_prior of them for each robot.
            values: (K, N, M), the critic ensemble on each candidate.
            rng: private to exploration.
        """
        ...


@dataclass(slots=True)
class Batch:
    """B transitions of whole chunks, as tensors.

    Attributes:
        observation: (B, O), normalised.
        decision: (B, D), what the critics take: the executed chunk (normalised, flattened), or
            the noise that was decoded.
        reward: (B,), the return of the chunk.
        bootstrap: (B,), the factor before the next value: the discount of the whole chunk, and 0
            where the task terminated. A time limit does not cut it.
        next_observation: (B, O), normalised.
        payload: further fields that the finetuner stored.
    """

    observation: Tensor
    decision: Tensor
    reward: Tensor
    bootstrap: Tensor
    next_observation: Tensor
    payload: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetView:
    """The pieces from which a temporal-difference target is made. All without gradient.

    Attributes:
        next_decision: next observation (B, O) -> decision (B, D) of the current policy.
        critics: target critics, (B, O), (B, D) -> (K, B).
        reduce: (K, B) -> (B,), the finetuner's own reduction (minimum, random pair, mean).
        next_value: next observation (B, O) -> (B,), the three above composed, entropy included.
    """

    next_decision: Callable[[Tensor], Tensor]
    critics: Callable[[Tensor, Tensor], Tensor]
    reduce: Callable[[Tensor], Tensor]
    next_value: Callable[[Tensor], Tensor]


class CriticTarget(Protocol):
    """Replaces the plain Bellman target `reward + bootstrap * next_value(next_observation)`."""

    def target(self, batch: Batch, view: TargetView) -> Tensor:
        """The regression target, (B,) for all critics or (K, B) for each."""
        ...


@dataclass(frozen=True, slots=True)
class CriticView:
    """A critic ensemble at a batch, for regularisers.

    Attributes:
        variable: what the decision is: the executed action, the decoder's noise, a residual.
        critic: differentiable, (B, O), (B, D) -> (K, B).
        observation: (B, O), normalised.
        next_observation: (B, O), normalised.
        decision: (B, D).
    """

    variable: Literal["action", "noise", "residual"]
    critic: Callable[[Tensor, Tensor], Tensor]
    observation: Tensor
    next_observation: Tensor
    decision: Tensor


class CriticRegularizer(Protocol):
    """Adds named losses to a critic's loss."""

    def losses(self, view: CriticView) -> dict[str, Tensor]:
        """Named scalars, already weighted."""
        ...


@dataclass(frozen=True, slots=True)
class ActorView:
    """An actor at a batch, for regularisers.

    Attributes:
        variable: what the actor puts out.
        mean: differentiable, normalised observation (B, O) -> deterministic output (B, D).
        observation: (B, O), normalised.
        next_observation: (B, O), normalised.
    """

    variable: Literal["action", "noise", "residual"]
    mean: Callable[[Tensor], Tensor]
    observation: Tensor
    next_observation: Tensor


class ActorRegularizer(Protocol):
    """Adds named losses to an actor's loss."""

    def losses(self, view: ActorView) -> dict[str, Tensor]:
        """Named scalars, already weighted."""
        ...


class GradientTransform(Protocol):
    """Edits gradients in place between the backward pass and the optimiser's step."""

    def apply(self, group: str, parameters: Sequence[nn.Parameter]) -> dict[str, float]:
        """Edit `parameters[i].grad`; `group` is "actor", "critic" and so on. Returns scalars."""
        ...


class Stateful(Protocol):
    """Anything with state that a checkpoint must carry."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors, arrays, numbers, strings, and dicts and lists of them."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        ...


@dataclass(slots=True)
class Hooks:
    """The plugin objects that take part in one finetuning run, checked and timed by the host."""

    explorer: Explorer | None = None
    critic_target: CriticTarget | None = None
    critic_regularizers: tuple[CriticRegularizer, ...] = ()
    actor_regularizers: tuple[ActorRegularizer, ...] = ()
    gradient_transforms: tuple[GradientTransform, ...] = ()


class Finetuner(Stateful, Protocol):
    """A way to finetune a policy: proposes candidates, learns from batches, yields a policy.

    Owns its networks and optimisers. Draws from the generators it was built with and no others.
    """

    capabilities: Capabilities

    def propose(self, observation: Float, n_policy: int, n_prior: int) -> Candidates:
        """Draw M = n_policy + n_prior candidates for each of N robots; observation (N, O)."""
        ...

    def critic_values(self, observation: Float, candidates: Candidates) -> Float:
        """(K, N, M), without gradient."""
        ...

    def payload_sizes(self) -> dict[str, int]:
        """Name and flat size of each payload field that replay must keep."""
        ...

    def executed_decision(self, candidates: Candidates, index: Int, executed: Float) -> Float:
        """What replay stores as the decision, (N, D), given the chunks executed, (N, E, A)."""
        ...

    def update(self, sample: Callable[[], Batch], phase: Literal["warmup", "learn"]) -> None:
        """One update; `sample()` gives a fresh batch each time. Metrics are kept inside."""
        ...

    def drain_metrics(self) -> dict[str, float]:
        """Means of what was recorded since the last call."""
        ...

    def policy(self) -> ChunkPolicy:
        """The policy as it stands, to evaluate or export; shares parameters with the finetuner."""
        ...
