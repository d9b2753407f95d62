"""Checkpoints: what goes in comes out, nothing is pickled, damage is one line."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from outrider.core.errors import OutriderError
from outrider.core.learning.checkpoint import (
    latest_checkpoint,
    load_checkpoint,
    numpy_rng_state,
    prune_checkpoints,
    restore_numpy_rng,
    save_checkpoint,
)


def test_nested_state_round_trips(tmp_path):
    state = {
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}, 1: {}}, "groups": [{"lr": 1e-3}]},
        "array": np.arange(6, dtype=np.int64).reshape(2, 3),
        "flags": [True, None, "text", 1.5, np.float32(2)],
        "bytes": torch.Generator().manual_seed(1).get_state(),
    }
    save_checkpoint(tmp_path / "c", state)
    back = load_checkpoint(tmp_path / "c")
    assert back["optimizer"]["state"][0]["step"] == 3 and back["optimizer"]["state"][1] == {}
    assert back["optimizer"]["groups"] == [{"lr": 1e-3}]
    np.testing.assert_array_equal(back["array"], state["array"])
    assert back["array"].dtype == np.int64
    assert back["flags"] == [True, None, "text", 1.5, 2.0]
    assert torch.equal(back["bytes"], state["bytes"])


def test_shared_storage_and_views_are_saved_whole(tmp_path):
    base = torch.arange(10.0)
    save_checkpoint(tmp_path / "c", {"a": base, "b": base, "view": base[::2]})
    back = load_checkpoint(tmp_path / "c")
    assert torch.equal(back["view"], base[::2]) and torch.equal(back["a"], back["b"])


def test_numpy_generator_continues(tmp_path):
    rng = np.random.default_rng(3)
    rng.normal(size=5)
    save_checkpoint(tmp_path / "c", {"rng": numpy_rng_state(rng)})
    expected = rng.normal(size=5)
    other = np.random.default_rng(99)
    restore_numpy_rng(other, load_checkpoint(tmp_path / "c")["rng"])
    np.testing.assert_array_equal(other.normal(size=5), expected)


def test_failed_save_leaves_the_old_checkpoint(tmp_path):
    save_checkpoint(tmp_path / "c", {"x": 1})
    with pytest.raises(TypeError, match="cannot hold a object"):
        save_checkpoint(tmp_path / "c", {"x": object()})
    assert load_checkpoint(tmp_path / "c") == {"x": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_damage_is_one_line(tmp_path):
    save_checkpoint(tmp_path / "c", {"x": torch.zeros(1000)})
    tensors = tmp_path / "c" / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-100])
    with pytest.raises(OutriderError, match="damaged: its SHA-256"):
        load_checkpoint(tmp_path / "c")
    (tmp_path / "c" / "state.json").write_text("{}")
    with pytest.raises(OutriderError, match="not a checkpoint of schema 1"):
        load_checkpoint(tmp_path / "c")


def test_newest_complete_checkpoint_is_found_and_old_ones_go(tmp_path):
    assert latest_checkpoint(tmp_path / "none") is None
    for step in (5, 10, 100):
        save_checkpoint(tmp_path / f"step-{step:09d}", {"step": step})
    (tmp_path / "step-000000200").mkdir()  # without its JSON it is not complete
    newest = latest_checkpoint(tmp_path)
    assert newest is not None and newest.name == "step-000000100"
    (tmp_path / "step-000000200").rmdir()
    prune_checkpoints(tmp_path, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000010", "step-000000100"]


def test_a_full_disk_is_one_line_and_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    save_checkpoint(tmp_path / "c", {"x": torch.ones(2)})

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutriderError, match="cannot write: No space left on device"):
        save_checkpoint(tmp_path / "c", {"x": torch.zeros(2)})
    monkeypatch.undo()
    assert load_checkpoint(tmp_path / "c")["x"].tolist() == [1, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_flipped_bit_is_found(tmp_path):
    save_checkpoint(tmp_path / "c", {"x": torch.ones(50)})
    tensors = tmp_path / "c" / "tensors.safetensors"
    content = bytearray(tensors.read_bytes())
    content[-7] ^= 1
    tensors.write_bytes(content)
    with pytest.raises(OutriderError, match="damaged"):
        load_checkpoint(tmp_path / "c")
