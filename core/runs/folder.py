"""A run folder: where everything lies, which stages are done, and `results.json` as it grows.

config.yaml       the resolved recipe              evaluation/, films/, diagnostics/
stages.json       what is done, and when           bundle/NAME-VERSION.outrider
demos/            the episode store                metrics.jsonl, tensorboard/
policy/base/      the pretrained policy            results.json, report.html
checkpoints/      pretrain/, finetune/
"""

import importlib.metadata
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.config import dump_yaml, read_yaml, validate
from outrider.core.errors import OutriderError
from outrider.core.files import read_json, write_json, write_text
from outrider.core.recipe import Recipe

PACKAGES = ("outrider", "torch", "mujoco", "robosuite", "numpy", "onnxruntime", "onnx")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of a run.

    Attributes:
        path: the folder.
        recipe: the resolved recipe that it was made with.
    """

    path: Path
    recipe: Recipe

    @property
    def demos(self) -> Path:
        """The episode store of the demonstrations."""
        return self.path / "demos"

    @property
    def base_policy(self) -> Path:
        """The pretrained policy."""
        return self.path / "policy" / "base"

    def checkpoints(self, stage: str) -> Path:
        """Checkpoints of a stage."""
        return self.path / "checkpoints" / stage

    @property
    def bundles(self) -> Path:
        """Where bundles are put."""
        return self.path / "bundle"

    @property
    def bundle(self) -> Path:
        """The exported bundle."""
        return self.bundles / f"{self.bundle_name}-{self.recipe.export.version}.outrider"

    @property
    def bundle_name(self) -> str:
        """The recipe's name for it, or the task's."""
        return self.recipe.export.name or self.recipe.task.name.replace("/", "-")

    def results(self) -> dict[str, Any]:
        """What `results.json` holds so far."""
        path = self.path / "results.json"
        found: dict[str, Any] = read_json(path) if path.exists() else {}
        return found

    def add_results(self, values: Mapping[str, Any]) -> None:
        """Set entries of `results.json`."""
        write_json(self.path / "results.json", self.results() | dict(values))

    def done(self, stage: str) -> bool:
        """Whether a stage is finished."""
        return stage in self._stages()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage and mark it as finished when the body is."""
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        write_json(self.path / "stages.json", self._stages() | {name: {"wall_s": seconds}})
        spent = sum(float(entry["wall_s"]) for entry in self._stages().values())
        self.add_results({"wall_s": spent, "versions": versions()})

    def forget(self, *stages: str) -> None:
        """Mark stages as not finished, because something before them is made anew."""
        left = {name: entry for name, entry in self._stages().items() if name not in stages}
        write_json(self.path / "stages.json", left)

    def _stages(self) -> dict[str, Any]:
        path = self.path / "stages.json"
        found: dict[str, Any] = read_json(path) if path.exists() else {}
        return found


def create_run(path: Path, recipe: Recipe, *, resume: bool) -> RunFolder:
    """Open a run folder for a recipe: a new one, or with `resume` the same one again.

    Raises:
        OutriderError: when the folder holds a run and `resume` is off, or another recipe's run.
    """
    config = path / "config.yaml"
    if path.exists() and not path.is_dir():
        raise OutriderError(
            "is a file, and a run needs a folder", where=str(path), fix="Choose another --out."
        )
    if not config.exists():
        if path.exists() and any(path.iterdir()):
            raise OutriderError(
                "the folder is not empty and holds no run",
                where=str(path),
                fix="Choose a new folder with --out.",
            )
        write_text(config, dump_yaml(recipe.resolved()))
        return RunFolder(path, recipe)
    if not resume:
        raise OutriderError(
            "the folder holds a run already",
            where=str(path),
            fix="Continue it with --resume, or choose another --out.",
        )
    before = open_run(path).recipe
    changed = [
        key for key, value in recipe.resolved().items() if before.resolved().get(key) != value
    ]
    if changed:
        raise OutriderError(
            f"the recipe differs from the run's in {', '.join(changed)}",
            where=str(config),
            fix="Resume with the same recipe and --set, or choose another --out.",
        )
    return RunFolder(path, recipe)


def open_run(path: Path) -> RunFolder:
    """Open an existing run folder.

    Raises:
        OutriderError: when there is no run in it, or its recipe cannot be read.
    """
    config = path / "config.yaml"
    if not config.is_file():
        raise OutriderError(
            "no run here (config.yaml is missing)",
            where=str(path),
            fix="Give the folder that `outrider run` wrote.",
        )
    return RunFolder(path, validate(Recipe, read_yaml(config), str(config)))


def versions() -> dict[str, str]:
    """Versions of what a run depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
