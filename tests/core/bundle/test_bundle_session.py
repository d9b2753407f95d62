"""A session answers as the graph does, allocates once, and says plainly what is missing."""

import subprocess
import sys
import textwrap
import tracemalloc

import bundle_fakes as fakes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from outrider.core.bundle.enclosed import require_enclosed
from outrider.core.bundle.session import Session
from outrider.core.errors import CheckFailed, OutriderError


@pytest.fixture
def session():
    made = Session(fakes.graph())
    made.bind(fakes.O, (fakes.H, fakes.A), (fakes.E, fakes.A))
    return made


def test_act_is_the_graph(session):
    vectors = fakes.vectors()
    np.testing.assert_allclose(
        session.act(vectors.observation, vectors.noise), vectors.action, atol=1e-6
    )


def test_infer_equals_act_bitwise(session):
    vectors = fakes.vectors()
    for observation, noise in zip(vectors.observation, vectors.noise, strict=True):
        expected = session.act(observation[None], noise[None])[0]
        np.testing.assert_array_equal(session.infer(observation, noise), expected)


def test_the_answer_lies_in_one_buffer(session):
    vectors = fakes.vectors()
    first = session.infer(vectors.observation[0], vectors.noise[0])
    kept = first.copy()
    second = session.infer(vectors.observation[1], vectors.noise[1])
    assert np.shares_memory(first, second)
    assert not np.array_equal(first, kept), "the next call overwrites it, as documented"


def test_many_calls_do_not_grow(session):
    vectors = fakes.vectors()
    observation, noise = vectors.observation[0], vectors.noise[0]

    def calls(n):
        for _ in range(n):
            session.infer(observation, noise)

    calls(100)
    tracemalloc.start()
    try:
        calls(100)
        blocks, memory = sys.getallocatedblocks(), tracemalloc.get_traced_memory()[0]
        calls(20_000)
        assert sys.getallocatedblocks() - blocks < 50
        assert tracemalloc.get_traced_memory()[0] - memory < 10_000
    finally:
        tracemalloc.stop()


def test_what_the_graph_says_of_itself(session):
    assert session.inputs == {
        "observation": [None, fakes.O],
        "noise": [None, fakes.H, fakes.A],
    }
    assert session.outputs == {"action": [None, fakes.E, fakes.A]}
    assert session.metadata["outrider.name"] == fakes.NAME


def test_infer_wants_buffers():
    with pytest.raises(OutriderError, match="bind the buffers"):
        Session(fakes.graph()).infer(np.zeros(fakes.O), np.zeros((fakes.H, fakes.A)))


def test_buffers_of_another_shape_than_the_graphs():
    session = Session(fakes.graph())
    session.bind(fakes.O, (fakes.H, fakes.A), (fakes.E + 1, fakes.A))
    with pytest.raises(CheckFailed, match="inference failed"):
        session.infer(np.zeros(fakes.O, np.float32), np.zeros((fakes.H, fakes.A), np.float32))
    with pytest.raises(CheckFailed, match="inference failed"):
        session.act(np.zeros((1, 9), np.float32), np.zeros((1, fakes.H, fakes.A), np.float32))


def test_a_graph_with_other_names():
    with pytest.raises(OutriderError, match="the graph takes") as caught:
        Session(fakes.graph(names=("observation", "noise", "command")))
    assert "command" in str(caught.value)


# --- graphs that refer to files -----------------------------------------------------------------


def tensor(external):
    made = helper.make_tensor("t", TensorProto.FLOAT, [1], np.float32([1]).tobytes(), raw=True)
    if external:
        made.ClearField("raw_data")
        made.data_location = TensorProto.EXTERNAL
        entry = made.external_data.add()
        entry.key, entry.value = "location", "/etc/hostname"
    return made


def in_initializer(t):
    return [], [t]


def in_constant(t):
    return [helper.make_node("Constant", [], ["c"], value=t)], []


def in_list_of_tensors(t):
    node = helper.make_node("Constant", [], ["c"])
    attribute = node.attribute.add()
    attribute.name, attribute.type = "many", onnx.AttributeProto.TENSORS
    attribute.tensors.append(t)
    return [node], []


def in_branch(t):
    inner = helper.make_node("Constant", [], ["c"], value=t)
    branch = helper.make_graph([inner], "branch", [], [])
    return [helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)], []


