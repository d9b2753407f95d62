"""What would surface hours into a run, or not at all, is found at once and names its plugin."""

from types import SimpleNamespace

import numpy as np
import pytest
from host_fakes import GOOD, HEAD, context, install, plugin, session_of

from outrider.core.errors import OutriderError
from outrider.core.host.discovery import PluginRecord, find_plugins, objection
from outrider.core.host.host import Host
from outrider.core.host.session import MAX_PARTS


class Target:
    """A critic target with this answer."""

    def __init__(self, answer):
        self.answer = answer

    def target(self, batch, view):
        return self.answer()


def ask_target(answer):
    session = session_of(plugin(critic_target=lambda self, ctx: Target(answer)))
    batch = SimpleNamespace(reward=np.zeros(8, np.float32))
    return session.hooks(context).critic_target.target(batch, None)


def test_an_error_in_a_plugins_own_words_still_names_the_plugin():
    def refuse():
        raise OutriderError("no such map", where="maps/a.png", fix="Draw one.")

    with pytest.raises(OutriderError) as caught:
        ask_target(refuse)
    assert str(caught.value) == (
        "plugin fake: its critic_target says: maps/a.png: no such map. Draw one."
    )
    assert caught.value.__cause__.what == "no such map"


def test_a_target_that_carries_a_gradient_is_refused():
    torch = pytest.importorskip("torch")
    assert ask_target(lambda: torch.zeros(8)).shape == (8,)
    with pytest.raises(OutriderError, match="with a gradient; detach it"):
        ask_target(lambda: torch.zeros(8, requires_grad=True) + 1)


@pytest.mark.parametrize(
    ("hook", "method"),
    [
        ("critic_target", "target"),
        ("critic_regularizer", "losses"),
        ("actor_regularizer", "losses"),
        ("gradient_transform", "apply"),
    ],
)
def test_an_object_without_its_method_is_refused_at_set_up(hook, method):
    session = session_of(plugin(**{hook: lambda self, ctx: 3}))
    with pytest.raises(OutriderError, match=f"its {hook} gave a int without a method '{method}'"):
        session.hooks(context)


def test_the_makers_of_one_plugin_share_a_generator_and_those_of_two_do_not():
    seen = []

    def keep(self, ctx):
        seen.append(ctx.rng)

    def fresh(name):
        return SimpleNamespace(rng=np.random.default_rng(0), capabilities=None)

    both = {"critic_regularizer": keep, "gradient_transform": keep}
    session_of(plugin("one", **both)).hooks(fresh)
    assert seen[0] is seen[1]
    session_of(plugin("two", **both)).hooks(fresh)
    assert seen[2] is not seen[0]


def counter():
    cls = plugin("count", episode_finished=lambda self: setattr(self, "n", self.n + 1))
    cls.n = 0
    cls.state_dict = lambda self: {"n": self.n}
    cls.load_state_dict = lambda self, state: setattr(self, "n", state["n"])
    return cls


def test_state_of_the_plugin_itself_is_saved_and_restored():
    cls = counter()
    old, new = session_of(cls), session_of(cls)
    for _ in range(3):
        old.notify("episode_finished", run=None, episode=None)
    assert old.state_dict()["objects"] == {"count.instance": {"n": 3}}
    new.load_state_dict(old.state_dict())
    assert new.state_dict() == old.state_dict()


def test_saving_does_not_count_as_time_of_the_hook():
    session = session_of(counter())
    session.state_dict()
    assert session.timings() == {}


def test_bundle_parts_are_bounded_in_number():
    def parts(count):
        files = {f"f{i}": b"" for i in range(count)}
        return session_of(plugin(bundle_parts=lambda self, ctx: files)).bundle_parts(context)

    assert len(parts(MAX_PARTS)["fake"]) == MAX_PARTS
    with pytest.raises(OutriderError, match=f"gave {MAX_PARTS + 1} files"):
        parts(MAX_PARTS + 1)


def test_a_hook_that_lacks_its_mark_is_an_objection():
    cls = plugin(metrics=lambda self: None)
    cls.explorer = lambda self, ctx: None
    assert "'explorer' has the name of a hook but is not marked" in objection(cls, "fake")


def test_leaving_out_a_plugin_that_is_not_there_names_the_nearest():
    with pytest.raises(OutriderError, match=r"--without: .*'df-expence'.*'df-expense'"):
        find_plugins(without={"df-expence"})


def test_nobody_takes_the_name_of_a_built_in(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "aaa-dist", "raise RuntimeError", plugin="toy")
    owners = {r.distribution: r for r in find_plugins() if r.name == "toy"}
    assert owners["outrider"].reason != owners["aaa-dist"].reason
    assert "same name" in owners["aaa-dist"].reason
    assert "same name" not in owners["outrider"].reason


def test_an_offer_that_exits_is_isolated():
    def leave(self):
        raise SystemExit(3)

    cls = plugin(tasks=leave)
    host = Host([PluginRecord("fake", "", "dist", 1, ("tasks",), "ready", cls=cls)])
    assert host.offers("tasks") == {}
    assert "SystemExit: 3" in host.records[0].reason


def test_a_loose_file_cannot_take_a_name_either(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(HEAD + GOOD.replace('"good"', '"toy"'))
    (loose,) = [r for r in find_plugins([file]) if r.distribution == str(file)]
    assert "outrider has a plugin of the same name" in loose.reason
