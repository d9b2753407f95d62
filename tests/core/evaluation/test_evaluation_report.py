import json
import re
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from evaluation_fakes import episode, table
from hypothesis import given
from hypothesis import strategies as st
from report_fakes import CONFIG, metrics, pretrained_run, section, whole_run

from outrider.core.cli import app as cli
from outrider.core.errors import OutriderError
from outrider.core.evaluation.charts import Axis, Series, fit_axis, line_chart
from outrider.core.evaluation.markup import Markup, escape, join, tag
from outrider.core.evaluation.report import read_summary, write_report
from outrider.core.evaluation.report_outcome import headline
from outrider.core.evaluation.rundata import read_curves, read_run
from outrider.core.evaluation.statistics import Interval, paired_success, wilson
from outrider.core.evaluation.storage import save_evaluation, save_section
from outrider.core.evaluation.table import Comparison
from outrider.core.evaluation.wording import duration, number, percent
from outrider.core.files import write_json, write_text

VOID = {"meta", "img", "br"}


class Outline(HTMLParser):
    """Checks that elements nest; gathers tags, links and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    @property
    def headings(self):
        return self.tags.count("h2")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return whole_run(tmp_path_factory.mktemp("runs") / "push", episodes=12)


def page_of(run) -> str:
    return write_report(run).read_text(encoding="utf-8")


def test_whole_run(finished):
    page = page_of(finished)
    outline = Outline(page)
    for title in ("Outcome", "Films", "Evaluation", "Learning curves", "Commands", "Deployment"):
        assert f"<h2>{title}</h2>" in page
    for text in ("Motion quality", "switched off", "KeyError", "CPUExecutionProvider", "2.13.0"):
        assert text in outline.text
    assert page.count("data:image/gif;base64,") == 2
    assert page.count("data:image/png;base64,") == 1
    assert "McNemar" in outline.text


def test_page_is_self_contained(finished):
    outline = Outline(page_of(finished))
    assert not {"script", "link", "iframe", "object", "form"} & set(outline.tags)
    for name, value in outline.attributes:
        assert not name.startswith("on")
        if name in {"src", "href"}:
            assert value.startswith(("data:image/", "#"))
    assert "http" not in re.sub(r"http-equiv", "", page_of(finished))


def test_anchors_lead_somewhere(finished):
    attributes = Outline(page_of(finished)).attributes
    ids = [v for k, v in attributes if k == "id"]
    assert sorted(ids) == sorted(v[1:] for k, v in attributes if k == "href")
    assert len(set(ids)) == len(ids)


def test_same_folder_same_page(finished):
    assert page_of(finished) == page_of(finished)


def test_run_that_only_pretrained(tmp_path):
    page = page_of(pretrained_run(tmp_path / "run"))
    assert "No policy was evaluated yet." in page
    assert "<h2>Learning curves</h2>" in page
    assert "<h2>Evaluation</h2>" not in page


@pytest.mark.parametrize("kept", ["config.yaml", "results.json", "metrics.jsonl", "evaluation"])
def test_any_single_part_makes_a_report(finished, tmp_path, kept):
    (tmp_path / kept).symlink_to(finished / kept)
    assert Outline(page_of(tmp_path)).headings >= 1


def test_success_from_results_when_episodes_are_gone(tmp_path):
    values = {"base": {"success": wilson(5, 20).to_json()}}
    write_json(
        tmp_path / "results.json", values | {"finetuned": {"success": wilson(18, 20).to_json()}}
    )
    text = Outline(page_of(tmp_path)).text
    assert "raised success from 25% to 90%" in text
    assert "do not overlap" in text


def test_missing_or_foreign_folder(tmp_path):
    with pytest.raises(OutriderError, match="no such run folder"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(OutriderError, match="nothing of a run"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("results.json", "{"),
        ("results.json", "[1]"),
        ("config.yaml", "a: [\n"),
        ("evaluation/base.npz", "no archive"),
        ("films/base-1.json", "{}"),
        ("diagnostics/aqm-base.json", '{"title": 3}'),
    ],
)
def test_a_damaged_part_is_named_and_the_rest_reported(tmp_path, part, content):
    run = pretrained_run(tmp_path / "run")
    write_text(run / part, content)
    (run / "films/base-1.gif").parent.mkdir(exist_ok=True)
    (run / "films/base-1.gif").write_bytes(b"GIF89a")
    page = page_of(run)
    assert "Left out of this report" in page
    assert part.rpartition("/")[2] in page
    assert "<h2>Learning curves</h2>" in page


def test_everything_is_escaped(tmp_path):
    evil = "<script>alert('1')</script>\"&"
    name = "<b>x"
    run = tmp_path / name
    write_text(run / "config.yaml", f"task: {{name: {json.dumps(evil)}}}\n")
    write_text(run / "metrics.jsonl", f"{json.dumps({'step': 0, evil: 1})}\n" * 2)
    line = {"step": 1, evil: 2, "stage": evil}
    write_text(
        run / "metrics.jsonl", "".join(json.dumps(line | {"step": k}) + "\n" for k in (1, 2))
    )
    values = {k: {evil: evil} for k in ("demonstrations", "parity", "control", "versions")}
    plugin = {"name": evil, "version": evil, "hooks": [evil], "state": evil, "reason": evil}
    write_json(run / "results.json", values | {"plugins": [plugin | {"seconds": {evil: 1.0}}]})
    plain = section()
    finding = type(plain.findings[0])(evil, evil, 1.0, 2.0)
    hostile = type(plain)(
        title=evil,
        text=evil,
        numbers={evil: 1.0},
        tables={evil: ((evil,), ((evil,),))},
        figures={evil: b"\x89PNG"},
        findings=(finding,),
    )
    save_section(run, "aqm", "base", hostile)
    page = page_of(run)
    assert "<script" not in page and name not in page and "onerror" not in page
    assert Outline(page).text.count("<script>") > 10


@given(st.text())
def test_markup_round_trips_any_text(text):
    found = Outline(tag("p", text, title=text))
    assert (
        found.text == text.replace("\r\n", "\n").replace("\r", "\n") or "\r" in text or "\0" in text
    )
    assert dict(found.attributes)["title"] == text or "\r" in text or "\0" in text


def test_markup_is_escaped_once():
    assert tag("p", tag("b", "a<b"), class_="x", data_n=None) == '<p class="x"><b>a&lt;b</b></p>'
    assert join([escape("<"), None, Markup("<br>")]) == "&lt;<br>"


def test_headline_is_honest():
    def compared(gained, lost, n=20):
        before = np.arange(n) < lost
        after = (np.arange(n) >= lost) & (np.arange(n) < lost + gained)
        paired = paired_success(before, after, np.random.default_rng(0))
        zero = Interval(0, 0, 0, n)
        success = {"base": wilson(lost, n), "finetuned": wilson(gained, n)}
        return headline(success, Comparison(paired, zero, zero, {}))

    assert "raised" in compared(10, 0) and "chance" not in compared(10, 0)
    assert "lowered" in compared(1, 9)
    assert "cannot tell" in compared(3, 1)
    assert "before and after" in compared(4, 4) and "4 lost" in compared(4, 4)
    assert "nothing to test" in compared(0, 0)


def test_where_nothing_succeeds_the_headline_is_about_returns():
    success = {"base": wilson(0, 20), "finetuned": wilson(0, 20)}
    before, after = Interval(900.0, 800.0, 1000.0, 20), Interval(1200.0, 1100.0, 1300.0, 20)
    nothing = paired_success(np.zeros(20), np.zeros(20), np.random.default_rng(0))

    def told(low, high, base=before, finetuned=after):
        returns = {"base": base, "finetuned": finetuned}
        difference = Interval(finetuned.value - base.value, low, high, 20)
        comparison = Comparison(nothing, difference, difference, {})
        return headline(success, comparison, returns)

    assert "raised the mean return: 900 before, 1200 after" in told(100.0, 500.0)
    assert "+300 (95% interval +100 to +500)" in told(100.0, 500.0)
    assert "cannot tell" not in told(100.0, 500.0)
    assert "cannot tell" in told(-50.0, 650.0)
    assert "did not raise" in told(-500.0, -100.0, after, before)
    assert "900 over 20 episodes" in headline({"base": wilson(0, 20)}, None, {"base": before})
    assert "return" not in headline({"base": wilson(1, 20)}, None, {"base": before})


def test_a_task_without_success_shows_no_chart_of_it(tmp_path):
    steps = np.zeros((6, 2))
    for label in ("base", "finetuned"):
        save_evaluation(tmp_path, label, table(episode(steps, 1)))
    page = page_of(tmp_path)
    assert "No episode ended in success." in page
    assert "Wilson intervals" not in page.split("Evaluation</h2>")[0]
    assert read_summary(tmp_path)["headline"].startswith("No episode ended in success.")


def test_policies_on_different_seeds_are_not_compared(tmp_path):
    steps = np.zeros((6, 2))
    save_evaluation(tmp_path, "base", table(episode(steps, 1)))
    save_evaluation(tmp_path, "finetuned", table(episode(steps, 2)))
    page = page_of(tmp_path)
    assert "different seeds" in page
    assert "McNemar" not in page


def test_curves_skip_broken_lines_and_take_the_last_of_a_step(tmp_path):
    lines = [
        '{"stage": "a", "step": 1, "loss": 3.0, "note": "x", "flag": true}',
        '{"stage": "a", "step": 3, "loss": 1.0, "nan": NaN}',
        '{"stage": "a", "step": 2, "loss": 2.0}',
        '{"stage": "a", "step": 3, "loss": 0.5}',
        '{"env_steps": 10, "return": 4}',
        '{"env_steps": 20, "return": 5}',
        "[1, 2]",
        '{"stage": "a", "step": 4, "lo',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    found = {(c.stage, c.name): c for c in read_curves(tmp_path / "metrics.jsonl")}
    assert set(found) == {("a", "loss"), ("", "return")}
    assert found["a", "loss"].x.tolist() == [1, 2, 3]
    assert found["a", "loss"].y.tolist() == [3, 2, 0.5]


def test_long_curves_are_thinned(tmp_path):
    x = np.arange(100_000.0)
    chart = line_chart("long", [Series("long", x, np.sin(x / 9000))], "step")
    assert len(chart) < 20_000


@given(
    st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=1, max_size=5), st.booleans()
)
def test_axes_hold_their_data_and_have_ticks(values, may_log):
    axis = fit_axis(values, 100, 0, may_log=may_log)
    pixels = axis(values)
    assert np.isfinite(pixels).all()
    assert (pixels >= -1e-6).all() and (pixels <= 100 + 1e-6).all()
    ticks = axis.ticks(4)
    assert 1 <= len(ticks) <= 12
    slack = 1e-6 * (axis.high - axis.low)
    assert all(axis.low - slack <= t <= axis.high + slack for t in ticks)


def test_logarithmic_axis():
    axis = fit_axis([0.01, 10.0], 0, 1, may_log=True)
    assert axis.log
    assert axis.ticks(4) == pytest.approx([0.01, 0.1, 1, 10])
    assert float(axis(0.1) - axis(0.01)) == pytest.approx(float(axis(1.0) - axis(0.1)))
    assert Axis(0, 10, 0, 1).ticks(5) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.001, "0.001"),
        (-3.14159, "-3.14"),
        (123.44, "123.4"),
        (9999, "9999"),
        (12345, "12.3k"),
        (2_500_000, "2.5M"),
        (3.4e-7, "3.4e-7"),
        (1e12, "1.0e12"),
    ],
)
def test_numbers_in_words(value, text):
    assert number(value) == text


def test_shares_and_times_in_words():
    assert [percent(x) for x in (0, 0.004, 0.456, 0.996, 1)] == [
        "0%",
        "0.4%",
        "46%",
        "99.6%",
        "100%",
    ]
    times = [duration(s) for s in (0.0021, 0.5, 59.96, 200, 7199.9)]
    assert times == ["2.1 ms", "0.5 s", "60 s", "3 min 20 s", "2 h 0 min"]


def test_summary_of_a_run(finished):
    found = read_summary(finished)
    assert list(found["policies"]) == ["base", "finetuned"]
    assert found["comparison"]["success"]["difference"]["n"] == 12
    json.dumps(found, allow_nan=False)


def test_config_and_metrics_are_read(finished):
    data = read_run(finished)
    assert data.problems == []
    assert data.config_text == CONFIG
    assert {c.stage for c in data.curves} == {"pretrain", "finetune"}
    assert metrics().count("\n") == 80


def test_report_verb(finished, capsys):
    assert cli.run(["report", str(finished), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(finished / "report.html")
    assert cli.run(["report", str(finished)]) == 0
    assert capsys.readouterr().out.strip() == told["report"]


def test_report_verb_refuses_in_one_line(tmp_path, capsys):
    assert cli.run(["report", str(tmp_path / "nowhere")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1


@pytest.fixture
def evaluate_verb(monkeypatch):
    """The verb with everything behind it left out: no host, nothing to roll out."""
    from outrider.core.cli import evaluate

    called = []
    runs = SimpleNamespace(evaluate_run=lambda run, host, reporter: called.append(run))
    monkeypatch.setitem(sys.modules, "outrider.core.runs.road", runs)
    monkeypatch.setattr(evaluate, "host_of", lambda ctx: None)
    return called


def test_evaluate_verb_prints_one_document(finished, evaluate_verb, capsys):
    assert cli.run(["evaluate", str(finished), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(read_summary(finished)))
    assert evaluate_verb == [finished]


def test_evaluate_verb_prints_a_table(finished, evaluate_verb, capsys):
    assert cli.run(["evaluate", str(finished)]) == 0
    out = capsys.readouterr().out
    for word in ("base", "finetuned", "success", "chunk_jump_ratio", "McNemar"):
        assert word in out


def test_nothing_evaluated_is_said(tmp_path, evaluate_verb, capsys):
    assert cli.run(["evaluate", str(pretrained_run(tmp_path / "run"))]) == 2
    assert "no policy was evaluated yet" in capsys.readouterr().err
