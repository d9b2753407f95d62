"""Latency of a controller: the exported graph in ONNX Runtime against the eager torch loop.

    python benchmarks/controller_latency.py [--rounds 5000]

A 3x512 denoiser with 10 DDIM steps, observation 23, action 7, horizon 4, batch 1, one thread,
pinned to one core. The eager loop is what one writes first: at each step the network is called
with chunk, time embedding and observation concatenated, then the DDIM update. The rounds are
paired: in each one every variant is called once, in an order that rotates, so that all meet the
same load and the same caches.

Quantiles are of wall time, as a robot feels it; on a busy machine their tail is the scheduler's.
Speed-ups compare the CPU time of the thread, since being interrupted falls on the slow variant
more often and would flatter the fast one. The floor is the time to read, once per DDIM step, the
weights that the graph reads in it, at the rate at which this core reads a block of that size.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from common import Aim, Figure, figure, write_results
from torch import Tensor

from outrider.core.bundle.session import Session
from outrider.core.export.graph import export_graph, parameter_bytes
from outrider.policies.diffusion.config import DiffusionConfig
from outrider.policies.diffusion.policy import DiffusionPolicy
from outrider.policies.diffusion.sampler import ddim
from outrider.policies.diffusion.schedule import alpha_bars, cosine_betas

Samples = npt.NDArray[np.float64]

NAME = "controller_latency"
COMMAND = f"python benchmarks/{NAME}.py"
OBSERVATION, ACTION, HORIZON, WIDTH, STEPS = 23, 7, 4, 512, 10
CHUNK = HORIZON * ACTION
WARM_UP, TRAINING = 100, 300
READ = """
import json, time, numpy as np
one, two, taken = np.ones({floats}, np.float32), np.ones({floats}, np.float32), []
for _ in range(2000):
    began = time.thread_time()
    np.dot(one, two)
    taken.append(time.thread_time() - began)
