"""Time as the loop sees it; tests put their own in its place."""

import time
from typing import Protocol

SPIN_S = 0.0002


class Clock(Protocol):
    """A monotonic clock that can wait."""

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    def sleep_until(self, deadline: float) -> None:
        """Return at `deadline` or, when it is past, at once."""
        ...


class SystemClock:
    """The machine's monotonic clock.

    It sleeps until shortly before a deadline and spins through the rest, since a sleep may return
    late by the length of a scheduler's tick.
    """

    def now(self) -> float:
        """Seconds, monotonic."""
        return time.perf_counter()

    def sleep_until(self, deadline: float) -> None:
        """Wait until an absolute moment."""
        remaining = deadline - time.perf_counter()
        if remaining > SPIN_S:
            time.sleep(remaining - SPIN_S)
        while time.perf_counter() < deadline:
            pass
