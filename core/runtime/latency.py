"""How long an inference takes on this device: cold, back to back, and at the bundle's own pace."""

from typing import Any

from outrider.core.bundle.archive import Bundle
from outrider.core.bundle.session import Session
from outrider.core.errors import OutriderError
from outrider.core.runtime.clock import Clock, SystemClock
from outrider.core.runtime.timing import CAPACITY, Durations

MAX_SPACED_S = 24 * 3600.0


def bench(
    bundle: Bundle,
    provider: str = "cpu",
    *,
    threads: int = 1,
    repeats: int = 2000,
    spaced_s: float = 5.0,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Measure single inferences on recorded observations.

    Args:
        bundle: opened.
        provider: execution provider.
        threads: of an inference.
        repeats: inferences back to back.
        spaced_s: seconds of inferences at the pace of the control loop, one per chunk; caches and
            clocks cool down between them, which is what a robot sees.
        clock: replaces the machine's clock.

    Returns:
        Milliseconds: `cold` (session and first inference), p50, p99, p999 and max back to back,
        and the same under `spaced`; with `provider`, `threads` and `n`.

    Raises:
        OutriderError: when the provider is not active, or a number makes no sense.
        CheckFailed: when the graph cannot infer what the manifest promises.
    """
    if repeats < 1:
        raise OutriderError(f"repeats is {repeats}", where="bench", fix="Ask for one or more.")
    if not 0 <= spaced_s <= MAX_SPACED_S:
        raise OutriderError(
            f"seconds is {spaced_s:g}", where="bench", fix=f"Ask for 0 to {MAX_SPACED_S:g}."
        )
    timer = clock or SystemClock()
    vectors, graph = bundle.parity(), bundle.graph()
    began = timer.now()
    session = Session(graph, provider, threads)
    session.bind(vectors.observation.shape[1], vectors.noise.shape[1:], vectors.action.shape[1:])
    session.infer(vectors.observation[0], vectors.noise[0])
    cold = timer.now() - began

    def one(index: int) -> float:
        row = index % len(vectors.observation)
        start = timer.now()
        session.infer(vectors.observation[row], vectors.noise[row])
        return timer.now() - start

    for index in range(min(20, repeats)):
        one(index)
    close = Durations(min(repeats, CAPACITY))
    for index in range(repeats):
        close.add(one(index))
    pace = bundle.manifest.execute / bundle.task.rate_hz
    count = max(1, int(spaced_s / pace)) if spaced_s else 0
    spaced = Durations(min(max(1, count), CAPACITY))
    start = timer.now()
    for index in range(count):
        if timer.now() > start + spaced_s:  # inferences take longer than the pace allows
            break
        timer.sleep_until(start + index * pace)
        spaced.add(one(index))
    return {
        "provider": session.provider,
        "threads": threads,
        "cold": 1e3 * cold,
        **close.summary_ms(),
        "spaced": spaced.summary_ms(),
        "budget": 1e3 / bundle.task.rate_hz,
    }
