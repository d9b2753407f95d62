"""Saved policies come back equal, and what does not fit is refused in one line."""

import json
from types import SimpleNamespace

import pytest
import torch
from pretraining_case import CONFIG, TASK
from safetensors.torch import load_file, save_file

from outrider.core.errors import OutriderError
from outrider.core.files import read_json, sha256, write_json
from outrider.core.learning.policy_file import load_policy, save_policy
from outrider.policies.diffusion.plugin import DiffusionPlugin
from outrider.policies.diffusion.policy import build

torch.set_num_threads(1)

(PROVIDER,) = DiffusionPlugin().policies()
HOST = SimpleNamespace(
    provider=lambda family, name: {"policies": {"diffusion": PROVIDER}}[family][name]
)


@pytest.fixture
def saved(tmp_path):
    policy = build(CONFIG, TASK)
    policy.initialize(torch.Generator().manual_seed(5))
    path = tmp_path / "base"
    save_policy(path, policy, "diffusion", CONFIG.model_dump(mode="json"), TASK)
    return path, policy


def test_policy_comes_back_equal_and_frozen(saved):
    path, policy = saved
    back = load_policy(path, HOST)
    assert (back.provider, back.task) == ("diffusion", TASK)
    assert back.config == CONFIG.model_dump(mode="json")
    generator = torch.Generator().manual_seed(0)
    observation = torch.randn(7, 3, generator=generator)
    noise = torch.randn(7, 4, 2, generator=generator)
    assert torch.equal(back.policy(observation, noise), policy(observation, noise))
    assert not any(weight.requires_grad for weight in back.policy.parameters())


def test_saving_again_replaces(saved):
    path, policy = saved
    policy.initialize(torch.Generator().manual_seed(6))
    save_policy(path, policy, "diffusion", CONFIG.model_dump(mode="json"), TASK)
    assert torch.equal(
        load_policy(path, HOST).policy.state_dict()["network.input.weight"],
        policy.network.input.weight,
    )
    assert sorted(p.name for p in path.iterdir()) == ["policy.json", "policy.safetensors"]


def test_weights_that_are_not_finite_are_not_saved(saved):
    path, policy = saved
    before = (path / "policy.safetensors").read_bytes()
    with torch.no_grad():
        policy.network.output.bias[0] = float("nan")
    with pytest.raises(OutriderError, match=r"network\.output\.bias is not finite"):
        save_policy(path, policy, "diffusion", {}, TASK)
    assert (path / "policy.safetensors").read_bytes() == before


def edit(path, change):
    record = json.loads((path / "policy.json").read_text())
    change(record)
    (path / "policy.json").write_text(json.dumps(record))


def test_missing_folder(tmp_path):
    with pytest.raises(OutriderError, match=r"policy\.json: cannot read"):
        load_policy(tmp_path / "nothing", HOST)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(schema=9), "not a policy of schema 1"),
        (lambda r: r.pop("task"), "incomplete"),
        (lambda r: r["config"].update(widht=3), "did you mean 'width'"),
        (lambda r: r["config"].update(width=8), "has shape"),
        (lambda r: r["config"].update(depth=5), "missing tensors"),
    ],
)
def test_record_that_does_not_fit_is_refused(saved, change, message):
    edit(saved[0], change)
    with pytest.raises(OutriderError, match=message) as info:
        load_policy(saved[0], HOST)
    assert "\n" not in str(info.value)


def test_damaged_weights_are_refused(saved):
    file = saved[0] / "policy.safetensors"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(OutriderError, match=r"policy\.safetensors: damaged"):
        load_policy(saved[0], HOST)


def test_unknown_tensor_is_refused(saved):
    file = saved[0] / "policy.safetensors"
    save_file({**load_file(file), "extra": torch.zeros(1)}, file)
    record = read_json(saved[0] / "policy.json") | {"weights_sha256": sha256(file)}
    write_json(saved[0] / "policy.json", record)
    with pytest.raises(OutriderError, match=r"unknown tensors \['extra'\]"):
        load_policy(saved[0], HOST)
