"""`outrider evaluate RUN`: evaluate the policies of a run on common seeds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.core.cli.common import JsonOption, emit, host_of, stdout

app = typer.Typer(add_completion=False)


@app.command()
def evaluate(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(help="A run folder with at least a pretrained policy.")],
    as_json: JsonOption = False,
) -> None:
    """Evaluate the policies of a run on common seeds, and say how sure the difference is."""
    from outrider.core.evaluation.report import read_summary
    from outrider.core.progress import Terminal
    from outrider.core.runs.road import evaluate_run

    evaluate_run(run, host_of(ctx), Terminal())
    summary = read_summary(run)
    if as_json:
        emit(summary)
    else:
        _print(summary)


def _print(summary: dict[str, Any]) -> None:
    from rich.table import Table

    policies: dict[str, Any] = summary["policies"]
    table = Table("", *policies)
    for name in ("success", "return", "length"):
        table.add_row(name, *[_interval(p[name]) for p in policies.values()])
    for name in next(iter(policies.values()))["smoothness"]:
        table.add_row(name, *[f"{p['smoothness'][name]:.4g}" for p in policies.values()])
    console = stdout()
    console.print(table)
    console.print(summary["headline"], markup=False)


def _interval(value: dict[str, Any]) -> str:
    return f"{value['value']:.3g} ({value['low']:.3g} to {value['high']:.3g})"
