"""Latency of a controller: the exported graph in ONNX Runtime against the eager torch loop.

    python benchmarks/controller_latency.py [--rounds 5000]

A 3x512 denoiser with 10 DDIM steps, observation 23, action 7, horizon 4, batch 1, one thread,
pinned to one core. The eager loop is what one writes first: at each step the network is called
with chunk, time embedding and observation concatenated, then the DDIM update. The rounds are
paired: in each one every variant is called once, in an order that rotates, so that all meet the
same load and the same caches. The floor is the time to read, once per DDIM step, the weights that
the graph reads in it, at the rate that a plain matrix-vector product of that size reaches.
"""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from common import Aim, Figure, figure, write_results
from torch import Tensor

from outrider.core.export.graph import cpu_session, export_graph, parameter_bytes
from outrider.core.types import Float
from outrider.policies.diffusion.config import DiffusionConfig
from outrider.policies.diffusion.policy import DiffusionPolicy
from outrider.policies.diffusion.sampler import ddim
from outrider.policies.diffusion.schedule import alpha_bars, cosine_betas

NAME = "controller_latency"
COMMAND = f"python benchmarks/{NAME}.py"
OBSERVATION, ACTION, HORIZON, WIDTH, STEPS = 23, 7, 4, 512, 10
CHUNK = HORIZON * ACTION
WARM_UP, TRAINING = 100, 300
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


def bound_call(session: Any, observation: Float, noise: Float) -> tuple[Callable[[], None], Float]:
    """A call that reads and writes the same buffers each time, and the buffer it writes."""
    action = np.empty((1, HORIZON, ACTION), np.float32)
    binding = session.io_binding()
    for name, array in (("observation", observation), ("noise", noise)):
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    binding.bind_output("action", "cpu", 0, np.float32, action.shape, action.ctypes.data)
    return lambda: session.run_with_iobinding(binding), action


def measure(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, np.ndarray]:
    """Milliseconds of each call, (rounds,), one call of each per round in rotating order."""
    names = list(calls)
    taken = {name: np.empty(WARM_UP + rounds) for name in names}
    for i in range(WARM_UP + rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            began = time.perf_counter()
            calls[name]()
            taken[name][i] = 1e3 * (time.perf_counter() - began)
    return {name: values[WARM_UP:] for name, values in taken.items()}


def quantile_figure(samples: np.ndarray, q: float) -> Figure:
    """A quantile with a distribution-free 95% interval: order statistics around its rank."""
    n, ordered = len(samples), np.sort(samples)
    half = 1.96 * np.sqrt(n * q * (1 - q))
    low, high = (int(np.clip(n * q + sign * half, 0, n - 1)) for sign in (-1, 1))
    return Figure(
        float(np.quantile(samples, q)), float(ordered[low]), float(ordered[high]), "ms", n
    )


def speedup(slow: np.ndarray, fast: np.ndarray) -> Figure:
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
    """GB/s at which one core reads a matrix of `size` bytes in a matrix-vector product."""
    matrix, vector = torch.ones(size // (4 * WIDTH), WIDTH), torch.ones(WIDTH)
    result, rates = torch.empty(len(matrix)), []
    for _ in range(500):
        began = time.perf_counter()
        torch.mv(matrix, vector, out=result)
        rates.append(matrix.nbytes / (time.perf_counter() - began) / 1e9)
    return figure(rates[100:], "GB/s")


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
    session, eager = cpu_session(graph), eager_loop(policy)
    feed = {"observation": observation.numpy(), "noise": noise.numpy()}
    bound, action = bound_call(session, feed["observation"], feed["noise"])

    def folded() -> Tensor:
        with torch.inference_mode():
            return policy(observation, noise)

    bound()
    if not np.array_equal(action, session.run(None, feed)[0]):
        raise AssertionError("the bound call and the plain call differ")
    expected = eager(observations, noises).numpy()
    many = session.run(None, {"observation": observations.numpy(), "noise": noises.numpy()})[0]
    error = float(np.abs(many - expected).max())
    taken = measure(
        {
            "eager": lambda: eager(observation, noise),
            "torch_folded": folded,
            "onnx_run": lambda: session.run(None, feed),
            "onnx_bound": bound,
        },
        rounds,
    )
    per_step = 4 * (WIDTH * WIDTH + 2 * CHUNK * WIDTH + CHUNK * CHUNK + 2 * WIDTH + CHUNK)
    rate = read_rate(per_step)
    figures = {
        f"{name}_{label}": quantile_figure(values, q)
        for name, values in taken.items()
        for label, q in QUANTILES.items()
    }
    figures |= {
        f"speedup_{name}_p50": speedup(taken["eager"], taken[name])
        for name in ("torch_folded", "onnx_run", "onnx_bound")
    }
    floor = [1e3 * STEPS * per_step / (1e9 * r) for r in (rate.value, rate.high, rate.low)]
    exact = {
        "max_abs_error_of_100_chunks": (error, "normalised units"),
        "graph_weights": (parameter_bytes(graph) / 1e6, "MB"),
        "weights_read_per_inference": (STEPS * per_step / 1e6, "MB"),
    }
    figures |= {name: Figure(value, value, value, unit, 1) for name, (value, unit) in exact.items()}
    figures |= {"read_rate": rate, "floor": Figure(*floor, "ms", rate.n)}
    aims = [
        Aim("the exported controller is 4 times faster than eager torch", f"speedup_{name}_p50", 4)
        for name in ("onnx_run", "onnx_bound")
    ]
    path = write_results(NAME, COMMAND, figures, aims)
    for name, entry in figures.items():
        print(f"{name:28} {entry.value:10.4g} [{entry.low:.4g}, {entry.high:.4g}] {entry.unit}")
    print(path)


if __name__ == "__main__":
    main()
