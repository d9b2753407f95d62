"""Tensors in a safetensors file whose digest is kept elsewhere, so that damage shows as damage."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load, save
from torch import Tensor

from outrider.core.errors import OutriderError

DAMAGED = "Restore the folder from a copy, or delete it and make it again."


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write contiguous tensors; returns the file's SHA-256.

    Raises:
        OSError: when it cannot be written; inside `files.replacing` that becomes one line.
    """
    content = save({name: tensor.clone() for name, tensor in tensors.items()})
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    """Read tensors onto the CPU.

    Raises:
        OutriderError: when the file is missing, or is not the one that was written.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OutriderError(
            f"cannot read: {error.strerror or error}", where=str(path), fix=DAMAGED
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise OutriderError(
            "damaged: its SHA-256 is not the one that was recorded", where=str(path), fix=DAMAGED
        )
    return load(content)
