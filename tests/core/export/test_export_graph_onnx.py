"""The exported graph against torch, on the diffusion policy and on a policy composed from it."""

from copy import deepcopy

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from outrider.core.bundle.session import Session
from outrider.core.errors import CheckFailed, OutriderError
from outrider.core.export.graph import (
    OPSET,
    example_inputs,
    export_graph,
    parameter_bytes,
    verify_graph,
)
from outrider.policies.diffusion.config import DiffusionConfig
from outrider.policies.diffusion.policy import DiffusionPolicy

torch.set_num_threads(1)

O, A, S, WIDTH = 5, 2, 3, 32  # noqa: E741
METADATA = {"rate_hz": "20", "contract": "{}"}


def make_policy(**settings):
    config = DiffusionConfig(
        **{"width": WIDTH, "sampling_steps": S, "prediction": "sample", "execute": 3, **settings}
    )
    policy = DiffusionPolicy(config, O, np.float32([-1, -0.5]), np.float32([1, 0.5]))
    rng = np.random.default_rng(0)
    policy.fit_normalizer(
        rng.normal(2, 3, size=(50, O)).astype(np.float32),
        rng.uniform(-0.7, 0.7, (50, A)).astype(np.float32),
    )
    return policy


class Steered(nn.Module):
    """What noise-space finetuning yields: an actor that chooses the noise of a frozen decoder."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.observation_size, self.action_size = base.observation_size, base.action_size
        self.horizon, self.execute = base.horizon, base.execute
        self.actor = nn.Linear(base.observation_size, base.horizon * base.action_size)

    def forward(self, observation, noise):
        normalized = self.base.normalize_observation(observation)
        chosen = 1.5 * torch.tanh(self.actor(normalized)).view(noise.shape) + 0.1 * noise
        return self.base.denormalize_action(self.base.decode(normalized, chosen))

    def normalize_action(self, chunk):
        return self.base.normalize_action(chunk)


@pytest.fixture(scope="module")
def policy():
    return make_policy()


@pytest.fixture(scope="module")
def graph(policy):
    return export_graph(policy, METADATA)


def inputs(policy, batch=64, seed=0):
    pair = example_inputs(policy, batch, torch.Generator().manual_seed(seed))
    return tuple(tensor.numpy() for tensor in pair)


def test_graph_equals_the_policy_at_every_batch_size(policy, graph):
    assert verify_graph(graph, policy, *inputs(policy), batches=(1, 2, 3, 17, 64)) <= 1e-5


def test_graph_states_its_contract(policy, graph):
    model = onnx.load_model_from_string(graph)
    onnx.checker.check_model(model, full_check=True)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", OPSET)]
    assert {p.key: p.value for p in model.metadata_props} == METADATA

    def shape(value):
        return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]

    assert {i.name: shape(i) for i in model.graph.input} == {
        "observation": ["batch", O],
        "noise": ["batch", 4, A],
    }
    assert {o.name: shape(o) for o in model.graph.output} == {"action": ["batch", 3, A]}
    assert Session(graph).metadata == METADATA


def test_graph_is_lean(graph):
    """No weight is stored twice, and a DDIM step is at most nine operators before fusion."""
    model = onnx.load_model_from_string(graph)
    D = 4 * A
    weights = O * WIDTH + D * WIDTH + WIDTH * WIDTH + WIDTH * D + S * (D * D + O * D)
    biases = WIDTH + S * (WIDTH + D)
    small = 4 * (2 * O + 4 * A + 4 * S) + 200
    assert parameter_bytes(graph) <= 4 * (weights + biases) + small
    assert len(model.graph.node) <= 12 + 9 * S
    assert len(graph) < parameter_bytes(graph) + 12_000


def test_graph_is_reproducible_and_export_leaves_the_policy_as_it_was(policy, graph):
    again = deepcopy(policy).train()
    again.network.input.bias.requires_grad_(False)
    trainable = [p.requires_grad for p in again.parameters()]
    assert export_graph(again, METADATA) == graph
    assert again.training and again.network.training
    assert [p.requires_grad for p in again.parameters()] == trainable


def test_graph_tells_nothing_of_this_machine(graph):
    assert b"site-packages" not in graph and b".py" not in graph
    assert str(onnx.__path__[0]).rpartition("/lib/")[0].encode() not in graph


def test_composed_policy_exports_with_the_weights_of_the_moment(policy):
    steered = Steered(deepcopy(policy))
    steered.base.initialize(torch.Generator().manual_seed(9))
    graph = export_graph(steered, {})
    assert verify_graph(graph, steered, *inputs(policy)) <= 1e-5


def test_other_settings_export_as_well():
    policy = make_policy(
        activation="mish",
        depth=5,
        prediction="epsilon",
        spacing="leading",
        clip_sample=False,
        sampling_steps=2,
    )
    graph = export_graph(policy, {})
    assert verify_graph(graph, policy, *inputs(policy)) <= 1e-5
    assert "Mish" not in {node.op_type for node in onnx.load_model_from_string(graph).graph.node}


def test_verification_can_fail(policy, graph):
    other = make_policy()
    with torch.no_grad():
        other.network.output.bias.add_(1e-3)
    with pytest.raises(CheckFailed, match="differs from the policy by"):
        verify_graph(graph, other, *inputs(policy))
    with pytest.raises(CheckFailed, match="the graph gives shape"):
        verify_graph(graph, make_policy(execute=2), *inputs(policy))


def test_module_that_cannot_be_exported_is_one_line(policy):
    class Odd(Steered):
        def forward(self, observation, noise):
            if observation.sum() > 0:  # depends on the data
                return noise
            return -noise

    with pytest.raises(OutriderError, match="cannot export Odd") as info:
        export_graph(Odd(policy), {})
    assert "\n" not in str(info.value)
