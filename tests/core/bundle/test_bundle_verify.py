"""Parity and contract, re-proved on this machine; and the same through the command line."""

import json
import sys

import bundle_fakes as fakes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from outrider.core.bundle.archive import ParityVectors, open_bundle, write_bundle
from outrider.core.bundle.session import Session
from outrider.core.bundle.verify import BLOCK, DIGEST, contract_metadata, verify
from outrider.core.cli.app import run
from outrider.core.errors import CheckFailed
from outrider.core.task_json import task_to_json
from outrider.core.types import Spec, TaskSpec


@pytest.fixture
def path(tmp_path):
    return fakes.make_bundle(tmp_path / "fake-0.1.0.outrider")


def cli(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def check_failed(path, capsys, *words):
    """The certificate fails, and the command line says so in one line with exit code 1."""
    certificate = verify(open_bundle(path))
    assert not certificate.passed and certificate.failures
    with pytest.raises(CheckFailed):
        certificate.require()
    code, out, err = cli(capsys, "verify", path)
    assert code == 1 and out == ""
    assert err.count("\n") == 1 and err.startswith("outrider: ") and "Do not run it" in err
    for word in words:
        assert word in err
    code, out, err = cli(capsys, "verify", path, "--json")
    assert code == 1 and json.loads(out)["passed"] is False and err.count("\n") == 1
    return certificate


def check_refused(path, capsys, *words, code=2, options=()):
    found, out, err = cli(capsys, "verify", path, *options)
    assert found == code and out == ""
    assert err.count("\n") == 1 and err.startswith("outrider: ")
    assert len(err) < len(str(path)) + 1500
    for word in words:
        assert word in err
    return err


# --- what holds ---------------------------------------------------------------------------------


def test_a_good_bundle_holds(path, capsys):
    certificate = verify(open_bundle(path))
    assert certificate.passed and certificate.failures == ()
    assert certificate.n == fakes.N and certificate.provider == "cpu"
    assert certificate.max_abs_error <= 1e-6 and certificate.batch_error <= 1e-6
    assert set(certificate.field_errors) == {"shoulder", "elbow"}
    code, out, err = cli(capsys, "verify", path)
    assert code == 0 and err == ""
    assert "fake-0.1.0: holds on cpu" in out and "elbow" in out


def test_the_certificate_is_written(path, tmp_path, capsys):
    target = tmp_path / "certificate.json"
    code, out, _ = cli(capsys, "verify", path, "--certificate", target, "--json")
    assert code == 0
    assert json.loads(target.read_text()) == json.loads(out)
    assert json.loads(out)["versions"]["python"] == sys.version.split()[0]


# --- what does not ------------------------------------------------------------------------------


def test_a_shift_is_measured_exactly_in_both_units(path, capsys):
    """+0.5 on everything: 0.5 rad/s, which is 0.5 and 0.25 in units of (1, 2)."""
    fakes.make_bundle(path, graph=fakes.graph(poison=0.5))
    certificate = check_failed(
        path, capsys, "actions differ by 0.5 in normalised units, allowed 1e-05"
    )
    assert certificate.max_abs_error == pytest.approx(0.5, abs=1e-6)
    assert certificate.field_errors["shoulder"] == pytest.approx(0.5, abs=1e-6)
    assert certificate.field_errors["elbow"] == pytest.approx(0.5, abs=1e-6)
    assert certificate.batch_error <= 1e-6


def test_a_corrupted_normaliser(path, capsys):
    w = fakes.weights()
    w[1] *= 1.001
    fakes.make_bundle(path, graph=fakes.graph(w))
    certificate = check_failed(path, capsys, "actions differ by", "normalised units")
    observation, noise = fakes.vectors().observation, fakes.vectors().noise
    expected = np.abs(fakes.answer(observation, noise, w) - fakes.vectors().action) / [1, 2]
    assert certificate.max_abs_error == pytest.approx(expected.max(), abs=1e-6)
    assert certificate.first_action_error == pytest.approx(expected[:, 0].max(), abs=1e-6)


def test_a_single_bad_action_of_the_last_observation(path, capsys):
    action = fakes.vectors().action.copy()
    action[-1, -1, -1] += 1e-3
    vectors = ParityVectors(fakes.vectors().observation, fakes.vectors().noise, action)
    fakes.make_bundle(path, parity=vectors)
    certificate = check_failed(path, capsys, "actions differ by 0.0005")
    assert certificate.first_action_error <= 1e-6


def test_a_graph_with_its_joints_swapped(path, capsys):
    fakes.make_bundle(path, graph=fakes.graph(fakes.weights()[:, ::-1]))
    check_failed(path, capsys, "actions differ by")


def test_a_manifest_with_its_joints_swapped(path, capsys):
    """Parity cannot see this: the numbers are right, their names are not."""
    task = fakes.TASK
    swapped = TaskSpec(
        task.task,
        task.observation,
        Spec(task.action.fields[::-1]),
        task.rate_hz,
        task.max_steps,
        task.ends_on_success,
        task.reward,
    )
    fakes.make_bundle(path, task=task_to_json(swapped), safety={})
    check_failed(path, capsys, DIGEST)


def test_a_graph_without_the_digest_is_judged_by_its_names(path):
    bare = contract_metadata(fakes.NAME, fakes.VERSION, fakes.TASK.task)
    assert DIGEST not in bare
    fakes.make_bundle(path, graph=fakes.graph(metadata=bare))
    assert verify(open_bundle(path)).passed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_answers_that_are_not_finite(path, capsys, value):
    fakes.make_bundle(path, graph=fakes.graph(poison=value))
    certificate = check_failed(path, capsys, "actions differ by")
    assert certificate.to_json()["max_abs_error"] is None
    json.dumps(certificate.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "key, name, version, task",
    [
        ("outrider.name", "other", fakes.VERSION, fakes.TASK),
        ("outrider.version", fakes.NAME, "0.2.0", fakes.TASK),
        ("outrider.task", fakes.NAME, fakes.VERSION, "fake/other"),
    ],
)
def test_the_graph_of_another_bundle(path, capsys, key, name, version, task):
    fakes.make_bundle(path, graph=fakes.graph(metadata=contract_metadata(name, version, task)))
    check_failed(path, capsys, f"metadata says {key}")


def test_a_graph_without_metadata(path, capsys):
    fakes.make_bundle(path, graph=fakes.graph(metadata={}))
    check_failed(path, capsys, "metadata says outrider.name = 'None'")


def test_a_frozen_batch(path, capsys):
    fakes.make_bundle(path, graph=fakes.graph(batch=1))
    check_failed(path, capsys, "observation has shape (1, 3), the contract says (B, 3)")


@pytest.mark.parametrize(
    "sizes", [(fakes.O + 1, fakes.H, fakes.E, fakes.A), (fakes.O, fakes.H + 1, fakes.E, fakes.A)]
)
def test_other_shapes(path, capsys, sizes):
    w = np.zeros((sizes[0], fakes.A), np.float32)
    fakes.make_bundle(path, graph=fakes.graph(w, sizes=sizes))
    check_failed(path, capsys, "the contract says")


def test_a_manifest_that_declares_other_shapes(path, capsys):
    declared = fakes.manifest().graph.model_copy(update={"outputs": {"action": [None, 9, 9]}})
    write_bundle(path, fakes.manifest(graph=declared), fakes.members())
    check_failed(path, capsys, "declares other shapes than the graph has")


def edited(change):
    model = onnx.load_model_from_string(fakes.graph())
    change(model)
    return model.SerializeToString(deterministic=True)


def test_a_batch_that_is_mixed_is_found(path, capsys):
    """Subtracting the batch's mean is right for the recorded batch, and wrong for one row."""

    def mix(model):
        for node in model.graph.node:
            if node.op_type == "MatMul":
                node.output[0] = "raw"
        mean = helper.make_node("ReduceMean", ["raw", "from"], ["mean"], keepdims=1)
        model.graph.node.insert(1, mean)
        model.graph.node.insert(2, helper.make_node("Sub", ["raw", "mean"], ["wo"]))

    observation, noise = fakes.vectors().observation, fakes.vectors().noise
    raw = observation @ fakes.weights()
    row = raw - raw.mean(0)
    action = np.clip(row[:, None] + noise[:, : fakes.E], -2, 2).astype(np.float32)
    fakes.make_bundle(path, graph=edited(mix), parity=ParityVectors(observation, noise, action))
    certificate = check_failed(path, capsys, "a batch differs from its rows one by one")
    assert certificate.max_abs_error <= 1e-5


def test_a_batch_that_only_looks_dynamic(path, capsys):
    def freeze(model):
        shape = onnx.numpy_helper.from_array(np.int64([1, 1, fakes.A]), "shape")
        model.graph.initializer.append(shape)
        for node in model.graph.node:
            if node.op_type == "Unsqueeze":
                node.op_type = "Reshape"
                node.input[1] = "shape"

    fakes.make_bundle(path, graph=edited(freeze))
    check_refused(path, capsys, "inference failed", code=1)


def test_memory_does_not_grow_with_the_vectors(path, monkeypatch):
    """All rows are judged, the last one too, yet never more than a block at a time."""
    n = 2 * BLOCK + 3
    vectors = fakes.vectors(n)
    action = vectors.action.copy()
    action[-1, 1, 0] += 0.25
    bad = ParityVectors(vectors.observation, vectors.noise, action)
    members = fakes.members(**{"parity.npz": bad.to_bytes()})
    write_bundle(path, fakes.manifest(parity=fakes.make_parity(n)), members)
    sizes, act = [], Session.act

    def counted(self, observation, noise):
        sizes.append(len(observation))
        return act(self, observation, noise)

    monkeypatch.setattr(Session, "act", counted)
    found = verify(open_bundle(path))
    assert found.max_abs_error == pytest.approx(0.25, abs=1e-6) and found.n == n
    assert sizes[:3] == [BLOCK, BLOCK, 3] and set(sizes[3:]) == {1}


def test_other_names(path, capsys):
    fakes.make_bundle(path, graph=fakes.graph(names=("obs", "noise", "action")))
    check_refused(path, capsys, "the graph takes ['noise', 'obs']", "expected")


def test_other_numbers(path, capsys):
    def double(model):
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
        for tensor in model.graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))

    fakes.make_bundle(path, graph=edited(double))
    check_refused(path, capsys, "tensor(double) where float32 is expected")


