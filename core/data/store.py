"""The episode store: demonstrations in a zarr v3 folder. See `layout` for what lies where.

Random access through zarr costs milliseconds, so training loads the whole store into memory and
samples there; everything else streams through it in blocks of whole episodes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.data import layout
from outrider.core.data.demonstrations import (
    EPISODE_ARRAYS,
    EXTRA,
    Demonstrations,
    check_episode,
    gather,
)
from outrider.core.data.digest import ContentDigest
from outrider.core.data.errors import DataError
from outrider.core.data.layout import Declaration, Header
from outrider.core.errors import MissingDependency, OutriderError
from outrider.core.files import replacing
from outrider.core.host.objects import DatasetInfo
from outrider.core.types import Episode, TaskSpec

BLOCK_BYTES = 32 << 20


def write_store(
    path: Path, task: TaskSpec, episodes: Iterable[Episode], source: Mapping[str, Any]
) -> int:
    """Write episodes to a new store, in constant memory; a store that stood there is replaced.

    Args:
        path: the folder to write; it appears when it is complete.
        task: what the episodes fit.
        episodes: read once, one at a time.
        source: where the data come from; JSON values. Read after the last episode.

    Returns:
        The number of episodes written.

    Raises:
        DataError: when an episode does not fit, or there is none.
        OutriderError: when the disk refuses.
    """
    with StoreWriter(path, task, source) as writer:
        for episode in episodes:
            writer.append(episode)
    return writer.episodes


class StoreWriter:
    """Writes a store episode by episode; the folder appears when the context ends well.

    Episodes are buffered and written some 32 MiB at a time: a zarr call costs as much as a
    hundred steps.

    Attributes:
        source: written when the context ends; may be completed until then.
        episodes: written so far.
    """

    def __init__(self, path: Path, task: TaskSpec, source: Mapping[str, Any]) -> None:
        self.source = dict(source)
        self.episodes = 0
        self._path, self._task = path, task
        self._extra: dict[str, Declaration] | None = None
        self._buffer: list[Episode] = []
        self._buffered_bytes = 0
        self._steps = 0
        self._digest = ContentDigest()
        self._arrays: dict[str, Any] = {}
        self._context = ExitStack()

    def __enter__(self) -> "StoreWriter":
        zarr = _zarr()
        if self._path.exists() and not layout.is_store(self._path):
            raise OutriderError(
                "is there already and is no episode store",
                where=str(self._path),
                fix="Choose another path, or remove it yourself.",
            )
        fresh = self._context.enter_context(replacing(self._path))
        self._group = zarr.open_group(str(fresh), mode="w-", zarr_format=3)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            with self._context:
                self._finish()
        else:  # handed on, so that `replacing` removes what was begun
            self._context.__exit__(kind, error, traceback)

    def append(self, episode: Episode) -> None:
        """Add one episode.

        Raises:
            DataError: when it does not fit the task or the episodes before it.
        """
        name = str(self.episodes)
        rows = None if self._extra is None else {n: d.row for n, d in self._extra.items()}
        check_episode(episode, self._task, self._path, name, rows)
        if self._extra is None:
            self._extra = {
                n: layout.declare_extra(n, np.asarray(a), self._path)
                for n, a in episode.extra.items()
            }
        self._buffer.append(episode)
        self.episodes += 1
        self._buffered_bytes += _bytes(episode)
        if self._buffered_bytes >= BLOCK_BYTES:
            self._flush()

    def _finish(self) -> None:
        if not self.episodes:
            raise DataError("there are no episodes to write", path=self._path)
        self._flush()
        header = Header(
            self._task, self.source, self._extra or {}, self._digest.hexdigest(self._task)
        )
        value = header.to_json()
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"source is no JSON value ({error})", path=self._path) from error
        self._group.attrs["outrider"] = value

    def _flush(self) -> None:
        if not self._buffer:
            return
        block = gather(self._task, self._buffer, {}, self._path).arrays()
        block["episode_ends"] = block["episode_ends"] + self._steps
        self._steps = int(block["episode_ends"][-1])
        for name, declared in layout.declarations(self._task, self._extra or {}).items():
            rows = block[name].astype(declared.dtype, copy=False)
            if name not in self._arrays:
                self._arrays[name] = _create(self._group, name, declared, len(rows))
            self._arrays[name].append(rows)
            self._digest.update(name, rows)
        self._buffer, self._buffered_bytes = [], 0


def open_store(path: Path) -> "EpisodeStore":
    """Open a store and check that it is whole.

    Raises:
        DataError: in one line, for a store that is missing parts, of another schema or damaged.
    """
    if not path.is_dir():
        raise DataError("is no folder" if path.exists() else "does not exist", path=path)
    header = layout.read_header(path)
    rows = layout.check_arrays(path, header.declarations())
    layout.check_lengths(path, rows)
    ends = _read(path, "episode_ends", slice(None))
    layout.check_ends(path, ends, rows["observation"])
    return EpisodeStore(path, header, ends)


def digest(path: Path) -> str:
    """SHA-256 of what a store says, read in blocks; independent of chunks and of `source`."""
    return open_store(path).digest()


class EpisodeStore:
    """An open store; a `DatasetReader` with random access. Made by `open_store`.

    Attributes:
        path: the folder.
        info: task, number of episodes, source.
        ends: (E,) one past the last step of each episode.
        written_digest: digest that the store was written with.
    """

    def __init__(self, path: Path, header: Header, ends: npt.NDArray[np.int64]) -> None:
        self.path = path
        self.info = DatasetInfo(header.task, len(ends), header.source)
        self.ends = ends
        self.written_digest = header.digest
        self._declared = header.declarations()

    @property
    def task(self) -> TaskSpec:
        """Specs and rate."""
        return self.info.task

    @property
    def source(self) -> Mapping[str, Any]:
        """Where the data come from."""
        return self.info.source

    def __len__(self) -> int:
        return len(self.ends)

    def names(self) -> tuple[str, ...]:
        """The episodes' names: their numbers."""
        return tuple(str(i) for i in range(len(self)))

    def episode(self, index: int) -> Episode:
        """Read one episode (some milliseconds; use `load` to sample at random).

        Raises:
            IndexError: when there is no such episode.
            DataError: when a chunk is damaged.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"episode {index} of {len(self)}")
        return self._block(index, index + 1).episode(0)

    def episodes(self) -> Iterator[Episode]:
        """All episodes in order, read in blocks of some 32 MiB.

        Raises:
            DataError: when a chunk is damaged.
        """
        for first, last in self._blocks():
            yield from self._block(first, last).episodes()

    def load(self) -> Demonstrations:
        """Everything, in memory.

        Raises:
            DataError: when a chunk is damaged.
        """
        return self._block(0, len(self))

    def digest(self) -> str:
        """SHA-256 of the content as it is now; compare with `written_digest`."""
        digest = ContentDigest()
        for first, last in self._blocks():
            block = self._block(first, last)
            offset = self._start(first)
            for name, array in block.arrays().items():
                digest.update(name, array + offset if name == "episode_ends" else array)
        return digest.hexdigest(self.task)

    def _start(self, episode: int) -> int:
        return int(self.ends[episode - 1]) if episode else 0

    def _blocks(self) -> Iterator[tuple[int, int]]:
        step_bytes = sum(d.row_bytes for n, d in self._declared.items() if n not in EPISODE_ARRAYS)
        steps = max(1, BLOCK_BYTES // step_bytes)
        first = 0
        while first < len(self):
            last = int(np.searchsorted(self.ends, self._start(first) + steps, side="right"))
            last = max(last, first + 1)
            yield first, last
            first = last

    def _block(self, first: int, last: int) -> Demonstrations:
        start = self._start(first)
        steps, episodes = slice(start, int(self.ends[last - 1])), slice(first, last)
        read = {
            name: _read(self.path, name, episodes if name in EPISODE_ARRAYS else steps)
            for name in self._declared
            if name != "episode_ends"
        }
        extra = {n.removeprefix(EXTRA): a for n, a in read.items() if n.startswith(EXTRA)}
        plain = {n: a for n, a in read.items() if not n.startswith(EXTRA)}
        return Demonstrations(
            task=self.task,
            ends=self.ends[episodes] - start,
            extra=extra,
            source=self.source,
            **plain,
        )


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise MissingDependency("zarr", "sim", "the episode store") from error
    return zarr


def _create(group: Any, name: str, declared: Declaration, first_rows: int) -> Any:
    from zarr.codecs import Crc32cCodec

    return group.create_array(
        name,
        shape=(0, *declared.row),
        chunks=(declared.chunk_rows(first_rows), *declared.row),
        dtype=declared.dtype,
        compressors=[Crc32cCodec()],
        filters=None,
        # A chunk of zeros is written like any other, so that a missing one is a damage.
        config={"write_empty_chunks": True},
    )


def _read(path: Path, name: str, rows: slice) -> npt.NDArray[Any]:
    try:
        array = _zarr().open_array(str(path / name), mode="r", zarr_format=3)
        return np.asarray(array[rows])
    except OutriderError:
        raise
    except Exception as error:  # zarr's codecs raise whatever they like
        raise DataError(
            f"rows {rows.start or 0} to {'the end' if rows.stop is None else rows.stop - 1} "
            f"cannot be read ({error})",
            path=path,
            field=name,
            fix="Copy the store again from where it is whole.",
        ) from error


def _bytes(episode: Episode) -> int:
    arrays = [episode.observation, episode.action, *episode.extra.values()]
    return sum(np.asarray(array).nbytes for array in arrays)
