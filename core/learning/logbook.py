"""Metrics of a run: one JSON object per line in metrics.jsonl, and TensorBoard beside it."""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from outrider.core.errors import OutriderError
from outrider.core.files import remove, write_text

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


class Logbook:
    """Writes the metrics of one stage; stages of a run share the file.

    A line holds `stage`, `step`, `wall_s` (seconds of this stage, over all its sittings) and the
    metrics. A value that is not finite becomes null, so that every line stays JSON. Each line is
    flushed: what was logged survives a kill. TensorBoard events go to `tensorboard/STAGE` when
    that package is installed.

    Args:
        run: the run folder.
        stage: such as "pretrain".
        resume_at: the step of the checkpoint that the stage goes on from. Lines of this stage
            after it are dropped, since they will be written again. None begins the stage afresh.
    """

    def __init__(self, run: Path, stage: str, resume_at: int | None = None) -> None:
        self._stage = stage
        path = run / METRICS
        run.mkdir(parents=True, exist_ok=True)
        elapsed = _rewind(path, stage, resume_at)
        self._start = time.monotonic() - elapsed
        try:
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise OutriderError(f"cannot write: {error.strerror}", where=str(path)) from error
        self._board = _board(run / TENSORBOARD / stage, resume_at)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append one line.

        Raises:
            OutriderError: when the disk is full.
        """
        numbers = {name: float(value) for name, value in values.items()}
        line = {
            "stage": self._stage,
            "step": step,
            "wall_s": round(time.monotonic() - self._start, 3),
            **{name: x if math.isfinite(x) else None for name, x in numbers.items()},
        }
        try:
            self._file.write(json.dumps(line, allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise OutriderError(
                f"cannot write: {error.strerror}", where=self._file.name, fix="Free some space."
            ) from error
        if self._board is not None:
            for name, number in numbers.items():
                self._board.add_scalar(f"{self._stage}/{name}", number, step)

    def close(self) -> None:
        """Flush and close both."""
        self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> "Logbook":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines of metrics.jsonl; one that a kill cut short is left out."""
    rows = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                rows.append(row)
    return rows


def _rewind(path: Path, stage: str, resume_at: int | None) -> float:
    """Drop what the stage will write again; returns the seconds it had taken until then."""
    rows = read_metrics(path)
    upto = -1 if resume_at is None else resume_at
    kept = [row for row in rows if row.get("stage") != stage or row.get("step", 0) <= upto]
    if path.is_file():
        write_text(path, "".join(json.dumps(row) + "\n" for row in kept))
    walls = [float(row.get("wall_s") or 0) for row in kept if row.get("stage") == stage]
    return max(walls, default=0.0)


def _board(folder: Path, resume_at: int | None) -> Any:
    """A TensorBoard writer, or None where the package is missing."""
    if resume_at is None:
        remove(folder)
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    purge = None if resume_at is None else resume_at + 1
    return SummaryWriter(str(folder), purge_step=purge, flush_secs=10)
