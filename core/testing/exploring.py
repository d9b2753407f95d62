"""What an explorer must do: choose well-formed, treat robots alike, leave evaluation alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from outrider.core import seeds
from outrider.core.evaluation.rollout import evaluate
from outrider.core.learning.types import CandidateView, Explorer, Selection
from outrider.core.simulation.fleet import SerialFleet
from outrider.core.testing.fakes import FakeSimulator, fake_task
from outrider.core.testing.subject import Subject
from outrider.core.types import Episode, Float, Int, TaskSpec

CURRENT, PRETRAINED = 0, 1
SEEDS = range(4)
ROBOTS = 4


@dataclass(frozen=True, slots=True)
class Decision:
    """What an explorer is asked: observation (N, O), candidates (N, M, ...), values (K, N, M)."""

    observation: Float
    candidates: CandidateView
    values: Float

    def permuted(self, order: Int) -> Decision:
        """The same question with the robots in another order."""
        view = CandidateView(self.candidates.chunk[order], self.candidates.source[order])
        return Decision(self.observation[order], view, self.values[:, order])

    def ask(self, explorer: Explorer, seed: int = 0) -> Selection:
        """The explorer's answer, with a generator of this seed."""
        rng = seeds.generator(seed, "choose")
        return explorer.choose(self.observation, self.candidates, self.values, rng)


def decision(subject: Subject, n_policy: int, n_prior: int, robots: int, seed: int = 0) -> Decision:
    """A random question without ties."""
    ctx, rng = subject.context(), seeds.generator(seed, "decision")
    count, (execute, action_size) = n_policy + n_prior, ctx.chunk
    source = np.repeat([CURRENT, PRETRAINED], [n_policy, n_prior]).astype(np.int64)
    critics = max(1, subject.capabilities.critic_ensemble)
    return Decision(
        _normal(rng, robots, ctx.task.observation.size),
        CandidateView(
            np.tanh(_normal(rng, robots, count, execute, action_size)),
            np.tile(source, (robots, 1)),
        ),
        _normal(rng, critics, robots, count),
    )


def explorer_of(subject: Subject, seed: int = 0) -> Explorer | None:
    """The plugin's explorer behind the host's checks, or None where it abstains."""
    return subject.made(seed=seed)[1].explorer


def check_explorer_choices(subject: Subject) -> None:
    """Choices are well-formed for one robot, for one candidate and for values that all agree.

    The host checks shape, kind and range, and lets no explorer write to what it is shown.

    Raises:
        OutriderError: when a choice is not well-formed, or the explorer raises.
        AssertionError: when its scalars change names from one decision to the next.
    """
    explorer = explorer_of(subject)
    if explorer is None:
        return
    sizes = (explorer.n_policy, explorer.n_prior)
    usual = decision(subject, *sizes, robots=5)
    names = set(usual.ask(explorer).scalars)
    for asked in (decision(subject, *sizes, robots=1), decision(subject, 1, 0, robots=5)):
        asked.ask(explorer)
    for constant in (0.0, 3.0, -1e6):
        agreed = Decision(usual.observation, usual.candidates, np.full_like(usual.values, constant))
        found = set(agreed.ask(explorer).scalars)
        assert found == names, (
            f"its explorer logs {sorted(found ^ names)} for some decisions and not for others"
        )


def check_explorer_permutation(subject: Subject) -> None:
    """Robots are treated alike: in another order, each robot's choice is the same.

    Held against explorers whose choice does not depend on their generator; one that draws its
    choice cannot be asked the same thing in two orders.

    Raises:
        AssertionError: when a choice depends on the place of a robot in the fleet.
    """
    explorer = explorer_of(subject)
    if explorer is None:
        return
    asked = decision(subject, explorer.n_policy, explorer.n_prior, robots=6)
    choices = [_fresh_choice(subject, asked, seed) for seed in SEEDS]
    if any((other != choices[0]).any() for other in choices):
        return
    order = np.asarray([3, 0, 5, 1, 4, 2], np.int64)
    moved = _fresh_choice(subject, asked.permuted(order), 0)
    assert (moved == choices[0][order]).all(), (
        "its explorer's choice for a robot depends on the robot's place in the fleet: "
        f"{choices[0][order].tolist()} became {moved.tolist()}"
    )


def _fresh_choice(subject: Subject, asked: Decision, seed: int) -> Int:
    explorer = explorer_of(subject, seed)
    assert explorer is not None, "its explorer hook abstains at one time and answers at another"
    return asked.ask(explorer, seed).index


def check_evaluation_unchanged(subject: Subject) -> None:
    """Evaluation gives the same episodes, bit for bit, while the plugin explores.

    A small policy is evaluated alone, and once more with its plugin objects made and its explorer
    asked about this policy's own candidates before, and after each episode.

    Raises:
        AssertionError: when an episode differs.
    """
    explorer = explorer_of(subject)
    if explorer is None:
        return
    sizes = (explorer.n_policy, explorer.n_prior)
    usual = decision(subject, *sizes, robots=ROBOTS)
    policy = _FakePolicy(subject.context().task, sum(sizes))
    alone = policy.episodes(lambda: None)
    view = CandidateView(policy.memory, usual.candidates.source)
    asked = Decision(usual.observation, view, usual.values)
    asked.ask(explorer)
    explored = policy.episodes(lambda: _ignore(asked.ask(explorer)))
    for before, after in zip(alone, explored, strict=True):
        same = all(
            np.array_equal(getattr(before, name), getattr(after, name))
            for name in ("observation", "action", "reward", "success", "final_observation")
        )
        assert same, (
            "evaluation changes when its explorer is installed; an explorer must leave the "
            "policy, its candidates and global random generators alone"
        )


class _FakePolicy:
    """A linear policy that hands explorers its own memory: who writes there changes the policy."""

    def __init__(self, spec: TaskSpec, candidates: int) -> None:
        rng = seeds.generator(0, "fake policy")
        self.spec, self.execute = spec, 2
        self.weight = _normal(rng, spec.observation.size, spec.action.size)
        self.memory = _normal(rng, ROBOTS, candidates, self.execute, spec.action.size)

    def act(self, observation: Float, noise: Float) -> Float:
        """Observation (B, O), noise (B, H, A) -> chunk (B, E, A)."""
        mean = (observation @ self.weight)[:, None] + self.memory.mean(axis=(0, 1))
        chunk: Float = np.tanh(mean + noise[:, : self.execute])
        return chunk

    def episodes(self, after_each: Callable[[], None]) -> tuple[Episode, ...]:
        """Three seeded episodes on two robots."""
        spec = fake_task(max_steps=6)
        fleet = SerialFleet([FakeSimulator(spec) for _ in range(2)], spec)
        table = evaluate(
            self.act, fleet, 3, self.execute, [1, 2, 3], on_episode=lambda _: after_each()
        )
        return table.episodes


def _ignore(_: object) -> None:
    """Make a call whose answer nobody wants into one that gives none."""


def _normal(rng: np.random.Generator, *shape: int) -> Float:
    return rng.standard_normal(shape).astype(np.float32)
