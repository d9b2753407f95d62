"""The off-policy finetuning loop: decide, act, learn meanwhile, store; log, checkpoint, resume."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
from outrider.core.learning.collect import Collector, Phase
from outrider.core.learning.replay import Normalize, ReplayBuffer
from outrider.core.learning.types import Batch, Finetuner, Stateful
from outrider.core.progress import Bar
from outrider.core.recipe import FinetuneSection

KEEP_CHECKPOINTS = 2


@dataclass(slots=True)
class Learner:
    """What takes part in the loop, already built.

    Attributes:
        finetuner: owns networks and optimisers.
        collector: drives the fleet.
        replay: what was collected.
        normalize: physical observation -> what networks see.
        plugins: state of the plugins, for checkpoints.
        batches: draws transitions from the replay buffer.
        tick: fleet decisions taken so far; set by `restore`.
    """

    finetuner: Finetuner
    collector: Collector
    replay: ReplayBuffer
    normalize: Normalize
    plugins: Stateful
    batches: np.random.Generator
    tick: int = 0


def finetune(
    learner: Learner,
    section: FinetuneSection,
    *,
    checkpoints: Path,
    log: Callable[[int, Mapping[str, float]], None],
    bar: Bar,
) -> Path:
    """Run the loop until `section.env_steps` control steps were collected.

    While the robots execute their chunks, the learner updates on what was stored before, so
    that simulators in other processes and the updates share the machine.

    Args:
        learner: the parts, as `begin` or `restore` left them.
        section: the numbers.
        checkpoints: folder for `step-...` checkpoints and the final one.
        log: called with environment steps and metrics.
        bar: progress display.

    Returns:
        The folder of the final checkpoint.

    Raises:
        OutriderError: when a loss stops being finite; the last checkpoint stays.
    """
    collector, pace, saved = learner.collector, _Pace(learner.collector.env_steps), None
    while collector.env_steps < section.env_steps:
        phase: Phase = "warmup" if learner.tick < section.warmup_ticks else "learn"
        decision = collector.decide(phase)
        collector.submit(decision)
        pace.updates += _learn(learner, section, phase)
        pace.ticks += 1
        learner.replay.add(collector.collect(decision))
        learner.tick += 1
        if learner.tick % section.log_every == 0:
            values = _figures(learner, pace)
            log(collector.env_steps, values)
            bar.update(min(collector.env_steps, section.env_steps), _headline(values))
        if learner.tick % section.checkpoint_every == 0:
            saved = _save(learner, checkpoints)
    if pace.ticks:
        log(collector.env_steps, _figures(learner, pace))
    bar.update(section.env_steps)
    final = _place(learner, checkpoints)
    return final if saved == final else _save(learner, checkpoints)


def begin(learner: Learner, checkpoints: Path) -> None:
    """Start a run: every robot begins its first episode.

    Raises:
        OutriderError: when the folder holds checkpoints of an earlier run.
    """
    refuse_existing(checkpoints)
    learner.collector.begin()


def restore(learner: Learner, checkpoints: Path) -> bool:
    """Put a learner where its newest checkpoint was; False when there is none."""
    newest = latest_checkpoint(checkpoints)
    if newest is None:
        return False
    state = load_checkpoint(newest)
    learner.finetuner.load_state_dict(state["finetuner"])
    learner.replay.load_state_dict(state["replay"])
    learner.plugins.load_state_dict(state["plugins"])
    learner.collector.load_state_dict(state["collector"])
    restore_numpy_rng(learner.batches, state["batches"])
    learner.tick = int(state["tick"])
    return True


def _learn(learner: Learner, section: FinetuneSection, phase: Phase) -> int:
    """Do the updates of one tick; returns how many."""
    if len(learner.replay) == 0:
        return 0

    def sample() -> Batch:
        return learner.replay.sample(
            learner.batches, section.batch, learner.normalize, section.device
        )

    count = section.warmup_updates_per_tick if phase == "warmup" else section.updates_per_tick
    for _ in range(count):
        learner.finetuner.update(sample, phase)
    return count


@dataclass(slots=True)
class _Pace:
    """What was done since the last line of metrics, and how fast."""

    env_steps: int
    ticks: int = 0
    updates: int = 0
    since: float = 0.0

    def __post_init__(self) -> None:
        self.since = time.perf_counter()

    def rates(self, env_steps: int) -> dict[str, float]:
        elapsed = max(time.perf_counter() - self.since, 1e-9)
        found = {
            "speed/env_steps_per_s": (env_steps - self.env_steps) / elapsed,
            "speed/updates_per_s": self.updates / elapsed,
        }
        self.env_steps, self.ticks, self.updates = env_steps, 0, 0
        self.since = time.perf_counter()
        return found


def _figures(learner: Learner, pace: _Pace) -> dict[str, float]:
    values = learner.collector.figures() | learner.finetuner.drain_metrics()
    bad = [name for name, value in values.items() if not math.isfinite(value)]
    if bad:
        raise OutriderError(
            f"{bad[0]} is not finite after {learner.collector.env_steps} environment steps",
            where="finetuning",
            fix="Lower finetune.algorithm.learning_rate; the last checkpoint is kept.",
        )
    values["replay/size"] = float(len(learner.replay))
    return values | pace.rates(learner.collector.env_steps)


def _headline(values: Mapping[str, float]) -> dict[str, float]:
    names = {
        "collect/success": "success",
        "collect/return": "return",
        "speed/env_steps_per_s": "steps/s",
        "speed/updates_per_s": "updates/s",
    }
    return {short: values[name] for name, short in names.items() if name in values}


def _place(learner: Learner, checkpoints: Path) -> Path:
    return checkpoints / f"step-{learner.tick:09d}"


def _save(learner: Learner, checkpoints: Path) -> Path:
    state: dict[str, Any] = {
        "tick": learner.tick,
        "finetuner": learner.finetuner.state_dict(),
        "collector": learner.collector.state_dict(),
        "replay": learner.replay.state_dict(),
        "plugins": learner.plugins.state_dict(),
        "batches": numpy_rng_state(learner.batches),
    }
    path = _place(learner, checkpoints)
    save_checkpoint(path, state)
    prune_checkpoints(checkpoints, KEEP_CHECKPOINTS)
    return path
