"""What verbs share: settings, the host, and how results are printed."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from outrider.core.host.host import Host

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output.")
]

ProviderOption = Annotated[
    str, typer.Option("--provider", help="Execution provider: cpu, cuda or tensorrt.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override one value of the recipe: --set finetune.env_steps=1000."),
]


@dataclass(frozen=True, slots=True)
class Settings:
    """The options before the verb."""

    debug: bool = False
    plugin_path: tuple[Path, ...] = ()
    without: frozenset[str] = frozenset()


def host_of(ctx: Any) -> "Host":
    """Discover the plugins, once per process and call."""
    from outrider.core.host.host import Host

    settings = ctx.find_object(Settings) or Settings()
    return Host.discover(plugin_path=settings.plugin_path, without=settings.without)


def plugin_command(ctx: Any, name: str) -> Any:
    """A verb that a plugin offers, or None."""
    offered = host_of(ctx).offers("commands").get(name)
    if offered is None:
        return None
    command = typer.main.get_command(offered.app())
    command.name = name
    return command


def emit(value: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def stdout() -> Console:
    """A console for results meant for people."""
    return Console(highlight=False, soft_wrap=True)
