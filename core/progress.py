"""Progress for people: a live display on a terminal, plain lines elsewhere, on standard error.

Standard output stays free for results, so that `--json` prints one document and nothing else.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_EVERY_S = 10.0


class Bar(Protocol):
    """Progress of one stage."""

    def update(self, done: int, figures: Mapping[str, float] | None = None) -> None:
        """Show that `done` units are complete, with a few figures beside it."""
        ...


class Reporter(Protocol):
    """Where stages show their progress."""

    def say(self, text: str) -> None:
        """Print one line."""
        ...

    def bar(self, title: str, total: int) -> AbstractContextManager[Bar]:
        """A context that yields a Bar."""
        ...


class Silent:
    """Shows nothing; for tests and for callers that only want the result."""

    def say(self, text: str) -> None:
        """Print nothing."""

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Bar]:
        """A bar that shows nothing."""
        yield self

    def update(self, done: int, figures: Mapping[str, float] | None = None) -> None:
        """Show nothing."""


class Terminal:
    """A rich display where standard error is a terminal, plain lines where it is not."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Bar]:
        """A live bar, or a line at most every ten seconds."""
        if not self.console.is_terminal:
            plain = _PlainBar(self, title, total)
            yield plain
            plain.close()
            return
        columns = (
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
        )
        with Progress(*columns, console=self.console) as progress:
            yield _RichBar(progress, title, total)


def _format(figures: Mapping[str, float] | None) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in (figures or {}).items())


class _RichBar:
    def __init__(self, progress: Progress, title: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total, figures="")

    def update(self, done: int, figures: Mapping[str, float] | None = None) -> None:
        if figures is None:
            self._progress.update(self._task, completed=done)
        else:
            self._progress.update(self._task, completed=done, figures=_format(figures))


class _PlainBar:
    def __init__(self, terminal: Terminal, title: str, total: int) -> None:
        self._terminal, self._title, self._total = terminal, title, total
        self._done, self._figures = 0, ""
        self._shown_at, self._shown = time.monotonic(), -1

    def update(self, done: int, figures: Mapping[str, float] | None = None) -> None:
        self._done = done
        if figures is not None:
            self._figures = _format(figures)
        if time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._show()

    def close(self) -> None:
        if self._shown != self._done:
            self._show()

    def _show(self) -> None:
        self._terminal.say(f"{self._title}: {self._done}/{self._total}  {self._figures}".rstrip())
        self._shown_at, self._shown = time.monotonic(), self._done
