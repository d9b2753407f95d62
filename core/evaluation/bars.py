"""Bars and strips as plain HTML, whose text keeps its size in a narrow window.

Classes `s0` to `s7` stand for the page's series colours, as in `charts`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from outrider.core.evaluation.markup import Markup, tag
from outrider.core.evaluation.statistics import Interval
from outrider.core.evaluation.wording import duration, percent


def interval_chart(rows: Sequence[tuple[str, Interval, str]]) -> Markup:
    """Shares with their intervals, one below the other: (name, interval, class of its colour)."""
    scale = [tag("span", f"{mark}%", style=_at(mark / 100)) for mark in (0, 25, 50, 75, 100)]
    axis = tag("div", tag("b"), tag("div", *scale, class_="scale"), tag("em"), class_="bar-row")
    return tag("div", *[_interval_row(*row) for row in rows], axis, class_="bars")


def _interval_row(name: str, interval: Interval, style: str) -> Markup:
    whisker = f"{_at(interval.low)};width:{100 * (interval.high - interval.low):.2f}%"
    track = tag(
        "div",
        tag("i", class_=f"bar {style}", style=f"width:{100 * interval.value:.2f}%"),
        tag("i", class_="whisker", style=whisker),
        class_="track quarters",
    )
    ends = f"{percent(interval.low)} to {percent(interval.high)}"
    figure = tag("em", tag("strong", percent(interval.value)), tag("small", ends))
    return tag("div", tag("b", name), track, figure, class_="bar-row")


def _at(share: float) -> str:
    return f"left:{100 * share:.2f}%"


def outcome_strip(rows: Sequence[tuple[str, npt.NDArray[np.bool_], str]]) -> Markup:
    """Success of each episode, one row per policy: full is a success, hollow a failure."""
    return tag("div", *[_strip_row(*row) for row in rows], class_="bars")


def _strip_row(name: str, flags: npt.NDArray[np.bool_], style: str) -> Markup:
    cells = [tag("i", class_="full" if flag else "hollow") for flag in flags]
    text = f"{name}: {int(flags.sum())} of {len(flags)} episodes succeeded"
    strip = tag("div", *cells, class_=f"strip {style}", role="img", aria_label=text)
    count = tag("em", tag("small", f"{int(flags.sum())} of {len(flags)}"))
    return tag("div", tag("b", name), strip, count, class_="bar-row")


def duration_chart(rows: Sequence[tuple[str, float]]) -> Markup:
    """Seconds as bars, one below the other."""
    longest = max((seconds for _, seconds in rows), default=0) or 1.0
    return tag("div", *[_duration_row(*row, longest) for row in rows], class_="bars thin")


def _duration_row(name: str, seconds: float, longest: float) -> Markup:
    bar = tag("i", class_="bar s0", style=f"width:{100 * seconds / longest:.2f}%")
    track, figure = tag("div", bar, class_="track"), tag("em", tag("small", duration(seconds)))
    return tag("div", tag("b", name), track, figure, class_="bar-row")
