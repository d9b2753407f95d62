"""What plugins offer: by name, clashes named, broken offers isolated."""

import logging

import pytest
from host_fakes import plugin

from outrider.core.config import NoConfig, StrictModel
from outrider.core.errors import OutriderError
from outrider.core.host.discovery import PluginRecord, implemented_hooks
from outrider.core.host.host import Host
from outrider.core.host.objects import (
    CommandProvider,
    FilterProvider,
    FinetunerProvider,
    PolicyProvider,
    ReaderProvider,
    TaskProvider,
)
from outrider.core.testing import fake_capabilities


def record(cls, distribution="dist"):
    hooks = implemented_hooks(cls)
    return PluginRecord(cls.name, "1", distribution, 1, hooks, "ready", cls=cls)


def policy(name):
    return PolicyProvider(name, NoConfig, lambda config, task: None)


def reader(name, recognizes):
    return ReaderProvider(name, recognizes, lambda path: None)


ONE_OF_EACH = {
    "tasks": TaskProvider("reach", lambda: ("a",), NoConfig, lambda name, config: None),
    "policies": policy("reach"),
    "finetuners": FinetunerProvider(
        "reach", NoConfig, lambda config: fake_capabilities(), lambda config, ctx: None
    ),
    "filters": FilterProvider("reach", NoConfig, lambda config, task: None),
    "readers": reader("reach", lambda path: True),
    "commands": CommandProvider("reach", "does it", lambda: None),
}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_an_offer_is_found_by_its_name(kind):
    offers = {kind: lambda self: [ONE_OF_EACH[kind]]}
    host = Host([record(plugin("a", **offers)), record(plugin("b", metrics=lambda self: None))])
    assert host.offers(kind) == {"reach": ONE_OF_EACH[kind]}
    assert host.provider(kind, "reach") is ONE_OF_EACH[kind]


def test_an_unknown_name_lists_what_is_offered_and_what_is_broken():
    broken = PluginRecord("torn", "1", "torn-dist", None, (), "error", "cannot import torn")
    host = Host([record(plugin("a", policies=lambda self: [policy("diffusion")])), broken])
    with pytest.raises(OutriderError) as caught:
        host.provider("policies", "difusion")
    text = str(caught.value)
    assert "there is no policy 'difusion'" in text
    assert "did you mean 'diffusion'?" in text
    assert "In error: torn (cannot import torn)" in text


def test_an_unknown_kind_of_offer_names_the_nearest():
    with pytest.raises(OutriderError, match="did you mean 'policies'"):
        Host([]).offers("policy")


def test_a_clash_names_both_plugins_and_both_packages():
    host = Host(
        [
            record(plugin("a", policies=lambda self: [policy("flow")]), "alpha-dist"),
            record(plugin("b", policies=lambda self: [policy("flow")]), "beta-dist"),
        ]
    )
    with pytest.raises(OutriderError) as caught:
        host.offers("policies")
    for part in ("'a' (alpha-dist)", "'b' (beta-dist)", "the policy 'flow'", "--without"):
        assert part in str(caught.value)


def raises(self):
    raise RuntimeError("no\nluck")


class NeedsKey(StrictModel):
    key: int


