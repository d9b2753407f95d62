"""What an inspection found, one flaw at a time."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class DataFinding:
    """One flaw: where it is, what it is, what to do.

    Attributes:
        severity: an error makes the episode or the file unfit for training; a warning wants a look.
        check: name of the check, for filters and scripts.
        what: the flaw, in one clause.
        fix: what the reader can do about it.
        episode: the episode's name in the file, None where the whole dataset is meant.
        field: the array or the label of one element, None where none is meant.
        step: step within the episode, from 0.
        value: the offending number; a string where it is no JSON number ("nan", "inf").
    """

    severity: Literal["error", "warning"]
    check: str
    what: str
    fix: str
    episode: str | None = None
    field: str | None = None
    step: int | None = None
    value: float | str | None = None

    def __str__(self) -> str:
        places = [
            f"episode {self.episode}" if self.episode is not None else "",
            self.field or "",
            f"step {self.step}" if self.step is not None else "",
        ]
        place = ", ".join(part for part in places if part)
        return f"{place}: {self.what}" if place else self.what

    def to_json(self) -> dict[str, Any]:
        """All attributes, as JSON values."""
        return asdict(self)
