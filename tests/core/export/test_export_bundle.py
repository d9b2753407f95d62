"""A bundle is put in place only when it reproduces the policy; its error is written into it."""

import bundle_fakes as fakes
import numpy as np
import pytest

from outrider.core.bundle.archive import ParityVectors, open_bundle
from outrider.core.bundle.verify import verify
from outrider.core.errors import CheckFailed, OutriderError
from outrider.core.export.bundle import assemble
from outrider.core.types import Field, Spec, TaskSpec


def check_refused(tmp_path, words, kind=OutriderError, **changes):
    with pytest.raises(kind, match=words) as caught:
        assemble(tmp_path / "b.outrider", fakes.contents(**changes))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def shifted(by):
    vectors = fakes.vectors()
    action = (vectors.action + np.float32(by)).astype(np.float32)
    return ParityVectors(vectors.observation, vectors.noise, action)


def test_the_bundle_holds_and_knows_its_error(tmp_path):
    path = tmp_path / "folder" / "b.outrider"
    error = assemble(path, fakes.contents(vectors=shifted(1e-6)))
    bundle = open_bundle(path)
    assert bundle.manifest.parity.max_abs_error == error
    assert bundle.manifest.precision["fp32"]["max_abs_error"] == error
    assert error == pytest.approx(1e-6, abs=5e-7) and error > 0
    certificate = verify(bundle)
    assert certificate.passed and certificate.max_abs_error == error


def test_what_the_manifest_says(tmp_path):
    path = tmp_path / "b.outrider"
    assemble(
        path,
        fakes.contents(
            description="a test",
            denoising={"steps": 10},
            plugins={"p": "1.0"},
            provenance={"seed": 3},
            evaluation={"base": {"success": 0.5}},
        ),
    )
    bundle = open_bundle(path)
    manifest = bundle.manifest
    assert bundle.task == fakes.TASK
    assert (manifest.name, manifest.version) == (fakes.NAME, fakes.VERSION)
    assert manifest.safety == {"low": [-1.0, -2.0], "high": [1.0, 2.0]}
    assert manifest.robot == {"task": "fake/reach"} and manifest.action_scale == [1.0, 2.0]
    assert manifest.denoising == {"steps": 10} and manifest.plugins == {"p": "1.0"}
    assert manifest.provenance == {"seed": 3}
    assert manifest.evaluation == {"base": {"success": 0.5}}
    assert manifest.graph.opset == fakes.OPSET and manifest.parity.n == fakes.N


def test_the_same_contents_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        assemble(tmp_path / name, fakes.contents(parts={"p": {"x.bin": b"1", "a.bin": b"2"}}))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_parts_travel_under_their_plugin(tmp_path):
    parts = {"planner": {"map.npz": b"map", "graphs/value.onnx": b"value"}, "other": {}}
    assemble(
        tmp_path / "b", fakes.contents(parts=parts, files={"report/report.html": b"<html></html>"})
    )
    members = open_bundle(tmp_path / "b").members
    assert set(members) == {
        "policy.onnx",
        "parity.npz",
        "parts/planner/map.npz",
        "parts/planner/graphs/value.onnx",
        "report/report.html",
    }
    assert members["parts/planner/graphs/value.onnx"] == b"value"


def test_a_graph_that_differs_leaves_nothing_behind(tmp_path):
    check_refused(tmp_path, "actions differ by", CheckFailed, vectors=shifted(1e-3))
    check_refused(tmp_path, "metadata", CheckFailed, graph=fakes.graph(metadata={}))
    check_refused(tmp_path, "contract says", CheckFailed, graph=fakes.graph(batch=1))


def test_a_failure_leaves_the_old_bundle(tmp_path):
    path = tmp_path / "b.outrider"
    assemble(path, fakes.contents())
    before = path.read_bytes()
    with pytest.raises(CheckFailed):
        assemble(path, fakes.contents(vectors=shifted(1e-3)))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_too_few_vectors(tmp_path):
    check_refused(tmp_path, "at least 100", vectors=fakes.vectors(99))


def test_vectors_that_are_not_finite(tmp_path):
    check_refused(tmp_path, "action is not finite", vectors=shifted(np.nan))


@pytest.mark.parametrize("plugin", ["..", "../x", "/abs", "a b"])
def test_a_plugin_with_a_name_that_leads_outside(tmp_path, plugin):
    check_refused(tmp_path, "not plain and relative", parts={plugin: {"x": b""}})


@pytest.mark.parametrize("name", ["policy.onnx", "parity.npz", "manifest.json", "parts/p/x"])
def test_further_files_may_not_take_a_place(tmp_path, name):
    check_refused(tmp_path, "is called", files={name: b""})


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "1"},
        {"name": "a/b"},
        {"tolerance": 0.0},
        {"tolerance": np.nan},
        {"action_scale": np.float32([1, 0])},
        {"action_scale": np.float32([1, np.inf])},
        {"action_scale": np.float32([1])},
        {"execute": fakes.H + 1},
        {"provenance": {"x": object()}},
    ],
)
def test_contents_without_sense(tmp_path, changes):
    check_refused(tmp_path, ".", **changes)


def test_a_task_without_limits_is_refused(tmp_path):
    task = fakes.TASK
    free = Spec((Field("shoulder", (), "rad/s"), task.action.fields[1]))
    open_ended = TaskSpec(task.task, task.observation, free, 50.0, 10, True, "")
    check_refused(tmp_path, r"safety", task=open_ended)
