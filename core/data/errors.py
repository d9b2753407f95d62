"""Errors about data: the file, the episode and the field, in one line."""

from pathlib import Path

from outrider.core.errors import OutriderError


class DataError(OutriderError):
    """Something in a dataset cannot be used.

    Attributes:
        path: the file or folder.
        episode: the episode's name in the file, "" where the whole file is meant.
        field: the array or field, "" where none is meant.
    """

    def __init__(
        self, what: str, *, path: Path | str, episode: str = "", field: str = "", fix: str = ""
    ) -> None:
        parts = [str(path), f"episode {episode}" if episode else "", field]
        super().__init__(what, where=": ".join(part for part in parts if part), fix=fix)
        self.path = str(path)
        self.episode = episode
        self.field = field
