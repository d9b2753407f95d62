"""Scripted experts for Lift and Can: way-points on the observation, imperfect on purpose.

An expert draws a `Variation` for each episode, writes a script of stages from it, and follows the
script with a proportional controller. Sides, detours and heights make the demonstrations
multimodal; offsets, haste and noise make a part of them fail. It sees what a policy sees.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from outrider.core.errors import OutriderError
from outrider.core.types import Float
from outrider.robots.robosuite.config import ExpertConfig
from outrider.robots.robosuite.tasks import find_task

Vector = npt.NDArray[np.float64]

METRES_PER_UNIT = 0.05
RADIANS_PER_UNIT = 0.5
GAIN = 1.5
HAND, HAND_QUAT, THING = slice(0, 3), slice(3, 7), slice(9, 12)
"""Where the observation holds the hand and the object; the same in all tasks."""

ROTATION_NOISE = 0.3
OPEN, CLOSE = -1.0, 1.0
NEAR, ABOVE, GRASP_HEIGHT = 0.02, 0.012, 0.008
"""m: a passed way-point, being above the object, height of the hand's centre over the object's."""

VIA = 0.05
"""m: how closely a detour is flown."""

UP = np.array([0.0, 0.0, 0.1])
FOREVER = 1_000_000

CAN_BIN = np.array([0.1975, 0.4025])
"""m, centre of the can's compartment: a quarter of the bin (0.39 x 0.49) off its centre."""

BIN_FLOOR = 0.8
"""m."""


class Scene(NamedTuple):
    """What a stage looks at: positions of hand and object, (3,) each, m."""

    hand: Vector
    thing: Vector


@dataclass(frozen=True, slots=True)
class Stage:
    """Go towards a target until something holds, or until patience ends.

    Attributes:
        target: scene -> where the hand should go (3,), m.
        done: scene -> whether the next stage begins.
        gripper: command, -1 opens and +1 closes.
        patience: the next stage begins after this many steps at the latest.
        still: whether the hand stands still; then nothing is added to its command.
    """

    target: Callable[[Scene], Vector]
    done: Callable[[Scene], bool]
    gripper: float
    patience: int
    still: bool = False


@dataclass(frozen=True, slots=True)
class Variation:
    """What is drawn for one episode. Lengths in m, angles in rad.

    Attributes:
        speed: factor on every translation.
        noise: standard deviation of the noise on translations, action units.
        yaw: turn of the hand.
        offset: error of the grasp (3,), its vertical part from closing early.
        side: first way-point relative to the object (3,).
        closing: control steps for which the hand closes.
        lift: how far a can is lifted.
        detour: how far aside a can is carried, to either side.
        drop: height above the floor of the bin at which it is let go.
    """

    speed: float
    noise: float
    yaw: float
    offset: Vector
    side: Vector
    closing: int
    lift: float
    detour: float
    drop: float


def draw_variation(config: ExpertConfig, rng: np.random.Generator) -> Variation:
    """Draw one episode's variation."""
    angle = 0.0
    radius = 0.0
    if config.sides:
        angle = 2 * np.pi * rng.integers(config.sides) / config.sides + rng.uniform(-0.2, 0.2)
        radius = rng.uniform(0.02, 0.07)
    height = rng.uniform(0.05, 0.11)
    error = config.grasp_offset * rng.standard_normal(2)
    return Variation(
        speed=rng.uniform(config.min_speed, 1.0),
        noise=rng.uniform(0.0, config.action_noise),
        yaw=rng.uniform(-config.yaw, config.yaw),
        offset=np.array([*error, rng.uniform(0.0, config.early_close)]),
        side=np.array([radius * np.cos(angle), radius * np.sin(angle), height]),
        closing=int(rng.integers(3, 6)),
        lift=rng.uniform(0.15, 0.3),
        detour=rng.choice((-1.0, 1.0)) * rng.uniform(0.0, 0.12),
        drop=rng.uniform(0.12, 0.2),
    )


def never(scene: Scene) -> bool:
    """A stage that only its patience ends."""
    return False


def grasp_stages(v: Variation) -> tuple[Stage, ...]:
    """Beside the object, above it, down to it, close."""
    hover = np.array([*v.offset[:2], 0.05])
    at = np.array([*v.offset[:2], 0.0])

    def beside(s: Scene) -> bool:
        return bool(np.linalg.norm(s.thing + v.side - s.hand) < NEAR)

    def above(s: Scene) -> bool:
        return bool(np.linalg.norm((s.thing + hover - s.hand)[:2]) < ABOVE)

    def low(s: Scene) -> bool:
        return bool((s.hand - s.thing)[2] < GRASP_HEIGHT + v.offset[2])

    return (
        Stage(lambda s: s.thing + v.side, beside, OPEN, 25),
        Stage(lambda s: s.thing + hover, above, OPEN, 40),
        Stage(lambda s: s.thing + at, low, OPEN, 40),
        Stage(lambda s: s.hand, never, CLOSE, v.closing, still=True),
    )


