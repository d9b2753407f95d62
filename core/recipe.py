"""The typed configuration of a run: one section per stage, each read by that stage alone."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from outrider.core.config import Choice, StrictModel, override, read_yaml, validate
from outrider.core.errors import OutriderError

Keep = Literal["successes", "all"]


class TaskSection(StrictModel):
    """Which task, and how long an episode may last.

    Attributes:
        name: `family/name`, see `outrider tasks`.
        max_steps: episode limit in control steps; None takes the task's own.
        options: the family's own settings.
    """

    name: str
    max_steps: PositiveInt | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class DemosSection(StrictModel):
    """Where demonstrations come from: a path, or the task's scripted expert.

    Attributes:
        path: an episode store or a file that a reader knows; None collects with the expert.
        episodes: episodes to collect.
        keep: `successes` plays on until so many attempts have succeeded, and keeps those; `all`
            keeps every attempt, for tasks without a notion of success.
        max_attempts: give up after this many attempts.
        seed: first reset seed of the collection.
        expert: the expert's own settings.
        workers: processes that collect.
    """

    path: Path | None = None
    episodes: PositiveInt = 40
    keep: Keep = "successes"
    max_attempts: PositiveInt = 1000
    seed: int = Field(default=0, ge=0)
    expert: dict[str, Any] = Field(default_factory=dict)
    workers: PositiveInt = 2


class PretrainSection(StrictModel):
    """Supervised training of the policy on windows of the demonstrations.

    Attributes:
        steps: gradient steps.
        batch: windows per step.
        learning_rate: peak of AdamW; cosine to a tenth of it after a linear warm-up.
        warmup: steps of the warm-up.
        weight_decay: of AdamW.
        ema: the averaged weights move by this share at every step (0.005 means a decay of 0.995).
        checkpoint_every: steps between checkpoints.
        log_every: steps between lines of metrics.
        threads: torch threads. Networks are small: a second thread gains little on an idle machine
            and loses much on a busy one.
    """

    steps: PositiveInt = 3000
    batch: PositiveInt = 128
    learning_rate: PositiveFloat = 1e-3
    warmup: int = 100
    weight_decay: float = 1e-6
    ema: float = Field(default=0.005, gt=0, le=1)
    checkpoint_every: PositiveInt = 1000
    log_every: PositiveInt = 100
    threads: PositiveInt = 1


class FinetuneSection(StrictModel):
    """The off-policy loop around a finetuner.

    Attributes:
        algorithm: a finetuner and its own settings, `{use: NAME, ...}`.
        env_steps: control steps to collect, over the whole fleet.
        fleet: N, simulated robots.
        workers: processes that step them; 0 steps them in this process.
        warmup_ticks: fleet decisions taken by the pretrained policy before the finetuner acts.
        updates_per_tick: updates after each fleet decision.
        warmup_updates_per_tick: the same during the warm-up.
        batch: transitions per update.
        discount: gamma, per control step or per chunk as `chunk_discount` says.
        chunk_discount: `within` discounts inside the chunk and bootstraps with gamma^steps;
            `once` sums a chunk's rewards undiscounted and applies gamma once per chunk.
        reward_scale: multiplies the task's reward ...
        reward_offset: ... and is then added to the reward of each control step.
        replay: capacity in transitions (chunks).
        demonstrations: whether the demonstrations are put into the replay buffer first.
        checkpoint_every: fleet decisions between checkpoints.
        log_every: fleet decisions between lines of metrics.
        threads: torch threads.
        device: torch device.
    """

    algorithm: Choice
    env_steps: PositiveInt
    fleet: PositiveInt = 4
    workers: int = Field(default=0, ge=0)
    warmup_ticks: int = Field(default=0, ge=0)
    updates_per_tick: PositiveInt = 20
    warmup_updates_per_tick: int = Field(default=0, ge=0)
    batch: PositiveInt = 256
    discount: float = Field(default=0.99, gt=0, le=1)
    chunk_discount: Literal["within", "once"] = "within"
    reward_scale: float = 1.0
    reward_offset: float = 0.0
    replay: PositiveInt = 1_000_000
    demonstrations: bool = False
    checkpoint_every: PositiveInt = 250
    log_every: PositiveInt = 25
    threads: PositiveInt = 1
    device: str = "cpu"


class EvaluateSection(StrictModel):
    """Seeded evaluation, on the same seeds for every policy.

    Attributes:
        episodes: how many.
        seed: first reset seed; apart from every training seed.
        fleet: simulated robots at a time.
        workers: processes that step them; 0 steps them in this process.
        noise: `sample` draws the policy's noise, `zero` takes its mean.
        film: episodes of which a film goes into the report; 0 renders nothing.
    """

    episodes: PositiveInt = 50
    seed: int = Field(default=1_000_000, ge=0)
    fleet: PositiveInt = 4
    workers: int = Field(default=0, ge=0)
    noise: Literal["sample", "zero"] = "sample"
    film: int = Field(default=1, ge=0)


class ExportSection(StrictModel):
    """The bundle.

    Attributes:
        name: bundle name; None takes the recipe's file name.
        version: of the policy, MAJOR.MINOR.PATCH.
        parity_vectors: recorded observations that travel with the bundle; fewer than a hundred
            prove too little.
        tolerance: largest allowed error of an action in normalised units.
        description: one sentence for people.
    """

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    version: str = Field(default="0.1.0", pattern=r"^\d+\.\d+\.\d+$")
    parity_vectors: int = Field(default=256, ge=100)
    tolerance: PositiveFloat = 1e-5
    description: str = ""


class ControlSection(StrictModel):
    """The check that the exported controller drives the simulated robot in real time.

    Attributes:
        episodes: how many to drive; 0 leaves the stage out.
        seed: first reset seed.
        provider: ONNX Runtime execution provider.
        real_time: wait for each tick's deadline; off, step as fast as possible.
        bench_s: seconds of inferences at the controller's own pace when latency is measured.
    """

    episodes: int = Field(default=3, ge=0)
    seed: int = Field(default=2_000_000, ge=0)
    provider: str = "cpu"
    real_time: bool = True
    bench_s: float = Field(default=5.0, ge=0)


class Recipe(StrictModel):
    """One run from demonstrations to a driven robot.

    Attributes:
        seed: of everything that learns; stages derive their own generators from it.
        policy: a policy and its own settings, `{use: NAME, ...}`.
        finetune: left out, the run goes from pretraining to evaluation.
        plugins: plugin name -> its config; the plugins that take part.
    """

    seed: int = Field(default=0, ge=0)
    task: TaskSection
    demos: DemosSection = DemosSection()
    policy: Choice
    pretrain: PretrainSection = PretrainSection()
    finetune: FinetuneSection | None = None
    evaluate: EvaluateSection = EvaluateSection()
    export: ExportSection = ExportSection()
    control: ControlSection = ControlSection()
    plugins: dict[str, dict[str, Any]] = Field(default_factory=dict)

    def resolved(self) -> dict[str, Any]:
        """Every value, defaults included, as it is saved in the run folder."""
        values = self.model_dump(mode="json")
        values["policy"] = self.policy.dump()
        if self.finetune is not None:
            values["finetune"]["algorithm"] = self.finetune.algorithm.dump()
        return values


def load_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply `--set` assignments.

    Raises:
        OutriderError: naming the file, the key and what is valid there.
    """
    values = override(read_yaml(path), assignments)
    values["plugins"] = {
        name: {} if config is None else config
        for name, config in (values.get("plugins") or {}).items()
    }
    return validate(Recipe, values, path.name)


def find_recipe(given: Path | str) -> Path:
    """A recipe's file: the path itself, or a built-in recipe by its name.

    Raises:
        OutriderError: when there is neither; it lists the built-in ones.
    """
    given = Path(given)
    if given.is_file():
        return given
    folder = Path(str(files("outrider.configs")))
    named = folder / f"{given.stem}.yaml"
    if len(given.parts) <= 2 and named.is_file():
        return named
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    raise OutriderError("no such recipe", where=str(given), fix=f"Built in: {', '.join(known)}.")
