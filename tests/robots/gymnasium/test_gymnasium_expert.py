import json
import sys
from pathlib import Path

import numpy as np
import pytest

from outrider.core.config import NoConfig
from outrider.core.errors import OutriderError
from outrider.core.simulation.build import BuiltTask, ExpertFactory, SimulatorFactory
from outrider.core.simulation.demonstrate import collect_demonstrations, pack
from outrider.robots.gymnasium import expert, plugin
from outrider.robots.gymnasium.config import CLEAN_EXPERT, ExpertConfig

pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

FACTORY = SimulatorFactory(plugin.build, "hopper", NoConfig, "{}")
GAITS = [(name, i) for name in expert.available() for i in range(len(expert.load_gaits(name)))]


def factory(config=None, name="hopper"):
    options = (config or ExpertConfig()).model_dump_json()
    return ExpertFactory(plugin.build_expert, name, ExpertConfig, options)


def collect(config=None, name="hopper", **options):
    simulator = SimulatorFactory(plugin.build, name, NoConfig, "{}")
    arguments = {"episodes": 4, "max_attempts": 9, "keep": "all"} | options
    return collect_demonstrations(simulator, factory(config, name), **arguments)


def returns(demonstrations):
    return np.array([e.reward.sum(dtype=np.float64) for e in demonstrations.episodes])


def test_a_gait_is_a_matrix_on_the_normalised_observation():
    gait = expert.load_gaits("hopper")[0]
    clean = expert.LinearExpert((gait,), CLEAN_EXPERT)
    clean.begin(np.random.default_rng(0))
    mean, std, weights = (np.array(a) for a in (gait.mean, gait.std, gait.weights))
    for observation in np.random.default_rng(1).normal(size=(20, 11)).astype(np.float32):
        expected = np.clip(weights @ ((observation - mean) / std), -1, 1)
        np.testing.assert_allclose(clean.act(observation), expected, atol=1e-6)
    assert not clean.act(mean.astype(np.float32)).round(5).any()
    assert clean.act(mean.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(("name", "number"), GAITS)
def test_fresh_seeds_give_the_return_that_the_file_states(name, number):
    """Two means of the same distribution, 50 and 6 episodes: four standard errors apart at most."""
    stated = expert.load_gaits(name)[number].returns
    config = CLEAN_EXPERT.model_copy(update={"gaits": (number,)})
    seen = returns(collect(config, name, episodes=6, seed=77))
    error = (stated.high - stated.low) / (2 * 1.96)
    assert abs(seen.mean() - stated.value) < 4 * error * np.sqrt(1 + stated.n / len(seen))
    assert stated.low < stated.value < stated.high


def test_hopper_is_of_medium_skill():
    """Well below what trained agents reach; standing still would give 1000."""
    for gait in expert.load_gaits("hopper"):
        assert 800 < gait.returns.value < 2000
        assert gait.returns.value > 1.8 * gait.lengths.value  # it runs at 0.8 m/s or faster


def test_the_seed_decides_and_the_number_of_workers_does_not():
    options = {"episodes": 3, "max_steps": 120}
    first, again, spread = (collect(**options, seed=5, workers=w) for w in (0, 0, 2))
    other = collect(**options, seed=6)
    assert [pack(e) for e in first.episodes] == [pack(e) for e in again.episodes]
    assert [pack(e) for e in first.episodes] == [pack(e) for e in spread.episodes]
    assert pack(first.episodes[0]) != pack(other.episodes[0])


def test_variations_are_those_of_the_config():
    gait = expert.load_gaits("hopper")[0]
    observation = np.array(gait.mean, np.float32) + np.float32(0.02)
    clean = expert.LinearExpert((gait,), CLEAN_EXPERT)
    varied = expert.LinearExpert((gait,), ExpertConfig(action_noise=0.0, gain_spread=0.3))
    noisy = expert.LinearExpert((gait,), ExpertConfig(action_noise=0.2, gain_spread=0.0))
    clean.begin(np.random.default_rng(0))
    plain = clean.act(observation)
    ratios, spreads = [], []
    for seed in range(60):
        varied.begin(np.random.default_rng(seed))
        ratios.append(varied.act(observation) / plain)
        noisy.begin(np.random.default_rng(seed))
        spreads.append(np.std([noisy.act(observation) - plain for _ in range(200)]))
    assert np.ptp(ratios, axis=1).max() < 1e-4  # one factor for the whole command
    assert 0.7 <= np.min(ratios) < 0.8 and 1.2 < np.max(ratios) <= 1.3
    assert min(spreads) < 0.05 and 0.15 < max(spreads) < 0.22


def test_each_episode_shows_one_of_the_chosen_gaits():
    gait = expert.load_gaits("hopper")[0]
    mirrored = gait.model_copy(
        update={"weights": tuple(tuple(-w for w in row) for row in gait.weights)}
    )
    both = expert.LinearExpert((gait, mirrored), CLEAN_EXPERT)
    observation, signs = np.array(gait.mean, np.float32) + np.float32(0.02), []
    for seed in range(40):
        both.begin(np.random.default_rng(seed))
        shown = [both.act(observation)[0] for _ in range(3)]
        assert len(set(shown)) == 1
        signs.append(np.sign(shown[0]))
    assert 8 < signs.count(1) < 32 and set(signs) == {-1, 1}


def test_every_attempt_is_kept_and_none_is_a_success():
    result = collect(episodes=3, max_attempts=3, max_steps=60)
    assert (len(result.episodes), result.attempts, result.successes) == (3, 3, 0)
    with pytest.raises(OutriderError, match=r"0 of 3 attempts.*demos\.keep: all"):
        collect(episodes=3, max_attempts=3, max_steps=60, keep="successes")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"noise": 1}, r"demos\.expert\.noise: unknown key"),
        ({"action_noise": -0.1}, r"demos\.expert\.action_noise: .*greater than or equal to 0"),
        ({"gain_spread": 1.0}, r"demos\.expert\.gain_spread: .*less than 1"),
        ({"gaits": []}, r"demos\.expert\.gaits: .*at least 1"),
        ({"gaits": [-1]}, r"demos\.expert\.gaits\.0: .*greater than or equal to 0"),
    ],
)
def test_wrong_settings_name_the_key(options, what):
    (provider,) = plugin.GymnasiumPlugin(NoConfig()).tasks()
    with pytest.raises(OutriderError, match=what):
        BuiltTask(provider, "hopper", FACTORY).expert(options)


