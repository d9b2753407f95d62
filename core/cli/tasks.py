"""`outrider tasks`: what can be simulated here."""

from typing import Any

import typer

from outrider.core.cli.common import JsonOption, emit, host_of, stdout
from outrider.core.errors import OutriderError
from outrider.core.host.objects import TaskProvider

app = typer.Typer(add_completion=False)


@app.command()
def tasks(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List the tasks that can be simulated, by family, and what is missing for the others."""
    families = [describe(provider) for provider in host_of(ctx).offers("tasks").values()]
    if as_json:
        emit({"families": families})
        return
    console = stdout()
    for family in families:
        expert = ", with scripted experts for some" if family["expert"] else ""
        console.print(f"{family['family']} (from {family['package']}{expert})", markup=False)
        if family["missing"]:
            console.print(f"  not available: {family['missing']}", markup=False)
        for name in family["names"]:
            console.print(f"  {family['family']}/{name}", markup=False)
    if not families:
        console.print("No installed plugin offers tasks.", markup=False)


def describe(provider: TaskProvider) -> dict[str, Any]:
    """A family as a JSON value; `missing` says why its tasks cannot be listed."""
    missing: str | None = None
    names: tuple[str, ...] = ()
    try:
        names = provider.names()
    except OutriderError as error:
        missing = str(error)
    except Exception as error:  # one broken family must not hide the others
        missing = " ".join(f"{type(error).__name__}: {error}".split())
    return {
        "family": provider.family,
        "names": list(names),
        "package": provider.build.__module__.partition(".")[0],
        "expert": provider.expert is not None,
        "missing": missing,
    }
