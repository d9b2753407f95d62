"""Hooks that look on or have a say: notices, the gate, diagnostics, bundle parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.core.host.discovery import hook_parameters
from outrider.core.host.hookspecs import GATES, NOTICES
from outrider.core.host.objects import ReportSection, Verdict
from outrider.core.testing.fakes import fake_episode
from outrider.core.testing.randomness import untouched_randomness
from outrider.core.testing.subject import Subject
from outrider.core.types import Episode


def arguments(subject: Subject) -> dict[str, dict[str, Any]]:
    """Hook -> arguments like those that the host gives, for every notice and the gate."""
    run, bundle = subject.run, subject.run / "fake-1.outrider"
    report = {"holds": True, "max_abs_error": 1e-6, "n": 100, "provider": "CPUExecutionProvider"}
    return {
        "run_started": {"run": run, "config": {"name": "fake", "seed": 0, "plugins": {}}},
        "metrics": {"run": run, "step": 100, "values": {"loss/critic": 0.5}},
        "episode_finished": {"run": run, "episode": fake_episode()},
        "bundle_verified": {"bundle": bundle, "report": report},
        "rollout_changed": {"change": {"rollout": "fake", "stage": 1, "state": "advanced"}},
        "may_deploy": {"bundle": bundle, "report": report, "robot": "fake-robot"},
    }


def check_notices(subject: Subject) -> None:
    """Every notice takes its arguments, more than once and in any order, and raises nothing.

    Episodes may be as short as one step, and a run that is resumed starts with any notice.

    Raises:
        AssertionError: naming the notice and what it raised.
    """
    session, given = subject.session(), arguments(subject)
    with untouched_randomness("a notice"):
        for hook in (*reversed(NOTICES), *NOTICES):
            session.notify(hook, **given[hook])
        session.notify("episode_finished", run=subject.run, episode=fake_episode(1))
    for reason in session.switched_off.values():
        raise AssertionError(f"a notice raised, and would be switched off: {reason}")


def check_gate(subject: Subject) -> None:
    """The gate answers with a verdict and a reason, or abstains; it does not crash.

    Raises:
        AssertionError: when it crashes, or refuses without a reason.
    """
    (hook,) = GATES
    if hook not in subject.hooks:
        return
    asked = [parameter.name for parameter in hook_parameters(subject.plugin, hook)]
    given = arguments(subject)[hook]
    try:
        with untouched_randomness("the gate"):
            verdict = getattr(subject.instance(), hook)(**{name: given[name] for name in asked})
    except Exception as error:  # a plugin may raise anything
        kind = type(error).__name__
        raise AssertionError(f"its gate raises {kind}, which is a refusal: {error}") from error
    if verdict is None:
        return
    sound = isinstance(verdict, Verdict) and isinstance(verdict.allow, bool)
    assert sound, f"its gate gives {verdict!r}, expected a Verdict or None"
    assert verdict.allow or verdict.reason.strip(), "its gate refuses and gives no reason"


def check_diagnostic(subject: Subject) -> None:
    """The diagnostic takes episodes of any length and number, and answers the same twice.

    Raises:
        OutriderError: when it raises, or gives what is no section or not finite.
        AssertionError: when two answers to one question differ, or episodes were changed.
    """
    task = subject.context().task
    cases: dict[str, list[Episode]] = {
        "no episodes": [],
        "an empty episode": [fake_episode(0)],
        "a one-step episode": [fake_episode(1)],
        "a failure": [fake_episode(20, succeeded=False)],
        "several episodes": [fake_episode(n, seed=n) for n in (1, 7, 20)],
    }
    for what, episodes in cases.items():
        answers = []
        with untouched_randomness("the diagnostic"):
            for _ in range(2):
                session = subject.session()
                for _, diagnostic in session.diagnostics(subject.context):
                    answers.append(diagnostic.examine("evaluation", episodes, task))
        assert _all_equal(answers), f"its diagnostic answers differently about {what}"


def check_bundle_parts(subject: Subject) -> None:
    """Files for the bundle have plain names, and are the same twice.

    Raises:
        OutriderError: when a name or a content is refused.
        AssertionError: when two bundles of one run would differ.
    """
    with untouched_randomness("bundle_parts"):
        first, second = (subject.session().bundle_parts(subject.context) for _ in range(2))
    assert first == second, "its bundle_parts gives other files the second time"


def _all_equal(answers: list[ReportSection | None]) -> bool:
    return all(_figures(answer) == _figures(answers[0]) for answer in answers[1:])


def _figures(section: ReportSection | None) -> Mapping[str, float] | None:
    return None if section is None else dict(section.numbers)
