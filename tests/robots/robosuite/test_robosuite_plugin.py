"""The plugin: light to import, complete in what it offers, silent when it builds."""

import subprocess
import sys

import pytest

from outrider.core.config import NoConfig
from outrider.core.errors import MissingDependency
from outrider.robots.robosuite.config import ExpertConfig, RobosuiteConfig
from outrider.robots.robosuite.library import require_packages
from outrider.robots.robosuite.plugin import RobosuitePlugin, build, build_expert


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)


def test_offers_one_family():
    (provider,) = RobosuitePlugin(NoConfig()).tasks()
    assert provider.family == "robosuite"
    assert provider.names() == ("lift", "can", "square")
    assert (provider.config, provider.expert_config) == (RobosuiteConfig, ExpertConfig)
    assert (provider.build, provider.expert) == (build, build_expert)


def test_importing_and_asking_for_names_loads_no_simulator():
    code = (
        "import sys\n"
        "from outrider.robots.robosuite.plugin import RobosuitePlugin as P\n"
        "P(P.Config()).tasks()[0].names()\n"
        "print([m for m in ('robosuite', 'mujoco', 'numba', 'torch') if m in sys.modules])\n"
    )
    result = run(code)
    assert result.stdout.strip() == "[]", result.stderr


def test_building_is_silent_even_with_warnings_as_errors():
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "from outrider.robots.robosuite.plugin import build\n"
        "from outrider.robots.robosuite.config import RobosuiteConfig as C\n"
        "sim = build('lift', C()); sim.reset(0); sim.close()\n"
    )
    result = run(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "robosuite", None)
    with pytest.raises(MissingDependency, match=r"'robosuite', which is not installed.*\[sim\]"):
        require_packages("lift")
