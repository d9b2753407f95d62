"""Collection: N robots act through the finetuner and the explorer, and give transitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from outrider.core import seeds
from outrider.core.learning.checkpoint import numpy_rng_state, restore_numpy_rng
from outrider.core.learning.transitions import Discounting, executed_chunks
from outrider.core.learning.types import Candidates, CandidateView, Explorer, Finetuner
from outrider.core.simulation.types import Fleet
from outrider.core.types import Float, Int

Phase = Literal["warmup", "learn"]
RECENT_EPISODES = 40


@dataclass(slots=True)
class Decision:
    """What one fleet decision chose.

    Attributes:
        candidates: what was proposed.
        index: (N,) what was chosen.
        commanded: (N, E, A), the chosen chunks, physical units.
    """

    candidates: Candidates
    index: Int
    commanded: Float


@dataclass(slots=True)
class Track:
    """The episode that one robot is in: enough to step it again to the same state."""

    seed: int
    episode: int
    chunks: list[Float] = field(default_factory=list)
    steps: int = 0
    reward: float = 0.0
    succeeded: bool = False


class Collector:
    """Drives a fleet and turns what happens into replay fields.

    The seed of a robot's k-th episode depends on the run's seed, the robot and k alone, so serial
    and multi-process fleets, and explorers that end episodes at other times, see the same starts.

    Args:
        fleet: N simulated robots.
        finetuner: proposes candidates.
        explorer: chooses among them once the warm-up is over; None takes the only candidate.
        discounting: how rewards become chunk returns.
        seed: of the run.
    """

    def __init__(
        self,
        fleet: Fleet,
        finetuner: Finetuner,
        explorer: Explorer | None,
        discounting: Discounting,
        seed: int,
    ) -> None:
        self.fleet, self.finetuner, self.explorer = fleet, finetuner, explorer
        self.discounting, self.seed = discounting, seed
        self.rng = seeds.generator(seed, "explore")
        self.tracks: list[Track] = []
        self.observation: Float = np.zeros((fleet.size, fleet.spec.observation.size), np.float32)
        self.env_steps = 0
        self.finished: list[tuple[bool, float, int]] = []
        self.episodes = 0
        self._scalars: dict[str, list[float]] = {}

    def begin(self) -> None:
        """Start the first episode of every robot."""
        self.tracks = [self._track(robot, 0) for robot in range(self.fleet.size)]
        self.observation = self.fleet.reset({n: t.seed for n, t in enumerate(self.tracks)})

    def _track(self, robot: int, episode: int) -> Track:
        return Track(seeds.integer(self.seed, "episode", robot, episode), episode)

    def decide(self, phase: Phase) -> Decision:
        """Propose and choose one chunk for each robot.

        During the warm-up the pretrained policy acts and the explorer is not asked.
        """
        explorer = self.explorer if phase == "learn" else None
        if explorer is None:
            n_policy, n_prior = (0, 1) if phase == "warmup" else (1, 0)
        else:
            n_policy, n_prior = explorer.n_policy, explorer.n_prior
        candidates = self.finetuner.propose(self.observation, n_policy, n_prior)
        chunks = candidates.chunk.cpu().numpy()
        index = np.zeros(self.fleet.size, np.int64)
        if explorer is not None:
            values = self.finetuner.critic_values(self.observation, candidates)
            view = CandidateView(chunks, candidates.source.cpu().numpy().astype(np.int64))
            selection = explorer.choose(self.observation, view, values, self.rng)
            index = selection.index
            for name, value in selection.scalars.items():
                self._scalars.setdefault(f"explore/{name}", []).append(value)
        return Decision(candidates, index, chunks[np.arange(len(index)), index])

    def submit(self, decision: Decision) -> None:
        """Send the chosen chunks to the fleet."""
        self.fleet.submit(decision.commanded)

    def collect(self, decision: Decision) -> dict[str, Float]:
        """Wait for the fleet and return one transition per robot, as replay fields (N, ...)."""
        result = self.fleet.collect()
        executed = executed_chunks(decision.commanded, result)
        reward, bootstrap = self.discounting.chunk(result.rewards, result.steps, result.terminated)
        fields = {
            "observation": self.observation,
            "next_observation": result.next_observation,
            "decision": self.finetuner.executed_decision(
                decision.candidates, decision.index, executed
            ),
            "reward": reward,
            "bootstrap": bootstrap,
            **self._payload(decision),
        }
        self.observation = result.next_observation.copy()
        self.env_steps += int(result.steps.sum())
        for robot, track in enumerate(self.tracks):
            track.chunks.append(decision.commanded[robot])
            track.steps += int(result.steps[robot])
            track.reward += float(result.rewards[robot].sum())
            track.succeeded |= bool(result.success[robot].any())
        self._restart([int(n) for n in np.flatnonzero(result.done)])
        return fields

    def _payload(self, decision: Decision) -> dict[str, Float]:
        rows = np.arange(len(decision.index))
        return {
            name: decision.candidates.payload[name].cpu().numpy()[rows, decision.index]
            for name in self.finetuner.payload_sizes()
        }

    def _restart(self, robots: list[int]) -> None:
        if not robots:
            return
        for robot in robots:
            track = self.tracks[robot]
            self.finished.append((track.succeeded, track.reward, track.steps))
            self.episodes += 1
            self.tracks[robot] = self._track(robot, track.episode + 1)
        del self.finished[:-RECENT_EPISODES]
        self.observation[robots] = self.fleet.reset({n: self.tracks[n].seed for n in robots})

    def figures(self) -> dict[str, float]:
        """Recent episodes, and the means of the explorer's scalars since the last call."""
        found = {name: float(np.mean(values)) for name, values in self._scalars.items()}
        self._scalars.clear()
        found |= {"collect/env_steps": self.env_steps, "collect/episodes": self.episodes}
        if self.finished:
            success, reward, steps = np.asarray(self.finished, np.float64).mean(axis=0)
            found |= {
                "collect/success": float(success),
                "collect/return": float(reward),
                "collect/length": float(steps),
            }
        return found

    def state_dict(self) -> dict[str, Any]:
        """Counters, generators, and every robot's unfinished episode as seed and chunks."""
        return {
            "tracks": [
                {
                    "seed": t.seed,
                    "episode": t.episode,
                    "chunks": np.asarray(t.chunks, np.float32),
                    "steps": t.steps,
                    "reward": t.reward,
                    "succeeded": t.succeeded,
                }
                for t in self.tracks
            ],
            "observation": self.observation,
            "env_steps": self.env_steps,
            "episodes": self.episodes,
            "finished": [list(row) for row in self.finished],
            "rng": numpy_rng_state(self.rng),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore, and step the unfinished episodes again to where they were."""
        self.tracks = [
            Track(
                t["seed"], t["episode"], list(t["chunks"]), t["steps"], t["reward"], t["succeeded"]
            )
            for t in state["tracks"]
        ]
        self.env_steps, self.episodes = state["env_steps"], state["episodes"]
        self.finished = [(bool(s), float(r), int(n)) for s, r, n in state["finished"]]
        restore_numpy_rng(self.rng, state["rng"])
        self.fleet.reset({n: t.seed for n, t in enumerate(self.tracks)})
        self._replay_tracks()
        self.observation = state["observation"]

    def _replay_tracks(self) -> None:
        executed = [len(track.chunks) for track in self.tracks]
        if not max(executed):
            return
        idle = np.zeros_like(next(track.chunks[0] for track in self.tracks if track.chunks))
        for i in range(max(executed)):
            chunks = [t.chunks[i] if i < len(t.chunks) else idle for t in self.tracks]
            self.fleet.step(np.stack(chunks), np.asarray(executed) > i)
