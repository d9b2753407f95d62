"""`outrider export RUN`: one bundle from the newest policy of a run."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.core.cli.common import JsonOption, emit, host_of, stdout

app = typer.Typer(add_completion=False)


@app.command()
def export(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(help="A run folder with an evaluated policy.")],
    as_json: JsonOption = False,
) -> None:
    """Write the bundle of a run, with recorded observations that prove its parity."""
    from outrider.core.progress import Terminal
    from outrider.core.runs.road import export_run

    bundle = export_run(run, host_of(ctx), Terminal())
    if as_json:
        emit({"bundle": str(bundle), "bytes": bundle.stat().st_size})
    else:
        stdout().print(f"{bundle}\nnow: outrider verify {bundle}")
