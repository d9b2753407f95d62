"""Every way in which a plugin can be wrong is named in one line, and the others go on."""

import random
import sys

import numpy as np
import pytest
from host_fakes import GOOD, HEAD, install, record_of

from outrider.core.errors import OutriderError
from outrider.core.host.discovery import find_plugins, implemented_hooks


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on sys.path; what was imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_plugin_is_ready_with_its_distribution_and_version(site):
    install(site, "good-dist", GOOD)
    record = record_of("good")
    assert (record.state, record.reason) == ("ready", "")
    assert (record.distribution, record.version, record.api) == ("good-dist", "1.2", 1)
    assert record.hooks == ("metrics",) == implemented_hooks(record.cls)


HOOK = "def metrics(self, step)"
BROKEN = {
    "failing import": ("1 / 0", ["cannot import broken_dist:Good", "ZeroDivisionError"]),
    "exit at import": ("raise SystemExit(3)", ["cannot import", "SystemExit: 3"]),
    "missing class": ("", ["cannot import", "Good"]),
    "syntax": ("def", ["cannot import", "SyntaxError", "line 6"]),
    "not a class": ("Good = 3", ["names a int, not a plugin class"]),
    "wrong api": (changed("1, NoConfig", "2, NoConfig"), ["plugin API 2", "has 1"]),
    "no api": (changed('name, api, Config = "good", 1,', 'name, Config = "good",'), ["API None"]),
    "name": (changed('"good"', '"other"'), ["calls itself 'other'", "entry point 'good'"]),
    "no Config": (changed("NoConfig", "None"), ["no Config"]),
    "loose Config": (changed("NoConfig", "BaseModel"), ["accepts unknown keys", "StrictModel"]),
    "misspelt hook": (
        changed(HOOK, "def metrisc(self, step)"),
        ["no hook 'metrisc'", "did you mean 'metrics'?"],
    ),
    "unknown argument": (
        changed(HOOK, "def metrics(self, stp)"),
        ["'metrics' asks for 'stp'", "did you mean 'step'?", "valid: run, step, values"],
    ),
    "argument of none": (
        changed(HOOK, "def tasks(self, ctx)"),
        ["'tasks' asks for 'ctx'", "takes no argument"],
    ),
    "default": (changed(HOOK, "def metrics(self, step=0)"), ["'step' a default", "never get it"]),
    "wrapper": (
        changed("@hookimpl\n", "@hookimpl(wrapper=True)\n"),
        ["'metrics' is a wrapper"],
    ),
    "no hook": (changed("@hookimpl\n", "\n"), ["implements no hook"]),
    "requires": (
        GOOD + "    requires = ('numpy', 'no_such_module.inner')\n",
        ["requires the module 'no_such_module.inner'"],
    ),
    "requires text": (GOOD + "    requires = 'torch'\n", ["expected a tuple of module names"]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_named_and_the_others_go_on(site, case):
    body, sentences = BROKEN[case]
    install(site, "broken-dist", body)
    install(site, "fine-dist", changed('"good"', '"fine"'), plugin="fine")
    record = record_of("good")
    assert record.state == "error"
    assert record.cls is None
    assert "\n" not in record.reason
    for sentence in sentences:
        assert sentence in record.reason
    assert record_of("fine").state == "ready"


def test_a_name_that_could_not_be_a_folder_or_a_key_is_refused(site):
    install(site, "odd-dist", changed('"good"', '"a.b"'), plugin="a.b")
    assert "letters, digits" in record_of("a.b").reason


def test_static_and_class_methods_may_be_hooks(site):
    body = changed(
        "@hookimpl\n    def metrics(self, step)",
        "@staticmethod\n    @hookimpl\n    def metrics(step)",
    )
    install(site, "static-dist", body)
    assert record_of("good").state == "ready"


def test_of_two_plugins_of_one_name_the_second_is_in_error_and_names_the_first(site):
    install(site, "a-dist", GOOD)
    install(site, "b-dist", GOOD)
    states = {r.distribution: r for r in find_plugins() if r.name == "good"}
    ready = [r for r in states.values() if r.state == "ready"]
    (error,) = [r for r in states.values() if r.state == "error"]
    assert len(ready) == 1
    assert f"{ready[0].distribution} has a plugin of the same name" in error.reason


def test_a_plugin_that_is_left_out_is_not_even_imported(site):
    install(site, "boom-dist", "raise RuntimeError")
    record = record_of("good", without={"good"})
    assert record.state == "disabled"
    assert "boom_dist" not in sys.modules


def test_records_come_in_order_of_name():
    names = [record.name for record in find_plugins()]
    assert names == sorted(names)


# Loose files


def test_a_loose_file_is_a_plugin(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(HEAD + GOOD)
    record = record_of("good", plugin_path=[file])
    assert (record.state, record.distribution, record.version) == ("ready", str(file), "")


def test_a_folder_of_loose_files_skips_helpers_and_isolates_what_is_broken(tmp_path):
    (tmp_path / "mine.py").write_text(HEAD + GOOD)
    (tmp_path / "torn.py").write_text("class Torn(\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "_helper.py").write_text("raise RuntimeError\n")
    found = {
        r.name: r for r in find_plugins([tmp_path]) if r.distribution.startswith(str(tmp_path))
    }
    assert set(found) == {"good", "torn", "empty"}
    assert "SyntaxError" in found["torn"].reason
    assert "holds no plugin" in found["empty"].reason
    assert found["good"].state == "ready"


def test_a_loose_class_that_forgot_its_api_is_told_so(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(HEAD + changed('name, api, Config = "good", 1,', 'name, Config = "good",'))
    assert "API None" in record_of("good", plugin_path=[file]).reason


def test_a_loose_file_may_hold_several_plugins_one_of_them_left_out(tmp_path):
    file = tmp_path / "two.py"
    second = GOOD.replace("Good", "Better").replace('"good"', '"better"')
    file.write_text(HEAD + GOOD + second)
    options = {"plugin_path": [file], "without": {"better"}}
    assert record_of("good", **options).state == "ready"
    assert record_of("better", **options).state == "disabled"


def test_a_file_of_another_kind_is_refused(tmp_path):
    file = tmp_path / "plugin.txt"
    file.write_text("")
    assert record_of("plugin", plugin_path=[file]).reason == "not a Python file"


def test_a_plugin_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(OutriderError, match=r"--plugin-path .*absent: no such file or folder"):
        find_plugins([tmp_path / "absent"])


def test_discovery_leaves_global_state_alone(tmp_path):
    (tmp_path / "mine.py").write_text(HEAD + GOOD)
    path, state, legacy = list(sys.path), random.getstate(), np.random.get_state(legacy=True)
    find_plugins([tmp_path])
    find_plugins([tmp_path])
    assert sys.path == path
    assert random.getstate() == state
    assert (np.random.get_state(legacy=True)[1] == legacy[1]).all()
