"""Files that are either whole or absent: written aside, flushed, then renamed into place."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from outrider.core.errors import OutriderError

MAX_JSON_BYTES = 64 * 1024 * 1024


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; success puts it in place, failure removes it.

    Works for a file and for a folder: whichever the body creates at the temporary path.
    An old folder at `path` is removed only after the new one stands complete.

    Raises:
        OutriderError: when the disk is full or the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        holder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        fresh = holder / path.name
        yield fresh
        _flush(fresh)
        if fresh.is_dir() and path.exists():
            path.rename(holder / "old")
        fresh.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def _flush(path: Path) -> None:
    for file in [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]:
        with file.open("rb") as handle:
            os.fsync(handle.fileno())


def _cannot_write(path: Path, error: OSError) -> OutriderError:
    return OutriderError(
        f"cannot write: {error.strerror or error}",
        where=str(path),
        fix="Free some space or choose another folder; what stood there before is untouched.",
    )


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as fresh:
        fresh.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; NaN and infinities are refused, since they are not JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file of bounded size.

    Raises:
        OutriderError: when the file is missing, too large or not JSON.
    """
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise OutriderError("JSON file is larger than 64 MiB", where=str(path))
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OutriderError(f"cannot read: {error.strerror or error}", where=str(path)) from error
    except ValueError as error:
        raise OutriderError(f"not valid JSON ({error})", where=str(path)) from error


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def remove(path: Path) -> None:
    """Remove a file or a folder if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the lock goes with the process, and leaves no file.

    Raises:
        OutriderError: when another process holds it.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise OutriderError(
            "another process is working in this folder",
            where=str(folder),
            fix="Wait for it to end, or choose another --out.",
        ) from error
    finally:
        os.close(handle)
