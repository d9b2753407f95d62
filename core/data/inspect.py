"""What a dataset holds and what is wrong with it, in constant memory."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outrider.core.data.checks import EPISODE_CHECKS
from outrider.core.data.columns import ColumnRange, Columns
from outrider.core.data.demonstrations import check_episode
from outrider.core.data.errors import DataError
from outrider.core.data.findings import DataFinding
from outrider.core.data.readers import RandomAccess
from outrider.core.data.store import EpisodeStore
from outrider.core.errors import OutriderError
from outrider.core.host.objects import DatasetReader
from outrider.core.types import Episode, TaskSpec

REPEATED_SHARE = 0.2
"""Share of unchanged observations from which on the data look recorded faster than sensed."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a dataset holds; figures are over the episodes that could be read.

    Attributes:
        task: name, specs and rate.
        episodes: how many the dataset says it has.
        readable: how many of them could be read and fit the task.
        steps: of all readable episodes.
        lengths: smallest, median and largest number of steps.
        successes: episodes in which any step reports success.
        terminated: episodes that the task ended.
        truncated: episodes that a limit ended.
        observation: one range per element.
        action: one range per element.
        extra: name -> dtype and shape of one step.
        source: where the data come from.
    """

    task: TaskSpec
    episodes: int
    readable: int
    steps: int
    lengths: tuple[int, float, int]
    successes: int
    terminated: int
    truncated: int
    observation: tuple[ColumnRange, ...]
    action: tuple[ColumnRange, ...]
    extra: dict[str, str]
    source: dict[str, Any]

    @property
    def seconds(self) -> float:
        """Duration of all readable episodes."""
        return self.steps / self.task.rate_hz

    @property
    def success_rate(self) -> float | None:
        """Share of readable episodes that succeed; None if there is none."""
        return self.successes / self.readable if self.readable else None

    def to_json(self) -> dict[str, Any]:
        """JSON values for `--json`."""
        low, median, high = self.lengths
        return {
            "task": self.task.task,
            "rate_hz": self.task.rate_hz,
            "episodes": self.episodes,
            "readable": self.readable,
            "steps": self.steps,
            "seconds": self.seconds,
            "lengths": {"min": low, "median": median, "max": high},
            "success": {
                "value": self.success_rate,
                "successes": self.successes,
                "n": self.readable,
            },
            "terminated": self.terminated,
            "truncated": self.truncated,
            "observation": [asdict(column) for column in self.observation],
            "action": [asdict(column) for column in self.action],
            "extra": self.extra,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Inspection:
    """Facts and findings, errors first."""

    facts: Facts
    findings: tuple[DataFinding, ...]

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """JSON values for `--json`."""
        findings = [finding.to_json() for finding in self.findings]
        return {"facts": self.facts.to_json(), "findings": findings, "errors": self.errors}


def inspect(reader: DatasetReader, path: Path | str = "dataset") -> Inspection:
    """Read every episode; one that cannot be used becomes a finding.

    Args:
        reader: an open dataset. One with random access is read on after a bad episode; any other
            ends there.
        path: where the dataset lies, for messages.
    """
    pass_ = _Pass(reader.info.task)
    for name, episode in _each(reader, path):
        if isinstance(episode, DataFinding):
            pass_.findings.append(episode)
        else:
            pass_.take(name, episode)
    if isinstance(reader, EpisodeStore):
        pass_.findings.extend(_tampering(reader))
    pass_.conclude()
    findings = sorted(pass_.findings, key=lambda finding: finding.severity != "error")
    info = reader.info
    return Inspection(pass_.facts(info.episodes, dict(info.source)), tuple(findings))


class _Pass:
    """Everything that accumulates while the episodes go by."""

    def __init__(self, task: TaskSpec) -> None:
        self.task = task
        self.findings: list[DataFinding] = []
        self._observation, self._action = Columns(task.observation), Columns(task.action)
        self._lengths: list[int] = []
        self._successes = self._terminated = self._truncated = 0
        self._repeated = self._neighbours = 0
        self._seen: dict[bytes, str] = {}
        self._extra: dict[str, str] = {}

    def take(self, name: str, episode: Episode) -> None:
        for check in EPISODE_CHECKS:
            self.findings.extend(check(name, episode, self.task))
        self._observation.add(episode.observation)
        self._action.add(episode.action)
        self._lengths.append(len(episode))
        self._successes += episode.succeeded
        self._terminated += episode.terminated
        self._truncated += episode.truncated
        same = (episode.observation[1:] == episode.observation[:-1]).all(axis=1)
        self._repeated += int(same.sum())
        self._neighbours += len(same)
        self._compare(name, episode)
        for field, array in episode.extra.items():
            self._extra.setdefault(field, f"{array.dtype}{list(array.shape[1:])}")

    def _compare(self, name: str, episode: Episode) -> None:
        content = hashlib.blake2b(digest_size=16)
        content.update(np.ascontiguousarray(episode.observation).tobytes())
        content.update(np.ascontiguousarray(episode.action).tobytes())
        original = self._seen.setdefault(content.digest(), name)
        if original != name:
            self.findings.append(
                DataFinding(
                    "warning",
                    "duplicate-episode",
                    f"has the observations and actions of episode {original}",
                    "Leave one of them out: it counts twice in training.",
                    name,
                )
            )

    def conclude(self) -> None:
        """Findings about the dataset as a whole."""
        if not self._lengths:
            text = "no episode can be used"
            self.findings.append(DataFinding("error", "empty", text, "Collect the data again."))
            return
        self.findings.extend(_columns("observation", self._observation))
        self.findings.extend(_columns("action", self._action))
        share = self._repeated / max(1, self._neighbours)
        if share >= REPEATED_SHARE:
            self.findings.append(
                DataFinding(
                    "warning",
                    "repeated",
                    f"{share:.0%} of the observations equal the one before",
                    "Record at the rate of the slowest sensor, or drop the repeated steps.",
                    field="observation",
                    value=share,
                )
            )
        if not self._successes:
            self.findings.append(
                DataFinding(
                    "warning",
                    "no-success",
                    "no episode reports success",
                    "Check that success was recorded; demonstrations should succeed.",
                )
            )

    def facts(self, episodes: int, source: dict[str, Any]) -> Facts:
        lengths = self._lengths or [0]
        return Facts(
            task=self.task,
            episodes=episodes,
            readable=len(self._lengths),
            steps=sum(lengths),
            lengths=(min(lengths), float(np.median(lengths)), max(lengths)),
            successes=self._successes,
            terminated=self._terminated,
            truncated=self._truncated,
            observation=self._observation.ranges(),
            action=self._action.ranges(),
            extra=self._extra,
            source=source,
        )


def _each(reader: DatasetReader, path: Path | str) -> Iterator[tuple[str, Episode | DataFinding]]:
    """Each episode under its name, or why it cannot be used.

    Streams as long as it can, since that is fastest; a stream ends at the first episode that it
    cannot read, and from there on episodes are asked for one at a time.
    """
    names = reader.names() if isinstance(reader, RandomAccess) else None
    count = 0
    for index, item in enumerate(_stream(reader)):
        if isinstance(item, OutriderError) and names is not None:
            break
        name, count = names[index] if names is not None else str(index), index + 1
        yield name, _usable(name, item, reader.info.task, path)
    if isinstance(reader, RandomAccess) and names is not None:
        for index in range(count, len(names)):
            item = _read(reader, index)
            yield names[index], _usable(names[index], item, reader.info.task, path)


def _stream(reader: DatasetReader) -> Iterator[Episode | OutriderError]:
    try:
        yield from reader.episodes()
    except OutriderError as error:
        yield error


def _usable(
    name: str, item: Episode | OutriderError, task: TaskSpec, path: Path | str
) -> Episode | DataFinding:
    try:
        if isinstance(item, OutriderError):
            raise item
        check_episode(item, task, path, name)
        return item
    except OutriderError as error:
        return _unusable(name, error)


def _read(reader: RandomAccess, index: int) -> Episode | OutriderError:
    try:
        return reader.episode(index)
    except OutriderError as error:
        return error


def _unusable(name: str, error: OutriderError) -> DataFinding:
    field = (error.field or None) if isinstance(error, DataError) else None
    return DataFinding(
        "error",
        "unusable",
        error.what,
        error.fix or "Leave the episode out or repair it at its source.",
        name,
        field,
    )


def _columns(side: str, columns: Columns) -> Iterator[DataFinding]:
    for label, value in columns.constant().items():
        yield DataFinding(
            "warning",
            "constant",
            f"is {value:g} in every step",
            "Leave it out, or check its sensor; normalisation floors its range.",
            field=f"{side}: {label}",
            value=value,
        )
    for label, original in columns.duplicates().items():
        yield DataFinding(
            "warning",
            "duplicate",
            f"always equals {original}",
            "Leave one of them out, or check the field mapping.",
            field=f"{side}: {label}",
        )


def _tampering(store: EpisodeStore) -> Iterator[DataFinding]:
    """A difference between the digest that the store was written with and its content."""
    try:
        found = store.digest()
    except DataError:
        return  # the damaged chunk is a finding already
    if found != store.written_digest:
        yield DataFinding(
            "error",
            "digest",
            f"content has digest {found[:12]}, it was written with {store.written_digest[:12]}",
            "Somebody changed arrays or attributes; copy the store again from where it is whole.",
        )
