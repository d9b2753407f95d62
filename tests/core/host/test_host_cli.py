"""`outrider plugins`, and that a base install needs nothing heavy for it."""

import json
import subprocess
import sys

import pytest
from host_fakes import GOOD, HEAD

from outrider.core.cli.app import run

HEAVY = ("torch", "mujoco", "zarr", "onnxruntime", "robosuite", "dm_control", "gymnasium", "onnx")


@pytest.fixture
def folder(tmp_path):
    """Loose files: one that is ready, one that cannot be imported, one whose offer raises."""
    (tmp_path / "fine.py").write_text(HEAD + GOOD)
    (tmp_path / "torn.py").write_text("import no_such_module\n")
    offers = GOOD.replace("def metrics(self, step): ...", "def tasks(self): raise KeyError('x')")
    (tmp_path / "dud.py").write_text(HEAD + offers.replace('"good"', '"dud"'))
    return tmp_path


def listed(capsys, *arguments):
    assert run([*arguments, "plugins", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_lists_every_plugin_with_its_state(folder, capsys):
    document = listed(capsys, "--plugin-path", str(folder))
    found = {plugin["name"]: plugin for plugin in document["plugins"]}
    assert found["good"] == {
        "name": "good",
        "version": "",
        "distribution": str(folder / "fine.py"),
        "api": 1,
        "hooks": ["metrics"],
        "state": "ready",
        "reason": "",
    }
    assert found["torn"]["state"] == found["dud"]["state"] == "error"
    assert "no_such_module" in found["torn"]["reason"]
    assert found["dud"]["reason"] == "its offer of tasks raised KeyError: 'x'"
    assert found["df-expense"]["state"] == "ready"
    assert document["clashes"] == []


def test_what_is_left_out_is_disabled(capsys):
    found = {p["name"]: p for p in listed(capsys, "--without", "df-expense")["plugins"]}
    assert found["df-expense"]["state"] == "disabled"
    assert found["toy"]["state"] == "ready"


CLASH = """
class {name}:
    name, api, Config = "{name}", 1, NoConfig
    def __init__(self, config): self.config = config
    @hookimpl
    def policies(self): return [PolicyProvider("same", NoConfig, None)]
"""


def test_a_clash_of_offers_is_listed_and_ends_well(tmp_path, capsys):
    file = tmp_path / "both.py"
    file.write_text(HEAD + CLASH.format(name="one") + CLASH.format(name="two"))
    (clash,) = listed(capsys, "--plugin-path", str(file))["clashes"]
    assert "'one'" in clash
    assert "'two'" in clash
    assert clash.count(str(file)) == 2


def test_the_table_is_for_people(folder, capsys):
    assert run(["--plugin-path", str(folder), "plugins"]) == 0
    text = capsys.readouterr().out
    for word in ("distribution", "df-expense", "explorer", "ready"):
        assert word in text
    assert "torn: cannot import (ModuleNotFoundError: No module named 'no_such_module')" in text


BASE = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ImportError(name + " is not installed here")

sys.meta_path.insert(0, Blocked())
from outrider.core.cli.app import run
code = run(sys.argv[1:])
loaded = sorted(set({HEAVY!r}) & set(sys.modules))
sys.exit(f"loaded {{loaded}}" if loaded else code)
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["plugins"], "df-expense"),
        (["plugins", "--json"], '"state": "ready"'),
        (["tasks"], "toy/corridors"),
        (["--help"], "The whole road"),
        (["verify", "--help"], "bundle"),
    ],
)
def test_a_base_install_runs_the_light_verbs(arguments, expected):
    command = [sys.executable, "-c", BASE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert expected.lower() in done.stdout.lower()
    if arguments[0] == "plugins":
        assert '"error"' not in done.stdout
        assert " error " not in done.stdout
