"""Everything a report needs of a run folder, each part optional.

A run may have stopped after any stage, and a file may be damaged: what is missing is left out,
what cannot be read is named in `problems`, and the rest is reported.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from outrider.core.config import read_yaml
from outrider.core.errors import OutriderError
from outrider.core.evaluation.statistics import Interval, wilson
from outrider.core.evaluation.storage import (
    SavedFilm,
    evaluations,
    load_evaluation,
    load_films,
    load_sections,
)
from outrider.core.evaluation.table import EpisodeTable
from outrider.core.files import read_json
from outrider.core.host.objects import ReportSection

_X_KEYS = ("step", "env_steps", "tick")
_NOT_CURVES = frozenset({*_X_KEYS, "stage", "time", "wall_s"})
LABELS = ("base", "finetuned")
"""The order in which policies appear; others follow by name."""

_WANTED = "Give a folder that `outrider run` wrote."

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Curve:
    """One figure of `metrics.jsonl` over the steps of its stage."""

    stage: str
    name: str
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]


@dataclass(slots=True)
class RunData:
    """A run folder, read.

    Attributes:
        name: of the folder.
        config: `config.yaml`.
        config_text: the same, as it stands.
        results: `results.json`.
        curves: `metrics.jsonl`, by stage and name.
        tables: label -> evaluation, in the order of `LABELS`.
        films: by label and seed.
        sections: (plugin, label, section) of diagnostics.
        problems: one line per part that could not be read.
    """

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    config_text: str = ""
    results: dict[str, Any] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    tables: dict[str, EpisodeTable] = field(default_factory=dict)
    films: list[SavedFilm] = field(default_factory=list)
    sections: list[tuple[str, str, ReportSection]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def section(self, name: str) -> dict[str, Any]:
        """A mapping of `results.json`, empty where there is none."""
        value = self.results.get(name)
        return dict(value) if isinstance(value, Mapping) else {}

    def success(self) -> dict[str, Interval]:
        """Label -> success, from the episodes where they are kept, else from `results.json`."""
        found = {}
        for label in LABELS:
            interval = as_interval(self.section(label).get("success"))
            if interval is not None:
                found[label] = interval
        for label, table in self.tables.items():
            found[label] = wilson(int(table.success.sum()), len(table.episodes))
        return found


def as_interval(value: Any) -> Interval | None:
    """`{value, low, high, n}` as an Interval; None for anything else."""
    keys = ("value", "low", "high", "n")
    if not isinstance(value, Mapping) or not all(is_number(value.get(k)) for k in keys):
        return None
    return Interval(
        float(value["value"]), float(value["low"]), float(value["high"]), int(value["n"])
    )


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether `value` is a finite number, and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_run(run: Path) -> RunData:
    """Read a run folder.

    Raises:
        OutriderError: when there is no such folder, or nothing of a run in it.
    """
    if not run.is_dir():
        raise OutriderError(
            "no such run folder", where=str(run), fix="Give a folder of `outrider run`."
        )
    data = RunData(run.resolve().name)
    config, results, metrics = (run / n for n in ("config.yaml", "results.json", "metrics.jsonl"))
    data.config = _attempt(data, config, read_yaml, {})
    data.config_text = _attempt(data, config, lambda path: path.read_text(encoding="utf-8"), "")
    data.results = _attempt(data, results, _mapping, {})
    data.curves = _attempt(data, metrics, read_curves, [])
    for label in sorted(evaluations(run), key=_order):
        path, nothing = run / "evaluation" / f"{label}.npz", dict[str, EpisodeTable]()
        data.tables |= _attempt(data, path, partial(_evaluation, label=label), nothing)
    data.films = _attempt(data, run / "films", lambda _: load_films(run), [])
    data.sections = _attempt(data, run / "diagnostics", lambda _: load_sections(run), [])
    if not (data.config or data.results or data.curves or data.tables or data.problems):
        raise OutriderError("nothing of a run in this folder", where=str(run), fix=_WANTED)
    return data


def _attempt(data: RunData, path: Path, read: Callable[[Path], V], default: V) -> V:
    """What is there, or the default; a part that cannot be read is named in the report."""
    if not path.exists():
        return default
    try:
        return read(path)
    except (OutriderError, OSError, ValueError) as error:
        text = " ".join(str(error).split())
        problem = text if path.name in text else f"{path.name}: {text}"
        if problem not in data.problems:
            data.problems.append(problem)
        return default


def _evaluation(path: Path, label: str) -> dict[str, EpisodeTable]:
    return {label: load_evaluation(path.parents[1], label)}


def _order(label: str) -> tuple[int, str]:
    return (LABELS.index(label) if label in LABELS else len(LABELS), label)


def _mapping(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise OutriderError("not a JSON object", where=str(path))
    return value


def read_curves(path: Path) -> list[Curve]:
    """Curves of `metrics.jsonl`: one JSON object per line, with `step` and perhaps `stage`.

    A line cut short by a crash is skipped. After a resume a step may come again: the last counts.
    """
    points: dict[tuple[str, str], dict[float, float]] = {}
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines):
            row = _row(line)
            x = next((float(row[k]) for k in _X_KEYS if is_number(row.get(k))), float(number))
            stage = str(row.get("stage", ""))
            for name, value in row.items():
                if name not in _NOT_CURVES and is_number(value):
                    points.setdefault((stage, name), {})[x] = float(value)
    curves = []
    for (stage, name), values in points.items():
        if len(values) > 1:
            x_, y_ = np.array(sorted(values.items())).T
            curves.append(Curve(stage, name, x_, y_))
    return curves


def _row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
