"""Execution providers: made ready before a session asks for one, diagnosed when it is not active.

A GPU package of ONNX Runtime lists CUDA and TensorRT as available on a machine that has neither.
Whether a provider is active shows only once a session exists, and the reason why it is not goes
to ONNX Runtime's own log. Here it is found again, so that one line can say it.
"""

import contextlib
import ctypes
import io
from pathlib import Path
from typing import Any

from outrider.core.errors import OutriderError, nearest

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
_SILENT = 4  # fatal errors only: whatever else goes wrong is raised or looked at


def require_known(provider: str) -> None:
    """Refuse a name that is no provider."""
    if provider not in PROVIDERS:
        raise OutriderError(
            f"unknown execution provider {provider!r}",
            where="execution provider",
            fix=nearest(provider, list(PROVIDERS)),
        )


def prepare(runtime: Any, provider: str) -> None:
    """Make a GPU provider ready: silence its log, load the libraries that came by pip.

    The CUDA packages of pip lie where the system's loader does not look. ONNX Runtime has a
    function that loads them (from 1.21 on), but calls it only when asked.

    Args:
        runtime: the module onnxruntime.
        provider: `cpu`, `cuda` or `tensorrt`.

    Raises:
        OutriderError: when the installed ONNX Runtime was built without the provider.
    """
    if PROVIDERS[provider] not in runtime.get_available_providers():
        raise inactive(runtime, provider, [PROVIDERS["cpu"]])
    if provider == "cpu":
        return
    runtime.set_default_logger_severity(_SILENT)
    preload = getattr(runtime, "preload_dlls", None)
    if preload is not None:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not find
            preload()


def inactive(runtime: Any, provider: str, active: list[str]) -> OutriderError:
    """The error for a provider that was asked for and is not active, with the reason."""
    reason = missing(runtime, provider) or "its libraries load, but it takes no device here"
    return OutriderError(
        f"asked for {PROVIDERS[provider]}, but active is {', '.join(active)} ({reason})",
        where="execution provider",
        fix="Install outrider[gpu] and the driver's libraries, or say --provider cpu.",
    )


def missing(runtime: Any, provider: str) -> str:
    """What the provider lacks on this machine; empty when everything of it can be loaded."""
    if PROVIDERS[provider] not in runtime.get_available_providers():
        return f"the installed ONNX Runtime {runtime.__version__} was built without it"
    if provider == "cpu":
        return ""
    folder = Path(runtime.__file__).parent / "capi"
    try:
        for name in ("shared", provider):
            library = folder / f"libonnxruntime_providers_{name}.so"
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    return ""
