"""A guard over the process's global random generators."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np


@contextmanager
def untouched_randomness(what: str = "the plugin") -> Iterator[None]:
    """Fail when the block draws from or seeds a global generator.

    Watched are `random`, numpy's legacy generator and, where torch is loaded before the block,
    torch's default generator. All are left as they were found.

    Raises:
        AssertionError: naming the generator, when the block itself ends well.
    """
    generators = _generators()
    found = [generator.get() for generator in generators]
    try:
        for generator in generators:
            generator.draw()  # away from a fresh seed, or seeding it again would leave no trace
        before = [generator.plain() for generator in generators]
        yield
        for generator, state in zip(generators, before, strict=True):
            assert generator.plain() == state, (
                f"{what} touches the global generator of {generator.name}; draw from ctx.rng or "
                "from the generator that is passed in"
            )
    finally:
        for generator, state in zip(generators, found, strict=True):
            generator.set(state)


@dataclass(frozen=True, slots=True)
class _Generator:
    """A global generator: its state, as it is and as something that can be compared."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], Any]
    draw: Callable[[], Any]

    def plain(self) -> tuple[bytes, ...]:
        state = self.get()
        parts = state if isinstance(state, tuple) else (state,)
        return tuple(
            part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
            for part in parts
        )


def _generators() -> list[_Generator]:
    found = [
        _Generator("random", random.getstate, random.setstate, random.random),
        _Generator(
            "numpy.random",
            lambda: np.random.get_state(legacy=True),
            np.random.set_state,
            np.random.random,
        ),
    ]
    torch = sys.modules.get("torch")
    if torch is not None:
        found.append(
            _Generator(
                "torch",
                lambda: torch.random.get_rng_state().numpy(),
                lambda state: torch.random.set_rng_state(torch.from_numpy(state)),
                lambda: torch.rand(1),
            )
        )
    return found
