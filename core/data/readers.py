"""Opening demonstrations of any format that is known: our own store, or one that a plugin reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from outrider.core.data.demonstrations import Demonstrations, gather
from outrider.core.data.errors import DataError
from outrider.core.data.layout import is_store
from outrider.core.data.store import EpisodeStore, open_store
from outrider.core.errors import OutriderError
from outrider.core.host.objects import DatasetReader
from outrider.core.types import Episode


class Offering(Protocol):
    """The part of the host that is needed here."""

    def offers(self, family: str) -> Mapping[str, Any]:
        """Name -> provider of one family."""
        ...


@runtime_checkable
class RandomAccess(Protocol):
    """What a reader may offer beyond `DatasetReader`: names, and one episode at a time.

    With it, an inspection goes on after an episode that cannot be read.
    """

    def names(self) -> tuple[str, ...]:
        """The episodes' names in the file."""
        ...

    def episode(self, index: int) -> Episode:
        """Read one episode; raises OutriderError when it cannot be used."""
        ...


def open_demonstrations(path: Path, host: Offering | None = None) -> DatasetReader:
    """Open an episode store, or a file that a plugin's reader recognizes.

    Args:
        path: file or folder; a reader may understand a suffix such as `#train`.
        host: where readers are found; without it only our own store is known.

    Raises:
        OutriderError: in one line, when there is nothing, nobody knows the format, or it is
            damaged.
    """
    if is_store(path):
        return open_store(path)
    providers = host.offers("readers") if host is not None else {}
    for name, provider in providers.items():
        try:
            recognized = provider.recognizes(path)
        except OutriderError:
            raise
        except Exception as error:
            raise OutriderError(f"reader {name!r} failed ({error})", where=str(path)) from error
        if recognized:
            reader: DatasetReader = provider.open(path)
            return reader
    if (path / "zarr.json").is_file():
        return open_store(path)  # says what is wrong with it
    if not path.exists():
        raise DataError("does not exist", path=path)
    raise DataError(
        "no installed reader recognizes the format",
        path=path,
        fix=f"Readers: {', '.join(['episode store', *sorted(providers)])}.",
    )


def load_demonstrations(path: Path, host: Offering | None = None) -> Demonstrations:
    """Everything in memory, ready for training.

    Raises:
        DataError: when it cannot be read, or an observation, action or reward is not finite.
    """
    reader = open_demonstrations(path, host)
    names = reader.names() if isinstance(reader, RandomAccess) else ()
    if isinstance(reader, EpisodeStore):
        loaded = reader.load()
    else:
        info = reader.info
        loaded = gather(info.task, reader.episodes(), info.source, path, names)
    loaded.require_finite(path, names)
    return loaded
