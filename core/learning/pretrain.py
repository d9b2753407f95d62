"""Supervised pretraining on windows of demonstrations.

A run that is killed at any moment and resumed continues exactly as if nothing had happened: the
checkpoint holds the weights, their average, the optimiser and both random generators.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from outrider.core import seeds
from outrider.core.data.demonstrations import Demonstrations
from outrider.core.data.windows import WindowSampler
from outrider.core.errors import OutriderError
from outrider.core.learning.checkpoint import (
    latest_checkpoint,
    load_checkpoint,
    numpy_rng_state,
    prune_checkpoints,
    refuse_existing,
    restore_numpy_rng,
    save_checkpoint,
)
from outrider.core.learning.ema import WeightAverage
from outrider.core.learning.logbook import Logbook
from outrider.core.learning.threads import torch_threads
from outrider.core.learning.types import TrainablePolicy
from outrider.core.progress import Reporter
from outrider.core.recipe import PretrainSection

STAGE = "pretrain"
KEEP_CHECKPOINTS = 2
FINAL_RATE = 0.1
FREE_TO_CHANGE = frozenset({"checkpoint_every", "log_every", "threads"})

OnMetrics = Callable[[int, Mapping[str, float]], None]
"""Told of each line of metrics: step, values."""


def pretrain(
    policy: TrainablePolicy,
    demonstrations: Demonstrations,
    section: PretrainSection,
    *,
    seed: int,
    out: Path,
    reporter: Reporter,
    resume: bool = False,
    settings: Mapping[str, Any] | None = None,
    on_metrics: OnMetrics | None = None,
) -> Path:
    """Train a policy; afterwards it holds the averaged weights and is in evaluation mode.

    Args:
        policy: freshly built; its weights are drawn anew from `seed`.
        demonstrations: of the policy's task.
        section: steps, batch, rates.
        seed: of the run.
        out: the run folder. Checkpoints go to `checkpoints/pretrain`, metrics to metrics.jsonl.
        reporter: progress display.
        resume: go on from the newest checkpoint, if there is one.
        settings: what else must be the same when the run is resumed, JSON values: the policy's
            own settings, say.
        on_metrics: told of each line of metrics, after it was written.

    Returns:
        The folder of the final checkpoint.

    Raises:
        OutriderError: when the data do not fit the policy, when the loss stops being finite (the
            last checkpoint stays), when there are checkpoints and `resume` is not set, or when
            they are of another run.
    """
    _check_sizes(policy, demonstrations)
    folder = out / "checkpoints" / STAGE
    if not resume:
        refuse_existing(folder)
    newest = latest_checkpoint(folder)
    identity = {
        "seed": seed,
        "data": demonstrations.digest(),
        **section.model_dump(mode="json", exclude=set(FREE_TO_CHANGE)),
        "settings": dict(settings or {}),
    }
    with torch_threads(section.threads):
        run = _begin(policy, demonstrations, section, seed)
        if newest is not None:
            _restore(run, newest, identity)
        with Logbook(out, STAGE, resume_at=None if newest is None else run.step) as logbook:
            for values in _train(run, section, reporter, checkpoint=_saver(run, folder, identity)):
                logbook.write(run.step, values)
                if on_metrics is not None:
                    on_metrics(run.step, values)
    run.average.copy_to(run.module)
    policy.eval()
    return folder / f"step-{run.step:09d}"


def learning_rate(step: int, section: PretrainSection) -> float:
    """Linear warm-up, then a cosine to a tenth of the peak; `step` = 1 ... section.steps."""
    if step <= section.warmup:
        return section.learning_rate * step / section.warmup
    progress = (step - section.warmup) / max(section.steps - section.warmup, 1)
    cosine = (1 + math.cos(math.pi * progress)) / 2
    return section.learning_rate * (FINAL_RATE + (1 - FINAL_RATE) * cosine)


@dataclass(slots=True)
class _Run:
    """Everything that changes from step to step, that is, everything that a checkpoint holds."""

    policy: TrainablePolicy
    sampler: WindowSampler
    optimizer: torch.optim.Optimizer
    average: WeightAverage
    windows: np.random.Generator
    noise: torch.Generator
    step: int = 0
    losses: list[float] = field(default_factory=list)

    @property
    def module(self) -> nn.Module:
        return cast(nn.Module, self.policy)


def _check_sizes(policy: TrainablePolicy, demonstrations: Demonstrations) -> None:
    for name, array, size in (
        ("observation", demonstrations.observation, policy.observation_size),
        ("action", demonstrations.action, policy.action_size),
    ):
        if array.shape[1] != size:
            raise OutriderError(
                f"{name} has {array.shape[1]} elements, the policy's task has {size}",
                where="demonstrations",
            )


def _begin(
    policy: TrainablePolicy,
    demonstrations: Demonstrations,
    section: PretrainSection,
    seed: int,
) -> _Run:
    device = next(policy.parameters()).device
    policy.initialize(torch.Generator(device).manual_seed(seeds.integer(seed, STAGE, "weights")))
    policy.fit_normalizer(demonstrations.observation, demonstrations.action)
    optimizer = torch.optim.AdamW(
        policy.parameters(),
        lr=section.learning_rate,
        weight_decay=section.weight_decay,
        fused=True,
    )
    return _Run(
        policy,
        WindowSampler(demonstrations, policy.horizon),
        optimizer,
        WeightAverage(cast(nn.Module, policy), section.ema),
        windows=seeds.generator(seed, STAGE, "windows"),
        noise=torch.Generator(device).manual_seed(seeds.integer(seed, STAGE, "noise")),
    )


def _train(
    run: _Run, section: PretrainSection, reporter: Reporter, checkpoint: Callable[[], None]
) -> Iterator[dict[str, float]]:
    """Step until the end; yields the metrics of each line."""
    run.policy.train()
    device = next(run.policy.parameters()).device
    buffers = run.sampler.empty(section.batch)
    with reporter.bar(STAGE, section.steps) as bar:
        bar.update(run.step)
        while run.step < section.steps:
            run.step += 1
            rate = learning_rate(run.step, section)
            sample = run.sampler.sample(run.windows, section.batch, out=buffers)
            tensors = (torch.from_numpy(array).to(device) for array in sample)
            run.losses.append(_update(run, rate, *tensors))
            last = run.step == section.steps
            if run.step % section.log_every == 0 or last:
                values = {"loss": float(np.mean(run.losses)), "learning_rate": rate}
                run.losses.clear()
                bar.update(run.step, {"loss": values["loss"]})
                yield values
            if run.step % section.checkpoint_every == 0 or last:
                checkpoint()


def _update(run: _Run, rate: float, observation: Tensor, chunk: Tensor, valid: Tensor) -> float:
    """One step of AdamW and of the average; returns the loss."""
    loss = run.policy.loss(observation, chunk, valid, run.noise)
    value = loss.item()
    if not math.isfinite(value):
        raise OutriderError(
            f"the loss is {value} at step {run.step}",
            where=STAGE,
            fix="Lower pretrain.learning_rate; the last checkpoint is kept.",
        )
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    run.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    run.optimizer.step()
    run.average.update(run.module)
    return value


def _saver(run: _Run, folder: Path, identity: Mapping[str, Any]) -> Callable[[], None]:
    def save() -> None:
        state = {
            "identity": identity,
            "step": run.step,
            "policy": run.policy.state_dict(),
            "average": run.average.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "windows": numpy_rng_state(run.windows),
            "noise": run.noise.get_state(),
            "losses": list(run.losses),
        }
        save_checkpoint(folder / f"step-{run.step:09d}", state)
        prune_checkpoints(folder, KEEP_CHECKPOINTS)

    return save


def _restore(run: _Run, path: Path, identity: Mapping[str, Any]) -> None:
    state = load_checkpoint(path)
    saved = state["identity"]
    for name, value in identity.items():
        if saved.get(name) != value:
            raise OutriderError(
                f"the run to resume has {name} {saved.get(name)!r}, this one {value!r}",
                where=str(path),
                fix="Resume with the same data and settings, or choose another folder.",
            )
    try:
        run.policy.load_state_dict(state["policy"])
    except RuntimeError as error:
        raise OutriderError(
            "the run to resume has another policy: its weights do not fit",
            where=str(path),
            fix="Resume with the same settings, or choose another folder.",
        ) from error
    run.average.load_state_dict(state["average"])
    run.optimizer.load_state_dict(state["optimizer"])
    restore_numpy_rng(run.windows, state["windows"])
    run.noise.set_state(state["noise"])
    run.step, run.losses = int(state["step"]), [float(x) for x in state["losses"]]
