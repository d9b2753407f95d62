"""Every check of the kit fails for a plugin that breaks its rule, with a sentence that says so."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from host_fakes import plugin
from kit_fakes import check_refused, explorer
from pydantic import BaseModel

from outrider.core.config import NoConfig, StrictModel
from outrider.core.host.objects import (
    FinetunerProvider,
    PolicyProvider,
    ReportSection,
    TaskProvider,
    Verdict,
)
from outrider.core.learning.types import Explorer
from outrider.core.testing import (
    Subject,
    check_plugin,
    fake_capabilities,
    fake_episode,
    fake_run_context,
    fake_task,
)
from outrider.core.testing.kit import CHECKS


def test_a_sound_plugin_passes_with_every_kind_of_hook():
    inner = SimpleNamespace(examine=lambda label, episodes, task: ReportSection(label, {"x": 1.0}))
    check_plugin(explorer())
    check_plugin(
        plugin(
            diagnostic=lambda self, ctx: inner,
            bundle_parts=lambda self, ctx: {"a.json": b"{}"},
            planner=lambda self, ctx: SimpleNamespace(plan=lambda o, goal, t: goal),
            may_deploy=lambda self, report: Verdict(False, "never on a Friday"),
            rollout_changed=lambda self, change: None,
        )
    )


def test_every_check_passes_for_hooks_that_a_plugin_lacks():
    for check in CHECKS:
        check(Subject(plugin(metrics=lambda self: None)))


# Declaration


def test_what_the_host_refuses_the_kit_refuses():
    check_refused(plugin(explorer=lambda self, ctxt: None), "asks for 'ctxt'; did you mean 'ctx'")
    check_refused(
        plugin(explorre=lambda self, ctx: None), "no hook 'explorre'; did you mean 'explorer'"
    )
    wrong = plugin(metrics=lambda self: None)
    wrong.api = 3
    check_refused(wrong, "made for plugin API 3")


class Lax(BaseModel):
    gain: float = 1.0


class Forgetful(StrictModel):
    gain: float = 1.0

    def model_dump(self, **options):
        return {}


def with_config(config):
    cls = plugin(metrics=lambda self: None)
    cls.Config = config
    return cls


def test_a_config_refuses_unknown_keys_and_reads_back():
    check_refused(with_config(Lax), "accepts unknown keys")
    check_refused(with_config(Forgetful), "does not read back", {"gain": 2.0})
    check_plugin(with_config(Forgetful))


def test_a_plugin_with_offers_is_made_from_nothing():
    class Needs(StrictModel):
        key: int

    cls = plugin(policies=lambda self: [])
    cls.Config = Needs
    check_refused(cls, "made from its default Config", {"key": 1})


def test_types_of_hooks_agree_with_the_specification():
    def number(self, ctx) -> int: ...

    def text(self, step: str): ...

    def narrow(self, ctx) -> Explorer: ...

    check_refused(plugin(explorer=number), "'explorer' is annotated to return int")
    check_refused(plugin(metrics=text), "'metrics' annotates 'step' as str; it gets int")
    from outrider.core.testing import check_type_hints

    check_type_hints(Subject(plugin(explorer=narrow)))


# Offers, notices, the gate, diagnostics, parts


class NeedsKey(StrictModel):
    key: int


def finetuner(config=NoConfig, capabilities=lambda config: fake_capabilities()):
    return FinetunerProvider("f", config, capabilities, lambda config, ctx: None)


def family(names=lambda: ("a",), config=NoConfig):
    return TaskProvider("t", names, config, lambda name, config: None)


POLICY = PolicyProvider("p", NoConfig, lambda config, task: None)


@pytest.mark.parametrize(
    ("kind", "providers", "sentence"),
    [
        ("policies", [POLICY, POLICY], "of one name twice"),
        ("policies", ["p"], "holds a str, expected a PolicyProvider"),
        ("policies", [PolicyProvider("a/b", NoConfig, None)], "holds the name 'a/b'"),
        ("policies", [PolicyProvider("p", NeedsKey, None)], "cannot be made from nothing"),
        ("policies", [PolicyProvider("p", Lax, None)], "accepts unknown keys"),
        ("finetuners", [finetuner(capabilities=lambda config: {})], "declares {}"),
        ("tasks", [family(names=tuple)], "lists no task"),
        ("tasks", [family(names=lambda: ("a", "a"))], "lists a task twice"),
    ],
)
def test_an_offer_that_breaks_a_rule(kind, providers, sentence):
    check_refused(plugin(**{kind: lambda self: providers}), sentence)


def test_notices_take_what_they_are_told():
    check_refused(
        plugin(metrics=lambda self, values: values["accuracy"]), "a notice raised.*accuracy"
    )
    short = plugin(episode_finished=lambda self, episode: episode.reward[-2])
    check_refused(short, "IndexError")


def test_the_gate_gives_a_verdict_with_a_reason():
    def gate(answer):
        return plugin(may_deploy=lambda self, robot: answer)

    check_plugin(gate(None))
    check_plugin(gate(Verdict(True, "")))
    check_refused(gate(Verdict(False, " ")), "gives no reason")
    check_refused(gate(True), "gives True, expected a Verdict")
    broken = plugin(may_deploy=lambda self, report: report["success"])
    check_refused(broken, "its gate raises KeyError, which is a refusal")


def diagnostic(examine):
    return plugin(diagnostic=lambda self, ctx: SimpleNamespace(examine=examine))


def test_diagnostics_take_episodes_of_any_length_and_number():
    def mean_length(label, episodes, task):
        return ReportSection(label, {"length": sum(map(len, episodes)) / len(episodes)})

    def last_reward(label, episodes, task):
        return ReportSection(label, {"last": float(sum(e.reward[-1] for e in episodes))})

    check_refused(diagnostic(mean_length), "ZeroDivisionError")
    check_refused(diagnostic(last_reward), "IndexError")
    rng = np.random.default_rng()
    drawn = diagnostic(lambda label, episodes, task: ReportSection(label, {"x": rng.random()}))
    check_refused(drawn, "answers differently about no episodes")


def test_bundle_parts_are_the_same_twice():
    count = iter(range(9))
    changing = plugin(bundle_parts=lambda self, ctx: {"x": bytes(next(count))})
    check_refused(changing, "other files the second time")
    check_refused(plugin(bundle_parts=lambda self, ctx: {"../x": b""}), "not plain and relative")


# The fakes


def test_fakes_agree_with_each_other():
    task, episode, ctx = fake_task(5, 3), fake_episode(7, fake_task(5, 3)), fake_run_context()
    assert episode.observation.shape == (7, 5)
    assert episode.action.shape == (7, 3)
    assert episode.succeeded
    assert not fake_episode(7, succeeded=False).succeeded
    assert len(fake_episode(0)) == 0
    assert (episode.action >= task.action.low).all()
    assert ctx.chunk == (3, 2)
    assert fake_run_context(seed=1).rng.random() == fake_run_context(seed=1).rng.random()
    assert fake_run_context(seed=1).rng.random() != fake_run_context(seed=2).rng.random()


def test_the_kit_needs_no_test_framework():
    import subprocess

    code = (
        "import sys; sys.modules |= {'pytest': None, 'torch': None}; import outrider.core.testing"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
