"""The whole road on the corridor task, by the command line: results, resume, refusals."""

import json
import shutil

import numpy as np
import pytest

from outrider.core.cli import app as cli
from outrider.core.evaluation.storage import load_evaluation
from outrider.core.files import only_one
from outrider.core.host.host import Host
from outrider.core.recipe import find_recipe, load_recipe
from outrider.core.runs import judge, train
from outrider.core.runs.workshop import resolve

SMALL = [
    "demos.episodes=12",
    "demos.workers=1",
    "pretrain.steps=60",
    "pretrain.checkpoint_every=20",
    "pretrain.log_every=20",
    "finetune.env_steps=480",
    "finetune.warmup_ticks=5",
    "finetune.checkpoint_every=10",
    "finetune.log_every=5",
    "evaluate.episodes=16",
    "control.episodes=1",
    "control.real_time=false",
    "control.bench_s=0",
]


def road(out, *more):
    sets = [word for value in SMALL for word in ("--set", value)]
    return cli.run(["run", "corridors", "--out", str(out), *sets, *more])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("road") / "run"
    assert road(out) == 0
    return out


def results(run):
    return json.loads((run / "results.json").read_text())


def test_results_hold_what_the_design_lists(finished):
    found = results(finished)
    for label in ("base", "finetuned"):
        assert set(found[label]["success"]) == {"value", "low", "high", "n"}
        assert found[label]["success"]["n"] == 16
        assert {"return", "smoothness"} <= set(found[label])
    assert found["parity"]["passed"] and found["parity"]["n"] >= 100
    assert found["parity"]["max_abs_error"] <= 1e-5
    assert {"p50", "p99", "p999", "max", "cold"} <= set(found["latency_ms"])
    assert found["control"]["provider"] == "cpu" and found["control"]["ticks"] > 0
    assert found["control"]["episodes"] == 1
    assert found["finetuning"]["env_steps"] >= 480
    assert [p["name"] for p in found["plugins"]] == ["df-expense"]
    assert found["plugins"][0]["seconds"]["explorer"] > 0
    assert {"wall_s", "versions", "demonstrations", "comparison"} <= set(found)


