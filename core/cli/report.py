"""`outrider report RUN`: write report.html of a run folder."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.core.cli.common import JsonOption, emit, stdout

app = typer.Typer(add_completion=False)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")], as_json: JsonOption = False
) -> None:
    """Write report.html of a run, from what its finished stages left behind."""
    from outrider.core.evaluation.report import write_report

    path = write_report(run)
    if as_json:
        emit({"report": str(path), "bytes": path.stat().st_size})
    else:
        stdout().print(str(path), markup=False)
