"""Linear experts: gaits that augmented random search found, with variations for each episode.

A gait is one matrix on the normalised observation. `benchmarks/gymnasium_experts.py` searches for
gaits and writes `experts/NAME.json`; nothing here learns.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field, PositiveFloat, PositiveInt

from outrider.core.config import StrictModel, validate
from outrider.core.errors import OutriderError
from outrider.core.files import read_json
from outrider.core.types import Float
from outrider.robots.gymnasium.config import ExpertConfig

EXPERTS = Path(__file__).parent / "experts"

Array = npt.NDArray[np.float64]


class Estimate(StrictModel):
    """A mean over n episodes with its 95% bootstrap interval."""

    value: float
    low: float
    high: float
    n: PositiveInt


class Gait(StrictModel):
    """One linear policy: action = clip(weights (observation - mean) / std).

    Attributes:
        seed: of the search that found it.
        search_steps: control steps that this search took.
        returns: undiscounted return of an episode of at most 1000 steps.
        lengths: control steps of an episode.
        first_seed: reset seed of the first of the evaluated episodes.
        mean: (O,) of the observations met during the search.
        std: (O,) likewise.
        weights: (A, O).
    """

    seed: int = Field(ge=0)
    search_steps: PositiveInt
    returns: Estimate
    lengths: Estimate
    first_seed: int = Field(ge=0)
    mean: tuple[float, ...]
    std: tuple[PositiveFloat, ...]
    weights: tuple[tuple[float, ...], ...]


class GaitFile(StrictModel):
    """What stands in `experts/NAME.json`.

    Attributes:
        task: `gymnasium/NAME`.
        command: what wrote the file.
        gaits: one per seed of the search.
    """

    task: str
    command: str
    gaits: tuple[Gait, ...] = Field(min_length=1)


class LinearPolicy:
    """A gait as a function.

    Args:
        weights: (A, O) on normalised observations.
        mean: (O,).
        std: (O,), positive.
    """

    def __init__(self, weights: Array, mean: Array, std: Array) -> None:
        self._matrix = weights / std
        self._offset = -self._matrix @ mean

    def __call__(self, observation: Float) -> Array:
        """Observation (O,) -> command (A,) before clipping."""
        return np.asarray(self._matrix @ observation + self._offset)


def policy_of(gait: Gait) -> LinearPolicy:
    """The function that a gait describes."""
    return LinearPolicy(*(np.array(a) for a in (gait.weights, gait.mean, gait.std)))


class LinearExpert:
    """Shows one gait per episode. `begin` must be called before the first `act`.

    Args:
        gaits: at least one.
        config: the variations.
    """

    def __init__(self, gaits: tuple[Gait, ...], config: ExpertConfig) -> None:
        self._policies = [policy_of(gait) for gait in gaits]
        self._config = config

    def begin(self, rng: np.random.Generator) -> None:
        """Draw the gait, its gain and how noisy it is; the noise itself is drawn from `rng` too."""
        config, self._rng = self._config, rng
        self._policy = self._policies[rng.integers(len(self._policies))]
        self._gain = 1.0 + config.gain_spread * rng.uniform(-1.0, 1.0)
        self._noise = rng.uniform(0.0, config.action_noise)

    def act(self, observation: Float) -> Float:
        """The command (A,) for one observation (O,), within the limits of -1 and 1."""
        command = self._gain * self._policy(observation)
        command = np.clip(command, -1.0, 1.0) + self._noise * self._rng.standard_normal(
            command.shape
        )
        return np.clip(command, -1.0, 1.0).astype(np.float32)


def available() -> tuple[str, ...]:
    """The tasks for which a gait was found."""
    return tuple(sorted(path.stem for path in EXPERTS.glob("*.json")))


def load_gaits(name: str) -> tuple[Gait, ...]:
    """The gaits of a task, in the order of their numbers.

    Raises:
        OutriderError: when there are none, or the file is damaged.
    """
    if name not in available():
        raise OutriderError(
            "there is no expert for this task",
            where=f"gymnasium/{name}",
            fix=f"Bring demonstrations of your own. Experts exist for: {', '.join(available())}.",
        )
    path = EXPERTS / f"{name}.json"
    return validate(GaitFile, read_json(path), path.name).gaits


def make_expert(name: str, config: ExpertConfig) -> LinearExpert:
    """The expert of a task.

    Raises:
        OutriderError: when the task has none, or not as many gaits as are asked for.
    """
    gaits = load_gaits(name)
    chosen = range(len(gaits)) if config.gaits is None else config.gaits
    missing = [number for number in chosen if number >= len(gaits)]
    if missing:
        raise OutriderError(
            f"there is no gait {missing[0]}",
            where="demos.expert.gaits",
            fix=f"gymnasium/{name} has gaits 0 to {len(gaits) - 1}.",
        )
    return LinearExpert(tuple(gaits[number] for number in chosen), config)
