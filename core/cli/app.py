"""The `outrider` command: finds verbs by name, imports the one that is called, reports errors.

Exit codes: 0 done; 1 the thing checked does not hold; 2 bad input or usage. An error is one line
on standard error; the traceback appears with `--debug` only.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from outrider.core.cli.common import Settings, plugin_command
from outrider.core.errors import MissingDependency, OutriderError

VERBS = {
    "run": "The whole road: demonstrations to a driven robot.",
    "demos": "Collect, convert and inspect demonstrations.",
    "pretrain": "Pretrain the policy of a run.",
    "finetune": "Finetune the policy of a run.",
    "evaluate": "Evaluate the policies of a run on common seeds.",
    "export": "Export the policy of a run as a bundle.",
    "report": "Write report.html of a run.",
    "verify": "Check a bundle: integrity, contract and parity on this device.",
    "bench": "Measure the latency of a bundle.",
    "control": "Drive a robot with a bundle in real time.",
    "plugins": "List installed plugins with their state.",
    "tasks": "List the tasks that can be simulated.",
}


EXTRAS = {
    "cpu": ("onnxruntime",),
    "sim": (
        *("torch", "mujoco", "dm_control", "numba", "robosuite", "gymnasium", "zarr", "h5py"),
        *("onnx", "onnxscript", "matplotlib", "PIL", "tensorboard"),
    ),
}
"""Extra -> modules that it brings and a base install lacks."""

INTERRUPTED = 130
INTERRUPTION = "interrupted; finished stages and the last checkpoint are kept"


class LazyVerbs(TyperGroup):
    """Imports a verb's module only when the verb is called or its own help is asked for.

    The arguments are those of click, which typer carries inside; they stay untyped here because
    where it carries them differs between typer's releases.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the road."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb's own command, or one that a plugin offers, or None."""
        if cmd_name not in VERBS:
            return plugin_command(ctx, cmd_name)
        module = importlib.import_module(f"outrider.core.cli.{cmd_name}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


app = typer.Typer(
    cls=LazyVerbs,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Outrider takes a robot policy from demonstrations to a running fleet.",
)


@app.callback()
def settings(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    plugin_path: Annotated[
        list[Path] | None,
        typer.Option("--plugin-path", help="A plugin file, or a folder of them, to load too."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Leave out the plugin of this name.")
    ] = None,
) -> None:
    """Settings that every verb shares."""
    ctx.obj = Settings(debug, tuple(plugin_path or ()), frozenset(without or ()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run the command line and return the exit code."""
    try:
        result: Any = app(arguments, prog_name="outrider", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return _complain(INTERRUPTION, INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # click's usage errors
            error.show()
            return 2
        if "--debug" in arguments:
            raise
        return _complain(*_in_words(error))
    if result == INTERRUPTED:  # some releases of typer turn Ctrl-C into this status themselves
        return _complain(INTERRUPTION, INTERRUPTED)
    return result if isinstance(result, int) else 0


def _in_words(error: Exception) -> tuple[str, int]:
    """The line that a user reads, and the exit code."""
    if isinstance(error, OutriderError):
        return str(error), error.exit_code
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        for extra, modules in EXTRAS.items():
            if module in modules:
                wanted = "cpu,sim" if extra == "sim" else extra
                return str(MissingDependency(module, wanted, "this verb")), 2
    return f"unexpected {type(error).__name__}: {error}. Run again with --debug to see where", 2


def _complain(text: str, exit_code: int) -> int:
    sys.stderr.write(f"outrider: {' '.join(text.split())}\n")
    return exit_code
