"""What every benchmark shares: figures with an interval, aims with a bound, one JSON per command.

A benchmark is one command, `python benchmarks/NAME.py`, that writes `benchmarks/results/NAME.json`.
Run as a script, its folder is on the path, so it says `from common import Figure, write_results`.
"""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError
from outrider.core.files import write_json

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    Attributes:
        value: the point estimate.
        low: lower end of the interval.
        high: upper end of the interval.
        unit: such as "steps/s", "ms", "" for a ratio.
        n: how many measurements stand behind it.
    """

    value: float
    low: float
    high: float
    unit: str
    n: int


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure was meant to reach. An aim that is missed stays, with `holds` False.

    Attributes:
        aim: one sentence.
        figure: the name of the figure that it is about.
        bound: the number that `value` must reach (`at_least`) or stay under.
        at_least: whether more is better.
    """

    aim: str
    figure: str
    bound: float
    at_least: bool = True

    def verdict(self, figures: Mapping[str, Figure]) -> dict[str, Any]:
        """The aim as it stands in the results file."""
        value = figures[self.figure].value
        holds = value >= self.bound if self.at_least else value <= self.bound
        return {"aim": self.aim, "figure": self.figure, "bound": self.bound, "holds": bool(holds)}


def figure(samples: npt.ArrayLike, unit: str) -> Figure:
    """Median of repeated measurements, with a 95% bootstrap interval of that median."""
    values = np.asarray(samples, dtype=np.float64)
    rng = np.random.Generator(np.random.PCG64(0))
    medians = np.median(rng.choice(values, size=(2000, len(values))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return Figure(float(np.median(values)), float(low), float(high), unit, len(values))


def write_results(
    name: str,
    command: str,
    figures: Mapping[str, Figure],
    aims: Sequence[Aim] = (),
    folder: Path = RESULTS,
) -> Path:
    """Write `folder/NAME.json` atomically and return its path.

    Args:
        name: of the benchmark; the file's name.
        command: how to run it again, from the repository's root.
        figures: name -> figure.
        aims: what was aimed at; each names one of the figures.
        folder: where results lie.

    Raises:
        OutriderError: when an aim names no figure or a number is not finite.
    """
    for aim in aims:
        if aim.figure not in figures:
            raise OutriderError(f"aim {aim.aim!r} names no figure: {aim.figure!r}", where=name)
    for label, entry in figures.items():
        if not np.isfinite([entry.value, entry.low, entry.high]).all():
            raise OutriderError(f"figure is not finite: {entry}", where=f"{name}: {label}")
    path = folder / f"{name}.json"
    write_json(
        path,
        {
            "command": command,
            "commit": commit(),
            "machine": machine(),
            "figures": {label: asdict(entry) for label, entry in figures.items()},
            "aims": [aim.verdict(figures) for aim in aims],
        },
    )
    return path


def commit() -> str:
    """The commit that is checked out, `-dirty` if tracked files differ, "unknown" outside git."""
    here = Path(__file__).parent
    try:
        head = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}-dirty" if changed else head


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def machine() -> str:
    """Processor, usable cores, memory, system and Python; no host name and no path."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{_processor()}, {cores} cores, {_memory_gib():.0f} GiB, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def _memory_gib() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, ValueError, OSError):
        return float("nan")
