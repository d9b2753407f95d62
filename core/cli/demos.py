"""`outrider demos`: collect, convert and inspect demonstrations."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.core.cli.common import JsonOption, emit, host_of, stdout

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from outrider.core.data.columns import ColumnRange
    from outrider.core.data.inspect import Facts, Inspection
    from outrider.core.host.objects import DatasetReader
    from outrider.core.progress import Reporter
    from outrider.core.types import Episode

SHOWN_FINDINGS = 40

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Collect, convert and inspect demonstrations.",
)

ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Replace an episode store that is there already.")
]


@app.command()
def info(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(help="An episode store or a file that a reader knows.")],
    as_json: JsonOption = False,
) -> None:
    """Say what a dataset holds and what is wrong with it; exit code 1 if anything is an error."""
    from outrider.core.data.inspect import inspect
    from outrider.core.data.readers import open_demonstrations

    inspection = inspect(open_demonstrations(path, host_of(ctx)), path)
    if as_json:
        emit({"path": str(path), **inspection.to_json()})
    else:
        _print(path, inspection, stdout())
    if inspection.errors:
        raise typer.Exit(1)


@app.command()
def collect(
    ctx: typer.Context,
    task: Annotated[str, typer.Option(help="family/name, see 'outrider tasks'.")],
    out: Annotated[Path, typer.Option(help="The episode store to write.")],
    episodes: Annotated[int, typer.Option(help="Episodes to collect.")] = 40,
    seed: Annotated[int, typer.Option(help="First reset seed.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes that collect.")] = 2,
    max_attempts: Annotated[int, typer.Option(help="Give up after so many attempts.")] = 1000,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="expert.KEY=VALUE, keep=all, task.options.KEY=VALUE, task.max_steps=N."
        ),
    ] = None,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let the task's scripted expert play; store what succeeds, or all with --set keep=all."""
    from outrider.core.config import override, validate
    from outrider.core.progress import Terminal
    from outrider.core.recipe import DemosSection, TaskSection
    from outrider.core.runs import collect as stage

    if not replace:
        stage.refuse_to_overwrite(out)
    section = {
        "episodes": episodes,
        "seed": seed,
        "workers": workers,
        "max_attempts": max_attempts,
        "expert": {},
    }
    values = override({"task": {"name": task}, **section}, assignments or ())
    task_section = validate(TaskSection, values.pop("task"), "task")
    demos_section = validate(DemosSection, values, "demos")
    done = stage.collect(host_of(ctx), task_section, demos_section, out, Terminal())
    if as_json:
        emit(done.to_json())
        return
    text = f"{out}: {done.episodes} episodes, {done.steps} steps, mean return {done.returns[1]:.4g}"
    if demos_section.keep == "successes":
        rate = done.expert_success
        text += (
            f"; the expert succeeded in {done.episodes} of {done.attempts} attempts "
            f"({rate.value:.0%}, 95% interval {rate.low:.0%} to {rate.high:.0%})"
        )
    stdout().print(text, markup=False)


@app.command()
def convert(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(help="A file or folder that a reader knows.")],
    out: Annotated[Path, typer.Argument(help="The episode store to write.")],
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert a dataset to an episode store; nothing is written unless every episode is sound."""
    from outrider.core.data.readers import open_demonstrations
    from outrider.core.data.store import open_store, write_store
    from outrider.core.progress import Terminal
    from outrider.core.runs.collect import refuse_to_overwrite

    if not replace:
        refuse_to_overwrite(out)
    reader = open_demonstrations(source, host_of(ctx))
    episodes = _shown(reader, source, Terminal())
    count = write_store(out, reader.info.task, episodes, reader.info.source)
    if as_json:
        emit({"path": str(out), "episodes": count, "digest": open_store(out).written_digest})
    else:
        stdout().print(f"{out}: {count} episodes", markup=False)


def _shown(reader: "DatasetReader", source: Path, reporter: "Reporter") -> "Iterator[Episode]":
    """Episodes as they are read, each refused when a number in it is not finite."""
    from outrider.core.data.demonstrations import gather

    with reporter.bar("convert", reader.info.episodes) as bar:
        for done, episode in enumerate(reader.episodes(), start=1):
            gather(reader.info.task, [episode], {}, source).require_finite(source, [str(done - 1)])
            yield episode
            bar.update(done)


def _print(path: Path, inspection: "Inspection", console: "Console") -> None:
    facts = inspection.facts
    for name, value in _summary(path, facts).items():
        console.print(f"{name:<10} {value}", markup=False)
    console.print(_ranges("observation", facts.observation))
    console.print(_ranges("action", facts.action))
    for note in facts.source.get("notes") or ():
        console.print(f"note: {note}", markup=False)
    for finding in inspection.findings[:SHOWN_FINDINGS]:
        console.print(f"{finding.severity}: {finding}. {finding.fix}", markup=False)
    hidden = len(inspection.findings) - SHOWN_FINDINGS
    if hidden > 0:
        console.print(f"and {hidden} more; --json lists all")
    warnings = len(inspection.findings) - inspection.errors
    console.print(f"{_counted(inspection.errors, 'error')}, {_counted(warnings, 'warning')}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _summary(path: Path, facts: "Facts") -> dict[str, Any]:
    low, median, high = facts.lengths
    unreadable = facts.episodes - facts.readable
    rate = "unknown" if facts.success_rate is None else f"{facts.success_rate:.0%}"
    extra = [f"{name} {kind}" for name, kind in facts.extra.items()]
    return {
        "path": path,
        "format": facts.source.get("format", "episode store"),
        "task": facts.task.task,
        "rate": f"{facts.task.rate_hz:g} Hz",
        "episodes": f"{facts.episodes}" + (f", {unreadable} unusable" if unreadable else ""),
        "steps": f"{facts.steps} ({facts.seconds:.1f} s)",
        "lengths": f"{low} to {high} steps, median {median:g}",
        "success": f"{rate} ({facts.successes} of {facts.readable})",
        "ended": f"{facts.terminated} by the task, {facts.truncated} by a limit",
        "extra": ", ".join(extra) or "none",
    }


def _ranges(title: str, columns: "tuple[ColumnRange, ...]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title, "unit", "min", "max", "mean", "std", box=None, pad_edge=False)
    for c in columns:
        figures = (f"{x:.4g}" for x in (c.low, c.high, c.mean, c.std))
        table.add_row(Text(c.label), Text(c.unit), *figures)
    return table
