"""Notices are isolated and switched off; the gate fails closed."""

import logging
from pathlib import Path

import numpy as np
import pytest
from host_fakes import plugin, session_of

from outrider.core.host.hookspecs import NOTICES
from outrider.core.host.objects import Verdict
from outrider.core.testing import fake_episode

RUN, BUNDLE = Path("run"), Path("x.outrider")
ARGUMENTS = {
    "run_started": {"run": RUN, "config": {"seed": 1}},
    "metrics": {"run": RUN, "step": 3, "values": {"loss": 0.5}},
    "episode_finished": {"run": RUN, "episode": fake_episode(2)},
    "bundle_verified": {"bundle": BUNDLE, "report": {"holds": True}},
    "rollout_changed": {"change": {"stage": 1}},
}


def boom(*_):
    raise RuntimeError("sensor lost")


@pytest.mark.parametrize("hook", NOTICES)
def test_a_notice_reaches_everyone_with_the_arguments_they_ask_for(hook):
    heard = []
    names = list(ARGUMENTS[hook])
    namespace = {"heard": heard}
    exec(f"def listen(self, {names[-1]}): heard.append({names[-1]})", namespace)
    session = session_of(
        plugin("all", **{hook: namespace["listen"]}), plugin("none", **{hook: lambda self: heard})
    )
    session.notify(hook, **ARGUMENTS[hook])
    assert len(heard) == 1
    assert type(heard[0]) is type(ARGUMENTS[hook][names[-1]])


def test_a_notice_that_raises_is_switched_off_logged_and_the_others_go_on(caplog):
    heard = []
    session = session_of(
        plugin("broken", metrics=boom, run_started=lambda self: heard.append("broken")),
        plugin("sound", metrics=lambda self, step: heard.append(step)),
    )
    with caplog.at_level(logging.WARNING):
        session.notify("metrics", **ARGUMENTS["metrics"])
        session.notify("metrics", **ARGUMENTS["metrics"])
        session.notify("run_started", **ARGUMENTS["run_started"])
    assert heard == [3, 3]
    assert list(session.switched_off) == ["broken"]
    assert "RuntimeError: sensor lost" in session.switched_off["broken"]
    assert caplog.text.count("it is told nothing more in this run") == 1


def test_who_listens_cannot_change_what_is_told():
    def meddle(self, values):
        values["loss"] = 0.0

    def scribble(self, episode):
        episode.action[:] = 0.0

    seen, values, episode = [], {"loss": 0.5}, fake_episode(3)
    before = episode.action.copy()
    session = session_of(
        plugin("meddler", metrics=meddle, episode_finished=scribble),
        plugin("reader", metrics=lambda self, values: seen.append(values["loss"])),
    )
    session.notify("metrics", run=RUN, step=1, values=values)
    session.notify("episode_finished", run=RUN, episode=episode)
    assert values == {"loss": 0.5}
    assert seen == [0.5]
    assert np.array_equal(episode.action, before)
    assert not session.switched_off


def test_notices_are_timed():
    session = session_of(plugin("a", metrics=lambda self: None))
    session.notify("metrics", **ARGUMENTS["metrics"])
    assert set(session.timings()) == {"a.metrics"}


def gate(*classes):
    return session_of(*classes).gate(bundle=BUNDLE, report={"holds": True}, robot="arm-7")


def test_may_deploy_collects_verdicts_and_none_abstains():
    verdicts = gate(
        plugin("yes", may_deploy=lambda self, robot: Verdict(True, f"{robot} is known")),
        plugin("quiet", may_deploy=lambda self: None),
        plugin("no", may_deploy=lambda self, report: Verdict(False, "too few episodes")),
        plugin("deaf", metrics=lambda self: None),
    )
    assert verdicts == [
        ("yes", Verdict(True, "arm-7 is known")),
        ("no", Verdict(False, "too few episodes")),
    ]


def test_a_gate_that_crashes_is_a_refusal():
    ((name, verdict),) = gate(plugin("broken", may_deploy=boom))
    assert name == "broken"
    assert verdict.allow is False
    assert "its may_deploy raised RuntimeError: sensor lost" in verdict.reason


@pytest.mark.parametrize("answer", [True, "yes", Verdict("yes", ""), Verdict(1, "")])
def test_an_answer_that_is_no_verdict_is_a_refusal(answer):
    ((_, verdict),) = gate(plugin("odd", may_deploy=lambda self: answer))
    assert verdict.allow is False
    assert "plugin odd gave no verdict but" in verdict.reason