BROKEN = {
    "raises": (raises, "its offer of policies raised RuntimeError: no luck"),
    "wrong type": (lambda self: ["flow"], "got a str, expected a PolicyProvider"),
    "wrong kind": (lambda self: [ONE_OF_EACH["readers"]], "got a ReaderProvider"),
    "not a list": (lambda self: None, "raised TypeError"),
    "twice": (lambda self: [policy("flow"), policy("flow")], "the policy 'flow' is offered twice"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_offer_puts_its_plugin_into_error_and_the_others_go_on(case):
    offer, reason = BROKEN[case]
    good = plugin("b", policies=lambda self: [policy("other")])
    host = Host([record(plugin("a", policies=offer)), record(good)])
    assert list(host.offers("policies")) == ["other"]
    states = {r.name: r for r in host.records}
    assert states["a"].state == "error"
    assert reason in states["a"].reason
    assert states["b"].state == "ready"


def test_a_plugin_with_offers_needs_a_default_config():
    cls = plugin("a", policies=lambda self: [policy("flow")])
    cls.Config = NeedsKey
    host = Host([record(cls)])
    assert host.offers("policies") == {}
    assert "ValidationError" in host.records[0].reason


def test_a_task_is_found_by_family_and_name():
    host = Host([record(plugin("a", tasks=lambda self: [ONE_OF_EACH["tasks"]]))])
    assert host.task("reach/a/b") == (ONE_OF_EACH["tasks"], "a/b")
    for wrong in ("reach", "reach/"):
        with pytest.raises(OutriderError, match="family/name"):
            host.task(wrong)
    with pytest.raises(OutriderError, match="did you mean 'reach'"):
        host.task("raech/a")


def test_a_reader_that_raises_is_passed_over_and_logged(tmp_path, caplog):
    def confused(path):
        raise KeyError("magic")

    good = reader("good", lambda path: path.suffix == ".h5")
    bad = reader("bad", confused)
    host = Host([record(plugin("a", readers=lambda self: [bad, good]))])
    with caplog.at_level(logging.WARNING):
        assert host.reader(tmp_path / "x.h5") is good
        assert host.reader(tmp_path / "x.txt") is None
    assert "plugin a: its reader 'bad' raised KeyError" in caplog.text


# The plugins of a run


class Gain(StrictModel):
    gain: float = 1.0
    other: int = 2


def configured(name="a"):
    cls = plugin(name, metrics=lambda self: None)
    cls.Config = Gain
    return cls


def test_a_session_holds_the_resolved_configurations_in_the_order_of_the_recipe():
    host = Host([record(configured("a")), record(configured("b"))])
    session = host.session({"b": {"gain": 3}, "a": {}}, "x.yaml: plugins")
    assert list(session.configs.items()) == [
        ("b", {"gain": 3.0, "other": 2}),
        ("a", {"gain": 1.0, "other": 2}),
    ]
    assert session.versions == {"b": "1", "a": "1"}


def test_an_unknown_plugin_names_the_nearest_and_the_place():
    host = Host([record(configured("df-expense"))])
    with pytest.raises(OutriderError) as caught:
        host.session({"df-expence": {}}, "x.yaml: plugins")
    assert str(caught.value).startswith("x.yaml: plugins: there is no plugin 'df-expence'")
    assert "did you mean 'df-expense'?" in str(caught.value)


def test_a_wrong_key_names_the_place_the_nearest_and_every_valid_key():
    host = Host([record(configured())])
    with pytest.raises(OutriderError) as caught:
        host.session({"a": {"gian": 3}}, "x.yaml: plugins")
    assert str(caught.value) == (
        "x.yaml: plugins.a.gian: unknown key. did you mean 'gain'? valid: gain, other"
    )


def test_a_wrong_value_names_the_key_and_the_value():
    host = Host([record(configured())])
    with pytest.raises(OutriderError, match=r"plugins\.a\.gain: .*'much'"):
        host.session({"a": {"gain": "much"}}, "plugins")


def test_a_plugin_in_error_or_left_out_cannot_be_named():
    error = PluginRecord("a", "1", "d", None, (), "error", "cannot import a")
    left_out = PluginRecord("b", "1", "d", None, (), "disabled")
    host = Host([error, left_out])
    with pytest.raises(OutriderError, match=r"plugins\.a: .* cannot be used: cannot import a"):
        host.session({"a": {}}, "plugins")
    with pytest.raises(OutriderError, match=r"plugins\.b: .*left out with --without"):
        host.session({"b": {}}, "plugins")


def test_of_two_plugins_of_one_name_the_first_stays_usable():
    first = record(configured("a"))
    host = Host([first, first.failed("d has a plugin of the same name, which comes first")])
    assert host.session({"a": {}}, "plugins").versions == {"a": "1"}


def test_a_plugin_whose_making_raises_is_named():
    cls = configured()

    def refuse(self, config):
        raise ValueError("no licence")

    cls.__init__ = refuse
    with pytest.raises(OutriderError, match=r"plugin a: .*ValueError: no licence"):
        Host([record(cls)]).session({"a": {}}, "plugins")
