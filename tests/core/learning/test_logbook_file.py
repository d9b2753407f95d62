"""metrics.jsonl: whole lines, no duplicates after a resume, stages side by side."""

import json

import pytest

from outrider.core.learning.logbook import Logbook, read_metrics


def rows(run):
    text = (run / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_lines_hold_stage_step_time_and_metrics(tmp_path):
    with Logbook(tmp_path, "pretrain") as book:
        book.write(10, {"loss": 0.5, "rate": 1})
        assert rows(tmp_path)[0]["loss"] == 0.5  # before the close: a kill loses nothing
        book.write(20, {"loss": float("nan"), "rate": float("inf")})
    first, second = rows(tmp_path)
    assert first["stage"] == "pretrain" and first["step"] == 10 and first["wall_s"] >= 0
    assert second["loss"] is None and second["rate"] is None


def test_resume_drops_what_will_be_written_again_and_nothing_else(tmp_path):
    with Logbook(tmp_path, "pretrain") as book:
        for step in (10, 20, 30):
            book.write(step, {"loss": 1.0})
    with Logbook(tmp_path, "finetune") as book:
        book.write(500, {"return": 2.0})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "pretrain", "step": 35, "lo')  # cut short by a kill
    with Logbook(tmp_path, "pretrain", resume_at=20) as book:
        book.write(30, {"loss": 3.0})
    found = [(row["stage"], row["step"]) for row in rows(tmp_path)]
    assert found == [("pretrain", 10), ("pretrain", 20), ("finetune", 500), ("pretrain", 30)]
    assert read_metrics(tmp_path / "metrics.jsonl") == rows(tmp_path)


def test_time_goes_on_where_the_checkpoint_was(tmp_path):
    line = {"stage": "pretrain", "step": 10, "wall_s": 100.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    with Logbook(tmp_path, "pretrain", resume_at=10) as book:
        book.write(20, {})
    assert 100 <= rows(tmp_path)[-1]["wall_s"] < 200


def test_fresh_stage_replaces_its_own_lines(tmp_path):
    for value in (1.0, 2.0):
        with Logbook(tmp_path, "pretrain") as book:
            book.write(10, {"loss": value})
    assert [row["loss"] for row in rows(tmp_path)] == [2.0]


def test_no_file_is_no_metrics(tmp_path):
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_tensorboard_shows_the_same_figures_once(tmp_path):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    with Logbook(tmp_path, "pretrain") as book:
        for step in (10, 20, 30):
            book.write(step, {"loss": step / 10})
    with Logbook(tmp_path, "pretrain", resume_at=20) as book:
        book.write(30, {"loss": 7.0})
    events = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard" / "pretrain"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("pretrain/loss")]
    assert found == [(10, 1.0), (20, 2.0), (30, 7.0)]
