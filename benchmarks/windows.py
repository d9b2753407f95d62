"""Windows per second: the in-memory sampler, against slicing numpy, HDF5 and zarr at random.

`python benchmarks/windows.py` writes `benchmarks/results/windows.json`. A window is an observation
(O,), a chunk of actions (H, 7) and its mask (H,); all ways give the same windows, which is
checked before anything is timed. Rates are per second of CPU time of this process, so that other
processes on the machine matter less; page caches are warm.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import zarr
from common import Aim, Figure, figure, write_results

from outrider.core.data.demonstrations import Demonstrations
from outrider.core.data.store import write_store
from outrider.core.data.windows import Windows, WindowSampler
from outrider.core.types import Field, Int, Spec, TaskSpec

EPISODES, STEPS, BATCH, REPEATS = 400, 250, 256, 15
CASES = ((19, 4), (19, 16), (60, 4), (60, 16))
ACTIONS = 7
AIM = 1e6


@dataclass(frozen=True)
class Rows:
    """Flat arrays that can be sliced: numpy, h5py or zarr."""

    observation: Any
    action: Any
    ends: Int


def demonstrations(observation_size: int) -> Demonstrations:
    """Random steps in episodes of equal length."""
    rng = np.random.default_rng(0)
    total = EPISODES * STEPS
    observation = Spec((Field("state", (observation_size,)),))
    action = Spec((Field("command", (ACTIONS,), "", (-9.0,) * ACTIONS, (9.0,) * ACTIONS),))
    return Demonstrations(
        task=TaskSpec("benchmark/random", observation, action, 20.0, STEPS, False, "none"),
        observation=rng.normal(size=(total, observation_size)).astype(np.float32),
        action=rng.normal(size=(total, ACTIONS)).astype(np.float32),
        reward=np.zeros(total, np.float32),
        success=np.zeros(total, np.bool_),
        ends=np.arange(1, EPISODES + 1) * STEPS,
        final_observation=np.zeros((EPISODES, observation_size), np.float32),
        terminated=np.zeros(EPISODES, np.bool_),
        truncated=np.ones(EPISODES, np.bool_),
        seed=np.zeros(EPISODES, np.int64),
    )


def slice_windows(rows: Rows, starts: Int, horizon: int) -> Windows:
    """One slice per window, as a data set class without precomputation does it."""
    observations, chunks, masks = [], [], []
    for start in starts:
        end = int(rows.ends[np.searchsorted(rows.ends, start, side="right")])
        chunk = rows.action[int(start) : min(int(start) + horizon, end)]
        missing = horizon - len(chunk)
        masks.append(np.arange(horizon) < len(chunk))
        if missing:
            chunk = np.concatenate([chunk, np.repeat(chunk[-1:], missing, axis=0)])
        observations.append(rows.observation[int(start)])
        chunks.append(chunk)
    return Windows(np.stack(observations), np.stack(chunks), np.stack(masks))


def rate(batch: Callable[[], Windows], calls: int) -> Figure:
    """Windows per CPU second of `batch`, which returns BATCH of them."""
    samples = []
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(calls):
            batch()
        samples.append(calls * BATCH / (time.process_time() - start))
    return figure(samples, "windows/s")


def measure(observation_size: int, horizon: int, folder: Path) -> dict[str, Figure]:
    """All ways on one size of data."""
    held = demonstrations(observation_size)
    sampler = WindowSampler(held, horizon)
    store, hdf5 = folder / f"{observation_size}.zarr", folder / f"{observation_size}.hdf5"
    if not store.exists():
        write_store(store, held.task, held.episodes(), {})
        with h5py.File(hdf5, "w") as file:
            file["observation"], file["action"] = held.observation, held.action
    group, file = zarr.open_group(str(store), mode="r"), h5py.File(hdf5, "r")
    sliced = {
        "numpy slices": (Rows(held.observation, held.action, held.ends), 8),
        "h5py slices": (Rows(file["observation"], file["action"], held.ends), 2),
        "zarr slices": (Rows(group["observation"], group["action"], held.ends), 1),
    }
    rng, out = np.random.default_rng(1), sampler.empty(BATCH)

    def drawn(rows: Rows) -> Windows:
        return slice_windows(rows, rng.integers(len(sampler), size=BATCH), horizon)

    figures = {
        "sampler": rate(lambda: sampler.sample(rng, BATCH), 400),
        "sampler, output reused": rate(lambda: sampler.sample(rng, BATCH, out), 400),
    }
    for name, (rows, calls) in sliced.items():
        require_equal(sampler, rows, horizon)
        figures[name] = rate(lambda rows=rows: drawn(rows), calls)  # type: ignore[misc]
    file.close()
    return {f"{name}, O={observation_size}, H={horizon}": f for name, f in figures.items()}


def require_equal(sampler: WindowSampler, rows: Rows, horizon: int) -> None:
    """The sampler and the slices give the same windows, ends of episodes included."""
    starts = np.array([0, 1, STEPS - 2, STEPS - 1, STEPS, EPISODES * STEPS - 1])
    for a, b in zip(sampler.at(starts), slice_windows(rows, starts, horizon), strict=True):
        np.testing.assert_array_equal(a, b)


def main() -> None:
    """Measure, print and write the results."""
    figures: dict[str, Figure] = {}
    with tempfile.TemporaryDirectory() as folder:
        for observation_size, horizon in CASES:
            found = measure(observation_size, horizon, Path(folder))
            figures |= found
            for name, entry in found.items():
                print(f"{name:<40} {entry.value:>12,.0f} ({entry.low:,.0f} to {entry.high:,.0f})")
    aims = [
        Aim("at least 1,000,000 windows a second in memory", name, AIM)
        for name in figures
        if name.startswith("sampler,") and "reused" not in name
    ]
    path = write_results("windows", "python benchmarks/windows.py", figures, aims)
    print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


if __name__ == "__main__":
    main()
