"""What robomimic's `env_args` say about the task: name, rate, controller, what success is."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.data.errors import DataError
from outrider.core.types import Bool, Field, Float, Spec

ROBOSUITE = 1  # robomimic's EnvType
DEFAULT_RATE_HZ = 20.0  # robosuite's own default
# robomimic's short names for the tasks of its datasets
TASKS = {"PickPlaceCan": "can", "NutAssemblySquare": "square", "TwoArmTransport": "transport"}
OSC_POSE = (("delta_position", 3), ("delta_rotation", 3), ("gripper", 1))


@dataclass(frozen=True, slots=True)
class EnvArgs:
    """Parsed `env_args`.

    Attributes:
        values: as they stand in the file.
        name: the environment's name.
        kind: robomimic's EnvType.
        control_hz: control rate, None where the file does not say.
        controller: controller type of the (first) arm, such as `OSC_POSE`, or "".
    """

    values: Mapping[str, Any]
    name: str
    kind: int
    control_hz: float | None
    controller: str

    @property
    def task(self) -> str:
        """`family/name`."""
        name = TASKS.get(self.name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()
        return f"{'robosuite' if self.kind == ROBOSUITE else 'robomimic'}/{name}"

    @property
    def rate_hz(self) -> float:
        """Control rate, robosuite's default where the file does not say."""
        return self.control_hz or DEFAULT_RATE_HZ

    @property
    def knows_success(self) -> bool:
        """Whether rewards tell success."""
        return self.kind == ROBOSUITE

    @property
    def is_robosuite_15(self) -> bool:
        """Whether robosuite 1.5 wrote the observations."""
        return self.kind == ROBOSUITE and str(self.values.get("env_version", "")).startswith("1.5")

    def success(self, reward: Float) -> Bool:
        """Success of each step from its reward.

        robosuite's reward is `reward_scale` exactly when the task's check holds, whether it is
        sparse or shaped; elsewhere nothing is known and none is reported.
        """
        scale = _section(self.values, "env_kwargs").get("reward_scale")
        full = float(scale) if isinstance(scale, int | float) and scale else 1.0
        return (reward >= full * (1 - 1e-6)) & self.knows_success

    def action_spec(self, width: int) -> Spec:
        """Normalised commands in [-1, 1], which robomimic demands of every dataset."""
        parts = OSC_POSE if self.controller == "OSC_POSE" and width == 7 else (("action", width),)
        return Spec(tuple(Field(name, (n,), "", (-1.0,) * n, (1.0,) * n) for name, n in parts))


def parse_env_args(text: Any, path: Path) -> EnvArgs:
    """Parse the attribute `env_args` of the group `data`.

    Raises:
        DataError: when it is missing or is not what robomimic writes.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise DataError(
            "is missing",
            path=path,
            field="data.attrs['env_args']",
            fix="Convert the file with robomimic's conversion script for its source.",
        )
    try:
        values = json.loads(text)
        name, kind = str(values["env_name"]), int(values.get("type", ROBOSUITE))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"is not what robomimic writes ({type(error).__name__}: {error})",
            path=path,
            field="data.attrs['env_args']",
        ) from error
    kwargs = _section(values, "env_kwargs")
    return EnvArgs(values, name, kind, _rate(kwargs.get("control_freq")), _controller(kwargs))


def _rate(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) and value > 0 else None


def _controller(kwargs: Mapping[str, Any]) -> str:
    """The arm's controller: flat in robosuite 1.4, under `body_parts` from 1.5 on."""
    configs = kwargs.get("controller_configs")
    if isinstance(configs, list):
        configs = configs[0] if configs else None
    if not isinstance(configs, Mapping):
        return ""
    arm = _section(_section(configs, "body_parts"), "right") or configs
    return str(arm.get("type", ""))


def _section(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = values.get(key)
    return value if isinstance(value, Mapping) else {}