def test_a_gait_or_a_task_that_is_not_there_is_refused(monkeypatch, tmp_path):
    with pytest.raises(OutriderError, match=r"no gait 99.*has gaits 0 to"):
        factory(ExpertConfig(gaits=(0, 99)))()
    with pytest.raises(OutriderError, match="did you mean 'hopper'"):
        factory(name="hoper")()
    content = json.loads((expert.EXPERTS / "hopper.json").read_text())
    content["gaits"][0]["std"][0] = 0.0
    (tmp_path / "hopper.json").write_text(json.dumps(content))
    monkeypatch.setattr(expert, "EXPERTS", tmp_path)
    with pytest.raises(OutriderError, match=r"hopper\.json\.gaits\.0\.std\.0: .*greater than 0"):
        factory()()
    with pytest.raises(OutriderError, match=r"no expert for this task.*exist for: hopper"):
        factory(name="walker2d")()


@pytest.fixture
def search(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    import gymnasium_experts

    monkeypatch.setattr(gymnasium_experts, "CHECK_EVERY", 1)
    monkeypatch.setattr(gymnasium_experts, "CHECK_EPISODES", 1)
    yield gymnasium_experts
    sys.modules.pop("gymnasium_experts")


def test_an_interrupted_search_finds_what_an_uninterrupted_one_finds(search, tmp_path, capsys):
    setting = search.Setting(2, 1, 0.02, 0.05, bonus=1.0, target=1e9)
    robot = plugin.build("hopper", NoConfig())
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    assert search.find_gait(robot, setting, 3, whole, limit=500) is None
    for limit in (1, 250, 500):
        search.find_gait(robot, setting, 3, parts, limit=limit)
    assert json.loads(whole.read_text())["iteration"] > 2
    assert parts.read_text() == whole.read_text()
    assert "seed 3: iteration 1," in capsys.readouterr().out
    changed = search.Setting(2, 2, 0.02, 0.05, bonus=1.0, target=1e9)
    with pytest.raises(OutriderError, match=r"parts\.json: was searched with other settings"):
        search.find_gait(robot, changed, 3, parts, limit=600)
    robot.close()


def test_running_moments_are_those_of_all_observations(search):
    batches = [np.random.default_rng(i).normal(i, 2.0, (5 + i, 3)) for i in range(4)]
    moments = search.Moments(0, np.zeros(3), np.zeros(3))
    assert moments.std.tolist() == [1, 1, 1]
    for batch in batches:
        moments.add(batch)
    together = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, together.mean(axis=0))
    np.testing.assert_allclose(moments.std, together.std(axis=0, ddof=1))
