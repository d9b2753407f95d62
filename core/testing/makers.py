"""What holds for every object that a maker hands over: it repeats itself, and it can be saved."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core import seeds
from outrider.core.host.session import PluginSession
from outrider.core.learning.types import Hooks
from outrider.core.testing.exploring import decision
from outrider.core.testing.randomness import untouched_randomness
from outrider.core.testing.subject import Subject
from outrider.core.types import Float

Arrays = list[npt.NDArray[Any]]
TORCH_MAKERS = frozenset(
    {"critic_target", "critic_regularizer", "actor_regularizer", "gradient_transform"}
)


def check_deterministic(subject: Subject) -> None:
    """Two fresh instances under one seed give the same objects, which answer the same.

    Nothing is drawn from a global generator on the way.

    Raises:
        OutriderError: when an answer is of the wrong shape, or not finite.
        AssertionError: when two answers differ, or a global generator was touched.
    """
    answers = []
    for _ in range(2):
        with untouched_randomness():
            player = _Player(subject)
            answers.append([player.play(i) for i in range(3)])
    for i, (first, second) in enumerate(zip(*answers, strict=True)):
        assert same(first, second), (
            f"under one seed, two instances answer differently (at call {i + 1}); draw from "
            "ctx.rng or from the generator that is passed in, and share no state between instances"
        )


def check_state_round_trip(subject: Subject) -> None:
    """What is saved and loaded into a fresh instance goes on as if nothing had happened.

    The host saves `ctx.rng` itself. Objects with further state have `state_dict` and
    `load_state_dict`.

    Raises:
        AssertionError: when the state cannot be written to a checkpoint, or what follows differs.
    """
    old = _Player(subject)
    for i in range(3):
        old.play(i)
    state = copy.deepcopy(old.session.state_dict())
    require_storable(state, "state_dict()")
    kept = copy.deepcopy(state)
    expected = [old.play(i) for i in range(3, 6)]
    new = _Player(subject)
    new.session.load_state_dict(state)
    found = [new.play(i) for i in range(3, 6)]
    assert all(map(same, expected, found)), (
        "what it does after its state was saved and loaded differs from what it would have done; "
        "give the host everything that changes, through state_dict and load_state_dict"
    )
    fresh = _Player(subject)
    fresh.session.load_state_dict(kept)
    assert same(expected[0], fresh.play(3)), (
        "a loaded state changes when the plugin goes on; load_state_dict must copy what it keeps"
    )


class _Player:
    """Asks the objects of a fresh session, one call after another."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.session: PluginSession
        self.hooks: Hooks
        self.session, self.hooks = subject.made()
        self.planner = self.session.planner(subject.context)

    def play(self, call: int) -> Arrays:
        """Every object's answer to the questions of this number."""
        return [*self._explore(call), *self._plan(call), *self._learn(call)]

    def _explore(self, call: int) -> Arrays:
        explorer = self.hooks.explorer
        if explorer is None:
            return []
        asked = decision(self.subject, explorer.n_policy, explorer.n_prior, 5, call)
        selection = asked.ask(explorer, call)
        names = sorted(selection.scalars)
        return [selection.index, np.asarray([selection.scalars[n] for n in names], np.float64)]

    def _plan(self, call: int) -> Arrays:
        if self.planner is None:
            return []
        rng = seeds.generator(call, "plan")
        size = self.subject.context().task.observation.size
        observation: Float = rng.standard_normal(size).astype(np.float32)
        goal: Float = rng.standard_normal(2).astype(np.float32)
        return [self.planner.plan(observation, goal, 0.1 * call)]

    def _learn(self, call: int) -> Arrays:
        if not TORCH_MAKERS & set(self.subject.hooks) or not has_torch():
            return []
        from outrider.core.testing import probes

        return probes.exercise(self.hooks, call)


def has_torch() -> bool:
    """Whether torch can be imported here."""
    return importlib.util.find_spec("torch") is not None


def same(first: Arrays, second: Arrays) -> bool:
    """Equal to the bit, in number, shape, kind and content."""
    return len(first) == len(second) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(first, second, strict=True)
    )


def require_storable(value: Any, where: str) -> None:
    """A checkpoint holds tensors, arrays, numbers, strings, None, and dicts and lists of them.

    Raises:
        AssertionError: naming the place of anything else.
    """
    if value is None or isinstance(value, bool | int | float | str | np.generic | np.ndarray):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            assert isinstance(key, str | int), f"{where} has the key {key!r}"
            require_storable(item, f"{where}[{key!r}]")
        return
    if isinstance(value, list | tuple):
        for i, item in enumerate(value):
            require_storable(item, f"{where}[{i}]")
        return
    is_tensor = type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")
    assert is_tensor, f"{where} is a {type(value).__name__}, which no checkpoint can hold"
