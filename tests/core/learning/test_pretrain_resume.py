"""A pretraining run that is killed and resumed equals one that was not, to the bit."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pretraining_case import SECTION, demonstrations, run

from outrider.core.errors import OutriderError
from outrider.core.learning.checkpoint import latest_checkpoint, load_checkpoint
from outrider.core.learning.logbook import read_metrics

torch.set_num_threads(1)


class Killed(Exception):
    pass


def killed_at(step):
    def on_metrics(at, _):
        if at == step:
            raise Killed

    return on_metrics


def losses(out):
    return [(row["step"], row["loss"]) for row in read_metrics(out / "metrics.jsonl")]


def checkpoints(out):
    return sorted(p.name for p in (out / "checkpoints" / "pretrain").iterdir())


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    return out, run(out)


def assert_equal_runs(out, policy, uninterrupted):
    expected_out, expected = uninterrupted
    assert losses(out) == losses(expected_out)
    assert checkpoints(out) == checkpoints(expected_out)
    for (name, a), b in zip(
        policy.state_dict().items(), expected.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name


def test_run_learns_and_writes_what_it_says(uninterrupted):
    out, policy = uninterrupted
    steps = [step for step, _ in losses(out)]
    assert steps == [10, 20, 30, 40, 50, 60]
    assert losses(out)[-1][1] < losses(out)[0][1]
    assert checkpoints(out) == ["step-000000045", "step-000000060"]
    assert not policy.training


def test_same_seed_gives_the_same_run_and_another_seed_another(tmp_path, uninterrupted):
    assert_equal_runs(tmp_path / "again", run(tmp_path / "again"), uninterrupted)
    run(tmp_path / "other", seed=1)
    assert losses(tmp_path / "other") != losses(uninterrupted[0])


@pytest.mark.parametrize("step", [10, 20, 30, 50, 60])
def test_resumed_run_is_the_uninterrupted_one(tmp_path, step, uninterrupted):
    with pytest.raises(Killed):
        run(tmp_path, on_metrics=killed_at(step))
    assert_equal_runs(tmp_path, run(tmp_path, resume=True), uninterrupted)


def test_run_that_is_killed_again_and_again_is_the_uninterrupted_one(tmp_path, uninterrupted):
    for step in (20, 40, 50):
        with pytest.raises(Killed):
            run(tmp_path, resume=True, on_metrics=killed_at(step))
    assert_equal_runs(tmp_path, run(tmp_path, resume=True), uninterrupted)


def test_run_survives_a_real_kill(tmp_path, uninterrupted):
    case = Path(__file__).with_name("pretraining_case.py")
    killed = subprocess.run([sys.executable, str(case), str(tmp_path), "40"])
    assert killed.returncode == -signal.SIGKILL
    assert checkpoints(tmp_path)[-1] == "step-000000030"
    assert_equal_runs(tmp_path, run(tmp_path, resume=True), uninterrupted)


def test_finished_run_resumes_to_itself(tmp_path, uninterrupted):
    run(tmp_path)
    assert_equal_runs(tmp_path, run(tmp_path, resume=True), uninterrupted)


def test_weights_of_the_policy_are_the_average_and_not_the_last(uninterrupted):
    out, policy = uninterrupted
    newest = latest_checkpoint(out / "checkpoints" / "pretrain")
    state = load_checkpoint(newest)
    weight = policy.network.output.weight
    assert torch.equal(weight, state["average"]["average"]["network.output.weight"])
    assert not torch.equal(weight, state["policy"]["network.output.weight"])


def test_global_generators_and_threads_are_left_alone(tmp_path):
    np.random.seed(0)
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    run(tmp_path, section=SECTION.model_copy(update={"steps": 3, "threads": 2}))
    assert torch.equal(before[0], torch.random.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])
    assert torch.get_num_threads() == 1


def test_old_run_is_not_overwritten(tmp_path):
    run(tmp_path, section=SECTION.model_copy(update={"steps": 3}))
    with pytest.raises(OutriderError, match=r"earlier run\. Continue it with --resume"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"section": SECTION.model_copy(update={"batch": 8})}, "has batch 16, this one 8"),
        ({"seed": 4}, "has seed 0, this one 4"),
        ({"data": demonstrations(seed=1)}, "has data "),
        ({"settings": {"prediction": "sample"}}, "has settings {}"),
    ],
)
def test_resume_with_other_settings_is_refused(tmp_path, change, message):
    with pytest.raises(Killed):
        run(tmp_path, on_metrics=killed_at(40))
    with pytest.raises(OutriderError, match=message):
        run(tmp_path, resume=True, **change)


def test_loss_that_is_not_finite_ends_in_one_line_and_keeps_the_checkpoint(tmp_path):
    wild = SECTION.model_copy(update={"learning_rate": 1e30, "warmup": 40})
    with pytest.raises(
        OutriderError, match=r"pretrain: the loss is .* at step \d+\. Lower"
    ) as info:
        run(tmp_path, section=wild.model_copy(update={"checkpoint_every": 1}))
    assert "\n" not in str(info.value)
    newest = latest_checkpoint(tmp_path / "checkpoints" / "pretrain")
    state = load_checkpoint(newest)
    assert all(torch.isfinite(w).all() for w in state["average"]["average"].values())


def test_data_of_another_task_is_refused(tmp_path):
    data = demonstrations()
    wider = np.zeros((data.steps, 5), np.float32)
    from dataclasses import replace

    with pytest.raises(OutriderError, match="observation has 5 elements, the policy's task has 3"):
        run(tmp_path, data=replace(data, observation=wider))
