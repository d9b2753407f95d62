import numpy as np
import pytest
from data_fakes import FakeHost

from outrider.core.data.inspect import inspect
from outrider.core.data.store import open_store
from outrider.core.errors import OutriderError
from outrider.core.progress import Silent
from outrider.core.recipe import DemosSection, TaskSection
from outrider.core.runs.collect import collect

TASK = TaskSection(name="fake/point")


def demos(**changes):
    return DemosSection(**{"episodes": 6, "seed": 3, "workers": 1, **changes})


def test_successes_are_stored_and_the_expert_is_rated(tmp_path):
    done = collect(FakeHost(), TASK, demos(), tmp_path / "s", Silent())
    store = open_store(tmp_path / "s")
    assert store.task.task == done.task == "fake/point"
    assert len(store) == done.episodes == 6
    assert all(e.succeeded and e.terminated for e in store.episodes())
    rate = done.expert_success
    assert 6 < done.attempts < 60
    assert rate.value == pytest.approx(6 / done.attempts)
    assert rate.low < rate.value < rate.high
    assert store.source["attempts"] == done.attempts
    assert store.source["expert_success"] == rate.to_json()
    assert store.source["seed"] == 3
    assert done.digest == store.digest()
    assert done.lengths[2] == max(len(e) for e in store.episodes())
    assert inspect(store).errors == 0


def test_all_attempts_are_stored_and_the_expert_is_still_rated(tmp_path):
    done = collect(FakeHost(), TASK, demos(keep="all", episodes=12), tmp_path / "s", Silent())
    store = open_store(tmp_path / "s")
    succeeded = [e.succeeded for e in store.episodes()]
    assert len(store) == done.episodes == done.attempts == 12
    assert 0 < sum(succeeded) < 12
    assert done.expert_success.value == pytest.approx(sum(succeeded) / 12)
    assert store.source["keep"] == "all"
    assert [e.seed for e in store.episodes()] == list(range(3, 15))
    totals = [e.reward.sum() for e in store.episodes()]
    assert done.returns == pytest.approx((min(totals), np.mean(totals), max(totals)))


def test_the_seed_decides(tmp_path):
    a, b, c = (
        collect(FakeHost(), TASK, demos(seed=seed), tmp_path / name, Silent())
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert a.digest == b.digest != c.digest
    seeds = [e.seed for e in open_store(tmp_path / "a").episodes()]
    assert seeds == sorted(set(seeds)) and seeds[0] >= 3


def test_options_reach_task_and_expert(tmp_path):
    section = TaskSection(name="fake/point", options={"max_steps": 15})
    done = collect(FakeHost(), section, demos(expert={"failures": 0.0}), tmp_path / "s", Silent())
    assert open_store(tmp_path / "s").task.max_steps == 15
    assert done.lengths[2] <= 15
    assert done.expert_success.value == 6 / done.attempts
    longest = TaskSection(name="fake/point", max_steps=14)
    collect(FakeHost(), longest, demos(expert={"failures": 0.0}), tmp_path / "s", Silent())
    assert open_store(tmp_path / "s").task.max_steps == 14


def test_physics_state_is_recorded(tmp_path):
    collect(FakeHost(), TASK, demos(), tmp_path / "s", Silent())
    loaded = open_store(tmp_path / "s").load()
    np.testing.assert_allclose(loaded.extra["qpos"], loaded.observation, rtol=1e-6)


def test_an_expert_that_fails_leaves_nothing(tmp_path):
    section = demos(expert={"failures": 1.0}, max_attempts=5)
    with pytest.raises(OutriderError, match="0 of 5 attempts"):
        collect(FakeHost(), TASK, section, tmp_path / "s", Silent())
    assert not list(tmp_path.iterdir())


def test_wrong_options_name_the_key(tmp_path):
    with pytest.raises(OutriderError, match=r"demos\.expert\.failure: unknown key.*'failures'"):
        collect(FakeHost(), TASK, demos(expert={"failure": 1}), tmp_path / "s", Silent())
