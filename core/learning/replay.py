"""Replay buffer of chunk transitions: one float32 row each, so that a batch is a single gather."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outrider.core.errors import OutriderError
from outrider.core.learning.types import Batch
from outrider.core.types import Float

Normalize = Callable[[Tensor], Tensor]


class ReplayBuffer:
    """A ring of the last `capacity` transitions.

    Rows hold physical observations, the decision, reward, bootstrap factor and payload fields.

    Args:
        capacity: number of transitions kept.
        observation_size: O.
        decision_size: D.
        payload: name and flat size of further fields.
    """

    def __init__(
        self,
        capacity: int,
        observation_size: int,
        decision_size: int,
        payload: Mapping[str, int] | None = None,
    ) -> None:
        sizes = {
            "observation": observation_size,
            "next_observation": observation_size,
            "decision": decision_size,
            "reward": 1,
            "bootstrap": 1,
            **(payload or {}),
        }
        self._payload = tuple(payload or ())
        self._columns: dict[str, slice] = {}
        start = 0
        for name, size in sizes.items():
            self._columns[name] = slice(start, start + size)
            start += size
        self._rows = np.empty((capacity, start), np.float32)
        self._next = 0
        self._full = False

    def __len__(self) -> int:
        return len(self._rows) if self._full else self._next

    def add(self, fields: Mapping[str, Float]) -> None:
        """Append n transitions: each field (n, size), or (n,) where its size is one.

        Raises:
            OutriderError: when a field is missing, has the wrong shape or is not finite.
        """
        first = fields["reward"]
        rows = np.empty((len(first), self._rows.shape[1]), np.float32)
        for name, columns in self._columns.items():
            if name not in fields:
                raise OutriderError(f"the field {name!r} is missing", where="replay buffer")
            value = np.asarray(fields[name], np.float32).reshape(len(rows), -1)
            if value.shape[1] != columns.stop - columns.start:
                raise OutriderError(
                    f"{name} has {value.shape[1]} numbers, expected {columns.stop - columns.start}",
                    where="replay buffer",
                )
            rows[:, columns] = value
        if not np.isfinite(rows).all():
            raise OutriderError("a transition is not finite", where="replay buffer")
        places = (self._next + np.arange(len(rows))) % len(self._rows)
        self._rows[places] = rows
        self._full |= self._next + len(rows) >= len(self._rows)
        self._next = (self._next + len(rows)) % len(self._rows)

    def field(self, name: str) -> Float:
        """A view of one field of everything stored, (len, size)."""
        return self._rows[: len(self), self._columns[name]]

    def sample(
        self, rng: np.random.Generator, batch: int, normalize: Normalize, device: str = "cpu"
    ) -> Batch:
        """Draw `batch` transitions with replacement; observations come back normalised."""
        rows = torch.from_numpy(self._rows[rng.integers(len(self), size=batch)]).to(device)
        part = {name: rows[:, columns] for name, columns in self._columns.items()}
        return Batch(
            observation=normalize(part["observation"]),
            decision=part["decision"],
            reward=part["reward"][:, 0],
            bootstrap=part["bootstrap"][:, 0],
            next_observation=normalize(part["next_observation"]),
            payload={name: part[name] for name in self._payload},
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything stored, and the place of the next row."""
        return {"rows": self._rows[: len(self)], "next": self._next, "full": self._full}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`; the capacity must be the same."""
        rows = state["rows"]
        if rows.shape[1] != self._rows.shape[1] or len(rows) > len(self._rows):
            raise OutriderError("saved with other sizes or capacity", where="replay buffer")
        self._rows[: len(rows)] = rows
        self._next, self._full = int(state["next"]), bool(state["full"])