@pytest.mark.parametrize("place", [in_initializer, in_constant, in_list_of_tensors, in_branch])
def test_a_tensor_in_a_file_is_found_wherever_it_is(place):
    for external in (False, True):
        nodes, initializers = place(tensor(external))
        model = helper.make_model(helper.make_graph(nodes, "g", [], [], initializers))
        if external:
            with pytest.raises(OutriderError, match="file outside itself"):
                require_enclosed(model.SerializeToString())
        else:
            require_enclosed(model.SerializeToString())


def test_a_tensor_in_a_file_inside_a_function_or_a_sparse_tensor():
    node = helper.make_node("Constant", [], ["c"], value=tensor(True))
    function = helper.make_function("d", "f", [], ["c"], [node], [helper.make_opsetid("", 20)])
    model = helper.make_model(helper.make_graph([], "g", [], []), functions=[function])
    with pytest.raises(OutriderError, match="file outside itself"):
        require_enclosed(model.SerializeToString())
    model = helper.make_model(helper.make_graph([], "g", [], []))
    model.graph.sparse_initializer.add().values.CopyFrom(tensor(True))
    with pytest.raises(OutriderError, match="file outside itself"):
        require_enclosed(model.SerializeToString())


def enclosing(field, content):
    """A message whose one field holds `content`."""
    length, size = bytearray(), len(content)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([field << 3 | 2, *length, size]) + content


def test_nesting_without_end_is_refused():
    graph = b""
    for _ in range(5000):
        graph = enclosing(1, enclosing(5, enclosing(6, graph)))  # a node's attribute's graph
    with pytest.raises(OutriderError, match="nested too deeply"):
        require_enclosed(enclosing(7, graph))


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_nonsense_is_an_outrider_error_or_harmless(content):
    try:
        require_enclosed(content)
    except OutriderError as error:
        assert "\n" not in str(error)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_graph_never_raises_anything_else(data):
    graph = bytearray(fakes.graph())
    position = data.draw(st.integers(0, len(graph) - 1))
    graph[position] ^= data.draw(st.integers(1, 255))
    try:
        require_enclosed(bytes(graph))
    except OutriderError as error:
        assert "\n" not in str(error)


# --- other processes ----------------------------------------------------------------------------

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocker())
"""


def python(code, *arguments, blocked=()):
    text = BLOCKER.format(blocked=set(blocked) or "()") + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


RUN = """
from outrider.core.cli.app import main
main(sys.argv[1:])
"""


def test_without_onnxruntime(tmp_path):
    path = fakes.make_bundle(tmp_path / "b.outrider")
    done = python(RUN, "verify", path, blocked=["onnxruntime"])
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "pip install 'outrider[cpu]'" in done.stderr


ELSEWHERE = ["torch", "mujoco", "zarr", "h5py", "robosuite", "dm_control", "gymnasium", "onnx"]


@pytest.mark.parametrize(
    "arguments", [["verify"], ["bench", "--repeats", "50", "--seconds", "0", "--json"]]
)
def test_a_robot_needs_nothing_of_the_workshop(tmp_path, arguments):
    path = fakes.make_bundle(tmp_path / "b.outrider")
    done = python(RUN, arguments[0], path, *arguments[1:], blocked=ELSEWHERE)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "ONNX Runtime and the rest stay silent"


def test_a_graph_that_cannot_be_loaded_is_one_line(tmp_path):
    """ONNX Runtime's own log would write more lines to standard error."""
    model = onnx.load_model_from_string(fakes.graph())
    model.graph.node[0].op_type = "NoSuchOperator"
    path = fakes.make_bundle(tmp_path / "b.outrider", graph=model.SerializeToString())
    done = python(RUN, "verify", path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "cannot load the graph" in done.stderr
    done = python(RUN, "verify", path, "--provider", "cuda")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_the_runtimes_own_format_is_not_read(tmp_path, monkeypatch):
    """A file may be an ONNX model to `require_enclosed` and a flatbuffer to ONNX Runtime."""
    saved = tmp_path / "policy.ort"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(saved)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(fakes.graph(), options, providers=["CPUExecutionProvider"])
    content = saved.read_bytes()
    assert content[4:8] == b"ORTM"
    monkeypatch.setattr("outrider.core.bundle.session.require_enclosed", lambda graph: None)
    with pytest.raises(OutriderError, match="cannot load the graph"):
        Session(content)
