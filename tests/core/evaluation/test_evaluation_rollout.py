import subprocess
import sys

import numpy as np
import pytest
from evaluation_fakes import SPEC, FakeSimulator, episode, fleet_of, seek, table
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core import seeds
from outrider.core.errors import OutriderError
from outrider.core.evaluation.noise import EpisodeNoise
from outrider.core.evaluation.rollout import evaluate
from outrider.core.evaluation.table import CHUNK_START, compare

SEEDS = range(100, 111)


def run(act=None, size=3, **options):
    options = {"horizon": 8, "execute": 4, "seeds": SEEDS, "noise_seed": 7} | options
    return evaluate(act or seek(0.5, 0.3), fleet_of(size), **options)


def same(a, b):
    for x, y in zip(a.episodes, b.episodes, strict=True):
        assert x.seed == y.seed
        for name in ("observation", "action", "reward", "success", "final_observation"):
            np.testing.assert_array_equal(getattr(x, name), getattr(y, name))
        np.testing.assert_array_equal(x.extra[CHUNK_START], y.extra[CHUNK_START])
    return True


def test_same_seeds_twice_are_the_same_episodes():
    assert same(run(), run())
    assert not np.array_equal(run(noise_seed=8).returns, run().returns)


@pytest.mark.parametrize("size", [1, 2, 5, 11, 16])
def test_fleet_size_and_slots_do_not_matter(size):
    assert same(run(size=3), run(size=size))


def test_one_seed_is_the_same_alone_and_in_company():
    # Episode 0 has the same noise stream in both; the order of episodes is that of the seeds.
    assert same(run(seeds=[100]), run(seeds=[100], size=4))
    np.testing.assert_array_equal(run(seeds=[100]).episodes[0].action, run().episodes[0].action)
    assert run().seeds.tolist() == list(SEEDS)


def test_an_episode_is_what_a_plain_loop_gives():
    noise, simulator, act = (
        EpisodeNoise("sample", 7, 8, 2).stream(1),
        FakeSimulator(),
        seek(0.5, 0.3),
    )
    observation, rewards, done = simulator.reset(SEEDS[1]), [], False
    while not done and len(rewards) < SPEC.max_steps:
        for action in act(observation[None], noise.draw(1))[0]:
            observation, reward, _, done = simulator.step(np.clip(action, -1, 1))
            rewards.append(reward)
            if done or len(rewards) == SPEC.max_steps:
                break
    e = run().episodes[1]
    np.testing.assert_allclose(e.reward, rewards, rtol=1e-6)
    np.testing.assert_array_equal(e.final_observation, observation)
    assert (e.terminated, e.truncated) == (done, not done)


def test_observations_precede_actions_and_chunks_are_marked():
    for e in run().episodes:
        following = np.vstack([e.observation[1:], e.final_observation])
        np.testing.assert_allclose(
            following[:, :2] - e.observation[:, :2], 0.2 * e.action, atol=1e-5
        )
        assert np.flatnonzero(e.extra[CHUNK_START]).tolist() == list(range(0, len(e), 4))


def test_zero_noise_is_the_mean():
    assert same(run(noise="zero"), run(seek(0.5, 0.0)))


def test_the_policy_is_always_called_with_the_whole_fleet():
    shapes = set()

    def act(observation, noise):
        shapes.add((observation.shape, noise.shape, observation.dtype, noise.dtype))
        return seek(0.5, 0.3)(observation, noise)

    run(act, size=4)
    assert shapes == {((4, 4), (4, 8, 2), np.dtype("float32"), np.dtype("float32"))}


def test_idle_robots_do_not_act():
    stepped = []

    class Counted(FakeSimulator):
        def step(self, action):
            stepped.append(self)
            return super().step(action)

    evaluate(seek(0.5, 0.3), fleet_of(4, Counted), 8, 4, [100, 101])
    assert len(set(map(id, stepped))) == 2


def test_every_episode_is_told_once():
    told = []
    found = run(on_episode=told.append)
    assert sorted(e.seed for e in told) == found.seeds.tolist()


def test_decisions_are_recorded_observations_with_the_noise_they_met():
    seen = {}

    def act(observation, noise):
        seen.update({o.tobytes(): n.copy() for o, n in zip(observation, noise, strict=True)})
        return seek(0.5, 0.3)(observation, noise)

    found = run(act)
    total = sum(int(e.extra[CHUNK_START].sum()) for e in found.episodes)
    observations, noise = found.decisions(10)
    assert observations.shape == (10, 4) and noise.shape == (10, 8, 2)
    for o, n in zip(observations, noise, strict=True):
        np.testing.assert_array_equal(n, seen[o.tobytes()])
    assert len(found.decisions(10_000)[0]) == total


@given(st.integers(0, 9), st.integers(1, 12))
@settings(max_examples=20, deadline=None)
def test_noise_streams_can_be_replayed(index, decisions):
    source = EpisodeNoise("sample", 3, 5, 3)
    stream = source.stream(index)
    drawn = np.concatenate([stream.draw(1) for _ in range(decisions)])
    np.testing.assert_array_equal(source.replayed(index, decisions), drawn)


def test_summary_is_finite_and_right():
    found = run().summary()
    assert found["success"]["n"] == found["return"]["n"] == len(SEEDS)
    assert found["success"]["value"] == run().success.mean()
    assert found["length"]["value"] == pytest.approx(run().lengths.mean())
    assert all(np.isfinite(v) for v in found["smoothness"].values())
    assert found == run().summary()


def test_noise_makes_commands_rougher():
    calm, rough = run(noise="zero"), run(seek(0.5, 0.8))
    compared = compare(calm, rough, seeds.generator(0))
    for name in ("action_rate", "rms_jerk", "chunk_jump"):
        assert compared.smoothness[name].low > 0


def test_comparison_needs_common_seeds():
    a, b = table(episode(np.zeros((4, 2)), seed=1)), table(episode(np.zeros((4, 2)), seed=2))
    with pytest.raises(OutriderError, match="different seeds"):
        compare(a, b, seeds.generator(0))


def test_comparison_in_numbers():
    steps = np.zeros((4, 2))
    a = table(*(episode(steps, seed=i, reward=[0, 0, 0, i]) for i in range(6)))
    b = table(*(episode(steps, i, [0, 0, 0, i + 2], success=i < 5) for i in range(6)))
    found = compare(a, b, seeds.generator(0)).to_json()
    assert found["success"]["difference"]["value"] == pytest.approx(5 / 6)
    assert (found["success"]["gained"], found["success"]["lost"]) == (5, 0)
    assert found["return"] == {"value": 2.0, "low": 2.0, "high": 2.0, "n": 6}


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda o, n: n, "shape"),
        (lambda o, n: np.full((3, 4, 2), np.nan, np.float32), "seed 100, step 0"),
    ],
)
def test_bad_policies_are_named(act, message):
    with pytest.raises(OutriderError, match=message):
        run(act)


def test_no_seeds():
    with pytest.raises(OutriderError, match="no seed"):
        run(seeds=[])


def test_evaluation_needs_numpy_alone():
    code = """
import sys
from outrider.core.evaluation import report, rollout, storage
print({"torch", "mujoco", "zarr", "h5py", "matplotlib", "PIL", "onnxruntime"} & set(sys.modules))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
