"""A robot that walks at random by its seed, counts its steps and breaks where it is told to."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from outrider.core.simulation.types import Step
from outrider.core.types import Field, Spec, TaskSpec

SPEC = TaskSpec(
    task="test/counting",
    observation=Spec((Field("walk", (2,)), Field("count"))),
    action=Spec((Field("push", (2,), "N", (-1.0, -2.0), (1.0, 2.0)),)),
    rate_hz=10.0,
    max_steps=8,
    ends_on_success=True,
    reward="the step's number",
)


@dataclass(frozen=True)
class CountingFactory:
    """Steps (from 1) at which things happen; 0 means never."""

    success_at: int = 0
    falls_at: int = 0
    nan_at: int = 0
    dies_at: int = 0
    raises_at: int = 0
    waits_for: str = ""
    no_start: bool = False

    def __call__(self):
        if self.no_start:
            raise RuntimeError("the motor is unplugged")
        return CountingRobot(self)


class CountingRobot:
    def __init__(self, plan):
        self.spec, self.plan = SPEC, plan
        self.closed = False

    def reset(self, seed):
        self.rng = np.random.default_rng(seed)
        self.walk = self.rng.standard_normal(2)
        self.count = 0
        return self.observe()

    def step(self, action):
        assert action.dtype == np.float32
        self.count += 1
        self.walk = self.walk + action + self.rng.standard_normal(2)
        while self.plan.waits_for and not Path(self.plan.waits_for).exists():
            time.sleep(0.01)
        if self.count == self.plan.dies_at:
            os._exit(7)
        if self.count == self.plan.raises_at:
            raise ValueError("two\nlines")
        success = self.count == self.plan.success_at
        return Step(self.observe(), float(self.count), success, self.count == self.plan.falls_at)

    def observe(self):
        count = np.nan if self.count and self.count == self.plan.nan_at else self.count
        return np.array([*self.walk, count], np.float32)

    def state(self):
        return {"qpos": self.walk.copy()}

    def render(self, width, height):
        return np.zeros((height, width, 3), np.uint8)

    def close(self):
        self.closed = True
