"""The stage that makes demonstrations: a scripted expert tries, and what is kept is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from outrider.core.data.store import open_store, write_store
from outrider.core.errors import OutriderError
from outrider.core.evaluation.statistics import Interval, wilson
from outrider.core.progress import Reporter
from outrider.core.recipe import DemosSection, Keep, TaskSection
from outrider.core.simulation.build import TaskHost, task_of
from outrider.core.simulation.demonstrate import collect_demonstrations
from outrider.core.types import Episode


@dataclass(frozen=True, slots=True)
class Collection:
    """What a collection came to.

    Attributes:
        path: the store.
        task: `family/name`.
        episodes: how many are stored.
        attempts: episodes that the expert played.
        expert_success: share of the attempts that succeeded, with its Wilson 95% interval. The
            expert plays until enough attempts have succeeded, so the last one always did: for few
            episodes the share is a little too high. (Not so where `demos.keep` is `all`.)
        returns: smallest, mean and largest undiscounted return of the stored episodes.
        steps: of the stored episodes.
        lengths: smallest, median and largest number of steps.
        digest: of the store's content.
    """

    path: Path
    task: str
    episodes: int
    attempts: int
    expert_success: Interval
    returns: tuple[float, float, float]
    steps: int
    lengths: tuple[int, float, int]
    digest: str

    def to_json(self) -> dict[str, Any]:
        """JSON values for `--json` and for the run's results."""
        low, median, high = self.lengths
        least, mean, most = self.returns
        return {
            "path": str(self.path),
            "task": self.task,
            "episodes": self.episodes,
            "attempts": self.attempts,
            "expert_success": self.expert_success.to_json(),
            "returns": {"min": least, "mean": mean, "max": most},
            "steps": self.steps,
            "lengths": {"min": low, "median": median, "max": high},
            "digest": self.digest,
        }


def collect(
    host: TaskHost, task: TaskSection, demos: DemosSection, out: Path, reporter: Reporter
) -> Collection:
    """Let the task's expert play until `demos.episodes` attempts are kept; store those.

    The content depends on the task, the expert's settings and the seed, not on `workers`.

    Args:
        host: where tasks are found.
        task: which task.
        demos: how many episodes, from which seed, with which expert; its `path` is not looked at.
        out: the store to write; a store that stands there is replaced, when all is done.
        reporter: shows kept episodes, attempts and, where it is one, the success rate.

    Raises:
        OutriderError: when the task has no expert or an option is wrong, or when too few of
            `demos.max_attempts` are kept; nothing is written then.
    """
    built = task_of(host, task)
    expert = built.expert(demos.expert)
    with reporter.bar("demos", demos.episodes) as bar:
        result = collect_demonstrations(
            built.factory,
            expert,
            episodes=demos.episodes,
            max_attempts=demos.max_attempts,
            seed=demos.seed,
            workers=demos.workers,
            max_steps=built.max_steps,
            keep=demos.keep,
            progress=lambda kept, attempts: bar.update(kept, _told(demos.keep, kept, attempts)),
        )
    success = wilson(result.successes, result.attempts)
    source = {
        "format": "collected",
        "task_options": task.options,
        "expert": demos.expert,
        "seed": demos.seed,
        "keep": demos.keep,
        "attempts": result.attempts,
        "expert_success": success.to_json(),
        "outrider": version("outrider"),
    }
    write_store(out, result.spec, result.episodes, source)
    return Collection(
        path=out,
        task=built.full_name,
        episodes=len(result.episodes),
        attempts=result.attempts,
        expert_success=success,
        returns=_returns(result.episodes),
        steps=sum(len(episode) for episode in result.episodes),
        lengths=_lengths(result.episodes),
        digest=open_store(out).written_digest,
    )


def refuse_to_overwrite(out: Path) -> None:
    """Refuse a path where something stands.

    Raises:
        OutriderError: naming it.
    """
    if out.exists():
        raise OutriderError(
            "is there already", where=str(out), fix="Say --replace, or choose another path."
        )


def _told(keep: Keep, kept: int, attempts: int) -> dict[str, float]:
    rate = {} if keep == "all" else {"expert": kept / attempts}
    return {"attempts": attempts, **rate}


def _returns(episodes: Sequence[Episode]) -> tuple[float, float, float]:
    totals = [float(episode.reward.sum(dtype=np.float64)) for episode in episodes]
    return min(totals), float(np.mean(totals)), max(totals)


def _lengths(episodes: Sequence[Episode]) -> tuple[int, float, int]:
    lengths = [len(episode) for episode in episodes]
    return min(lengths), float(np.median(lengths)), max(lengths)
