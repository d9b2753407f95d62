"""Checkpoints: tensors in safetensors, everything else in JSON, whole or absent. No pickle.

A state is any nesting of dicts and lists over tensors, numpy arrays, numbers, strings, booleans
and None. Tensors go to `tensors.safetensors` under their path; the JSON keeps the skeleton.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outrider.core.errors import OutriderError
from outrider.core.files import read_json, replacing, write_json
from outrider.core.learning.tensor_file import read_tensors, write_tensors

SCHEMA = 1
_TENSOR, _ARRAY = "__tensor__", "__array__"


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write the folder `path` atomically; an older one there is replaced."""
    tensors: dict[str, Tensor] = {}
    skeleton = _split(dict(state), "", tensors)
    with replacing(path) as fresh:
        fresh.mkdir()
        digest = write_tensors(fresh / "tensors.safetensors", tensors)
        record = {"schema": SCHEMA, "tensors_sha256": digest, "state": skeleton}
        write_json(fresh / "state.json", record)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; tensors come back on the CPU.

    Raises:
        OutriderError: when the folder is missing, damaged or of another schema.
    """
    saved = read_json(path / "state.json")
    if not isinstance(saved, dict) or saved.get("schema") != SCHEMA:
        raise OutriderError("not a checkpoint of schema 1", where=str(path))
    tensors = read_tensors(path / "tensors.safetensors", str(saved.get("tensors_sha256")))
    state: dict[str, Any] = _join(saved["state"], tensors)
    return state


def _split(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor | np.ndarray):
        kind = _TENSOR if isinstance(value, Tensor) else _ARRAY
        tensor = value.detach() if isinstance(value, Tensor) else torch.from_numpy(value.copy())
        tensors[path] = tensor.cpu().clone().contiguous()  # safetensors refuses shared storage
        return {kind: path}
    if isinstance(value, Mapping):
        return {
            "__items__": [
                [_key(key), _split(item, f"{path}/{key}", tensors)] for key, item in value.items()
            ]
        }
    if isinstance(value, list | tuple):
        return [_split(item, f"{path}/{i}", tensors) for i, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__} (at {path or 'top'})")


def _key(key: Any) -> str | int:
    if isinstance(key, str | int):
        return key
    raise TypeError(f"checkpoint keys are strings or integers, not {key!r}")


def _join(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_join(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "__items__" in value:
        return {key: _join(item, tensors) for key, item in value["__items__"]}
    if _TENSOR in value:
        return tensors[value[_TENSOR]]
    return tensors[value[_ARRAY]].numpy()


def numpy_rng_state(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a numpy generator as plain values."""
    return dict(rng.bit_generator.state)


def restore_numpy_rng(rng: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Put a numpy generator back into a saved state."""
    rng.bit_generator.state = dict(state)


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete `step-NNNNNNNNN` checkpoint in a folder, or None."""
    found = sorted(p for p in folder.glob("step-*") if (p / "state.json").is_file())
    return found[-1] if found else None


def refuse_existing(folder: Path) -> None:
    """Refuse to start a stage anew where an earlier run of it left checkpoints.

    Raises:
        OutriderError: when there are some: two runs in one folder would be mistaken for one.
    """
    if latest_checkpoint(folder) is not None:
        raise OutriderError(
            "there are checkpoints of an earlier run",
            where=str(folder),
            fix="Continue it with --resume, or delete the folder to start anew.",
        )


def prune_checkpoints(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints."""
    from outrider.core.files import remove

    for old in sorted(folder.glob("step-*"))[:-keep]:
        remove(old)
