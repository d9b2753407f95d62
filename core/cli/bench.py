"""`outrider bench BUNDLE`: latency on this device."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.core.cli.common import JsonOption, ProviderOption, emit, stdout

app = typer.Typer(add_completion=False)


@app.command()
def bench(
    bundle: Annotated[Path, typer.Argument(help="A .outrider file.")],
    provider: ProviderOption = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of an inference.")] = 1,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Inferences in a row.")] = 2000,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="How long to infer at the bundle's pace.")
    ] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Cold start, percentiles back to back, and percentiles at the pace of the control loop."""
    from rich.table import Table

    from outrider.core.bundle.archive import open_bundle
    from outrider.core.runtime.latency import bench as measure

    found = measure(
        open_bundle(bundle), provider, threads=threads, repeats=repeats, spaced_s=seconds
    )
    if as_json:
        emit(found)
        return
    table = Table("ms", "p50", "p99", "p99.9", "max", "n")
    for name, row in (("back to back", found), ("at its pace", found["spaced"])):
        cells = [f"{row[key]:.3f}" for key in ("p50", "p99", "p999", "max")]
        table.add_row(name, *cells, str(row["n"]))
    console = stdout()
    console.print(table)
    console.print(
        f"cold start {found['cold']:.1f} ms; a control period has {found['budget']:.1f} ms; "
        f"provider {found['provider']}"
    )
