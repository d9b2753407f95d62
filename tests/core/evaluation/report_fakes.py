"""A run folder as a whole run leaves it behind, made in a second."""

import io
import json
from pathlib import Path

import numpy as np
from evaluation_fakes import FakeSimulator, fleet_of, seek

from outrider.core import seeds
from outrider.core.evaluation.films import film
from outrider.core.evaluation.rollout import evaluate
from outrider.core.evaluation.storage import save_evaluation, save_film, save_section
from outrider.core.evaluation.table import compare
from outrider.core.files import write_json, write_text
from outrider.core.host.objects import Finding, ReportSection

CONFIG = """\
seed: 0
task:
  name: fake/push
  max_steps: 30
policy:
  use: diffusion
  denoising_steps: 10
finetune:
  algorithm:
    use: dsrl-na
  env_steps: 20000
plugins:
  df-expense: {}
"""


def png(width: int = 320, height: int = 200) -> bytes:
    from PIL import Image

    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    pixels = np.stack([255 * x, 255 * y, 255 * (1 - x)], axis=-1).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def metrics() -> str:
    rng, lines = np.random.default_rng(0), []
    for step in range(100, 3001, 100):
        loss = 0.9 * np.exp(-step / 500) + 0.004 * (1 + 0.2 * rng.normal())
        lines.append({"stage": "pretrain", "step": step, "loss": loss, "grad_norm": 3 * loss})
    for step in range(400, 20001, 400):
        rise = 1 / (1 + np.exp(-(step - 9000) / 2000))
        lines.append(
            {
                "stage": "finetune",
                "step": step,
                "collect/success": float(np.clip(0.3 + 0.6 * rise + 0.05 * rng.normal(), 0, 1)),
                "collect/return": -40 + 25 * rise + rng.normal(),
                "collect/length": 28 - 12 * rise + rng.normal(),
                "critic_action/loss": 0.3 * np.exp(-step / 8000) + 0.02 * abs(rng.normal()),
                "critic_noise/loss": 0.2 * np.exp(-step / 6000) + 0.02 * abs(rng.normal()),
                "critic_action/q_mean": -10 + 6 * rise,
                "actor/entropy": 4 - 3 * rise + 0.1 * rng.normal(),
                "df-expense/spread": 2 - 1.2 * rise + 0.1 * rng.normal(),
                "speed/env_steps_per_s": 120 + 10 * rng.normal(),
                "speed/updates_per_s": 310 + 20 * rng.normal(),
                "replay/size": step / 4,
            }
        )
    return "".join(json.dumps(line) + "\n" for line in lines)


def pretrained_run(run: Path) -> Path:
    """A run that stopped after pretraining."""
    write_text(run / "config.yaml", CONFIG)
    write_text(run / "metrics.jsonl", metrics().split('{"stage": "finetune"')[0])
    return run


def whole_run(run: Path, episodes: int = 20) -> Path:
    """A run that went the whole road."""
    write_text(run / "config.yaml", CONFIG)
    write_text(run / "metrics.jsonl", metrics())
    policies = {"base": seek(0.18, 0.7), "finetuned": seek(0.6, 0.15)}
    tables = {
        label: evaluate(act, fleet_of(4), 8, 4, range(1008, 1008 + episodes), noise_seed=3)
        for label, act in policies.items()
    }
    for label, table in tables.items():
        save_evaluation(run, label, table)
        save_film(run, label, film(FakeSimulator(), table.episodes[0]))
    save_section(run, "aqm", "finetuned", section())
    write_json(run / "results.json", results(tables))
    return run


def section() -> ReportSection:
    return ReportSection(
        title="Motion quality",
        text="Velocity and contact checks of every episode.",
        numbers={"peak_velocity": 1.73, "share_inside_limits": 0.982},
        tables={"Worst episodes": (("seed", "peak (m/s)", "verdict"), ((1013, 1.73, "look"),))},
        figures={"Speed against position": png()},
        findings=(Finding("seed 1013, step 12", "speed above the limit", 1.73, 1.5),),
    )


def results(tables) -> dict:
    compared = compare(tables["base"], tables["finetuned"], seeds.generator(0))
    return {
        "base": tables["base"].summary(),
        "finetuned": tables["finetuned"].summary(),
        "comparison": compared.to_json(),
        "demonstrations": {
            "episodes": 40,
            "steps": 4312,
            "expert_success": {"value": 0.87, "low": 0.74, "high": 0.94, "n": 46},
            "source": "scripted expert",
        },
        "parity": {"max_abs_error": 3.4e-7, "n": 256, "provider": "CPUExecutionProvider"},
        "latency_ms": {"p50": 1.31, "p99": 2.04, "p999": 2.9, "max": 3.6, "cold": 41.0},
        "control": {
            "ticks": 600,
            "deadline_misses": 1,
            "provider": "CPUExecutionProvider",
            "success": {"value": 1.0, "low": 0.44, "high": 1.0, "n": 3},
        },
        "plugins": [
            {
                "name": "df-expense",
                "version": "0.1.0",
                "distribution": "outrider",
                "hooks": ["explorer"],
                "state": "ready",
                "seconds": {"explorer.choose": 12.4},
            },
            {
                "name": "noisy-notices",
                "version": "2.0",
                "distribution": "somebody-else",
                "hooks": ["episode_finished"],
                "state": "switched off",
                "reason": "episode_finished raised KeyError: 'x'",
                "seconds": {"episode_finished": 0.003},
            },
        ],
        "stages_s": {"demos": 61.0, "pretrain": 92.5, "finetune": 410.0, "evaluate": 75.0},
        "wall_s": 655.2,
        "versions": {"outrider": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "mujoco": "3.8.1"},
    }
