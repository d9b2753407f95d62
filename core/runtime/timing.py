"""Durations of a loop's stages in bounded memory, and their percentiles."""

import numpy as np

CAPACITY = 1 << 18


class Durations:
    """The last quarter of a million durations (s), and exact count and maximum over all.

    At 50 Hz that is an hour and a half; percentiles are those of what is kept.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._kept = np.zeros(capacity, np.float64)
        self.count = 0
        self.maximum = 0.0

    def add(self, seconds: float) -> None:
        """Keep one duration."""
        self._kept[self.count % len(self._kept)] = seconds
        self.count += 1
        if seconds > self.maximum:
            self.maximum = seconds

    def summary_ms(self) -> dict[str, float]:
        """p50, p99, p999 and max in milliseconds, and n; zeros when there is nothing."""
        if self.count == 0:
            return {"p50": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0, "n": 0}
        kept = self._kept[: min(self.count, len(self._kept))]
        p50, p99, p999 = (1e3 * float(x) for x in np.percentile(kept, [50, 99, 99.9]))
        return {"p50": p50, "p99": p99, "p999": p999, "max": 1e3 * self.maximum, "n": self.count}
