"""The control loop: absolute deadlines, no allocation that grows, and no lie about time.

Each tick observes, at a chunk boundary infers, filters the command and writes it. Tick k is due at
start + k / rate, whatever came before, so that lateness does not add up to drift. A tick that
ends after the next one is due is a missed deadline, and the count is part of the result.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from outrider.core import seeds
from outrider.core.bundle.archive import Bundle
from outrider.core.bundle.session import Session
from outrider.core.errors import CheckFailed
from outrider.core.runtime.clock import Clock, SystemClock
from outrider.core.runtime.robot import Robot, require_compatible
from outrider.core.runtime.timing import Durations
from outrider.core.safety.chain import FilterChain, built_in_chain
from outrider.core.types import Float

STAGES = ("read", "infer", "filter", "write", "tick")


@dataclass(slots=True)
class ControlRecord:
    """What a run of the loop came to.

    Attributes:
        provider: execution provider that was active.
        rate_hz: of the ticks.
        real_time: whether deadlines were waited for.
        ticks: executed.
        deadline_misses: ticks that ended after the next one was due.
        worst_lateness_s: by how much, at worst, a tick began after it was due.
        episodes: success of each.
        durations: seconds of each stage.
        changed: filter -> commands that it changed.
        interrupted: whether a person stopped it.
    """

    provider: str
    rate_hz: float
    real_time: bool
    ticks: int = 0
    deadline_misses: int = 0
    worst_lateness_s: float = 0.0
    episodes: list[bool] = field(default_factory=list)
    durations: dict[str, Durations] = field(
        default_factory=lambda: {name: Durations() for name in STAGES}
    )
    changed: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """A JSON value; latencies in milliseconds."""
        n = len(self.episodes)
        return {
            "provider": self.provider,
            "rate_hz": self.rate_hz,
            "real_time": self.real_time,
            "ticks": self.ticks,
            "deadline_misses": self.deadline_misses,
            "worst_lateness_ms": 1e3 * self.worst_lateness_s,
            "success": sum(self.episodes) / n if n else 0.0,
            "episodes": n,
            "latency_ms": {name: d.summary_ms() for name, d in self.durations.items()},
            "filtered": dict(self.changed),
            "interrupted": self.interrupted,
        }


class _Controller:
    """A session, a robot and what happens in a tick; buffers are made once."""

    def __init__(
        self,
        bundle: Bundle,
        session: Session,
        robot: Robot,
        clock: Clock,
        record: ControlRecord,
    ) -> None:
        manifest, A = bundle.manifest, bundle.task.action.size
        self.session, self.robot, self.clock, self.record = session, robot, clock, record
        self.execute = manifest.execute
        self.rng: np.random.Generator | None = None
        self.noise: Float = np.zeros((manifest.horizon, A), np.float32)
        self.chunk: Float = np.zeros((manifest.execute, A), np.float32)
        self.filters: FilterChain = built_in_chain(bundle.task.action, manifest.safety)
        self.position = self.execute
        session.bind(bundle.task.observation.size, self.noise.shape, self.chunk.shape)

    def begin(self, seed: int, rng: np.random.Generator | None) -> None:
        self.robot.begin(seed)
        self.rng = rng
        self.noise[:] = 0.0
        self.position = self.execute

    def tick(self) -> None:
        """Observe, infer at a chunk boundary, filter, write."""
        now, keep = self.clock.now, self.record.durations
        began = now()
        observation = self.robot.read()
        observed = now()
        keep["read"].add(observed - began)
        if self.position == self.execute:
            self._infer(observation)
            inferred = now()
            keep["infer"].add(inferred - observed)
            observed = inferred
        command = self.filters.apply(observation, self.chunk[self.position])
        self.position += 1
        filtered = now()
        keep["filter"].add(filtered - observed)
        self.robot.write(command)
        ended = now()
        keep["write"].add(ended - filtered)
        keep["tick"].add(ended - began)

    def _infer(self, observation: Float) -> None:
        expected = (self.robot.spec.observation.size,)
        if observation.shape != expected:  # numpy would spread a scalar over all of it
            raise _stopped(f"the robot's observation has shape {observation.shape}, not {expected}")
        if not np.isfinite(observation).all():
            raise _stopped("the robot's observation is not finite")
        if self.rng is not None:
            self.rng.standard_normal(out=self.noise, dtype=np.float32)
        self.chunk[:] = self.session.infer(observation, self.noise)
        if not np.isfinite(self.chunk).all():
            raise _stopped("the policy gave a command that is not finite")
        self.position = 0


def _stopped(what: str) -> CheckFailed:
    return CheckFailed(what, where="control", fix="The robot was stopped; this was not sent to it.")


def control(
    bundle: Bundle,
    robot: Robot,
    *,
    episodes: int,
    seed: int,
    provider: str = "cpu",
    threads: int = 1,
    noise: Literal["sample", "zero"] = "sample",
    real_time: bool = True,
    clock: Clock | None = None,
    on_tick: Callable[[ControlRecord], None] | None = None,
) -> ControlRecord:
    """Drive a robot for some episodes.

    Args:
        bundle: opened and, by the caller, verified.
        robot: that executes the commands.
        episodes: how many.
        seed: episode i begins with `seed + i`, and its noise is drawn from a stream of its own.
        provider: execution provider; not active is an error.
        threads: of an inference.
        noise: `sample` draws the policy's noise, `zero` takes its mean.
        real_time: wait for each tick's deadline; else step as fast as possible.
        clock: replaces the machine's clock.
        on_tick: told of the record after each tick, for a display.

    Raises:
        OutriderError: when robot and bundle do not fit, or the provider is not active; the robot
            was not touched.
        CheckFailed: when inference or a filter fails; the robot was stopped before.
    """
    require_compatible(bundle.task, robot.spec)
    session = Session(bundle.graph(), provider, threads)
    timer = clock or SystemClock()
    record = ControlRecord(provider, bundle.task.rate_hz, real_time)
    controller = _Controller(bundle, session, robot, timer, record)
    try:
        with _collector_at_rest():
            _warm_up(controller)
            for index in range(episodes):
                gc.collect()  # nobody waits between episodes, and garbage must not pile up
                rng = seeds.generator(seed, "noise", index) if noise == "sample" else None
                controller.begin(seed + index, rng)
                _drive(controller, on_tick)
                record.episodes.append(robot.succeeded())
    except KeyboardInterrupt:
        record.interrupted = True
    finally:
        robot.stop()
    record.changed = {name: e.commands for name, e in controller.filters.changed.items()}
    return record


def _drive(controller: _Controller, on_tick: Callable[[ControlRecord], None] | None) -> None:
    """Tick until the episode is over. Tick k is due at start + k / rate."""
    clock, record = controller.clock, controller.record
    start, k = clock.now(), 0
    while not controller.robot.over():
        if record.real_time:
            due = start + k / record.rate_hz
            clock.sleep_until(due)
            record.worst_lateness_s = max(record.worst_lateness_s, clock.now() - due)
        controller.tick()
        k += 1
        record.ticks += 1
        if record.real_time:
            record.deadline_misses += clock.now() > start + k / record.rate_hz
        if on_tick is not None:
            on_tick(record)


def _warm_up(controller: _Controller, inferences: int = 3) -> None:
    """Infer and prepare the robot before the clock runs: first calls allocate, load, compile."""
    observation = np.zeros(controller.robot.spec.observation.size, np.float32)
    for _ in range(inferences):
        controller.session.infer(observation, controller.noise)
    controller.robot.prepare()


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """No garbage collection inside the loop: it would stop a tick at any moment."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
