"""`outrider control BUNDLE --robot URI`: the real-time loop."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.core.cli.common import JsonOption, ProviderOption, emit, host_of, stdout

app = typer.Typer(add_completion=False)


@app.command()
def control(
    ctx: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="A .outrider file.")],
    robot: Annotated[str, typer.Option("--robot", help="Where the robot is: sim:TASK.")],
    episodes: Annotated[int, typer.Option("--episodes", min=1)] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first episode.")] = 0,
    provider: ProviderOption = "cpu",
    fast: Annotated[
        bool, typer.Option("--fast", help="Do not wait for deadlines (simulation only).")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify the bundle on this device, then drive the robot at the bundle's rate."""
    from outrider.core.bundle.archive import open_bundle
    from outrider.core.bundle.verify import verify
    from outrider.core.runtime.loop import control as drive
    from outrider.core.runtime.robot import SimulatedRobot, parse_uri

    opened = open_bundle(bundle)
    _, task = parse_uri(robot)
    verify(opened, provider).require()
    simulator = _simulator(ctx, task, opened.manifest.provenance)
    spec = replace(simulator.spec, max_steps=opened.task.max_steps)
    try:
        record = drive(
            opened,
            SimulatedRobot(simulator, spec),
            episodes=episodes,
            seed=seed,
            provider=provider,
            real_time=not fast,
        )
    finally:
        simulator.close()
    if as_json:
        emit(record.to_json())
    else:
        _print(record.to_json())


def _simulator(ctx: typer.Context, task: str, provenance: dict[str, Any]) -> Any:
    """A simulator of the task, with the options that the policy was trained with."""
    from outrider.core.recipe import TaskSection
    from outrider.core.simulation.build import task_of

    recipe = provenance.get("recipe")
    trained = recipe.get("task") if isinstance(recipe, dict) else None
    known = isinstance(trained, dict) and trained.get("name") == task
    options = trained.get("options") if known and isinstance(trained, dict) else None
    options = options if isinstance(options, dict) else {}
    return task_of(host_of(ctx), TaskSection(name=task, options=options)).simulator()


def _print(record: dict[str, Any]) -> None:
    console = stdout()
    tick = record["latency_ms"]["tick"]
    console.print(
        f"{record['ticks']} ticks at {record['rate_hz']:g} Hz on {record['provider']}: "
        f"{record['deadline_misses']} deadlines missed, "
        f"worst lateness {record['worst_lateness_ms']:.2f} ms"
    )
    console.print(
        f"tick p50 {tick['p50']:.2f}  p99 {tick['p99']:.2f}  p99.9 {tick['p999']:.2f}  "
        f"max {tick['max']:.2f} ms"
    )
    if record["interrupted"]:
        console.print("stopped by hand; the episode under way is not counted")
    console.print(f"success {record['success']:.0%} of {record['episodes']} episodes")
