"""A small pretraining run that tests start in this process, and in one that kills itself."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch

from outrider.core.data.demonstrations import Demonstrations
from outrider.core.learning.pretrain import pretrain
from outrider.core.progress import Silent
from outrider.core.recipe import PretrainSection
from outrider.core.types import Field, Spec, TaskSpec
from outrider.policies.diffusion.config import DiffusionConfig
from outrider.policies.diffusion.policy import build

SECTION = PretrainSection(
    steps=60,
    batch=16,
    learning_rate=1e-2,
    warmup=5,
    checkpoint_every=15,
    log_every=10,
    threads=1,
)
CONFIG = DiffusionConfig(width=16, sampling_steps=2)
TASK = TaskSpec(
    task="test/bimodal",
    observation=Spec((Field("state", (3,)),)),
    action=Spec((Field("command", (2,), "", (-1.0, -1.0), (1.0, 1.0)),)),
    rate_hz=20,
    max_steps=50,
    ends_on_success=True,
    reward="none",
)


def demonstrations(episodes=4, length=12, seed=0):
    rng = np.random.default_rng(seed)
    steps = episodes * length
    state = rng.normal(size=(steps, 3)).astype(np.float32)
    side = np.repeat(rng.choice([-0.7, 0.7], episodes), length)[:, None]
    command = (side + 0.1 * state[:, :2]).astype(np.float32).clip(-1, 1)
    return Demonstrations(
        task=TASK,
        observation=state,
        action=command,
        reward=np.zeros(steps, np.float32),
        success=np.zeros(steps, np.bool_),
        ends=np.arange(1, episodes + 1) * length,
        final_observation=np.zeros((episodes, 3), np.float32),
        terminated=np.ones(episodes, np.bool_),
        truncated=np.zeros(episodes, np.bool_),
        seed=np.arange(episodes),
    )


def run(out: Path, *, resume=False, on_metrics=None, section=SECTION, data=None, seed=0, **other):
    """Pretrain into `out`; returns the policy."""
    policy = build(CONFIG, TASK)
    pretrain(
        policy,
        demonstrations() if data is None else data,
        section,
        seed=seed,
        out=out,
        reporter=Silent(),
        resume=resume,
        on_metrics=on_metrics,
        **other,
    )
    return policy


def kill_at(step):
    def on_metrics(at, _):
        if at == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_metrics


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), on_metrics=kill_at(int(sys.argv[2])))
