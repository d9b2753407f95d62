"""The quickstart, run and quoted: `python benchmarks/quickstart.py [RUN]`.

Runs the recipe `quickstart` in RUN (default runs/quickstart), or continues it, and writes
`benchmarks/results/quickstart.json` and the README's picture, `docs/images/quickstart.png`.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from common import Aim, Figure, write_results
from PIL import Image

from outrider.core.cli.app import run as outrider
from outrider.core.learning.logbook import read_metrics

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "quickstart.png"
GREY, BLUE = "#8a8f98", "#2563eb"
BUDGET_S = 720.0


def interval(value: dict[str, Any], unit: str) -> Figure:
    """A result with its interval as a figure."""
    return Figure(value["value"], value["low"], value["high"], unit, value["n"])


def one(value: float, unit: str) -> Figure:
    """A single measurement."""
    return Figure(value, value, value, unit, 1)


def figures(results: dict[str, Any]) -> dict[str, Figure]:
    """What the README quotes."""
    base, tuned = (interval(results[k]["success"], "") for k in ("base", "finetuned"))
    latency, control = results["latency_ms"], results["control"]
    return {
        "base_success": base,
        "finetuned_success": tuned,
        "difference": interval(results["comparison"]["success"]["difference"], ""),
        "gap_between_intervals": one(tuned.low - base.high, ""),
        "base_length": interval(results["base"]["length"], "steps"),
        "finetuned_length": interval(results["finetuned"]["length"], "steps"),
        "expert_success": interval(results["demonstrations"]["expert_success"], ""),
        "env_steps": one(results["finetuning"]["env_steps"], "steps"),
        "wall": one(results["wall_s"], "s"),
        "parity_error": one(results["parity"]["max_abs_error"], "normalised"),
        "inference_p50": one(latency["p50"], "ms"),
        "inference_p999": one(latency["p999"], "ms"),
        "deadline_misses": one(control["deadline_misses"], "ticks"),
        "ticks": one(control["ticks"], "ticks"),
    }


def draw(run: Path, results: dict[str, Any]) -> None:
    """Success before and after, the learning curve, and the last frames of a film."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (bars, curve, *films) = plt.subplots(
        1, 4, figsize=(13, 3), gridspec_kw={"width_ratios": [1, 1.7, 1.2, 1.2]}
    )
    for x, (label, colour) in enumerate((("base", GREY), ("finetuned", BLUE))):
        s = results[label]["success"]
        spread = [[s["value"] - s["low"]], [s["high"] - s["value"]]]
        bars.bar(x, s["value"], color=colour, width=0.6)
        bars.errorbar(x, s["value"], yerr=spread, color="black", capsize=4)
        bars.text(x, 0.03, f"{s['value']:.0%}", ha="center", color="white", weight="bold")
    bars.set(xticks=[0, 1], xticklabels=["pretrained", "finetuned"], ylim=(0, 1.05))
    bars.set_title(f"success, 95% interval, n={results['base']['success']['n']}", fontsize=9)
    rows = [r for r in read_metrics(run / "metrics.jsonl") if r["stage"] == "finetune"]
    rows = [r for r in rows if "collect/success" in r]
    curve.plot([r["step"] for r in rows], [r["collect/success"] for r in rows], color=BLUE)
    curve.set(ylim=(0, 1.05), xlabel="environment steps")
    curve.set_title("success of the last 40 training episodes", fontsize=9)
    for axis, label in zip(films, ("base", "finetuned"), strict=True):
        axis.imshow(last_frame(run, label))
        axis.set_axis_off()
        axis.set_title(f"{label}, same seed, last frame", fontsize=9)
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    Image.open(buffer).convert("RGB").quantize(128).save(PICTURE, optimize=True)


def last_frame(run: Path, label: str) -> np.ndarray:
    """The last frame of the first film of a policy."""
    film = Image.open(sorted((run / "films").glob(f"{label}-*.gif"))[0])
    film.seek(getattr(film, "n_frames", 1) - 1)
    return np.asarray(film.convert("RGB"))


def main() -> None:
    """Run, write, draw."""
    run = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/quickstart")
    status = outrider(["run", "quickstart", "--out", str(run), "--resume"])
    if status != 0:
        sys.exit(status)
    results = json.loads((run / "results.json").read_text())
    aims = [
        Aim(
            "finetuned success is above base success, the intervals apart",
            "gap_between_intervals",
            0.0,
        ),
        Aim("the run takes at most twelve minutes on two cores", "wall", BUDGET_S, at_least=False),
        Aim("no deadline is missed", "deadline_misses", 0.0, at_least=False),
    ]
    write_results("quickstart", "python benchmarks/quickstart.py", figures(results), aims)
    draw(run, results)


if __name__ == "__main__":
    main()
