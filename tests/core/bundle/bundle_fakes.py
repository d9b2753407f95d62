"""Small policies as ONNX graphs, and bundles of them, for tests of whatever reads bundles."""

from dataclasses import replace
from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from outrider.core.bundle.archive import ParityVectors, open_bundle, write_bundle
from outrider.core.bundle.manifest import Graph, Manifest, Parity
from outrider.core.bundle.verify import contract_metadata
from outrider.core.export.bundle import Contents
from outrider.core.task_json import task_to_json
from outrider.core.types import Field, Spec, TaskSpec

O, A, H, E, N = 3, 2, 4, 2, 120  # noqa: E741
NAME, VERSION = "fake", "0.1.0"
OPSET = 20

TASK = TaskSpec(
    task="fake/reach",
    observation=Spec((Field("position", (2,), "m"), Field("speed", (), "m/s"))),
    action=Spec(
        (
            Field("shoulder", (), "rad/s", (-1.0,), (1.0,)),
            Field("elbow", (), "rad/s", (-2.0,), (2.0,)),
        )
    ),
    rate_hz=50.0,
    max_steps=10,
    ends_on_success=True,
    reward="1 where the target is reached",
)


def weights(seed=0):
    return np.random.default_rng(seed).normal(size=(O, A)).astype(np.float32)


def graph(
    w=None,
    *,
    metadata=None,
    batch="batch",
    names=("observation", "noise", "action"),
    sizes=(O, H, E, A),
    poison=None,
):
    """action = clip(W obs + noise[:, :E], -2, 2), plus `poison` where one is given."""
    return _graph(
        weights() if w is None else w,
        metadata if metadata is not None else contract_metadata(NAME, VERSION, TASK),
        batch,
        names,
        sizes,
        poison,
    )


def _graph(w, metadata, batch, names, sizes, poison):
    o, h, e, a = sizes
    observation, noise, action = names
    constants = {
        "w": np.asarray(w, np.float32),
        "low": np.float32(-2),
        "high": np.float32(2),
        "axis": np.int64([1]),
        "from": np.int64([0]),
        "to": np.int64([e]),
        "poison": np.float32(0 if poison is None else poison),
    }
    nodes = [
        helper.make_node("MatMul", [observation, "w"], ["wo"]),
        helper.make_node("Unsqueeze", ["wo", "axis"], ["row"]),
        helper.make_node("Slice", [noise, "from", "to", "axis"], ["drawn"]),
        helper.make_node("Add", ["row", "drawn"], ["sum"]),
        helper.make_node("Clip", ["sum", "low", "high"], ["clipped"]),
        helper.make_node("Add", ["clipped", "poison"], [action]),
    ]
    inputs = [
        helper.make_tensor_value_info(observation, TensorProto.FLOAT, [batch, o]),
        helper.make_tensor_value_info(noise, TensorProto.FLOAT, [batch, h, a]),
    ]
    outputs = [helper.make_tensor_value_info(action, TensorProto.FLOAT, [batch, e, a])]
    made = helper.make_graph(
        nodes,
        "policy",
        inputs,
        outputs,
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def answer(observation, noise, w=None):
    """What the graph computes, in float64 and rounded once."""
    w = weights() if w is None else w
    row = observation.astype(np.float64) @ w.astype(np.float64)
    return np.clip(row[:, None] + noise[:, :E], -2, 2).astype(np.float32)


@cache
def vectors(n=N, seed=1):
    rng = np.random.default_rng(seed)
    observation = rng.normal(size=(n, O)).astype(np.float32)
    noise = rng.normal(size=(n, H, A)).astype(np.float32)
    return ParityVectors(observation, noise, answer(observation, noise))


def manifest(**changes):
    """A valid manifest of the fake; `changes` are keys of it, unvalidated on purpose."""
    made = Manifest(
        name=NAME,
        version=VERSION,
        task=task_to_json(TASK),
        horizon=H,
        execute=E,
        graph=Graph(
            opset=OPSET,
            inputs={"observation": [None, O], "noise": [None, H, A]},
            outputs={"action": [None, E, A]},
        ),
        action_scale=[1.0, 2.0],
        parity=Parity(n=N, tolerance=1e-5, max_abs_error=0.0, provider="cpu"),
        safety={"low": [-1.0, -2.0], "high": [1.0, 2.0]},
    )
    return made.model_copy(update=changes)


def members(**changes):
    """policy.onnx and parity.npz; a change of None leaves a member out."""
    found = {"policy.onnx": graph(), "parity.npz": vectors().to_bytes()} | changes
    return {name: content for name, content in found.items() if content is not None}


def make_bundle(path, *, graph=None, parity=None, extra=None, **changes):
    """Write a bundle: `changes` go into the manifest, whose digests are those of the members."""
    content = members()
    if graph is not None:
        content["policy.onnx"] = graph
    if parity is not None:
        content["parity.npz"] = parity if isinstance(parity, bytes) else parity.to_bytes()
    write_bundle(path, manifest(**changes), content | (extra or {}))
    return path


def make_parity(n):
    """The manifest's section for n vectors."""
    return Parity(n=n, tolerance=1e-5, max_abs_error=0.0, provider="cpu")


def contents(**changes):
    """What `assemble` takes."""
    made = Contents(
        name=NAME,
        version=VERSION,
        task=TASK,
        graph=graph(),
        opset=OPSET,
        horizon=H,
        execute=E,
        vectors=vectors(),
        action_scale=np.float32([1, 2]),
        tolerance=1e-5,
    )
    return replace(made, **changes)


def opened(path, **changes):
    return open_bundle(make_bundle(path, **changes))


class FakeClock:
    """Time that passes only where a test says so; every wait is written down."""

    def __init__(self, start=100.0):
        self.time, self.waits = start, []

    def now(self):
        return self.time

    def sleep_until(self, deadline):
        self.waits.append(deadline)
        self.time = max(self.time, deadline)


class FakeRobot:
    """A robot that takes as long as a test wants, and remembers everything.

    Args:
        clock: whose time passes in `write`.
        lasts: tick of the whole run -> seconds that its write takes.
        observe: tick -> observation, or something that is raised.
        steps: of an episode.
    """

    def __init__(self, clock=None, lasts=None, observe=None, steps=10, spec=TASK, succeeds=True):
        self.spec, self.clock, self.steps, self.succeeds = spec, clock, steps, succeeds
        self.lasts, self.observe = lasts or (lambda tick: 0.0), observe
        self.commands, self.seeds, self.began, self.stops = [], [], [], 0
        self._left, self.prepared = 0, False

    def prepare(self):
        assert not self.seeds and not self.commands
        self.prepared = True

    def begin(self, seed):
        assert self.prepared
        self.seeds.append(seed)
        self._left = self.steps

    def read(self):
        tick = len(self.commands)
        if self.clock is not None:
            self.began.append(self.clock.now())
        value = self.observe(tick) if self.observe else np.full(O, 0.1 * tick, np.float32)
        if isinstance(value, BaseException):
            raise value
        return value

    def write(self, action):
        if self.clock is not None:
            self.clock.time += self.lasts(len(self.commands))
        self.commands.append(np.array(action))
        self._left -= 1

    def over(self):
        return self._left <= 0

    def succeeded(self):
        return self.succeeds

    def stop(self):
        self.stops += 1
