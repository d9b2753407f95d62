"""Demonstrations as transitions: chunks at every step, cut at episode ends."""

import numpy as np
import pytest
from steering_fakes import TASK, A, H, O, context

from outrider.core.data.demonstrations import gather
from outrider.core.errors import OutriderError
from outrider.core.learning.seeding import demonstration_fields
from outrider.core.learning.transitions import Discounting
from outrider.core.types import Episode
from outrider.policies.steering.config import NoiseAliasedConfig, NoiseSpaceConfig
from outrider.policies.steering.noise_aliased import NoiseAliased
from outrider.policies.steering.noise_space import NoiseSpace


def episode(start, length, terminated):
    steps = np.arange(start, start + length, dtype=np.float32)
    return Episode(
        observation=np.repeat(steps[:, None], O, 1),
        action=np.repeat(steps[:, None], A, 1) / 100,
        reward=steps,
        success=np.zeros(length, bool),
        final_observation=np.full(O, start + length, np.float32),
        terminated=terminated,
        truncated=not terminated,
        seed=0,
    )


def test_fields_by_hand():
    data = gather(TASK, [episode(0, 3, True), episode(10, 2, False)], {})
    ctx = context()
    learner = NoiseAliased(NoiseAliasedConfig(critics=2, width=8), ctx)
    fields = demonstration_fields(data, ctx.base, learner, Discounting(0.5, "within"))
    assert H == 2
    # chunks start at 0, 1, 2 (one step left, terminal), 10, 11 (one step left, time limit)
    assert fields["reward"].tolist() == [0 + 0.5, 1 + 1.0, 2, 10 + 5.5, 11]
    assert fields["bootstrap"].tolist() == [0.25, 0.0, 0.0, 0.25, 0.5]
    assert fields["next_observation"][:, 0].tolist() == [2, 3, 3, 12, 12]
    assert fields["observation"][:, 0].tolist() == [0, 1, 2, 10, 11]
    chunks = fields["decision"].reshape(5, H, A)[..., 0] * 2 * 100  # physical, in steps
    assert chunks == pytest.approx(np.array([[0, 1], [1, 2], [2, 2], [10, 11], [11, 11]]), abs=1e-4)


def test_critics_on_noise_cannot_learn_from_demonstrations():
    data = gather(TASK, [episode(0, 3, True)], {})
    ctx = context()
    learner = NoiseSpace(NoiseSpaceConfig(critics=2, width=8), ctx)
    with pytest.raises(OutriderError, match="critics value executed actions"):
        demonstration_fields(data, ctx.base, learner, Discounting(0.9, "once"))
