"""Gradient updates per second of DSRL-NA, against plain matrix products of the same shapes.

An ensemble of critics is bound by arithmetic on a CPU. So the figure that matters is how much of
an update's time the bare matrix products of the same shapes would take: the rest is overhead.
Both are timed in turn, on one thread: python benchmarks/dsrl_updates.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import Aim, figure, write_results
from torch.utils._python_dispatch import TorchDispatchMode

from outrider.core.host.objects import FinetuneContext
from outrider.core.learning.allocator import keep_freed_memory
from outrider.core.learning.types import Batch, Hooks
from outrider.core.types import Field, Spec, TaskSpec
from outrider.policies.diffusion.config import DiffusionConfig
from outrider.policies.diffusion.policy import build
from outrider.policies.steering.config import NoiseAliasedConfig
from outrider.policies.steering.noise_aliased import NoiseAliased

OBSERVATION, ACTION, BATCH = 23, 7, 256
ROUNDS = 25
aten = torch.ops.aten
PRODUCTS = {aten.mm.default: (0, 1), aten.bmm.default: (0, 1)}
PRODUCTS |= {aten.addmm.default: (1, 2), aten.baddbmm.default: (1, 2)}

TASK = TaskSpec(
    "benchmark/can",
    Spec((Field("state", (OBSERVATION,)),)),
    Spec((Field("command", (ACTION,), "", (-1.0,) * ACTION, (1.0,) * ACTION),)),
    rate_hz=20.0,
    max_steps=300,
    ends_on_success=True,
    reward="none",
)


class RecordProducts(TorchDispatchMode):
    """Keeps the operands of every matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.operands: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Record, then run."""
        if func in PRODUCTS:
            a, b = (args[i] for i in PRODUCTS[func])
            self.operands.append((a.detach(), b.detach()))
        return func(*args, **(kwargs or {}))


def learner(denoiser: int) -> NoiseAliased:
    """DSRL-NA as in the issue's aim: K = 10, width 256, eight DDIM steps of a 3x512 denoiser."""
    base = build(DiffusionConfig(width=denoiser, sampling_steps=8), TASK)
    rng = np.random.default_rng(0)
    base.fit_normalizer(
        rng.normal(size=(500, OBSERVATION)).astype(np.float32),
        rng.uniform(-1, 1, (500, ACTION)).astype(np.float32),
    )
    config = NoiseAliasedConfig(critics=10, width=256)
    return NoiseAliased(
        config, FinetuneContext(base, TASK, Hooks(), torch.Generator().manual_seed(0))
    )


def batch() -> Batch:
    """Random transitions."""
    g = torch.Generator().manual_seed(1)
    return Batch(
        observation=torch.randn(BATCH, OBSERVATION, generator=g),
        decision=torch.rand(BATCH, 4 * ACTION, generator=g) * 2 - 1,
        reward=torch.randn(BATCH, generator=g),
        bootstrap=torch.full((BATCH,), 0.99),
        next_observation=torch.randn(BATCH, OBSERVATION, generator=g),
    )


def plain_products(operands: list[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None]:
    """The same products with the same strides, into buffers that are there already."""
    buffers = [torch.matmul(a, b) for a, b in operands]

    def run() -> None:
        with torch.no_grad():
            for (a, b), out in zip(operands, buffers, strict=True):
                torch.matmul(a, b, out=out)

    return run


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Measure and write `results/dsrl_updates.json`."""
    torch.set_num_threads(1)
    keep_freed_memory()
    subject, data = learner(512), batch()

    def update() -> None:
        subject.update(lambda: data, "learn")

    for _ in range(3):
        update()
    with RecordProducts() as recorded:
        update()
    products = plain_products(recorded.operands)
    products()
    flops = sum(2 * a.numel() * b.shape[-1] for a, b in recorded.operands)
    pairs = [(seconds(update), seconds(products)) for _ in range(ROUNDS)]
    whole, bare = np.array(pairs).T
    figures = {
        "updates_per_s": figure(1 / whole, "1/s"),
        "plain_products_per_s": figure(1 / bare, "1/s"),
        "share_of_plain_rate": figure(bare / whole, "ratio"),
        "update_gflop": figure(np.array([flops / 1e9]), "GFLOP"),
        "update_rate": figure(flops / whole / 1e9, "GFLOP/s"),
    }
    aim = Aim(
        "an update reaches half the rate of plain products of the same shapes",
        "share_of_plain_rate",
        0.5,
    )
    write_results("dsrl_updates", "python benchmarks/dsrl_updates.py", figures, [aim])


if __name__ == "__main__":
    main()
