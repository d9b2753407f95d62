"""A digest of what demonstrations say, whatever the file format and chunking that carries them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.task_json import task_to_json
from outrider.core.types import TaskSpec


class ContentDigest:
    """SHA-256 over the task and every array, in any order of names and in blocks of any size.

    Each array is hashed on its own, row after row; the digest is taken over the task, the names,
    the dtypes, the shapes of one row and those hashes.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, tuple[str, tuple[int, ...], Any]] = {}

    def update(self, name: str, rows: npt.NDArray[Any]) -> None:
        """Add the next rows of an array."""
        if name not in self._arrays:
            self._arrays[name] = (rows.dtype.name, rows.shape[1:], hashlib.sha256())
        little = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
        self._arrays[name][2].update(np.ascontiguousarray(little).data)

    def hexdigest(self, task: TaskSpec) -> str:
        """The digest of everything added so far."""
        arrays = [
            [name, dtype, list(row), hasher.hexdigest()]
            for name, (dtype, row, hasher) in sorted(self._arrays.items())
        ]
        text = json.dumps({"task": task_to_json(task), "arrays": arrays}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def digest_of(task: TaskSpec, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """The digest of arrays in memory."""
    digest = ContentDigest()
    for name, array in arrays.items():
        digest.update(name, array)
    return digest.hexdigest(task)
