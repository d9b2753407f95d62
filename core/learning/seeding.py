"""Demonstrations as transitions, for finetuners whose critics value executed actions."""

import numpy as np

from outrider.core.data.demonstrations import Demonstrations
from outrider.core.errors import OutriderError
from outrider.core.learning.transitions import Discounting
from outrider.core.learning.types import ChunkPolicy, Finetuner
from outrider.core.types import Bool, Float, Int


def demonstration_fields(
    demonstrations: Demonstrations,
    policy: ChunkPolicy,
    finetuner: Finetuner,
    discounting: Discounting,
) -> dict[str, Float]:
    """One transition for every step at which a demonstrated chunk starts, as replay fields.

    A chunk that an episode's end cuts short repeats the last action, as in pretraining, and
    counts the steps that were there.

    Raises:
        OutriderError: when the finetuner's critics do not value executed actions alone.
    """
    if finetuner.capabilities.critic_space != "action" or finetuner.payload_sizes():
        raise OutriderError(
            "demonstrations can enter the replay buffer only where critics value executed "
            "actions; this finetuner's critics take something that demonstrations lack",
            where="finetune.demonstrations",
            fix="Set it to false, or choose another finetune.algorithm.",
        )
    E = policy.execute
    steps, last = _chunk_ends(demonstrations, E)
    within = np.minimum(np.arange(E), steps[:, None] - 1)
    rows = np.arange(demonstrations.steps)[:, None] + within
    reward, bootstrap = discounting.chunk(
        demonstrations.reward[rows], steps, _terminates(demonstrations, last)
    )
    chunk = np.ascontiguousarray(demonstrations.action[rows])
    return {
        "observation": demonstrations.observation,
        "next_observation": _observation_after(demonstrations, last),
        "decision": normalized(policy, chunk),
        "reward": reward,
        "bootstrap": bootstrap,
    }


def _chunk_ends(demonstrations: Demonstrations, length: int) -> tuple[Int, Int]:
    """For a chunk at every step: executed steps (T,), and the row of its last one (T,)."""
    start = np.arange(demonstrations.steps)
    end = np.repeat(demonstrations.ends, demonstrations.lengths)
    steps = np.minimum(length, end - start)
    return steps, start + steps - 1


def _terminates(demonstrations: Demonstrations, last: Int) -> Bool:
    ended = np.zeros(demonstrations.steps, bool)
    ended[demonstrations.ends - 1] = demonstrations.terminated
    return ended[last]


def _observation_after(demonstrations: Demonstrations, last: Int) -> Float:
    """The observation that follows each row of `last`, (T, O)."""
    following = np.roll(demonstrations.observation, -1, axis=0)
    following[demonstrations.ends - 1] = demonstrations.final_observation
    after: Float = following[last]
    return after


def normalized(policy: ChunkPolicy, chunk: Float) -> Float:
    """Physical chunks (T, E, A) -> normalised and flattened, (T, E*A)."""
    import torch

    with torch.no_grad():
        flat: Float = policy.normalize_action(torch.from_numpy(chunk)).flatten(1).numpy()
    return flat
