"""What an evaluated run keeps on disk, so that the report needs no simulator and no policy.

    evaluation/LABEL.npz              whole episodes, back to back, and how they were made
    evaluation/LABEL.json             the summary and one line per episode, for people and scripts
    films/LABEL-SEED.gif, .json       a film and its outcome
    diagnostics/PLUGIN-LABEL.json     a report section, figures in base64

LABEL is `base` or `finetuned`, or any other word. Nothing is pickled.
"""

import base64
import binascii
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError
from outrider.core.evaluation.films import Film, encode_gif
from outrider.core.evaluation.noise import EpisodeNoise
from outrider.core.evaluation.table import CHUNK_START, EpisodeTable
from outrider.core.files import read_json, replacing, write_bytes, write_json
from outrider.core.host.objects import Finding, ReportSection
from outrider.core.task_json import task_from_json, task_to_json
from outrider.core.types import Episode

SCHEMA = 1
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def save_evaluation(run: Path, label: str, table: EpisodeTable) -> Path:
    """Write `evaluation/LABEL.npz` and `.json`; returns the former. Each is whole or absent."""
    path = _place(run, "evaluation", label, ".npz")
    with replacing(path) as fresh, fresh.open("wb") as handle:
        np.savez_compressed(handle, **_arrays(table))
    write_json(path.with_suffix(".json"), {"label": label, **_for_people(table)})
    return path


def load_evaluation(run: Path, label: str) -> EpisodeTable:
    """The inverse of `save_evaluation`.

    Raises:
        OutriderError: when the file is missing, damaged or of another schema.
    """
    path = _place(run, "evaluation", label, ".npz")
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            return _table({name: file[name] for name in file.files})
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise OutriderError(
            f"cannot read the evaluation ({error})",
            where=str(path),
            fix="Run `outrider evaluate` on the run folder again.",
        ) from error


def evaluations(run: Path) -> list[str]:
    """Labels of the evaluations in a run folder."""
    return sorted(p.stem for p in (run / "evaluation").glob("*.npz"))


def _arrays(table: EpisodeTable) -> dict[str, Any]:
    episodes = table.episodes
    meta = {
        "schema": SCHEMA,
        "task": task_to_json(table.task),
        "execute": table.execute,
        "noise": asdict(table.noise),
    }
    return {
        "meta": np.frombuffer(json.dumps(meta).encode(), np.uint8),
        "observation": np.concatenate([e.observation for e in episodes]),
        "action": np.concatenate([e.action for e in episodes]),
        "reward": np.concatenate([e.reward for e in episodes]),
        "success": np.concatenate([e.success for e in episodes]),
        "chunk_start": np.concatenate([e.extra[CHUNK_START] for e in episodes]),
        "final_observation": np.stack([e.final_observation for e in episodes]),
        "terminated": np.array([e.terminated for e in episodes]),
        "truncated": np.array([e.truncated for e in episodes]),
        "seed": table.seeds,
        "episode_ends": np.cumsum(table.lengths),
    }


def _table(arrays: Mapping[str, npt.NDArray[Any]]) -> EpisodeTable:
    meta = json.loads(arrays["meta"].tobytes())
    if meta["schema"] != SCHEMA:
        raise ValueError(f"schema {meta['schema']}, expected {SCHEMA}")
    ends = arrays["episode_ends"]
    spans = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    episodes = tuple(
        Episode(
            observation=arrays["observation"][span],
            action=arrays["action"][span],
            reward=arrays["reward"][span],
            success=arrays["success"][span],
            final_observation=arrays["final_observation"][i],
            terminated=bool(arrays["terminated"][i]),
            truncated=bool(arrays["truncated"][i]),
            seed=int(arrays["seed"][i]),
            extra={CHUNK_START: arrays["chunk_start"][span]},
        )
        for i, span in enumerate(spans)
    )
    noise = EpisodeNoise(**meta["noise"])
    return EpisodeTable(task_from_json(meta["task"]), int(meta["execute"]), noise, episodes)


def _for_people(table: EpisodeTable) -> dict[str, Any]:
    measures = table.smoothness()
    return {
        "task": table.task.task,
        "rate_hz": table.task.rate_hz,
        "execute": table.execute,
        "noise": asdict(table.noise),
        "summary": table.summary(),
        "episodes": [
            {
                "seed": e.seed,
                "success": e.succeeded,
                "return": float(table.returns[i]),
                "length": len(e),
                "terminated": e.terminated,
                "smoothness": {name: float(values[i]) for name, values in measures.items()},
            }
            for i, e in enumerate(table.episodes)
        ],
    }


@dataclass(frozen=True, slots=True)
class SavedFilm:
    """A film as the report shows it."""

    label: str
    seed: int
    success: bool
    returned: float
    steps: int
    seconds: float
    faithful: bool
    gif: bytes


def save_film(run: Path, label: str, film: Film) -> Path:
    """Write `films/LABEL-SEED.gif` and its outcome beside it; returns the former."""
    path = _place(run, "films", f"{label}-{film.seed}", ".gif")
    write_bytes(path, encode_gif(film))
    outcome = {
        "label": label,
        "seed": film.seed,
        "success": film.success,
        "returned": film.returned,
        "steps": film.steps,
        "seconds": film.seconds,
        "faithful": film.faithful,
    }
    write_json(path.with_suffix(".json"), outcome)
    return path


def load_films(run: Path) -> list[SavedFilm]:
    """All complete films of a run, by label and seed."""
    found = []
    for path in sorted((run / "films").glob("*.json")):
        if path.with_suffix(".gif").is_file():
            gif = path.with_suffix(".gif").read_bytes()
            found.append(_parsed(path, lambda value, gif=gif: SavedFilm(**value, gif=gif)))
    return sorted(found, key=lambda f: (f.label, f.seed))


def save_section(run: Path, plugin: str, label: str, section: ReportSection) -> Path:
    """Write what a plugin's diagnostic says of the episodes called `label`."""
    path = _place(run, "diagnostics", f"{plugin}-{label}", ".json")
    figures = {k: base64.b64encode(png).decode() for k, png in section.figures.items()}
    value = {"plugin": plugin, "label": label, **asdict(section), "figures": figures}
    write_json(path, value)
    return path


def load_sections(run: Path) -> list[tuple[str, str, ReportSection]]:
    """All (plugin, label, section) of a run, by file name."""
    paths = sorted((run / "diagnostics").glob("*.json"))
    return [_parsed(path, _section) for path in paths]


def _section(value: Mapping[str, Any]) -> tuple[str, str, ReportSection]:
    section = ReportSection(
        title=str(value["title"]),
        numbers={k: float(v) for k, v in value["numbers"].items()},
        tables={
            caption: (tuple(columns), tuple(tuple(row) for row in rows))
            for caption, (columns, rows) in value["tables"].items()
        },
        figures={k: base64.b64decode(png, validate=True) for k, png in value["figures"].items()},
        findings=tuple(Finding(**f) for f in value["findings"]),
        text=str(value["text"]),
    )
    return str(value["plugin"]), str(value["label"]), section


def _parsed(path: Path, build: Any) -> Any:
    try:
        return build(read_json(path))
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise OutriderError(f"not in the expected form ({error})", where=str(path)) from error


def _place(run: Path, folder: str, stem: str, suffix: str) -> Path:
    if not _LABEL.fullmatch(stem):
        raise OutriderError(
            f"{stem!r} cannot be a file name", fix="Use letters, digits, dots, '-' and '_'."
        )
    return run / folder / f"{stem}{suffix}"
