"""`outrider finetune RUN`: finetune the pretrained policy of a run."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.core.cli.common import JsonOption, emit, host_of, stdout

app = typer.Typer(add_completion=False)


@app.command()
def finetune(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(help="A run folder with a pretrained policy.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the newest checkpoint.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Finetune in simulation as the run's recipe says."""
    from outrider.core.progress import Terminal
    from outrider.core.runs.road import finetune_run

    shop = finetune_run(run, host_of(ctx), Terminal(), resume=resume)
    results = shop.folder.results()["finetuning"]
    if as_json:
        emit(results)
    else:
        stdout().print(
            f"{results['env_steps']:.0f} environment steps in {results['episodes']:.0f} episodes; "
            f"now: outrider evaluate {run}"
        )
