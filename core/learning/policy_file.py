"""A trained policy on disk: weights in safetensors, and how to build it again in JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from outrider.core.config import validate
from outrider.core.errors import OutriderError
from outrider.core.files import read_json, replacing, write_json
from outrider.core.learning.tensor_file import read_tensors, write_tensors
from outrider.core.learning.types import ChunkPolicy, TrainablePolicy
from outrider.core.task_json import task_from_json, task_to_json
from outrider.core.types import TaskSpec

if TYPE_CHECKING:
    from outrider.core.host.host import Host

SCHEMA = 1
WEIGHTS, RECORD = "policy.safetensors", "policy.json"


@dataclass(frozen=True, slots=True)
class SavedPolicy:
    """A policy that was read back.

    Attributes:
        policy: with its weights, frozen, in evaluation mode, on the CPU.
        provider: name of the policy provider that built it.
        config: the provider's settings, as JSON values.
        task: specs of the task that it was made for.
    """

    policy: TrainablePolicy
    provider: str
    config: Mapping[str, Any]
    task: TaskSpec


def save_policy(
    path: Path, policy: ChunkPolicy, provider: str, config: Mapping[str, Any], task: TaskSpec
) -> None:
    """Write the folder `path` atomically; an older one there is replaced.

    Args:
        path: the folder.
        policy: what `PolicyProvider.build(config, task)` gave, trained.
        provider: the provider's name.
        config: its settings, JSON values.
        task: the task it was built for.

    Raises:
        OutriderError: when a weight is not finite, or the disk is full.
    """
    weights = {name: value.detach().cpu().contiguous() for name, value in _tensors(policy)}
    for name, value in weights.items():
        if not torch.isfinite(value).all():
            raise OutriderError(f"weight {name} is not finite", where=str(path))
    record = {
        "schema": SCHEMA,
        "provider": provider,
        "config": dict(config),
        "task": task_to_json(task),
    }
    with replacing(path) as fresh:
        fresh.mkdir()
        digest = write_tensors(fresh / WEIGHTS, weights)
        write_json(fresh / RECORD, record | {"weights_sha256": digest})


def load_policy(path: Path, host: "Host") -> SavedPolicy:
    """Build the policy by its provider and load its weights.

    Raises:
        OutriderError: when the folder is missing or damaged, its provider is not installed, or
            the weights do not fit.
    """
    provider, config, task, digest = _read_record(path / RECORD)
    offered = host.provider("policies", provider)
    settings = validate(offered.config, config, f"{path / RECORD}: config")
    policy: TrainablePolicy = offered.build(settings, task)
    weights = read_tensors(path / WEIGHTS, digest)
    refusal = _mismatch(dict(_tensors(policy)), weights)
    if refusal:
        raise OutriderError(
            refusal, where=str(path / WEIGHTS), fix="Was it written by another version or config?"
        )
    policy.load_state_dict(weights)
    policy.eval()
    for weight in policy.parameters():
        weight.requires_grad_(False)
    return SavedPolicy(policy, provider, config, task)


def _tensors(policy: ChunkPolicy) -> list[tuple[str, Tensor]]:
    return list(policy.state_dict().items())


def _read_record(path: Path) -> tuple[str, dict[str, Any], TaskSpec, str]:
    record = read_json(path)
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise OutriderError(f"not a policy of schema {SCHEMA}", where=str(path))
    try:
        task = task_from_json(record["task"])
        return str(record["provider"]), dict(record["config"]), task, str(record["weights_sha256"])
    except (KeyError, TypeError, ValueError) as error:
        raise OutriderError(f"incomplete ({error})", where=str(path)) from error


def _mismatch(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> str:
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    if missing or extra:
        return f"missing tensors {missing}, unknown tensors {extra}"
    for name, value in expected.items():
        if value.shape != found[name].shape:
            return f"{name} has shape {tuple(found[name].shape)}, expected {tuple(value.shape)}"
    return ""
