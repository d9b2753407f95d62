"""Control steps per second of the simulated robots, and of robosuite's against plain robosuite.

    python benchmarks/simulator_speed.py [--rounds 15] [--steps 60]

The rounds are paired: in each one, every robosuite task is stepped by us, by plain robosuite and
by the bare physics, one after the other, from the same reset seed and with the same actions. Both
have robosuite's own physics timestep (2 ms, 25 physics steps at 20 Hz), soft resets, no camera and
no renderer. The bare physics is 25 calls of `mj_step` with the arm held where it is: about what is
left when a controller costs nothing (contacts differ, so the share is no exact bound). Rates are
per second of processor time (one thread), because other work on the machine cannot change that
much; resets are not counted.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from common import Aim, Figure, figure, write_results

from outrider.core.config import NoConfig
from outrider.core.simulation.types import Simulator
from outrider.core.types import Float
from outrider.robots.dm_control.plugin import build as build_dm_control
from outrider.robots.gymnasium.plugin import build as build_gymnasium
from outrider.robots.robosuite.config import RobosuiteConfig
from outrider.robots.robosuite.library import make_environment, reset_environment
from outrider.robots.robosuite.simulator import RobosuiteSimulator
from outrider.robots.robosuite.tasks import TASKS

NAME = "simulator_speed"
COMMAND = f"python benchmarks/{NAME}.py"
UNIT = "control steps per CPU-second"
SUBSTEPS = 25
WARM_UP = 5
FACTOR = 3.0
OTHERS: dict[str, Callable[[], Simulator]] = {
    "gymnasium/hopper": lambda: build_gymnasium("hopper", NoConfig()),
    "gymnasium/walker2d": lambda: build_gymnasium("walker2d", NoConfig()),
    "gymnasium/halfcheetah": lambda: build_gymnasium("halfcheetah", NoConfig()),
    "dm_control/cheetah-run": lambda: build_dm_control("cheetah-run", NoConfig()),
    "dm_control/humanoid-walk": lambda: build_dm_control("humanoid-walk", NoConfig()),
}


def rate(step: Callable[[Any], object], actions: Float) -> float:
    """Steps per second of processor time."""
    start = time.process_time()
    for action in actions:
        step(action)
    return len(actions) / (time.process_time() - start)


def draw_actions(sim: Simulator, steps: int, seed: int) -> Float:
    """Uniform over half of the action range."""
    low, high = sim.spec.action.low, sim.spec.action.high
    unit = np.random.default_rng(seed).uniform(-0.5, 0.5, (steps, sim.spec.action.size))
    return ((low + high) / 2 + unit * (high - low) / 2).astype(np.float32)


def bare_physics(sim: RobosuiteSimulator) -> Callable[[Any], None]:
    """The physics steps of one control step, and nothing else; the motors carry the arm."""
    sim.data.ctrl[:7] = sim.data.qfrc_bias[:7]

    def step(action: Any) -> None:
        for _ in range(SUBSTEPS):
            mujoco.mj_step(sim.model, sim.data)

    return step


class RobosuitePair:
    """Our simulator of a task and plain robosuite, built alike."""

    def __init__(self, name: str) -> None:
        self.ours = RobosuiteSimulator(name, RobosuiteConfig())
        self.plain = make_environment(TASKS[name].environment, RobosuiteConfig().build_seed)
        self.rates: dict[str, list[float]] = {"ours": [], "plain": [], "physics": []}

    def measure(self, steps: int, seed: int) -> None:
        """One round; who goes first alternates."""
        actions = draw_actions(self.ours, steps + WARM_UP, seed)
        for who in ("ours", "plain") if seed % 2 else ("plain", "ours"):
            if who == "ours":
                self.ours.reset(seed)
                step = self.ours.step
            else:
                reset_environment(self.plain, seed)
                step = self.plain.step
            rate(step, actions[:WARM_UP])
            self.rates[who].append(rate(step, actions[WARM_UP:]))
        self.ours.reset(seed)
        self.rates["physics"].append(rate(bare_physics(self.ours), actions[WARM_UP:]))

    def figures(self, name: str) -> dict[str, Figure]:
        """Rates, the paired ratio, and the share of our time that is MuJoCo's."""
        ours, plain, physics = (np.array(self.rates[who]) for who in ("ours", "plain", "physics"))
        return {
            f"robosuite/{name}": figure(ours, UNIT),
            f"robosuite/{name} plain": figure(plain, UNIT),
            f"robosuite/{name} bare physics": figure(physics, UNIT),
            f"robosuite/{name} ours over plain": figure(ours / plain, ""),
            f"robosuite/{name} share of bare physics": figure(ours / physics, ""),
        }


def measure_other(build: Callable[[], Simulator], rounds: int, steps: int) -> Figure:
    """Rate of a simulator, reset when its task ends."""
    sim, rates = build(), []

    def step(action: Any) -> None:
        if sim.step(action).terminated:
            sim.reset(0)

    for seed in range(rounds):
        sim.reset(seed)
        rates.append(rate(step, draw_actions(sim, 10 * steps, seed)))
    sim.close()
    return figure(rates, UNIT)


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()

    pairs = {name: RobosuitePair(name) for name in TASKS}
    for seed in range(arguments.rounds):
        for pair in pairs.values():
            pair.measure(arguments.steps, seed)
    figures: dict[str, Figure] = {}
    for name, pair in pairs.items():
        figures |= pair.figures(name)
    for name, build in OTHERS.items():
        figures[name] = measure_other(build, arguments.rounds, arguments.steps)
    aims = [
        Aim(
            f"{name}: at least {FACTOR:g} times as many steps per second as plain robosuite",
            f"robosuite/{name} ours over plain",
            FACTOR,
        )
        for name in TASKS
    ]
    for label, entry in figures.items():
        spread = f"{entry.low:.4g} to {entry.high:.4g}"
        print(f"{label:44s} {entry.value:10.4g} {entry.unit} ({spread}, n={entry.n})")
    print(write_results(NAME, COMMAND, figures, aims))


if __name__ == "__main__":
    main()
