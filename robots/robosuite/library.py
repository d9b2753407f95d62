"""robosuite itself: imported without its chatter, built and reset from a seed and nothing else."""

import importlib
import inspect
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from outrider.core.errors import MissingDependency

LOGGER = "robosuite_logs"
"""robosuite logs there, at import too: a missing macro file, optional packages, every reset."""


def require_packages(task: str) -> None:
    """Import what building a task needs.

    Raises:
        MissingDependency: when a package is not installed.
    """
    with quiet():
        for package in ("mujoco", "numba", "robosuite"):
            try:
                importlib.import_module(package)
            except ModuleNotFoundError as error:
                raise MissingDependency(package, "sim", f"the task robosuite/{task}") from error


def make_environment(name: str, seed: int) -> Any:
    """Build a robosuite environment with a Panda and without cameras and time limit.

    Args:
        name: robosuite's own name, such as `Lift`.
        seed: of everything that is drawn while the model is built.
    """
    with quiet(), seeded(seed):
        import robosuite

        options: dict[str, Any] = {
            "robots": "Panda",
            "has_renderer": False,
            "has_offscreen_renderer": False,
            "use_camera_obs": False,
            "hard_reset": False,
            "ignore_done": True,
        }
        if _takes_seed(robosuite.environments.REGISTERED_ENVS[name]):
            options["seed"] = seed
        return robosuite.make(name, **options)


def _takes_seed(environment: Any) -> bool:
    """From 1.5.2 on, environments draw from a generator of their own, no longer from numpy's."""
    chain = [inspect.signature(kind.__init__).parameters for kind in environment.__mro__]
    task = next(parameters for parameters in chain if "robots" in parameters)
    return "seed" in task


def reset_environment(environment: Any, seed: int) -> None:
    """Start an episode that depends on the seed alone; the model stays as it was built."""
    with quiet(), seeded(seed):
        own = getattr(environment, "rng", None)
        if own is not None:
            own.bit_generator.state = np.random.default_rng(seed).bit_generator.state
        environment.reset()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators, which robosuite draws from, and give them back untouched."""
    ours, theirs = np.random.get_state(), random.getstate()
    words = np.random.SeedSequence(seed).generate_state(4)
    np.random.seed(words)
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(ours)
        random.setstate(theirs)


@contextmanager
def quiet() -> Iterator[None]:
    """Let only errors of robosuite's logger through. Its level would not do: importing sets it."""

    def is_error(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    logger = logging.getLogger(LOGGER)
    logger.addFilter(is_error)
    try:
        yield
    finally:
        logger.removeFilter(is_error)
