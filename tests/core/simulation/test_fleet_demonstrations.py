import multiprocessing
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from counting_robot import SPEC, CountingFactory

from outrider.core import seeds
from outrider.core.errors import OutriderError
from outrider.core.simulation.demonstrate import collect_demonstrations, pack, unpack
from outrider.core.simulation.rollout import roll_episode


@dataclass(frozen=True)
class LuckyExpertFactory:
    """An expert whose luck, drawn once per episode, is what it commands."""

    def __call__(self):
        return LuckyExpert()


class LuckyExpert:
    def begin(self, rng):
        self.rng = rng
        self.luck = rng.random()

    def act(self, observation):
        return np.array([self.luck, 0.1 * self.rng.standard_normal()], np.float32)


@dataclass(frozen=True)
class LuckyFactory:
    """A robot that succeeds in step 4 where it is pushed by more than a half."""

    def __call__(self):
        return LuckyRobot(CountingFactory()())


class LuckyRobot:
    def __init__(self, inner):
        self.inner, self.spec, self.state = inner, inner.spec, inner.state
        self.reset, self.render, self.close = inner.reset, inner.render, inner.close

    def step(self, action):
        step = self.inner.step(action)
        return step._replace(success=self.inner.count == 4 and action[0] > 0.5)


def collect(**options):
    arguments = {"episodes": 6, "max_attempts": 60, "seed": 3} | options
    return collect_demonstrations(LuckyFactory(), LuckyExpertFactory(), **arguments)


def test_an_episode_holds_what_was_seen_done_and_paid_and_the_state_before_each_action():
    robot = CountingFactory(success_at=3)()
    episode = roll_episode(robot, SPEC, lambda o: np.array([5.0, o[2]], np.float32), seed=9)
    again = CountingFactory()()
    seen = [again.reset(9)]
    for count in range(3):
        np.testing.assert_array_equal(episode.extra["qpos"][count], again.walk)
        np.testing.assert_array_equal(episode.action[count], [1.0, float(count)])
        seen.append(again.step(episode.action[count]).observation)
    np.testing.assert_array_equal(episode.observation, seen[:-1])
    np.testing.assert_array_equal(episode.final_observation, seen[-1])
    assert episode.reward.tolist() == [1, 2, 3]
    assert episode.success.tolist() == [False, False, True]
    assert (episode.terminated, episode.truncated, episode.seed) == (True, False, 9)
    assert episode.extra["qpos"].dtype == np.float64


def test_an_episode_without_an_end_of_its_own_is_truncated():
    episode = roll_episode(CountingFactory()(), SPEC, lambda o: np.zeros(2, np.float32), seed=0)
    assert len(episode) == SPEC.max_steps
    assert (episode.terminated, episode.truncated) == (False, True)


def test_the_first_successes_are_kept_in_the_order_of_their_seeds():
    result = collect()
    lucky = [i for i in range(60) if seeds.generator(3, "expert", i).random() > 0.5][:6]
    assert [e.seed for e in result.episodes] == [3 + i for i in lucky]
    assert result.attempts == lucky[-1] + 1
    assert result.successes == 6
    assert all(e.succeeded for e in result.episodes)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_attempt_is_kept_where_that_is_asked_for(workers):
    result = collect(keep="all", workers=workers)
    lucky = [seeds.generator(3, "expert", i).random() > 0.5 for i in range(6)]
    assert [e.seed for e in result.episodes] == [3, 4, 5, 6, 7, 8]
    assert [e.succeeded for e in result.episodes] == lucky
    assert (result.attempts, result.successes) == (6, sum(lucky))
    assert 0 < result.successes < 6
    with pytest.raises(OutriderError, match=r"4 attempts are allowed, 6 episodes are wanted"):
        collect(keep="all", workers=workers, max_attempts=4)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_nothing(workers):
    alone, shared = collect(), collect(workers=workers)
    assert shared.attempts == alone.attempts
    assert shared.spec == alone.spec
    for a, b in zip(alone.episodes, shared.episodes, strict=True):
        assert pack(a) == pack(b)
    assert multiprocessing.active_children() == []


def test_progress_is_told_in_order():
    told = []
    result = collect(progress=lambda kept, tried: told.append((kept, tried)))
    assert [tried for _, tried in told] == list(range(1, result.attempts + 1))
    assert told[-1] == (6, result.attempts)
    assert all(b - a in (0, 1) for (a, _), (b, _) in pairwise(told))


@pytest.mark.parametrize("workers", [0, 2])
def test_giving_up_says_how_good_the_expert_is(workers):
    with pytest.raises(OutriderError, match=r"succeeded in \d of 9 attempts, 50 are wanted.*max_"):
        collect(episodes=50, max_attempts=9, workers=workers)


def test_the_episode_limit_of_the_recipe_holds():
    assert collect(max_steps=5).spec.max_steps == 5
    with pytest.raises(OutriderError, match="succeeded in 0 of 5"):
        collect(max_steps=3, max_attempts=5)


def test_a_packed_episode_comes_back_whole():
    episode = collect(episodes=1).episodes[0]
    found = unpack(pack(episode))
    for name in ("observation", "action", "reward", "success", "final_observation"):
        assert getattr(found, name).dtype == getattr(episode, name).dtype
        np.testing.assert_array_equal(getattr(found, name), getattr(episode, name))
    assert (found.terminated, found.truncated, found.seed) == (True, False, episode.seed)
    np.testing.assert_array_equal(found.extra["qpos"], episode.extra["qpos"])
