"""`outrider control` on the toy robot."""

import json

import bundle_fakes as fakes
import numpy as np
import pytest

from outrider.core.bundle.archive import ParityVectors
from outrider.core.bundle.verify import contract_metadata
from outrider.core.cli.app import run
from outrider.core.export.bundle import assemble
from outrider.robots.toy.config import CorridorsConfig
from outrider.robots.toy.plugin import build

TOY = "toy/corridors"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A policy that is right for the toy robot in everything but its skill."""
    spec = build("corridors", CorridorsConfig()).spec
    o, a, rng = spec.observation.size, spec.action.size, np.random.default_rng(0)
    w = rng.normal(size=(o, a)).astype(np.float32)
    observation = rng.normal(size=(fakes.N, o)).astype(np.float32)
    noise = rng.normal(size=(fakes.N, fakes.H, a)).astype(np.float32)
    target = tmp_path_factory.mktemp("toy") / "toy.outrider"
    contents = fakes.contents(
        task=spec,
        graph=fakes.graph(
            w,
            sizes=(o, fakes.H, fakes.E, a),
            metadata=contract_metadata(fakes.NAME, fakes.VERSION, spec),
        ),
        vectors=ParityVectors(observation, noise, fakes.answer(observation, noise, w)),
        action_scale=np.ones(a, np.float32),
        provenance={"recipe": ["not", "what", "is", "expected"]},
    )
    assemble(target, contents)
    return target


def test_two_episodes(path, capsys):
    arguments = ["control", str(path), "--robot", f"sim:{TOY}", "--episodes", "2", "--fast"]
    assert run([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["episodes"] == 2 and found["ticks"] > 0 and found["real_time"] is False
    assert found["provider"] == "cpu" and found["deadline_misses"] == 0
    assert run(arguments) == 0
    assert "2 episodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "robot, words",
    [
        ("ros:arm", "cannot reach a robot"),
        ("sim:toy/nothing", "toy/"),
        ("sim:no/robot", "no task family 'no'"),
    ],
)
def test_robots_that_are_not_there(path, capsys, robot, words):
    assert run(["control", str(path), "--robot", robot]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and words in err


def test_a_bundle_for_another_robot_is_refused(tmp_path, capsys):
    other = fakes.make_bundle(tmp_path / "b.outrider")
    assert run(["control", str(other), "--robot", f"sim:{TOY}", "--fast"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "does not fit" in err


def test_a_bundle_that_does_not_hold_never_reaches_the_robot(tmp_path, capsys):
    broken = fakes.make_bundle(tmp_path / "b.outrider", graph=fakes.graph(poison=0.5))
    assert run(["control", str(broken), "--robot", f"sim:{TOY}"]) == 1
    assert "Do not run it" in capsys.readouterr().err
