"""The whole road of a run, stage after stage; finished stages are skipped on resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from outrider.core.errors import MissingDependency
from outrider.core.evaluation.report import write_report
from outrider.core.files import only_one
from outrider.core.host.host import Host
from outrider.core.learning.allocator import keep_freed_memory
from outrider.core.learning.checkpoint import refuse_existing
from outrider.core.progress import Reporter
from outrider.core.recipe import Recipe
from outrider.core.runs import deploy, judge, train
from outrider.core.runs.folder import RunFolder, create_run, open_run
from outrider.core.runs.workshop import Workshop, open_workshop, resolve

AFTER_EVALUATION = ("films", "diagnostics", "export", "verify", "bench", "control", "report")


def run_road(
    recipe: Recipe, out: Path, host: Host, reporter: Reporter, *, resume: bool = False
) -> dict[str, Any]:
    """Demonstrations, pretraining, evaluation, finetuning, export, verification, control, report.

    Args:
        recipe: what to do.
        out: the run folder, new or (with `resume`) one of this recipe.
        host: installed plugins.
        reporter: progress display.
        resume: skip what is finished and continue what was interrupted.

    Returns:
        What `results.json` holds at the end.

    Raises:
        OutriderError: for bad input, or CheckFailed when the exported bundle does not hold.
    """
    folder = _folder(recipe, out, host, resume)
    with only_one(out):
        shop = _begin(folder, host, reporter)
        for name, stage in _stages(shop, resume):
            if shop.folder.done(name):
                reporter.say(f"{name}: finished before")
                continue
            reporter.say(f"{name} ...")
            with shop.folder.stage(name):
                stage()
        return finish(shop)


def _folder(recipe: Recipe, out: Path, host: Host, resume: bool) -> RunFolder:
    """The run folder, after everything that can be refused before it is made."""
    if find_spec("onnxruntime") is None:
        raise MissingDependency("onnxruntime", "cpu,sim", "a run, which ends with its controller,")
    return create_run(out, resolve(recipe, host), resume=resume)


def _begin(folder: RunFolder, host: Host, reporter: Reporter) -> Workshop:
    keep_freed_memory()
    shop = open_workshop(folder, host, reporter)
    shop.session.notify("run_started", run=folder.path, config=folder.recipe.resolved())
    return shop


@contextmanager
def _existing(run: Path, host: Host, reporter: Reporter) -> Iterator[Workshop]:
    """An existing run, held for this process."""
    folder = open_run(run)
    with only_one(run):
        yield open_workshop(folder, host, reporter)


def _stages(shop: Workshop, resume: bool) -> list[tuple[str, Callable[[], object]]]:
    """Names and functions, in order; what the recipe leaves out is not among them."""
    recipe = shop.folder.recipe
    stages: list[tuple[str, Callable[[], object]]] = [
        ("demos", lambda: train.demonstrate(shop)),
        ("pretrain", lambda: train.pretrain_base(shop, resume=resume)),
        ("evaluate base", lambda: judge.evaluate_policy(shop, "base")),
    ]
    if recipe.finetune is not None:
        stages += [
            ("finetune", lambda: train.finetune_base(shop, resume=resume)),
            ("evaluate finetuned", lambda: judge.evaluate_policy(shop, "finetuned")),
        ]
    stages += [
        ("films", lambda: judge.make_films(shop)),
        ("diagnostics", lambda: judge.diagnose(shop)),
        ("export", lambda: deploy.export_policy(shop)),
        ("verify", lambda: deploy.verify_bundle(shop)),
        ("bench", lambda: deploy.bench_bundle(shop)),
    ]
    if recipe.control.episodes:
        stages.append(("control", lambda: deploy.control_robot(shop)))
    return stages


def finish(shop: Workshop) -> dict[str, Any]:
    """Note what the plugins did, and write the report."""
    used: dict[str, dict[str, float]] = {}
    for name, seconds in shop.session.timings().items():
        plugin, _, hook = name.rpartition(".")
        used.setdefault(plugin, {})[hook] = seconds
    rows = [
        {
            "name": record.name,
            "version": record.version,
            "distribution": record.distribution,
            "hooks": list(record.hooks),
            "state": "used" if record.name not in shop.session.switched_off else "switched off",
            "reason": shop.session.switched_off.get(record.name, ""),
            "seconds": used.get(record.name, {}),
        }
        for record in shop.host.records
        if record.name in shop.folder.recipe.plugins
    ]
    shop.folder.add_results({"plugins": rows})
    write_report(shop.folder.path)
    return shop.folder.results()


def pretrain_run(
    recipe: Recipe, out: Path, host: Host, reporter: Reporter, *, resume: bool
) -> Workshop:
    """Demonstrations and pretraining alone."""
    folder = _folder(recipe, out, host, resume)
    with only_one(out):
        shop = _begin(folder, host, reporter)
        for name, stage in _stages(shop, resume)[:2]:
            if not shop.folder.done(name):
                with shop.folder.stage(name):
                    stage()
    return shop


def finetune_run(run: Path, host: Host, reporter: Reporter, *, resume: bool) -> Workshop:
    """Finetune the pretrained policy of an existing run; later stages have to be done again."""
    keep_freed_memory()
    with _existing(run, host, reporter) as shop:
        if not resume:
            refuse_existing(shop.folder.checkpoints(train.STAGE))
        shop.folder.forget("finetune", "evaluate finetuned", *AFTER_EVALUATION)
        with shop.folder.stage("finetune"):
            train.finetune_base(shop, resume=resume)
    return shop


def evaluate_run(run: Path, host: Host, reporter: Reporter) -> dict[str, Any]:
    """Evaluate every policy of an existing run on common seeds."""
    with _existing(run, host, reporter) as shop:
        for label in judge.available(shop):
            with shop.folder.stage(f"evaluate {label}"):
                judge.evaluate_policy(shop, label)
        with shop.folder.stage("films"):
            judge.make_films(shop)
        with shop.folder.stage("diagnostics"):
            judge.diagnose(shop)
        return finish(shop)


def export_run(run: Path, host: Host, reporter: Reporter) -> Path:
    """Export the newest policy of an existing run; returns the bundle."""
    with _existing(run, host, reporter) as shop, shop.folder.stage("export"):
        return deploy.export_policy(shop)
