"""Demonstrations in memory: flat arrays over all steps, and where each episode ends."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.data.digest import digest_of
from outrider.core.data.errors import DataError
from outrider.core.types import Bool, Episode, Float, Int, Spec, TaskSpec

STEP_ARRAYS = ("observation", "action", "reward", "success")
EPISODE_ARRAYS = ("episode_ends", "final_observation", "terminated", "truncated", "seed")
EXTRA = "extra/"


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """`E` episodes with `S` steps in all.

    Attributes:
        task: specs of observation and action, rate.
        observation: (S, O), before each action.
        action: (S, A), as executed.
        reward: (S,).
        success: (S,) bool.
        ends: (E,) one past the last step of each episode, increasing; `ends[-1] == S`.
        final_observation: (E, O).
        terminated: (E,) bool.
        truncated: (E,) bool.
        seed: (E,) reset seeds.
        extra: further arrays with leading dimension S.
        source: where the data come from; JSON values.
    """

    task: TaskSpec
    observation: Float
    action: Float
    reward: Float
    success: Bool
    ends: Int
    final_observation: Float
    terminated: Bool
    truncated: Bool
    seed: Int
    extra: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def steps(self) -> int:
        """S, steps of all episodes."""
        return len(self.action)

    @property
    def starts(self) -> Int:
        """(E,) the first step of each episode."""
        return np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])

    @property
    def lengths(self) -> Int:
        """(E,) steps of each episode."""
        return np.diff(self.ends, prepend=0)

    def episode(self, index: int) -> Episode:
        """One episode; its arrays are views of the flat ones."""
        steps = slice(int(self.starts[index]), int(self.ends[index]))
        return Episode(
            observation=self.observation[steps],
            action=self.action[steps],
            reward=self.reward[steps],
            success=self.success[steps],
            final_observation=self.final_observation[index],
            terminated=bool(self.terminated[index]),
            truncated=bool(self.truncated[index]),
            seed=int(self.seed[index]),
            extra={name: array[steps] for name, array in self.extra.items()},
        )

    def episodes(self) -> Iterator[Episode]:
        """All episodes in order."""
        return (self.episode(i) for i in range(len(self)))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Every array under its name in the episode store."""
        return {
            "observation": self.observation,
            "action": self.action,
            "reward": self.reward,
            "success": self.success,
            "episode_ends": self.ends,
            "final_observation": self.final_observation,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "seed": self.seed,
            **{EXTRA + name: array for name, array in self.extra.items()},
        }

    def digest(self) -> str:
        """SHA-256 of the task and the arrays; a store of the same content has the same."""
        return digest_of(self.task, self.arrays())

    def require_finite(self, path: Path | str, names: Sequence[str] = ()) -> None:
        """Refuse NaN and infinities in observations, actions and rewards.

        Args:
            path: where the data came from, for the message.
            names: the episodes' names in the file; their numbers otherwise.

        Raises:
            DataError: naming file, episode, field and step of the first one.
        """
        for name, array in (
            ("observation", self.observation),
            ("action", self.action),
            ("reward", self.reward),
        ):
            rows = array.reshape(len(array), -1)
            bad = ~np.isfinite(rows).all(axis=1)
            if not bad.any():
                continue
            step = int(np.argmax(bad))
            episode = int(np.searchsorted(self.ends, step, side="right"))
            column = int(np.argmax(~np.isfinite(rows[step])))
            raise DataError(
                f"step {step - int(self.starts[episode])} is {rows[step, column]}",
                path=path,
                episode=names[episode] if names else str(episode),
                field=element_label(self.task, name, column),
                fix="Leave the episode out or collect it again; 'outrider demos info' lists all.",
            )


def element_label(task: TaskSpec, name: str, column: int) -> str:
    """`action: gripper`, say: an array's name and the Spec's label of one element."""
    specs: dict[str, Spec] = {"observation": task.observation, "action": task.action}
    specs["final_observation"] = task.observation
    return f"{name}: {specs[name].labels()[column]}" if name in specs else name


def check_episode(
    episode: Episode,
    task: TaskSpec,
    path: Path | str,
    name: str,
    extra: Mapping[str, tuple[int, ...]] | None = None,
) -> None:
    """Refuse an episode whose arrays do not fit each other or the task.

    Args:
        episode: the episode.
        task: what it must fit.
        path: where it comes from or goes to, for the message.
        name: the episode's name, for the message.
        extra: names of the extra arrays that it must have, and the shapes of one row;
            None where any will do.

    Raises:
        DataError: for the first thing that is wrong.
    """
    T, A = len(episode.action), task.action.size
    if T == 0:
        raise DataError("has no steps", path=path, episode=name)
    expected: dict[str, tuple[int, ...]] = {
        "action": (T, A),
        "observation": (T, task.observation.size),
        "reward": (T,),
        "success": (T,),
        "final_observation": (task.observation.size,),
    }
    found = {field_name: np.shape(getattr(episode, field_name)) for field_name in expected}
    rows = row_shapes(episode) if extra is None else extra
    if set(rows) != set(episode.extra):
        raise DataError(
            f"extra arrays are {sorted(episode.extra)}, in the first episode {sorted(rows)}",
            path=path,
            episode=name,
        )
    for field_name, row in rows.items():
        expected[EXTRA + field_name] = (T, *row)
        found[EXTRA + field_name] = np.shape(episode.extra[field_name])
    for field_name, shape in expected.items():
        if found[field_name] != shape:
            raise DataError(
                f"has shape {found[field_name]}, expected {shape}",
                path=path,
                episode=name,
                field=field_name,
            )


def row_shapes(episode: Episode) -> dict[str, tuple[int, ...]]:
    """Shape of one step of each extra array."""
    return {name: np.shape(array)[1:] for name, array in episode.extra.items()}


def gather(
    task: TaskSpec,
    episodes: Iterable[Episode],
    source: Mapping[str, Any],
    path: Path | str = "demonstrations",
    names: Sequence[str] = (),
) -> Demonstrations:
    """Put episodes into flat arrays.

    Raises:
        DataError: when an episode does not fit the task or the others, or there is none.
    """
    held = list(episodes)
    if not held:
        raise DataError("holds no episodes", path=path)
    extra = row_shapes(held[0])
    for index, episode in enumerate(held):
        check_episode(episode, task, path, names[index] if names else str(index), extra)
    return Demonstrations(
        task=task,
        observation=_flat([e.observation for e in held], np.float32),
        action=_flat([e.action for e in held], np.float32),
        reward=_flat([e.reward for e in held], np.float32),
        success=_flat([e.success for e in held], np.bool_),
        ends=np.cumsum([len(e) for e in held], dtype=np.int64),
        final_observation=np.stack([e.final_observation for e in held]).astype(np.float32),
        terminated=np.array([e.terminated for e in held], np.bool_),
        truncated=np.array([e.truncated for e in held], np.bool_),
        seed=np.array([e.seed for e in held], np.int64),
        extra={name: np.concatenate([e.extra[name] for e in held]) for name in extra},
        source=dict(source),
    )


def _flat(parts: Sequence[npt.NDArray[Any]], dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate(parts).astype(dtype, copy=False)
