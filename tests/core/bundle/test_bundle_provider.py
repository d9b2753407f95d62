"""Execution providers that are listed, yet not there: the reason in one line, and no fallback."""

import ctypes
from types import SimpleNamespace

import bundle_fakes as fakes
import pytest

from outrider.core.bundle import session as session_module
from outrider.core.bundle.provider import PROVIDERS, missing, prepare
from outrider.core.bundle.session import Session
from outrider.core.errors import OutriderError


class FakeRuntime:
    """A GPU edition of ONNX Runtime on a machine without a GPU, as it was seen to behave.

    Args:
        lists: providers that the package says it has.
        active: providers of a session once it exists, or what its creation raises.
        folder: of the package.
    """

    __version__ = "1.31.1"

    def __init__(self, lists, active, folder):
        self.lists, self.active = lists, active
        self.__file__ = str(folder / "__init__.py")
        self.severity, self.preloads, self.asked = None, 0, None

    def SessionOptions(self):  # noqa: N802
        return SimpleNamespace(add_session_config_entry=lambda key, value: None)

    def InferenceSession(self, graph, options, **asked):  # noqa: N802
        self.asked = asked
        if isinstance(self.active, Exception):
            raise self.active
        return SimpleNamespace(get_providers=lambda: self.active)

    def get_available_providers(self):
        return self.lists

    def set_default_logger_severity(self, level):
        self.severity = level

    def preload_dlls(self):
        self.preloads += 1
        print("Failed to load libcublasLt.so.13")


GPU = [PROVIDERS["tensorrt"], PROVIDERS["cuda"], PROVIDERS["cpu"]]


@pytest.fixture
def opening(monkeypatch, tmp_path):
    """Open a session on a fake package; gives the package and the error."""

    def open_one(provider, active, lists=GPU):
        runtime = FakeRuntime(lists, active, tmp_path)
        monkeypatch.setattr(session_module, "_onnxruntime", lambda: runtime)
        with pytest.raises(OutriderError) as caught:
            Session(fakes.graph(), provider)
        return runtime, str(caught.value)

    return open_one


def test_listed_but_its_library_is_missing(opening, capfd):
    runtime, text = opening("cuda", [PROVIDERS["cpu"]])
    assert "asked for CUDAExecutionProvider, but active is CPUExecutionProvider" in text
    assert "cannot open shared object file" in text, "the reason is said"
    assert runtime.asked == {"providers": [PROVIDERS["cuda"]], "enable_fallback": False}
    assert runtime.severity == 4 and runtime.preloads == 1
    assert capfd.readouterr() == ("", ""), "one line, and it is ours"


def test_a_creation_that_raises_for_want_of_a_library(opening):
    """TensorRT raises where CUDA says nothing."""
    _, text = opening("tensorrt", RuntimeError("Please install TensorRT libraries"))
    assert "asked for TensorrtExecutionProvider, but active is none" in text
    assert "libonnxruntime_providers_shared.so: cannot open shared object file" in text


def test_a_creation_that_raises_for_another_reason(opening, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda path, mode: None)
    _, text = opening("cuda", RuntimeError("no kernel for Foo"))
    assert "cannot load the graph on CUDAExecutionProvider (no kernel for Foo)" in text


def test_libraries_without_a_device(opening, monkeypatch):
    loaded = []
    monkeypatch.setattr(ctypes, "CDLL", lambda path, mode: loaded.append(path))
    _, text = opening("cuda", [PROVIDERS["cpu"]])
    assert "its libraries load, but it takes no device here" in text
    assert [path.rpartition("_")[2] for path in loaded] == ["shared.so", "cuda.so"]


def test_a_package_built_without_it(opening):
    runtime, text = opening("cuda", [PROVIDERS["cpu"]], lists=[PROVIDERS["cpu"]])
    assert "the installed ONNX Runtime 1.31.1 was built without it" in text
    assert runtime.asked is None, "no session was tried"


def test_the_cpu_needs_no_preparation(tmp_path):
    runtime = FakeRuntime(GPU, [PROVIDERS["cpu"]], tmp_path)
    prepare(runtime, "cpu")
    assert runtime.severity is None and runtime.preloads == 0
    assert missing(runtime, "cpu") == ""


def test_an_older_package_cannot_preload(tmp_path, monkeypatch):
    monkeypatch.delattr(FakeRuntime, "preload_dlls")
    runtime = FakeRuntime(GPU, GPU, tmp_path)
    prepare(runtime, "cuda")
    assert runtime.severity == 4
