import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from outrider.core.cli import tasks
from outrider.core.config import NoConfig
from outrider.core.errors import MissingDependency
from outrider.core.host.objects import TaskProvider


def build(name, config):
    raise AssertionError("listing must not build")


def not_installed():
    raise MissingDependency("mujoco", "sim", "the family far")


def broken():
    raise RuntimeError("two\nlines")


FAMILIES = {
    "near": TaskProvider("near", lambda: ("one", "two"), NoConfig, build),
    "far": TaskProvider("far", not_installed, NoConfig, build),
    "odd": TaskProvider("odd", broken, NoConfig, build),
}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(tasks, "host_of", lambda ctx: SimpleNamespace(offers=lambda kind: FAMILIES))
    return lambda *arguments: CliRunner().invoke(tasks.app, arguments)


def test_names_are_listed_and_what_is_missing_is_said(run):
    result = run()
    assert result.exit_code == 0
    assert "near/one\n" in result.stdout
    assert "pip install 'outrider[sim]'" in result.stdout
    assert "not available: RuntimeError: two lines" in result.stdout


def test_json_is_one_document(run):
    near, far, odd = json.loads(run("--json").stdout)["families"]
    assert near["names"] == ["one", "two"]
    assert near["missing"] is None
    assert near["expert"] is False
    assert far["names"] == odd["names"] == []
    assert "mujoco" in far["missing"]


BASE_INSTALL = """
import sys
for gone in ("mujoco", "dm_control", "gymnasium", "robosuite", "torch", "zarr", "h5py"):
    sys.modules[gone] = None  # as if it were not installed
from outrider.core.cli.app import main
main(["tasks", "--json"])
"""


def test_a_base_install_lists_the_toy_and_says_what_the_others_need():
    done = subprocess.run([sys.executable, "-c", BASE_INSTALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    families = {f["family"]: f for f in json.loads(done.stdout)["families"]}
    assert families["toy"]["names"] == ["corridors"]
    for family in ("gymnasium", "dm_control"):
        assert families[family]["names"] == []
        assert "which is not installed. pip install 'outrider[sim]'" in families[family]["missing"]