def lift_script(v: Variation) -> tuple[Stage, ...]:
    """Grasp, then up."""
    return (*grasp_stages(v), Stage(lambda s: s.hand + UP, never, CLOSE, FOREVER))


def can_script(v: Variation) -> tuple[Stage, ...]:
    """Grasp, up, over the wall with a detour, down into the compartment, let go, away."""
    high = BIN_FLOOR + v.lift + 0.08
    via = np.array([CAN_BIN[0] + v.detour, 0.1, high])
    over = np.array([*CAN_BIN, high])
    drop = np.array([*CAN_BIN, BIN_FLOOR + v.drop])

    def rise(s: Scene) -> Vector:
        return np.array([*s.hand[:2], high])

    def risen(s: Scene) -> bool:
        return bool(s.hand[2] > high - NEAR)

    def passed(point: Vector, within: float) -> Callable[[Scene], bool]:
        return lambda s: bool(np.linalg.norm(point - s.hand) < within)

    return (
        *grasp_stages(v),
        Stage(rise, risen, CLOSE, 40),
        Stage(lambda s: via, passed(via, VIA), CLOSE, 60),
        Stage(lambda s: over, passed(over, NEAR), CLOSE, 60),
        Stage(lambda s: drop, passed(drop, NEAR), CLOSE, 40),
        Stage(lambda s: s.hand, never, OPEN, 5, still=True),
        Stage(lambda s: s.hand + UP, never, OPEN, FOREVER),
    )


SCRIPTS = {"lift": lift_script, "can": can_script}


class ScriptedExpert:
    """Follows the script of one task. `begin` must be called before the first `act`.

    Args:
        script: variation -> stages.
        config: how imperfect to be.
    """

    def __init__(
        self, script: Callable[[Variation], tuple[Stage, ...]], config: ExpertConfig
    ) -> None:
        self._script = script
        self._config = config

    def begin(self, rng: np.random.Generator) -> None:
        """Draw this episode's variation; the noise on its actions comes from `rng` as well."""
        self._rng = rng
        self._variation = draw_variation(self._config, rng)
        self._stages = self._script(self._variation)
        self._stage = 0
        self._steps = 0
        self._heading: float | None = None

    def act(self, observation: Float) -> Float:
        """The command (7,) for one observation (19 or 23,)."""
        hand, thing = (observation[part].astype(np.float64) for part in (HAND, THING))
        scene = Scene(hand, thing)
        stage = self._current(scene)
        self._steps += 1
        command = np.zeros(7)
        command[6] = stage.gripper
        if not stage.still:
            command[:3] = self._translate(stage.target(scene) - hand)
            command[5] = self._turn(_heading(observation[HAND_QUAT]))
            scale = self._variation.noise * np.repeat([1.0, ROTATION_NOISE], 3)
            command[:6] += scale * self._rng.standard_normal(6)
        return np.clip(command, -1.0, 1.0).astype(np.float32)

    def _current(self, scene: Scene) -> Stage:
        stage = self._stages[self._stage]
        over = self._steps >= stage.patience or stage.done(scene)
        if over and self._stage + 1 < len(self._stages):
            self._stage += 1
            self._steps = 0
        return self._stages[self._stage]

    def _translate(self, error: Vector) -> Vector:
        command = np.clip(GAIN * error / METRES_PER_UNIT, -1.0, 1.0)
        return np.asarray(self._variation.speed * command)

    def _turn(self, heading: float) -> float:
        """Turn towards the heading of the episode's start plus the drawn yaw."""
        if self._heading is None:
            self._heading = heading
        error = self._heading + self._variation.yaw - heading
        wrapped = (error + np.pi) % (2 * np.pi) - np.pi
        return float(np.clip(wrapped / RADIANS_PER_UNIT, -1.0, 1.0))


def _heading(xyzw: Float) -> float:
    """Direction in the horizontal plane of the hand's x axis, rad."""
    x, y, z, w = (float(c) for c in xyzw)
    return float(np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z)))


def make_expert(name: str, config: ExpertConfig) -> ScriptedExpert:
    """The expert of a task.

    Raises:
        OutriderError: when the task has none, or does not exist.
    """
    find_task(name)
    if name not in SCRIPTS:
        raise OutriderError(
            f"the task robosuite/{name} has no scripted expert",
            fix=f"Bring demonstrations of your own. Experts exist for: {', '.join(SCRIPTS)}.",
        )
    return ScriptedExpert(SCRIPTS[name], config)
