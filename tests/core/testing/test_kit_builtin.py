"""The built-in plugins, and the example from outside, pass the conformance kit."""

import re
import sys
from pathlib import Path

import pytest

from outrider.core.errors import OutriderError
from outrider.core.host.host import Host
from outrider.core.testing import check_plugin, fake_episode, fake_run_context

TESTS = Path(__file__).parents[2]
EXAMPLE = TESTS / "example_plugin"
BUILT_IN = [r for r in Host.discover().records if r.distribution == "outrider"]


@pytest.mark.parametrize("record", BUILT_IN, ids=lambda record: record.name)
def test_a_built_in_plugin_is_ready_and_conforms(record):
    assert record.state == "ready", record.reason
    check_plugin(record.cls)


VARIANTS = [
    {"rule": "max-q"},
    {"select": "softmax"},
    {"fleet_normalization": False, "value": "mean"},
    {"candidates": 8, "prior": 8},
    {"candidates": 1},
]


@pytest.mark.parametrize("config", VARIANTS, ids=str)
def test_df_expense_conforms_in_every_form(config):
    (record,) = [r for r in BUILT_IN if r.name == "df-expense"]
    check_plugin(record.cls, config)


# The example third-party distribution, found by entry point as pip would install it


@pytest.fixture
def host(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield Host.discover()
    sys.modules.pop("outrider_greedy_mean", None)


def test_the_example_is_found_by_its_entry_point(host):
    (record,) = [r for r in host.records if r.name == "greedy-mean"]
    assert (record.state, record.reason) == ("ready", "")
    assert (record.distribution, record.version) == ("outrider-greedy-mean", "0.1.0")
    assert record.hooks == ("explorer", "episode_finished")


def test_the_example_conforms(host):
    (record,) = [r for r in host.records if r.name == "greedy-mean"]
    check_plugin(record.cls)
    check_plugin(record.cls, {"n_policy": 2, "n_prior": 3})


def test_the_example_takes_part_in_a_run(host):
    session = host.session({"greedy-mean": {"n_policy": 2}}, "plugins")
    hooks = session.hooks(lambda name: fake_run_context())
    assert (hooks.explorer.n_policy, hooks.explorer.n_prior) == (2, 0)
    for _ in range(3):
        session.notify("episode_finished", run=Path("run"), episode=fake_episode())
    assert session.clock.calls["greedy-mean.episode_finished"] == 3
    with pytest.raises(OutriderError, match="did you mean 'n_policy'"):
        host.session({"greedy-mean": {"n_polcy": 2}}, "plugins")


def test_the_installed_form_says_what_the_pyproject_says():
    import tomllib

    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    (info,) = EXAMPLE.glob("*.dist-info")
    metadata = (info / "METADATA").read_text()
    assert f"Name: {project['name']}\nVersion: {project['version']}\n" in metadata
    ((name, target),) = project["entry-points"]["outrider.plugins"].items()
    assert f"[outrider.plugins]\n{name} = {target}\n" == (info / "entry_points.txt").read_text()


def test_the_guide_shows_exactly_the_example():
    guide = (TESTS.parent / "docs" / "writing_plugins.md").read_text()
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", guide, re.DOTALL)
    for file in ("outrider_greedy_mean.py", "pyproject.toml"):
        assert (EXAMPLE / file).read_text() in blocks, f"the guide does not show {file}"
    assert len((EXAMPLE / "outrider_greedy_mean.py").read_text().splitlines()) <= 40
