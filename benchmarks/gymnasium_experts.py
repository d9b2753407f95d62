"""Search for the linear gaits of the gymnasium experts, by augmented random search.

    python benchmarks/gymnasium_experts.py hopper [--seeds 0 1] [--state FOLDER]

The search is the V2-t of Mania, Guy and Recht, "Simple random search of static linear policies is
competitive for reinforcement learning" (2018), with settings close to theirs: both signs of N
random directions are played, the t best directions move the weights, observations are normalised
by what was met so far. It stops at the first weights whose mean return reaches the target: a medium
gait, since demonstrations should leave something to learn. The result is
`robots/gymnasium/experts/NAME.json`.

One core, no torch. Progress is saved every CHECK_EVERY iterations in `--state`; the same command
goes on from there, and finds what an uninterrupted search finds.
"""

import argparse
import json
import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core import seeds
from outrider.core.config import NoConfig
from outrider.core.errors import OutriderError
from outrider.core.evaluation.statistics import Interval, bootstrap_mean
from outrider.core.files import read_json, write_json, write_text
from outrider.core.simulation.types import Simulator
from outrider.robots.gymnasium.expert import EXPERTS, GaitFile, LinearPolicy
from outrider.robots.gymnasium.plugin import build

Array = npt.NDArray[np.float64]

CHECK_EVERY = 10  # iterations
CHECK_EPISODES = 10
EPISODES = 50  # of the final evaluation
FIRST_SEED = 3_000_000  # of the final evaluation; apart from the seeds of the search
STEPS = 1000  # per episode
DIGITS = 9  # of a number in the file


@dataclass(frozen=True, slots=True)
class Setting:
    """How a task is searched.

    Attributes:
        directions: N, played with both signs in every iteration.
        top: t, how many of them move the weights.
        step_size: alpha.
        noise: nu, standard deviation of a direction's elements.
        bonus: reward for staying upright, left out of the search: standing still earns it too.
        target: mean return, bonus included, at which the search ends.
    """

    directions: int
    top: int
    step_size: float
    noise: float
    bonus: float
    target: float


SETTINGS = {
    "hopper": Setting(8, 4, 0.01, 0.025, bonus=1.0, target=1300.0),
    "walker2d": Setting(16, 8, 0.03, 0.025, bonus=1.0, target=1500.0),
    "halfcheetah": Setting(16, 4, 0.02, 0.03, bonus=0.0, target=1800.0),
}


@dataclass(slots=True)
class Moments:
    """Running mean and spread of observations (O,), by Welford's sums.

    Attributes:
        count: observations so far.
        mean: (O,).
        squares: (O,), sum of squared distances from the mean.
    """

    count: int
    mean: Array
    squares: Array

    def add(self, batch: Array) -> None:
        """Take in observations (T, O)."""
        n, mean = len(batch), batch.mean(axis=0)
        total, shift = self.count + n, mean - self.mean
        self.squares += ((batch - mean) ** 2).sum(axis=0) + shift**2 * self.count * n / total
        self.mean += shift * n / total
        self.count = total

    @property
    def std(self) -> Array:
        """(O,); 1 where nothing varied yet."""
        std = np.sqrt(self.squares / max(self.count - 1, 1))
        return np.where(std < 1e-7, 1.0, std)


@dataclass(slots=True)
class Search:
    """Where a search stands.

    Attributes:
        iteration: updates done.
        steps: control steps played by the search, checks not counted.
        weights: (A, O).
        moments: of the observations.
        curve: [iteration, steps, mean return] of each check.
    """

    iteration: int
    steps: int
    weights: Array
    moments: Moments
    curve: list[list[float]] = field(default_factory=list)

    @property
    def policy(self) -> LinearPolicy:
        """What the weights do now."""
        return self.perturbed(np.zeros_like(self.weights))

    def perturbed(self, change: Array) -> LinearPolicy:
        """The policy with other weights."""
        return LinearPolicy(self.weights + change, self.moments.mean, self.moments.std)

    def to_json(self) -> dict[str, Any]:
        """Everything that going on needs; Python writes floats exactly."""
        return {
            "iteration": self.iteration,
            "steps": self.steps,
            "weights": self.weights.tolist(),
            "count": self.moments.count,
            "mean": self.moments.mean.tolist(),
            "squares": self.moments.squares.tolist(),
            "curve": self.curve,
        }


def fresh(simulator: Simulator) -> Search:
    """A search that has not begun: all weights are zero."""
    O, A = simulator.spec.observation.size, simulator.spec.action.size  # noqa: E741
    return Search(0, 0, np.zeros((A, O)), Moments(0, np.zeros(O), np.zeros(O)))


def load(state: Path, setting: Setting) -> Search:
    """A search that was interrupted; its target may have changed meanwhile.

    Raises:
        OutriderError: when it was made with other settings.
    """
    saved = read_json(state)
    if saved["setting"] | {"target": setting.target} != asdict(setting):
        raise OutriderError("was searched with other settings", where=str(state), fix="Remove it.")
    mean, squares = np.array(saved["mean"]), np.array(saved["squares"])
    return Search(
        saved["iteration"],
        saved["steps"],
        np.array(saved["weights"]),
        Moments(saved["count"], mean, squares),
        saved["curve"],
    )


