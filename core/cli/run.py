"""`outrider run CONFIG`: the whole road."""

from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.core.cli.common import JsonOption, SetOption, emit, host_of, stdout

app = typer.Typer(add_completion=False)


@app.command()
def run(
    ctx: typer.Context,
    config: Annotated[Path, typer.Argument(help="A recipe file, or a built-in one by name.")],
    assignments: SetOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Run folder; by default runs/RECIPE.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was interrupted.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Demonstrations to a driven robot: train, evaluate, export, verify, control, report."""
    from outrider.core.progress import Terminal
    from outrider.core.recipe import find_recipe, load_recipe
    from outrider.core.runs.road import run_road

    path = find_recipe(config)
    folder = out or Path("runs") / path.stem
    recipe = load_recipe(path, assignments or ())
    results = run_road(recipe, folder, host_of(ctx), Terminal(), resume=resume)
    if as_json:
        emit(results)
    else:
        _print(results, folder)


def _print(results: dict[str, Any], folder: Path) -> None:
    console = stdout()
    for label in ("base", "finetuned"):
        if label in results:
            s = results[label]["success"]
            console.print(
                f"{label:<10} success {s['value']:.0%} ({s['low']:.0%} to {s['high']:.0%}, "
                f"n={s['n']})  return {results[label]['return']['value']:.4g}"
            )
    console.print(f"report     {folder / 'report.html'}")
    console.print(f"results    {folder / 'results.json'}")
