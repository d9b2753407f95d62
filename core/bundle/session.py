"""ONNX Runtime behind a face that refuses to fall back in silence."""

import warnings
from typing import Any

import numpy as np

from outrider.core.bundle.enclosed import require_enclosed
from outrider.core.bundle.provider import PROVIDERS, inactive, missing, prepare, require_known
from outrider.core.errors import CheckFailed, MissingDependency, OutriderError
from outrider.core.types import Float

INPUTS, OUTPUT = ("observation", "noise"), "action"


class Session:
    """One graph on one execution provider, with buffers that are allocated once.

    Args:
        graph: serialised ONNX model.
        provider: `cpu`, `cuda` or `tensorrt`. If it is not the active one once the session
            exists, that is an error: ONNX Runtime itself would go on on the CPU.
        threads: of one inference. One is fastest for small networks, and leaves the other cores
            to the robot's software.

    Raises:
        MissingDependency: when ONNX Runtime is not installed.
        OutriderError: when the provider is unknown or inactive, or the graph cannot be loaded.
    """

    def __init__(self, graph: bytes, provider: str = "cpu", threads: int = 1) -> None:
        self._runtime = _onnxruntime()
        require_known(provider)
        require_enclosed(graph)
        self.provider = provider
        self._session = self._open(graph, threads)
        active = self._session.get_providers()
        if PROVIDERS[provider] not in active:
            raise inactive(self._runtime, provider, active)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self.inputs = {node.name: _shape(node.shape) for node in inputs}
        self.outputs = {node.name: _shape(node.shape) for node in outputs}
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        if set(self.inputs) != set(INPUTS) or set(self.outputs) != {OUTPUT}:
            raise OutriderError(
                f"the graph takes {sorted(self.inputs)} and gives {sorted(self.outputs)}; "
                f"expected {sorted(INPUTS)} and {[OUTPUT]}",
                where="policy graph",
                fix="Export it again.",
            )
        strange = {node.type for node in (*inputs, *outputs)} - {"tensor(float)"}
        if strange:
            raise OutriderError(
                f"the graph has {', '.join(sorted(strange))} where float32 is expected",
                where="policy graph",
                fix="Export it again in float32.",
            )
        self._bound: _Buffers | None = None

    def _open(self, graph: bytes, threads: int) -> Any:
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # the checks below say what matters, in one line
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Else ONNX Runtime tells formats apart by bytes 4 to 7, and a file may be both this and its
        # own format, of which `require_enclosed` knows nothing.
        options.add_session_config_entry("session.load_model_format", "ONNX")
        wanted = PROVIDERS[self.provider]
        prepare(self._runtime, self.provider)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what is active is looked at afterwards
                return self._runtime.InferenceSession(
                    graph,
                    options,
                    providers=[wanted],
                    enable_fallback=False,  # else it prints, and goes on on the CPU
                )
        except Exception as error:  # ONNX Runtime raises many kinds
            if missing(self._runtime, self.provider):
                raise inactive(self._runtime, self.provider, ["none"]) from error
            raise OutriderError(
                f"ONNX Runtime cannot load the graph on {wanted} ({error})",
                where="policy graph",
                fix="Export it again, or update ONNX Runtime.",
            ) from error

    def act(self, observation: Float, noise: Float) -> Float:
        """Observation (B, O), noise (B, H, A) -> executed chunk (B, E, A), physical units.

        Raises:
            CheckFailed: when ONNX Runtime cannot compute it.
        """
        feed = {INPUTS[0]: observation, INPUTS[1]: noise}
        try:
            chunk: Float = self._session.run([OUTPUT], feed)[0]
        except Exception as error:  # ONNX Runtime raises many kinds
            raise _inference_failed(error) from error
        return chunk

    def bind(self, observation: int, noise: tuple[int, int], action: tuple[int, int]) -> None:
        """Allocate the buffers of `infer`: O, (H, A), (E, A)."""
        buffers = _Buffers(
            np.zeros((1, observation), np.float32),
            np.zeros((1, *noise), np.float32),
            np.zeros((1, *action), np.float32),
            self._session.io_binding(),
        )
        binding = buffers.binding
        if self.provider == "cpu":
            make = self._runtime.OrtValue.ortvalue_from_numpy
            binding.bind_ortvalue_input(INPUTS[0], make(buffers.observation))
            binding.bind_ortvalue_input(INPUTS[1], make(buffers.noise))
            binding.bind_ortvalue_output(OUTPUT, make(buffers.action))
            buffers.in_place = True
        self._bound = buffers

    def infer(self, observation: Float, noise: Float) -> Float:
        """Observation (O,), noise (H, A) -> chunk (E, A), in a buffer that the next call reuses.

        On the CPU nothing is allocated: inputs and output stay where ONNX Runtime reads and
        writes them.

        Raises:
            CheckFailed: when ONNX Runtime cannot compute it.
        """
        buffers = self._bound
        if buffers is None:
            raise OutriderError("bind the buffers before infer", where="Session")
        buffers.observation[0] = observation
        buffers.noise[0] = noise
        if buffers.in_place:
            try:
                self._session.run_with_iobinding(buffers.binding)
            except Exception as error:  # ONNX Runtime raises many kinds
                raise _inference_failed(error) from error
        else:
            buffers.action[:] = self.act(buffers.observation, buffers.noise)
        chunk: Float = buffers.action[0]
        return chunk


class _Buffers:
    def __init__(self, observation: Float, noise: Float, action: Float, binding: Any) -> None:
        self.observation, self.noise, self.action = observation, noise, action
        self.binding = binding
        self.in_place = False


def _inference_failed(error: Exception) -> CheckFailed:
    return CheckFailed(
        f"inference failed ({error})",
        where="policy graph",
        fix="Run outrider verify on the bundle.",
    )


def _shape(shape: list[Any]) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in shape]


def _onnxruntime() -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingDependency("onnxruntime", "cpu", "running a policy") from error
    if not hasattr(onnxruntime, "InferenceSession"):
        raise OutriderError(
            "the package onnxruntime is broken: its CPU and GPU editions overwrite each other",
            where="onnxruntime",
            fix="Uninstall both and install one: outrider[cpu] or outrider[gpu].",
        )
    return onnxruntime


def runtime_version() -> str:
    """Version of ONNX Runtime."""
    return str(_onnxruntime().__version__)
