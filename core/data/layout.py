"""How the episode store lies on disk, and the check that a folder really is one.

A store is a zarr v3 group. Flat arrays over all steps: `observation`, `action`, `reward`,
`success`, `extra/NAME`. Arrays over episodes: `episode_ends`, `final_observation`, `terminated`,
`truncated`, `seed`. The group's attribute `outrider` holds kind, schema, task, source, the
declarations of the extra arrays and a digest of it all.

Chunks are raw little-endian rows with a CRC-32C at the end. Robot data hardly compress (8% with
zstd on recorded floats), and raw chunks have a size that is known beforehand: so a missing,
short or overlong chunk, which zarr would fill with zeros or inflate, is found without reading it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.data.demonstrations import EPISODE_ARRAYS, EXTRA
from outrider.core.data.errors import DataError
from outrider.core.errors import OutriderError
from outrider.core.files import read_json
from outrider.core.task_json import task_from_json, task_to_json
from outrider.core.types import TaskSpec

SCHEMA = 1
KIND = "outrider-episodes"
CHUNK_BYTES = 1 << 20
MAX_CHUNK_BYTES = 1 << 28
CRC_BYTES = 4
DTYPES = frozenset(
    ["bool", "float32", "float64"]
    + [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]
)
_EXTRA_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an array of the store must be: dtype name and shape of one row."""

    dtype: str
    row: tuple[int, ...] = ()

    @property
    def row_bytes(self) -> int:
        """Size of one row."""
        return math.prod(self.row) * np.dtype(self.dtype).itemsize

    def chunk_rows(self, first_rows: int) -> int:
        """Rows of a chunk, for a store that begins with `first_rows` rows: about 1 MiB.

        A store that is written at one go and is small gets one chunk that fits it exactly.
        """
        return max(1, min(first_rows, CHUNK_BYTES // max(1, self.row_bytes)))


@dataclass(frozen=True, slots=True)
class Header:
    """The attributes of a store.

    Attributes:
        task: specs and rate.
        source: where the data come from; JSON values.
        extra: declarations of the extra arrays.
        digest: of the content when it was written.
    """

    task: TaskSpec
    source: Mapping[str, Any]
    extra: Mapping[str, Declaration]
    digest: str

    def declarations(self) -> dict[str, Declaration]:
        """Every array of the store."""
        return declarations(self.task, self.extra)

    def to_json(self) -> dict[str, Any]:
        """The value of the attribute `outrider`."""
        return {
            "kind": KIND,
            "schema": SCHEMA,
            "task": task_to_json(self.task),
            "source": dict(self.source),
            "extra": {
                name: {"dtype": d.dtype, "row": list(d.row)} for name, d in self.extra.items()
            },
            "digest": self.digest,
        }


def declarations(task: TaskSpec, extra: Mapping[str, Declaration]) -> dict[str, Declaration]:
    """Name -> declaration of every array of a store."""
    observation = Declaration("float32", (task.observation.size,))
    return {
        "observation": observation,
        "action": Declaration("float32", (task.action.size,)),
        "reward": Declaration("float32"),
        "success": Declaration("bool"),
        "episode_ends": Declaration("int64"),
        "final_observation": observation,
        "terminated": Declaration("bool"),
        "truncated": Declaration("bool"),
        "seed": Declaration("int64"),
        **{EXTRA + name: declaration for name, declaration in extra.items()},
    }


def declare_extra(name: str, array: npt.NDArray[Any], path: Path) -> Declaration:
    """The declaration of an extra array, from the first episode that has it.

    Raises:
        DataError: when the store cannot hold such a name or dtype.
    """
    if not _EXTRA_NAME.fullmatch(name):
        raise DataError("is no name for an array", path=path, field=EXTRA + name)
    if array.dtype.name not in DTYPES:
        raise DataError(f"dtype {array.dtype} cannot be stored", path=path, field=EXTRA + name)
    return Declaration(array.dtype.name, array.shape[1:])


def is_store(path: Path) -> bool:
    """Whether the folder looks like an episode store; cheap, never raises."""
    try:
        attributes = read_json(path / "zarr.json")["attributes"]["outrider"]
        return bool(attributes["kind"] == KIND)
    except (OutriderError, KeyError, TypeError):
        return False


def read_header(path: Path) -> Header:
    """Read and check the attributes of a store.

    Raises:
        DataError: when they are missing, of another schema or inconsistent.
    """
    group = _read_metadata(path / "zarr.json", path)
    attributes = group.get("attributes")
    value = attributes.get("outrider") if isinstance(attributes, dict) else None
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise DataError("is a zarr folder, but no episode store of Outrider", path=path)
    if value.get("schema") != SCHEMA:
        raise DataError(
            f"schema is {value.get('schema')!r}, this version reads {SCHEMA}",
            path=path,
            fix="Convert it with the version of Outrider that wrote it.",
        )
    try:
        source, extra = value["source"], value["extra"]
        if not (isinstance(source, dict) and isinstance(extra, dict)):
            raise ValueError("source and extra must be mappings")
        return Header(
            task=task_from_json(value["task"]),
            source=source,
            extra={name: _extra_from_json(name, item) for name, item in extra.items()},
            digest=str(value["digest"]),
        )
    except (KeyError, TypeError, ValueError, OutriderError) as error:
        raise DataError(
            f"damaged attributes ({type(error).__name__}: {error})", path=path, field="zarr.json"
        ) from error


def _extra_from_json(name: str, value: Mapping[str, Any]) -> Declaration:
    row = tuple(int(n) for n in value["row"])
    if not _EXTRA_NAME.fullmatch(name) or value["dtype"] not in DTYPES or any(n < 0 for n in row):
        raise ValueError(f"extra array {name!r} is declared as {value}")
    return Declaration(value["dtype"], row)


def check_arrays(path: Path, declared: Mapping[str, Declaration]) -> dict[str, int]:
    """Check each array's metadata and the presence and size of each of its chunks.

    Nothing is allocated or decoded: what passes holds as many bytes as it declares.

    Returns:
        Rows of each array.

    Raises:
        DataError: naming the array.
    """
    return {name: _check_array(path, name, declaration) for name, declaration in declared.items()}


def check_lengths(path: Path, rows: Mapping[str, int]) -> None:
    """Refuse arrays over steps, or over episodes, whose lengths disagree.

    Raises:
        DataError: naming the array.
    """
    for name, count in rows.items():
        base = "episode_ends" if name in EPISODE_ARRAYS else "observation"
        if count != rows[base]:
            raise DataError(f"has {count} rows, {base} has {rows[base]}", path=path, field=name)


def check_ends(path: Path, ends: npt.NDArray[np.int64], steps: int) -> None:
    """Refuse episode ends that do not increase or do not reach the last step.

    Raises:
        DataError: naming the episode.
    """
    if not len(ends):
        raise DataError("holds no episodes", path=path)
    # Compared, not subtracted: a difference of damaged 64-bit numbers can overflow.
    rising = ends > np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    if not rising.all():
        episode = int(np.argmin(rising))
        raise DataError(
            f"ends at step {ends[episode]}, which is not after the end of the one before",
            path=path,
            episode=str(episode),
            field="episode_ends",
        )
    if ends[-1] != steps:
        raise DataError(
            f"ends at step {ends[-1]}, but there are {steps} steps",
            path=path,
            episode=str(len(ends) - 1),
            field="episode_ends",
        )


def _check_array(path: Path, name: str, declared: Declaration) -> int:
    metadata = _read_metadata(path / name / "zarr.json", path, name)
    shape = _integers(metadata.get("shape"))
    chunks = _integers(_configuration(metadata.get("chunk_grid"), "regular").get("chunk_shape"))
    if metadata.get("data_type") != declared.dtype:
        raise DataError(
            f"dtype is {metadata.get('data_type')!r}, expected {declared.dtype}",
            path=path,
            field=name,
        )
    if shape is None or len(shape) != 1 + len(declared.row) or shape[1:] != declared.row:
        raise DataError(
            f"shape is {metadata.get('shape')}, expected rows of {list(declared.row)}",
            path=path,
            field=name,
        )
    if chunks is None or chunks[1:] != declared.row or not _chunk_bytes(chunks, declared) > 0:
        raise DataError("chunks are not whole rows", path=path, field=name)
    if _chunk_bytes(chunks, declared) > max(MAX_CHUNK_BYTES, declared.row_bytes):
        raise DataError(f"chunks of {chunks[0]} rows are too large", path=path, field=name)
    if not _is_our_encoding(metadata):
        raise DataError("is encoded in a way that schema 1 does not use", path=path, field=name)
    _check_chunks(path, name, shape[0], chunks, _chunk_bytes(chunks, declared) + CRC_BYTES)
    return shape[0]


def _chunk_bytes(chunks: tuple[int, ...], declared: Declaration) -> int:
    return chunks[0] * max(1, declared.row_bytes)


def _check_chunks(
    path: Path, name: str, rows: int, chunks: tuple[int, ...], expected_bytes: int
) -> None:
    count = -(-rows // chunks[0])
    folder = path / name / "c"
    # The folder is listed before the declared count is trusted, which may be astronomical.
    present = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
    for index in range(min(count, present + 1)):
        chunk = folder.joinpath(str(index), *["0"] * (len(chunks) - 1))
        if not chunk.is_file():
            raise DataError(
                f"chunk {index} of {count} is missing",
                path=path,
                field=name,
                fix="Copy the store again from where it is whole.",
            )
        if chunk.stat().st_size != expected_bytes:
            raise DataError(
                f"chunk {index} has {chunk.stat().st_size} bytes instead of {expected_bytes}",
                path=path,
                field=name,
                fix="Copy the store again from where it is whole.",
            )


def _is_our_encoding(metadata: Mapping[str, Any]) -> bool:
    codecs = metadata.get("codecs")
    if not isinstance(codecs, list) or not all(isinstance(codec, dict) for codec in codecs):
        return False
    endian = _configuration(codecs[0], "bytes").get("endian", "little") if codecs else None
    separator = _configuration(metadata.get("chunk_key_encoding"), "default").get("separator")
    return (
        metadata.get("zarr_format") == 3
        and metadata.get("node_type") == "array"
        and [codec.get("name") for codec in codecs] == ["bytes", "crc32c"]
        and endian == "little"
        and separator == "/"
        and not metadata.get("storage_transformers")
    )


def _configuration(value: Any, name: str) -> Mapping[str, Any]:
    if isinstance(value, dict) and value.get("name") == name:
        configuration = value.get("configuration", {})
        if isinstance(configuration, dict):
            return configuration
    return {}


def _integers(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and value and all(type(n) is int and n >= 0 for n in value):
        return tuple(value)
    return None


def _read_metadata(file: Path, path: Path, name: str = "") -> dict[str, Any]:
    if not file.is_file():
        raise DataError("is missing" if name else "is no zarr v3 folder", path=path, field=name)
    try:
        value = read_json(file)
    except OutriderError as error:
        raise DataError(error.what, path=path, field=f"{name}/zarr.json".lstrip("/")) from error
    if not isinstance(value, dict):
        raise DataError("metadata is no mapping", path=path, field=name)
    return value