print(json.dumps(taken[500:]))
"""
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def make_policy() -> DiffusionPolicy:
    """The policy, trained for a moment: with random weights every action would be at its limit,
    and equal outputs would prove nothing.
    """
    config = DiffusionConfig(horizon=HORIZON, width=WIDTH, depth=3, sampling_steps=STEPS)
    limit = np.ones(ACTION, np.float32)
    policy = DiffusionPolicy(config, OBSERVATION, -limit, limit)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    mixing = torch.randn(OBSERVATION, CHUNK, generator=generator) / OBSERVATION**0.5
    valid = torch.ones(128, HORIZON, dtype=torch.bool)
    for _ in range(TRAINING):
        observation = torch.randn(128, OBSERVATION, generator=generator)
        chunk = torch.tanh(observation @ mixing).view(-1, HORIZON, ACTION)
        optimizer.zero_grad()
        policy.loss(observation, chunk, valid, generator).backward()
        optimizer.step()
    return policy.eval().requires_grad_(False)


def eager_loop(policy: DiffusionPolicy) -> Callable[[Tensor, Tensor], Tensor]:
    """The straightforward loop."""
    config = policy.config
    bars = alpha_bars(cosine_betas(config.denoising_steps, config.cosine_offset))

    def act(observation: Tensor, noise: Tensor) -> Tensor:
        with torch.inference_mode():
            normalized = policy.normalize_observation(observation)

            def denoise(z: Tensor, t: int) -> Tensor:
                return policy.network(z, torch.full((len(z),), t), normalized)

            clean = ddim(denoise, noise.flatten(1), bars, policy.timesteps, "epsilon", True)
            return policy.denormalize_action(clean.view(noise.shape))

    return act


@dataclass(frozen=True)
class Times:
    """Milliseconds of each round, (rounds,)."""

    wall: Samples
    cpu: Samples


def measure(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Times]:
    """One call of each per round, in rotating order."""
    names = list(calls)
    taken = {name: np.empty((2, WARM_UP + rounds)) for name in names}
    for i in range(WARM_UP + rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            began = time.perf_counter(), time.thread_time()
            calls[name]()
            ended = time.perf_counter(), time.thread_time()
            taken[name][:, i] = [1e3 * (b - a) for a, b in zip(began, ended, strict=True)]
    return {name: Times(*values[:, WARM_UP:]) for name, values in taken.items()}


def quantile_figure(samples: Samples, q: float) -> Figure:
    """A quantile with a distribution-free 95% interval: order statistics around its rank."""
    n, ordered = len(samples), np.sort(samples)
    half = 1.96 * np.sqrt(n * q * (1 - q))
    low, high = (int(np.clip(n * q + sign * half, 0, n - 1)) for sign in (-1, 1))
    return Figure(
        float(np.quantile(samples, q)), float(ordered[low]), float(ordered[high]), "ms", n
    )


def speedup(slow: Samples, fast: Samples) -> Figure:
    """Ratio of medians, with a 95% interval by a bootstrap over blocks of 50 paired rounds."""
    rng, blocks = np.random.default_rng(0), len(slow) // 50
    pairs = np.stack([slow, fast])[:, : blocks * 50].reshape(2, blocks, 50)
    drawn = [
        np.median(pairs[:, rng.integers(blocks, size=blocks)], axis=(1, 2)) for _ in range(500)
    ]
    ratios = [a / b for a, b in drawn]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Figure(float(np.median(slow) / np.median(fast)), float(low), float(high), "", len(slow))


def read_rate(size: int) -> Figure:
    """GB/s of CPU time at which one core reads a block of `size` bytes again and again.

    In a process of its own, because the number of threads of numpy's dot product is fixed when
    numpy is imported.
    """
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    code = READ.format(floats=size // 8)
    out = subprocess.run(
        [sys.executable, "-c", code], env=alone, check=True, capture_output=True, text=True
    )
    seconds = np.array(json.loads(out.stdout))
    return figure(list(size / seconds / 1e9), "GB/s")


def figures_of(taken: Mapping[str, Times], error: float, weights: int) -> dict[str, Figure]:
    """All figures, from the times of each variant, the largest error and the graph's bytes."""
    figures = {
        f"{name}_{label}": quantile_figure(times.wall, q)
        for name, times in taken.items()
        for label, q in QUANTILES.items()
    }
    figures |= {f"{name}_cpu_p50": quantile_figure(t.cpu, 0.5) for name, t in taken.items()}
    figures |= {
        f"speedup_{name}": speedup(taken["eager"].cpu, taken[name].cpu)
        for name in ("torch_folded", "onnx_run", "onnx_bound")
    }
    per_step = 4 * (WIDTH * WIDTH + 2 * CHUNK * WIDTH + CHUNK * CHUNK + 2 * WIDTH + CHUNK)
    rate = read_rate(per_step)
    floor = [1e3 * STEPS * per_step / (1e9 * r) for r in (rate.value, rate.high, rate.low)]
    figures |= {"read_rate": rate, "floor": Figure(*floor, "ms", rate.n)}
    exact = {
        "max_abs_error_of_100_chunks": (error, "normalised units"),
        "graph_weights": (weights / 1e6, "MB"),
        "weights_read_per_inference": (STEPS * per_step / 1e6, "MB"),
    }
    figures |= {name: Figure(value, value, value, unit, 1) for name, (value, unit) in exact.items()}
    return figures


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5000)
    rounds = parser.parse_args().rounds
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)

    policy = make_policy()
    generator = torch.Generator().manual_seed(0)
    observations = torch.randn(100, OBSERVATION, generator=generator)
    noises = torch.randn(100, HORIZON, ACTION, generator=generator)
    observation, noise = observations[:1], noises[:1]
    graph = export_graph(policy, {})
    session, eager = Session(graph), eager_loop(policy)
    session.bind(OBSERVATION, (HORIZON, ACTION), (HORIZON, ACTION))
    one_observation, one_noise = observation.numpy(), noise.numpy()

    def folded() -> Tensor:
        with torch.inference_mode():
            return policy(observation, noise)

    expected = eager(observations, noises).numpy()
    error = float(np.abs(session.act(observations.numpy(), noises.numpy()) - expected).max())
    calls = {
        "eager": lambda: eager(observation, noise),
        "torch_folded": folded,
        "onnx_run": lambda: session.act(one_observation, one_noise),
        "onnx_bound": lambda: session.infer(one_observation[0], one_noise[0]),
    }
    figures = figures_of(measure(calls, rounds), error, parameter_bytes(graph))
    aims = [
        Aim("the exported controller is 4 times faster than eager torch", f"speedup_{name}", 4)
        for name in ("onnx_run", "onnx_bound")
    ]
    path = write_results(NAME, COMMAND, figures, aims)
    for name, entry in figures.items():
        print(f"{name:28} {entry.value:10.4g} [{entry.low:.4g}, {entry.high:.4g}] {entry.unit}")
    print(path)


if __name__ == "__main__":
    main()
