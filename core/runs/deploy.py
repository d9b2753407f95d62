"""The stages after training: export, verification, latency, and driving the simulated robot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from outrider.core.bundle.archive import ParityVectors, open_bundle
from outrider.core.bundle.verify import MIN_VECTORS, contract_metadata, verify
from outrider.core.errors import OutriderError
from outrider.core.evaluation.storage import evaluations, load_evaluation
from outrider.core.export.bundle import Contents, assemble
from outrider.core.export.graph import OPSET, export_graph
from outrider.core.files import sha256
from outrider.core.learning.types import ChunkPolicy
from outrider.core.runs.folder import versions
from outrider.core.runs.judge import policy_of
from outrider.core.runs.workshop import Workshop, as_act
from outrider.core.runtime.latency import bench
from outrider.core.runtime.loop import ControlRecord, control
from outrider.core.runtime.robot import SimulatedRobot
from outrider.core.types import Float

KEPT_RESULTS = ("base", "finetuned", "comparison")


def export_policy(shop: Workshop) -> Path:
    """Export the finetuned policy, or the base where nothing was finetuned; returns the bundle.

    The recorded observations are those of the policy's own evaluation.

    Raises:
        OutriderError: when the policy was not evaluated.
        CheckFailed: when the graph does not reproduce the policy.
    """
    folder, section = shop.folder, shop.folder.recipe.export
    known = evaluations(folder.path)
    if not known:
        raise OutriderError(
            "no policy was evaluated, and its observations are what a bundle proves itself with",
            where=str(folder.path),
            fix=f"outrider evaluate {folder.path}",
        )
    label = "finetuned" if "finetuned" in known else known[0]
    policy, spec = policy_of(shop, label), shop.spec()
    observation, noise = load_evaluation(folder.path, label).decisions(section.parity_vectors)
    if len(observation) < MIN_VECTORS:
        raise OutriderError(
            f"the evaluation recorded {len(observation)} decisions, and a bundle proves itself "
            f"with {MIN_VECTORS} or more",
            where=str(folder.path),
            fix="Start a run with more evaluate.episodes.",
        )
    vectors = ParityVectors(observation, noise, as_act(policy)(observation, noise))
    metadata = contract_metadata(folder.bundle_name, section.version, spec)
    chunk = (policy.execute, policy.action_size)
    _, config = shop.policy_provider()
    assemble(
        folder.bundle,
        Contents(
            name=folder.bundle_name,
            version=section.version,
            description=section.description,
            task=spec,
            graph=export_graph(policy, metadata),
            opset=OPSET,
            horizon=policy.horizon,
            execute=policy.execute,
            vectors=vectors,
            action_scale=action_scale(policy),
            tolerance=section.tolerance,
            denoising=config.model_dump(mode="json"),
            plugins=shop.session.versions,
            provenance=_provenance(shop, label),
            evaluation={k: v for k, v in folder.results().items() if k in KEPT_RESULTS},
            parts=shop.session.bundle_parts(shop.context_for(chunk)),
        ),
    )
    folder.add_results({"bundle": {"file": str(folder.bundle.relative_to(folder.path))}})
    return folder.bundle


def action_scale(policy: ChunkPolicy) -> Float:
    """Physical units per normalised unit of each action element, (A,)."""
    unit = torch.eye(policy.action_size)
    with torch.no_grad():
        slope = policy.normalize_action(unit) - policy.normalize_action(torch.zeros_like(unit))
    return np.asarray(1.0 / slope.diagonal().abs().numpy(), np.float32)


def _provenance(shop: Workshop, label: str) -> dict[str, Any]:
    folder = shop.folder
    return {
        "policy": label,
        "recipe": folder.recipe.resolved(),
        "versions": versions(),
        "demonstrations": folder.results().get("demonstrations", {}).get("digest", ""),
        "seed": folder.recipe.seed,
    }


def verify_bundle(shop: Workshop) -> None:
    """Prove the bundle's parity on this machine; CheckFailed outside the tolerance."""
    folder = shop.folder
    certificate = verify(open_bundle(folder.bundle), folder.recipe.control.provider)
    folder.add_results({"parity": certificate.to_json()})
    shop.session.notify("bundle_verified", bundle=folder.bundle, report=certificate.to_json())
    certificate.require()


def bench_bundle(shop: Workshop) -> None:
    """Measure the bundle's latency on this machine."""
    section = shop.folder.recipe.control
    latency = bench(open_bundle(shop.folder.bundle), section.provider, spaced_s=section.bench_s)
    shop.folder.add_results({"latency_ms": latency})


def control_robot(shop: Workshop) -> ControlRecord:
    """Drive the simulated robot with the bundle, in real time."""
    folder, section = shop.folder, shop.folder.recipe.control
    simulator = shop.task.simulator()
    robot = SimulatedRobot(simulator, shop.spec())
    ticks = section.episodes * robot.spec.max_steps
    try:
        with shop.reporter.bar("control", ticks) as bar:
            record = control(
                open_bundle(folder.bundle),
                robot,
                episodes=section.episodes,
                seed=section.seed,
                provider=section.provider,
                real_time=section.real_time,
                on_tick=lambda record: bar.update(record.ticks, {"missed": record.deadline_misses}),
            )
    finally:
        simulator.close()
    digest = sha256(folder.bundle)
    folder.add_results({"control": record.to_json() | {"bundle_sha256": digest}})
    return record
