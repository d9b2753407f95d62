"""Finding and loading the suite's tasks."""

import importlib
import inspect
from typing import Any

import numpy as np

from outrider.core.errors import MissingDependency, OutriderError, nearest
from outrider.robots.rendering import backend_announced, load_mujoco


def load_suite() -> Any:
    """The module `dm_control.suite`.

    Raises:
        OutriderError: when it, or the OpenGL library that `MUJOCO_GL` names, is missing.
    """
    load_mujoco()
    try:
        with backend_announced():  # its own choice would be one that needs a display
            return importlib.import_module("dm_control.suite")
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "sim", "the DeepMind control suite") from error


def task_names() -> tuple[str, ...]:
    """Every task, as `DOMAIN-TASK`."""
    return tuple(f"{domain}-{task}" for domain, task in load_suite().ALL_TASKS)


def load_task(name: str) -> tuple[Any, float]:
    """An environment without a time limit, and the limit that the suite would set, in s.

    Args:
        name: `DOMAIN-TASK`.

    Raises:
        OutriderError: when the suite has no such task.
    """
    suite = load_suite()
    domain, _, task = name.partition("-")
    if (domain, task) not in suite.ALL_TASKS:
        raise OutriderError(
            "the suite has no such task",
            where=f"dm_control/{name}",
            fix=nearest(name, list(task_names())),
        )
    # what a few domains draw while they build the model is the same in every process
    options = {"random": np.random.RandomState(0), "time_limit": float("inf")}
    environment = suite.load(domain, task, task_kwargs=options)
    maker = importlib.import_module(f"dm_control.suite.{domain}").SUITE[task]
    return environment, float(inspect.signature(maker).parameters["time_limit"].default)
