"""A TaskSpec as a JSON value and back."""

import math
from collections.abc import Mapping
from typing import Any

from outrider.core.types import Spec, TaskSpec


def task_to_json(task: TaskSpec) -> dict[str, Any]:
    """A JSON value from which `task_from_json` rebuilds an equal TaskSpec."""
    return {
        "task": task.task,
        "observation": _spec_to_json(task.observation),
        "action": _spec_to_json(task.action),
        "rate_hz": task.rate_hz,
        "max_steps": task.max_steps,
        "ends_on_success": task.ends_on_success,
        "reward": task.reward,
    }


def task_from_json(value: Any) -> TaskSpec:
    """The inverse of `task_to_json`.

    Raises:
        ValueError: when a part is missing or is not what it should be.
    """
    if not isinstance(value, Mapping):
        raise ValueError("the task is no mapping")
    try:
        task = TaskSpec(
            task=str(value["task"]),
            observation=Spec.from_json(value["observation"]),
            action=Spec.from_json(value["action"]),
            rate_hz=float(value["rate_hz"]),
            max_steps=int(value["max_steps"]),
            ends_on_success=bool(value["ends_on_success"]),
            reward=str(value["reward"]),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"the task is incomplete ({type(error).__name__}: {error})") from error
    if not (math.isfinite(task.rate_hz) and task.rate_hz > 0):
        raise ValueError(f"rate_hz is {task.rate_hz}")
    for side, spec in (("observation", task.observation), ("action", task.action)):
        if any(n < 0 for field in spec.fields for n in field.shape) or not spec.size:
            raise ValueError(f"the {side} has no elements")
    return task


def _spec_to_json(spec: Spec) -> list[dict[str, Any]]:
    fields = spec.to_json()
    for field in fields:
        for side in ("low", "high"):
            if field[side] is not None:
                field[side] = [_limit_to_json(x) for x in field[side]]
    return fields


def _limit_to_json(limit: float) -> float | str:
    """JSON has no infinities; `float` reads the strings back."""
    return limit if math.isfinite(limit) else str(limit)
