"""`outrider plugins`: what is installed, and what is wrong with it."""

from typing import Any

import typer

from outrider.core.cli.common import JsonOption, emit, host_of, stdout
from outrider.core.errors import OutriderError
from outrider.core.host.discovery import PluginRecord
from outrider.core.host.hookspecs import OFFERS
from outrider.core.host.host import Host

app = typer.Typer(add_completion=False)


@app.command()
def plugins(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List installed plugins: name, version, package, hooks, and state or error.

    A plugin in error does not change the exit code: the list is what was asked for.
    """
    host = host_of(ctx)
    clashes = find_clashes(host)  # asks for every offer, so records know of offers that raise
    described = [describe(record) for record in host.records]
    if as_json:
        emit({"plugins": described, "clashes": clashes})
    else:
        _print(described, clashes)


def find_clashes(host: Host) -> list[str]:
    """Ask every plugin for every offer; returns one line per name that two of them offer."""
    found = []
    for kind in OFFERS:
        try:
            host.offers(kind)
        except OutriderError as error:
            found.append(str(error))
    return found


def describe(record: PluginRecord) -> dict[str, Any]:
    """A plugin as a JSON value."""
    return {
        "name": record.name,
        "version": record.version,
        "distribution": record.distribution,
        "api": record.api,
        "hooks": list(record.hooks),
        "state": record.state,
        "reason": record.reason,
    }


def _print(described: list[dict[str, Any]], clashes: list[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = stdout()
    if not described:
        console.print("No plugin is installed.", markup=False)
        return
    table = Table("name", "version", "distribution", "api", "hooks", "state")
    for plugin in described:
        cells = (
            plugin["name"],
            plugin["version"],
            plugin["distribution"],
            "" if plugin["api"] is None else str(plugin["api"]),
            ", ".join(plugin["hooks"]),
            plugin["state"],
        )
        table.add_row(*[Text(cell) for cell in cells])
    console.print(table)
    for plugin in described:
        if plugin["reason"]:
            console.print(f"{plugin['name']}: {plugin['reason']}", markup=False)
    for clash in clashes:
        console.print(clash, markup=False)
