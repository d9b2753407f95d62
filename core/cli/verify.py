"""`outrider verify BUNDLE`: integrity, contract and parity on this device."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.core.cli.common import JsonOption, ProviderOption, emit, stdout

app = typer.Typer(add_completion=False)


@app.command()
def verify(
    bundle: Annotated[Path, typer.Argument(help="A .outrider file.")],
    provider: ProviderOption = "cpu",
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="Write the parity certificate here.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every member, the graph's contract, and replay the recorded observations here."""
    from outrider.core.bundle.archive import open_bundle
    from outrider.core.bundle.verify import verify as prove
    from outrider.core.files import write_json

    found = prove(open_bundle(bundle), provider)
    if certificate is not None:
        write_json(certificate, found.to_json())
    if as_json:
        emit(found.to_json())
    elif found.passed:
        console = stdout()
        console.print(f"{found.bundle}: holds on {found.provider} ({found.device})")
        console.print(
            f"  {found.n} recorded observations, worst error {found.max_abs_error:.2g} "
            f"of {found.tolerance:.2g} allowed (normalised units)"
        )
        for name, error in found.field_errors.items():
            console.print(f"  {name}: {error:.2g} in its own unit", markup=False)
    found.require()
