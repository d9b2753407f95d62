"""Checks of one episode. Each yields at most one finding per field: first place, and a count."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from outrider.core.data.demonstrations import EXTRA
from outrider.core.data.findings import DataFinding
from outrider.core.types import Bool, Episode, Float, Spec, TaskSpec

LIMIT_TOLERANCE = 1e-4
"""Share of a limit's range by which float32 rounding may exceed it."""

STUCK_STEPS = 5
"""This many equal observations in a row are called stuck."""

FLIP_COSINE = -0.5
"""Neighbouring quaternions whose cosine lies below it are one rotation with its sign turned."""

TIME_NAMES = frozenset({"time", "times", "timestamp", "timestamps"})
TIME_TOLERANCE = 0.5
"""Share of a control period by which two time stamps may be off."""

Check = Callable[[str, Episode, TaskSpec], Iterator[DataFinding]]


def non_finite(name: str, episode: Episode, task: TaskSpec) -> Iterator[DataFinding]:
    """NaN and infinities in any array."""
    for field, rows, labels in _arrays(episode, task):
        if rows.dtype.kind != "f":
            continue
        bad = ~np.isfinite(rows)
        if not bad.any():
            continue
        step, column = (int(i) for i in np.argwhere(bad)[0])
        yield DataFinding(
            "error",
            "non-finite",
            f"is {rows[step, column]} ({_count(bad)})",
            "Leave the episode out or collect it again.",
            name,
            _label(field, labels, column),
            step,
            str(rows[step, column]),
        )


def out_of_limits(name: str, episode: Episode, task: TaskSpec) -> Iterator[DataFinding]:
    """Values outside the limits that the Spec states."""
    sides = (
        ("action", episode.action, task.action, "error"),
        ("observation", episode.observation, task.observation, "warning"),
    )
    for field, rows, spec, severity in sides:
        beyond = _beyond(rows, spec)
        for column in np.flatnonzero(beyond.any(axis=0)):
            step = int(np.argmax(beyond[:, column]))
            yield DataFinding(
                "error" if severity == "error" else "warning",
                "limits",
                f"is {rows[step, column]:.6g}, limits are {spec.low[column]:g} and "
                f"{spec.high[column]:g} ({_count(beyond[:, column])})",
                "Correct the limits or the units; a robot would clip the command.",
                name,
                _label(field, spec.labels(), int(column)),
                step,
                float(rows[step, column]),
            )


def stuck_frames(name: str, episode: Episode, task: TaskSpec) -> Iterator[DataFinding]:
    """Observations that do not change for several steps."""
    equal = (episode.observation[1:] == episode.observation[:-1]).all(axis=1)
    start, length = longest_run(equal)
    if length + 1 >= STUCK_STEPS:
        yield DataFinding(
            "warning",
            "stuck",
            f"the observation stays the same for {length + 1} steps",
            "Look for a sensor that stopped; trim the episode if the robot only waited.",
            name,
            "observation",
            start,
            float(length + 1),
        )


def time_jumps(name: str, episode: Episode, task: TaskSpec) -> Iterator[DataFinding]:
    """Time stamps that do not advance by one control period."""
    period = 1.0 / task.rate_hz
    for field, array in episode.extra.items():
        if field.lower() not in TIME_NAMES or array.ndim != 1 or len(array) < 2:
            continue
        with np.errstate(all="ignore"):  # what is not finite is another finding
            intervals = np.diff(array.astype(np.float64))
        wrong = np.abs(intervals - period) > TIME_TOLERANCE * period
        if not wrong.any():
            continue
        step = int(np.argmax(wrong))
        yield DataFinding(
            "error",
            "time",
            f"advances by {intervals[step]:.6g} s, the rate of {task.rate_hz:g} Hz means "
            f"{period:.6g} s ({_count(wrong)})",
            "Resample the episode, split it at the gap, or correct the rate.",
            name,
            EXTRA + field,
            step + 1,
            float(intervals[step]),
        )


def quaternion_flips(name: str, episode: Episode, task: TaskSpec) -> Iterator[DataFinding]:
    """Quaternions that change sign between neighbouring steps: one rotation, two numbers."""
    slices = task.observation.slices()
    for field in task.observation.fields:
        if "quat" not in field.name.lower() or field.size != 4:
            continue
        q = episode.observation[:, slices[field.name]].astype(np.float64)
        q[~np.isfinite(q)] = 0.0  # what is not finite is another finding
        norms = np.linalg.norm(q, axis=1)
        scale = np.maximum(norms[1:] * norms[:-1], 1e-12)
        cosine = np.einsum("ti,ti->t", q[1:], q[:-1]) / scale
        flipped = cosine < FLIP_COSINE
        if flipped.any():
            step = int(np.argmax(flipped))
            yield DataFinding(
                "warning",
                "quaternion",
                f"flips its sign ({_count(flipped)})",
                "Make the sign continuous: a network sees two inputs for one rotation.",
                name,
                f"observation: {field.name}",
                step + 1,
                float(cosine[step]),
            )


EPISODE_CHECKS: tuple[Check, ...] = (
    non_finite,
    out_of_limits,
    stuck_frames,
    time_jumps,
    quaternion_flips,
)


def longest_run(flags: Bool) -> tuple[int, int]:
    """Start and length of the longest run of True; (0, 0) if there is none."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    if not len(starts):
        return 0, 0
    longest = int(np.argmax(ends - starts))
    return int(starts[longest]), int(ends[longest] - starts[longest])


def _beyond(rows: Float, spec: Spec) -> Bool:
    low, high = spec.low, spec.high
    bounded = np.isfinite(low) & np.isfinite(high)
    slack = LIMIT_TOLERANCE * np.where(bounded, np.where(bounded, high - low, 0.0), 0.0)
    beyond = (rows < low - slack) | (rows > high + slack)
    return beyond & np.isfinite(rows)  # what is not finite is another finding


def _arrays(
    episode: Episode, task: TaskSpec
) -> Iterator[tuple[str, npt.NDArray[np.generic], list[str]]]:
    yield "observation", episode.observation, task.observation.labels()
    yield "action", episode.action, task.action.labels()
    yield "reward", episode.reward[:, None], []
    yield "final_observation", episode.final_observation[None], task.observation.labels()
    for name, array in episode.extra.items():
        yield EXTRA + name, array.reshape(len(array), -1), []


def _label(field: str, labels: list[str], column: int) -> str:
    return f"{field}: {labels[column]}" if labels else field


def _count(flags: npt.NDArray[np.bool_]) -> str:
    count = int(flags.sum())
    return "once" if count == 1 else f"{count} times in the episode"