def play(simulator: Simulator, policy: LinearPolicy, seed: int) -> tuple[float, Array]:
    """One episode: its return, and the observations before each action (T, O)."""
    observation = simulator.reset(seed)
    seen, total = [], 0.0
    for _ in range(STEPS):
        seen.append(observation)
        action = np.clip(policy(observation), -1.0, 1.0).astype(np.float32)
        step = simulator.step(action)
        observation, total = step.observation, total + step.reward
        if step.terminated:
            break
    return total, np.array(seen, np.float64)


def iterate(simulator: Simulator, search: Search, setting: Setting, seed: int) -> None:
    """One update of the weights. All of its draws depend on the seed and its number alone."""
    rng = seeds.generator(seed, "ars", search.iteration)
    directions = rng.standard_normal((setting.directions, *search.weights.shape))
    resets = rng.integers(2**31, size=setting.directions)
    scores = np.zeros((setting.directions, 2))
    met = []
    for i, direction in enumerate(directions):
        for j, sign in enumerate((1.0, -1.0)):
            policy = search.perturbed(sign * setting.noise * direction)
            total, seen = play(simulator, policy, int(resets[i]))
            scores[i, j] = total - setting.bonus * len(seen)
            met.append(seen)
    best = np.argsort(-scores.max(axis=1))[: setting.top]
    spread = scores[best].std()
    if spread > 0:
        gain = scores[best, 0] - scores[best, 1]
        move = np.tensordot(gain, directions[best], axes=1)
        search.weights = search.weights + setting.step_size / (setting.top * spread) * move
    for seen in met:
        search.moments.add(seen)
        search.steps += len(seen)
    search.iteration += 1


def evaluate(simulator: Simulator, policy: LinearPolicy, resets: Sequence[int]) -> Array:
    """Return and length of each episode, (n, 2)."""
    played = [play(simulator, policy, seed) for seed in resets]
    return np.array([[total, len(seen)] for total, seen in played])


def find_gait(
    simulator: Simulator, setting: Setting, seed: int, state: Path, limit: int
) -> Search | None:
    """Search until the target is reached; None when `limit` steps were not enough."""
    search = load(state, setting) if state.exists() else fresh(simulator)
    start = time.monotonic()
    while not (search.curve and search.curve[-1][2] >= setting.target):
        if search.steps >= limit:
            return None
        for _ in range(CHECK_EVERY):
            iterate(simulator, search, setting, seed)
        resets = [seeds.integer(seed, "check", i) for i in range(CHECK_EPISODES)]
        returns, lengths = evaluate(simulator, search.policy, resets).mean(axis=0)
        search.curve.append([search.iteration, search.steps, float(returns)])
        write_json(state, {"setting": asdict(setting), **search.to_json()})
        print(
            f"seed {seed}: iteration {search.iteration}, {search.steps} steps, return "
            f"{returns:.0f}, length {lengths:.0f}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    return search


def gait_json(simulator: Simulator, search: Search, seed: int) -> dict[str, Any]:
    """A gait as it stands in the file, evaluated with the rounded numbers of the file."""
    weights, mean, std = (
        np.array([float(f"{x:.{DIGITS}g}") for x in a.flat]).reshape(a.shape)
        for a in (search.weights, search.moments.mean, search.moments.std)
    )
    resets = range(FIRST_SEED, FIRST_SEED + EPISODES)
    outcome = evaluate(simulator, LinearPolicy(weights, mean, std), resets)
    returns, lengths = (_rounded(bootstrap_mean(o, np.random.default_rng(0))) for o in outcome.T)
    return {
        "seed": seed,
        "search_steps": search.steps,
        "returns": returns,
        "lengths": lengths,
        "first_seed": FIRST_SEED,
        "mean": mean.tolist(),
        "std": std.tolist(),
        "weights": weights.tolist(),
    }


def _rounded(interval: Interval) -> dict[str, Any]:
    return {k: round(v, 1) if k != "n" else v for k, v in interval.to_json().items()}


def readable(content: dict[str, Any]) -> str:
    """JSON with every row of numbers on one line."""
    text = json.dumps(content, indent=1, allow_nan=False)
    return re.sub(r"\[([^\[\]{}]*)\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


def main() -> None:
    """Search, evaluate, write the gaits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--limit", type=int, default=3_000_000, help="control steps per seed")
    parser.add_argument("--state", type=Path, default=Path("runs/gymnasium_experts"))
    given = parser.parse_args()

    given.state.mkdir(parents=True, exist_ok=True)
    gaits = []
    with closing(build(given.task, NoConfig())) as simulator:
        for seed in given.seeds:
            state = given.state / f"{given.task}-{seed}.json"
            search = find_gait(simulator, SETTINGS[given.task], seed, state, given.limit)
            if search is None:
                print(f"seed {seed}: not reached within {given.limit} steps, left out")
                continue
            gaits.append(gait_json(simulator, search, seed))
            print(f"seed {seed}: {gaits[-1]['returns']}, length {gaits[-1]['lengths']}")
    chosen = " ".join(map(str, given.seeds))
    content = {
        "task": f"gymnasium/{given.task}",
        "command": f"python benchmarks/gymnasium_experts.py {given.task} --seeds {chosen}",
        "gaits": gaits,
    }
    GaitFile.model_validate(content)  # refuses an empty list before anything is written
    path = EXPERTS / f"{given.task}.json"
    write_text(path, readable(content))
    print(path)


if __name__ == "__main__":
    main()
