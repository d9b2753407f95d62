"""Line charts as inline SVG: crisp at any size, no script, coloured by the page's style sheet.

Classes `s0` to `s7` stand for the page's series colours, so that a chart follows the light or
dark theme. Every chart carries its title as an accessible name.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outrider.core.evaluation.markup import Markup, join, tag
from outrider.core.evaluation.wording import number

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 48, 10, 10, 36
MAX_POINTS = 400
_LOG_SPAN = 100.0  # a positive series that spans more than this is drawn on a logarithmic axis


@dataclass(frozen=True, slots=True)
class Series:
    """A named line.

    Attributes:
        name: in the legend.
        x: (n,), ascending.
        y: (n,), finite.
        style: class of its colour.
        steps: whether a value holds until the next point, as a command does.
    """

    name: str
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    style: str = "s0"
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from data to pixels, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Pixels of data."""
        data, low, high = np.asarray(value, np.float64), self.low, self.high
        if self.log:
            data, low, high = np.log10(data), math.log10(low), math.log10(high)
        share = (data - low) / (high - low)
        return np.asarray(self.start + share * (self.end - self.start))

    def ticks(self, count: int) -> list[float]:
        """Round numbers inside the axis, about `count` of them."""
        return _decades(self.low, self.high) if self.log else _round(self.low, self.high, count)


def _round(low: float, high: float, count: int) -> list[float]:
    raw = (high - low) / max(count, 1)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    return [10.0**k for k in powers[:: max(1, math.ceil(len(powers) / 5))]]


def fit_axis(values: npt.ArrayLike, start: float, end: float, *, may_log: bool = False) -> Axis:
    """An axis with a margin around finite values (at least one)."""
    data = np.asarray(values, np.float64)
    low, high = float(data.min()), float(data.max())
    if may_log and low > 0 and high / low > _LOG_SPAN:
        return Axis(low / 1.3, high * 1.3, start, end, log=True)
    span = high - low
    margin = 0.06 * span if span > 1e-9 * max(abs(low), abs(high)) else 0.5 * abs(high) or 0.5
    return Axis(low - margin, high + margin, start, end)


def line_chart(
    title: str,
    series: Sequence[Series],
    x_label: str,
    *,
    may_log: bool = False,
    share: bool = False,
) -> Markup:
    """Lines over a common axis; long ones are thinned to the mean of each stretch.

    `may_log` allows a logarithmic axis where positive values span two decades or more; `share`
    shows all of 0 to 1, so that a small rise does not look like a large one.
    """
    lines = [s if s.steps else _thinned(s) for s in series]
    every_y = [s.y for s in lines] + ([np.array([0.0, 1.0])] if share else [])
    x = _x_axis(np.concatenate([s.x for s in lines]))
    y = fit_axis(np.concatenate(every_y), HEIGHT - BOTTOM, TOP, may_log=may_log)
    parts = [*_grid(x, y), *_labels(x_label, "log scale" if y.log else "")]
    parts += [tag("path", d=_path(s, x, y), class_=f"line {s.style}") for s in lines]
    return _svg(title, WIDTH, HEIGHT, parts)


def trace_chart(
    title: str, series: Sequence[Series], unit: str, boundaries: npt.NDArray[np.float64]
) -> Markup:
    """Commands over time, with a mark at the foot wherever the last series began a chunk."""
    x = _x_axis(np.concatenate([s.x for s in series]))
    y = fit_axis(np.concatenate([s.y for s in series]), HEIGHT - BOTTOM, TOP)
    floor = HEIGHT - BOTTOM
    marks = "".join(f"M{px:.1f} {floor}v-5" for px in x(boundaries))
    parts = [*_grid(x, y), *_labels("time (s)", unit)]
    parts += [tag("path", d=marks, class_="mark")]
    parts += [tag("path", d=_path(s, x, y), class_=f"line thin {s.style}") for s in series]
    return _svg(title, WIDTH, HEIGHT, parts)


def _x_axis(values: npt.NDArray[np.float64]) -> Axis:
    low, high = float(values.min()), float(values.max())
    low = 0.0 if 0 < low < 0.2 * high else low
    return Axis(low, high if high > low else low + 1, LEFT, WIDTH - RIGHT)


def _thinned(s: Series) -> Series:
    if len(s.x) <= MAX_POINTS:
        return s
    edges = np.linspace(0, len(s.x), MAX_POINTS + 1).astype(int)[:-1]
    counts = np.diff(np.append(edges, len(s.x)))
    x, y = np.add.reduceat(s.x, edges) / counts, np.add.reduceat(s.y, edges) / counts
    return Series(s.name, x, y, s.style)


def _path(s: Series, x: Axis, y: Axis) -> str:
    points = list(zip(x(s.x).tolist(), y(s.y).tolist(), strict=True))
    if s.steps:
        rest = "".join(f"H{px:.1f}V{py:.1f}" for px, py in points[1:])
        return f"M{points[0][0]:.1f} {points[0][1]:.1f}{rest}"
    return "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points)


def _grid(x: Axis, y: Axis) -> list[Markup]:
    parts = []
    for value in y.ticks(4):
        py = float(y(value))
        parts.append(tag("path", d=f"M{LEFT} {py:.1f}H{WIDTH - RIGHT}", class_="grid"))
        parts.append(_text(number(value), LEFT - 6, py + 3.5, "end"))
    for value in x.ticks(5):
        px = float(x(value))
        anchor = "end" if px > WIDTH - RIGHT - 8 else "middle"
        text = f"{value / 1000:g}k" if x.high >= 1e4 and value else number(value)
        parts.append(_text(text, px, HEIGHT - BOTTOM + 15, anchor))
    parts.append(tag("path", d=f"M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}", class_="axis"))
    return parts


def _labels(x_label: str, y_label: str) -> list[Markup]:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    x = _text(x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, "middle", "label")
    if not y_label:
        return [x]
    turn = f"rotate(-90 10 {middle})"
    return [
        x,
        tag("text", y_label, x=10, y=middle, text_anchor="middle", class_="label", transform=turn),
    ]


def _text(value: str, x: float, y: float, anchor: str, style: str | None = None) -> Markup:
    return tag("text", value, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=style)


def _svg(title: str, width: float, height: float, parts: Sequence[Markup]) -> Markup:
    box = f"0 0 {width} {height}"
    return tag("svg", join(parts), viewBox=box, role="img", aria_label=title)