@pytest.mark.parametrize("content", [b"", b"no graph", b"\x08\x09", b"\xff" * 100, bytes(1000)])
def test_graphs_that_are_none(path, capsys, content):
    fakes.make_bundle(path, graph=content)
    check_refused(path, capsys, "policy graph")


def test_weights_outside_the_bundle(path, capsys, tmp_path, monkeypatch):
    """ONNX Runtime would read the file from the working folder, and no digest covers it."""

    def move_out(model):
        for tensor in model.graph.initializer:
            if tensor.name == "w":
                (tmp_path / "outside.bin").write_bytes(tensor.raw_data)
                tensor.ClearField("raw_data")
                tensor.data_location = TensorProto.EXTERNAL
                entry = tensor.external_data.add()
                entry.key, entry.value = "location", "outside.bin"

    monkeypatch.chdir(tmp_path)
    fakes.make_bundle(path, graph=edited(move_out))
    check_refused(path, capsys, "weights in a file outside itself")


def test_too_few_vectors(path, capsys):
    vectors = fakes.vectors(99)
    members = fakes.members(**{"parity.npz": vectors.to_bytes()})
    write_bundle(path, fakes.manifest(parity=fakes.make_parity(99)), members)
    check_refused(path, capsys, "99 recorded observations, at least 100 are needed")


# --- providers ----------------------------------------------------------------------------------


def test_an_unknown_provider(path, capsys):
    check_refused(path, capsys, "did you mean 'cuda'", options=["--provider", "cude"])


@pytest.mark.parametrize("provider", ["cuda", "tensorrt"])
def test_a_provider_that_is_not_there_is_no_silent_fallback(path, capsys, provider):
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this machine may really have it")
    check_refused(path, capsys, "but active is", "outrider[gpu]", options=["--provider", provider])


# --- the command line on files that are no bundles ----------------------------------------------


def test_the_command_line_on_damage(path, tmp_path, capsys):
    check_refused(tmp_path / "none.outrider", capsys, "no such bundle")
    check_refused(tmp_path, capsys, "no file")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    check_refused(path, capsys, "damaged or truncated")
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    path.write_bytes(bytes(changed))
    check_refused(path, capsys, "damaged or truncated")


@pytest.mark.filterwarnings("error")
def test_a_scale_next_to_nothing_fails_without_a_warning(path, capsys):
    wrong = fakes.graph(fakes.weights() + 1)
    certificate = verify(fakes.opened(path, graph=wrong, action_scale=[1e-320, 1e-320]))
    assert not certificate.passed and certificate.to_json()["max_abs_error"] is None
