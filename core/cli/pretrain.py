"""`outrider pretrain CONFIG`: demonstrations and a pretrained policy."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.core.cli.common import JsonOption, SetOption, emit, host_of, stdout

app = typer.Typer(add_completion=False)


@app.command()
def pretrain(
    ctx: typer.Context,
    config: Annotated[Path, typer.Argument(help="A recipe file, or a built-in one by name.")],
    demos: Annotated[
        Path | None,
        typer.Option("--demos", help="Demonstrations to use in place of the recipe's."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Run folder; by default runs/RECIPE.")
    ] = None,
    assignments: SetOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the newest checkpoint.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train the recipe's policy on demonstrations, and save it in a run folder."""
    import json

    from outrider.core.learning.logbook import METRICS, read_metrics
    from outrider.core.progress import Terminal
    from outrider.core.recipe import find_recipe, load_recipe
    from outrider.core.runs.road import pretrain_run

    path = find_recipe(config)
    folder = out or Path("runs") / path.stem
    changes = [*(assignments or ())]
    if demos is not None:
        changes.append(f"demos.path={json.dumps(str(demos))}")
    shop = pretrain_run(load_recipe(path, changes), folder, host_of(ctx), Terminal(), resume=resume)
    lines = [row for row in read_metrics(folder / METRICS) if row.get("stage") == "pretrain"]
    if as_json:
        emit(
            {
                "policy": str(shop.folder.base_policy),
                "step": lines[-1]["step"],
                "loss": lines[-1]["loss"],
            }
        )
    else:
        stdout().print(
            f"{shop.folder.base_policy}: loss {lines[-1]['loss']:.4g} after "
            f"{lines[-1]['step']} steps; now: outrider finetune {folder}"
        )