def test_the_report_and_the_bundle_are_there(finished, capsys):
    html = (finished / "report.html").read_text()
    assert "df-expense" in html and "corridors" in html
    assert len(list((finished / "films").glob("*.gif"))) == 2
    (bundle,) = (finished / "bundle").glob("*.outrider")
    assert cli.run(["verify", str(bundle), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"]


def test_metrics_are_those_of_both_stages(finished):
    lines = [json.loads(x) for x in (finished / "metrics.jsonl").read_text().splitlines()]
    assert {line["stage"] for line in lines} == {"pretrain", "finetune"}
    last = lines[-1]
    for name in ("explore/alpha_eff", "explore/prior_wins", "dsrl/action_loss", "replay/size"):
        assert name in last


def test_the_same_recipe_gives_the_same_run(finished, tmp_path):
    assert road(tmp_path / "again") == 0
    a, b = results(finished), results(tmp_path / "again")
    assert a["base"] == b["base"] and a["finetuned"] == b["finetuned"]
    for label in ("base", "finetuned"):
        one, two = load_evaluation(finished, label), load_evaluation(tmp_path / "again", label)
        assert all(
            np.array_equal(x.action, y.action)
            for x, y in zip(one.episodes, two.episodes, strict=True)
        )


@pytest.mark.parametrize("stage", ["pretrain", "finetune", "evaluate"])
def test_an_interrupted_run_resumes_to_the_same_end(finished, tmp_path, monkeypatch, capsys, stage):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        if stage == "evaluate":
            patch.setattr(judge, "make_films", _interrupt)
        else:
            patch.setattr(train.Logbook, "write", _interrupt_after(train.Logbook.write, stage))
        assert road(out) == 130
    assert "interrupted" in capsys.readouterr().err
    assert road(out, "--resume") == 0
    a, b = results(finished), results(out)
    assert a["base"] == b["base"] and a["finetuned"] == b["finetuned"]
    assert a["parity"]["max_abs_error"] == b["parity"]["max_abs_error"]
    lines = [json.loads(x) for x in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [(line["stage"], line["step"]) for line in lines]
    assert len(steps) == len(set(steps))


def _interrupt(*_):
    raise KeyboardInterrupt


def _interrupt_after(write, stage):
    calls = []

    def wrapped(self, step, values):
        write(self, step, values)
        if self._stage == stage:
            calls.append(step)
            if len(calls) == 3:
                raise KeyboardInterrupt

    return wrapped


def test_a_finished_run_is_not_done_again(finished, capsys):
    before = results(finished)
    assert road(finished, "--resume", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["finetuned"] == before["finetuned"]
    assert captured.err.count("finished before") >= 9


def test_stages_alone_do_what_the_road_does(finished, tmp_path):
    """evaluate, export and report as verbs leave the figures as they were."""
    before = results(finished)
    assert cli.run(["evaluate", str(finished)]) == 0
    assert cli.run(["export", str(finished)]) == 0
    assert cli.run(["report", str(finished)]) == 0
    after = results(finished)
    assert after["finetuned"] == before["finetuned"] and after["comparison"] == before["comparison"]


def refusal(capsys, *arguments):
    status = cli.run(list(arguments))
    error = capsys.readouterr().err
    assert status == 2 and len(error.strip().splitlines()) == 1, error
    return error


def test_refusals_are_one_line_and_leave_nothing(finished, tmp_path, capsys):
    run = lambda *more: refusal(capsys, "run", "corridors", "--out", str(tmp_path / "x"), *more)  # noqa: E731
    assert "did you mean 'corridors'" in run("--set", "task.name=toy/coridors")
    assert "did you mean 'df-expense'" in run("--set", "plugins={df-expence: {}}")
    assert "did you mean 'candidates'" in run("--set", "plugins.df-expense.candidate=3")
    assert "did you mean 'env_steps'" in run("--set", "finetune.env_step=3")
    assert "did you mean 'critics'" in run("--set", "finetune.algorithm.critic=3")
    assert "dsrl-na" in run("--set", "finetune.algorithm.use=dsrl")
    assert "is no assignment" in run("--set", "finetune.env_steps")
    assert "half_width" in run("--set", "task.options.half_widht=0.1")
    assert not (tmp_path / "x").exists()
    assert "holds a run already" in refusal(capsys, "run", "corridors", "--out", str(finished))
    other = ["--set", "seed=5", "--resume"]
    error = refusal(capsys, "run", "corridors", "--out", str(finished), *other)
    assert "differs from the run's in" in error and "seed" in error
    assert "Built in:" in refusal(capsys, "run", "quickstrat")
    assert "no run here" in refusal(capsys, "finetune", str(tmp_path))


def test_a_single_critic_cannot_disagree(tmp_path, capsys):
    out = tmp_path / "run"
    assert road(out, "--set", "finetune.algorithm.critics=1") == 2
    assert "disagreement needs at least two critics" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["quickstart", "corridors", "lift", "can", "hopper"])
def test_built_in_recipes_are_valid(name):
    recipe = resolve(load_recipe(find_recipe(name)), Host.discover())
    assert recipe.finetune is not None
    assert recipe.resolved()["policy"]["use"] == "diffusion"


@pytest.mark.parametrize(("module", "extra"), [("torch", "cpu,sim"), ("onnxruntime", "cpu")])
def test_a_missing_package_names_the_extra_that_brings_it(monkeypatch, capsys, module, extra):
    def absent(*_):
        raise ModuleNotFoundError(f"No module named {module!r}", name=f"{module}.part")

    monkeypatch.setattr("outrider.core.recipe.find_recipe", absent)
    error = refusal(capsys, "run", "corridors")
    assert f"pip install 'outrider[{extra}]'" in error


def test_a_run_folder_is_for_one_process(finished, capsys):
    with only_one(finished):
        for verb in ("evaluate", "export", "finetune"):
            assert "another process" in refusal(capsys, verb, str(finished))
        assert road(finished, "--resume") == 2
        assert "another process" in capsys.readouterr().err
    assert road(finished, "--resume") == 0


def test_a_damaged_policy_is_called_damaged(finished, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    weights = copy / "policy" / "base" / "policy.safetensors"
    content = bytearray(weights.read_bytes())
    content[-100] ^= 1
    weights.write_bytes(content)
    error = refusal(capsys, "evaluate", str(copy))
    assert "policy.safetensors: damaged" in error


def test_out_may_not_be_a_file(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    error = refusal(capsys, "run", "corridors", "--out", str(tmp_path / "file"))
    assert "is a file" in error


def test_too_few_decisions_say_what_to_raise(tmp_path, capsys):
    assert road(tmp_path / "x", "--set", "evaluate.episodes=2") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "evaluate.episodes" in error and "recorded" in error


def test_a_run_asks_for_onnx_runtime_before_it_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("outrider.core.runs.road.find_spec", lambda name: None)
    error = refusal(capsys, "run", "corridors", "--out", str(tmp_path / "x"))
    assert "outrider[cpu,sim]" in error and not (tmp_path / "x").exists()


def test_finetuning_again_needs_a_word(finished, capsys):
    before = results(finished)
    assert "checkpoints of an earlier run" in refusal(capsys, "finetune", str(finished))
    assert results(finished) == before
    assert road(finished, "--resume") == 0
    assert "finetune: finished before" in capsys.readouterr().err
