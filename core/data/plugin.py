"""The built-in plugin that reads robomimic's files."""

from collections.abc import Sequence
from pathlib import Path

from outrider.core.config import NoConfig
from outrider.core.data.robomimic import RobomimicReader, is_robomimic
from outrider.core.host.hookspecs import API, hookimpl
from outrider.core.host.objects import DatasetReader, ReaderProvider


class RobomimicPlugin:
    """Offers the reader `robomimic`."""

    name = "robomimic"
    api = API
    Config = NoConfig

    def __init__(self, config: NoConfig) -> None:
        self.config = config

    @hookimpl
    def readers(self) -> Sequence[ReaderProvider]:
        """Robomimic HDF5, `FILE` or `FILE#FILTER`."""
        return (ReaderProvider("robomimic", is_robomimic, _open),)


def _open(path: Path) -> DatasetReader:
    return RobomimicReader(path)
