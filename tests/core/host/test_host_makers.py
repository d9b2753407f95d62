"""Makers: at most one, None abstains, what they give is checked, timed and saved."""

from types import SimpleNamespace

import numpy as np
import pytest
from host_fakes import context, plugin, session_of

from outrider.core.errors import OutriderError
from outrider.core.host.hookspecs import MAKERS, SINGLE_MAKERS
from outrider.core.host.objects import ReportSection
from outrider.core.host.session import PluginSession
from outrider.core.learning.types import CandidateView, Selection
from outrider.core.testing import fake_capabilities, fake_episode, fake_run_context, fake_task

N, M, K = 4, 3, 2


class Fixed:
    """An explorer with this answer to every question."""

    def __init__(self, answer=None, n_policy=M, refusals=()):
        self.answer, self.n_policy, self.n_prior = answer, n_policy, 0
        self.reasons = list(refusals)

    def refusals(self, capabilities):
        return self.reasons

    def choose(self, observation, candidates, values, rng):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(observation, candidates, values, rng)


def explorer_plugin(inner, name="fake"):
    return plugin(name, explorer=lambda self, ctx: inner)


def ask(inner):
    hooks = session_of(explorer_plugin(inner)).hooks(context)
    view = CandidateView(np.zeros((N, M, 2, 2), np.float32), np.zeros((N, M), np.int64))
    observation, values = np.zeros((N, 4), np.float32), np.zeros((K, N, M), np.float32)
    return hooks.explorer.choose(observation, view, values, np.random.default_rng(0))


def gives(index, **scalars):
    return Fixed(lambda *_: Selection(np.asarray(index), scalars))


def test_what_is_well_formed_passes_and_becomes_int64():
    selection = ask(Fixed(lambda *_: Selection(np.asarray([0, 1, 2, 0], np.int32), {"x": 1.5})))
    assert selection.index.tolist() == [0, 1, 2, 0]
    assert selection.index.dtype == np.int64
    assert selection.scalars == {"x": 1.5}


def write(observation, candidates, values, rng):
    values[:] = 1.0


MALFORMED = {
    "shape": (gives([0, 1]), r"indices of shape \(2,\)"),
    "dtype": (gives([0.0, 1.0, 1.0, 0.0]), "type float64"),
    "bool": (gives([True, True, False, True]), "type bool"),
    "above": (gives([0, 0, 0, M]), "outside 0 to 2"),
    "below": (gives([0, 0, 0, -1]), "outside 0 to 2"),
    "scalar": (gives([0] * N, x=float("nan")), "'x' that is not finite"),
    "text": (gives([0] * N, x="high"), "'x' that is a str, not a number"),
    "kind": (Fixed(lambda *_: [0] * N), "gave a list, expected a Selection"),
    "raises": (Fixed(KeyError("beta")), "raised KeyError: 'beta'"),
    "writes": (Fixed(write), "read-only"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_an_explorer_that_answers_wrongly_is_named(case):
    inner, sentence = MALFORMED[case]
    with pytest.raises(OutriderError, match=sentence) as caught:
        ask(inner)
    assert str(caught.value).startswith("plugin fake: its explorer ")


def test_the_cause_of_an_error_is_kept():
    cause = KeyError("beta")
    with pytest.raises(OutriderError) as caught:
        ask(Fixed(cause))
    assert caught.value.__cause__ is cause


def test_an_explorer_must_want_a_candidate():
    with pytest.raises(OutriderError, match="at least one in all"):
        session_of(explorer_plugin(Fixed(n_policy=0))).hooks(context)


def test_an_explorer_without_candidate_counts_is_named():
    with pytest.raises(OutriderError, match="plugin fake: its explorer raised AttributeError"):
        session_of(explorer_plugin(object())).hooks(context)


def test_an_explorer_may_refuse_the_finetuner_and_says_why():
    session = session_of(explorer_plugin(Fixed(refusals=["no critics", "no prior"])))
    with pytest.raises(OutriderError, match=r"cannot explore .*: no critics; no prior"):
        session.hooks(context)


def test_nobody_is_asked_about_a_finetuner_where_there_is_none():
    session = session_of(explorer_plugin(Fixed(refusals=["no critics"])))
    bare = SimpleNamespace(capabilities=None, rng=np.random.default_rng(0))
    assert session.hooks(lambda name: bare).explorer is not None


@pytest.mark.parametrize("hook", SINGLE_MAKERS)
def test_what_only_one_can_give_may_not_be_given_twice(hook):
    classes = [plugin(name, **{hook: lambda self, ctx: Fixed()}) for name in ("one", "two")]
    session = session_of(*classes)
    ask_for = session.planner if hook == "planner" else session.hooks
    with pytest.raises(OutriderError, match=f"'one' and 'two' both answer the hook '{hook}'"):
        ask_for(context)


def test_none_abstains_from_every_maker():
    quiet = plugin("quiet", **{hook: lambda self, ctx: None for hook in MAKERS})
    session = session_of(quiet, explorer_plugin(gives([0] * N), "loud"))
    hooks = session.hooks(context)
    assert hooks.explorer is not None
    assert hooks.critic_target is None
    assert hooks.critic_regularizers == hooks.actor_regularizers == ()
    assert hooks.gradient_transforms == ()
    assert session.planner(context) is None
    assert session.diagnostics(context) == []
    assert session.bundle_parts(context) == {}


def test_a_maker_that_raises_is_named_with_the_cause():
    def broken(self, ctx):
        raise RuntimeError("no weights")

    with pytest.raises(OutriderError, match="plugin fake: its critic_target raised RuntimeError"):
        session_of(plugin(critic_target=broken)).hooks(context)


def test_each_plugin_gets_the_context_that_was_made_for_it():
    seen = {}

    def note(self, ctx):
        seen[self.name] = ctx

    session = session_of(plugin("a", diagnostic=note), plugin("b", diagnostic=note))
    contexts = {name: fake_run_context(seed=i) for i, name in enumerate("ab")}
    session.diagnostics(contexts.__getitem__)
    assert seen == contexts


# Learning objects, on plain torch tensors


def test_targets_and_losses_and_gradients_are_checked():
    torch = pytest.importorskip("torch")
    batch = SimpleNamespace(reward=torch.zeros(5))
    good = {
        "critic_target": [torch.zeros(5), torch.zeros(3, 5)],
        "critic_regularizer": [{}, {"smooth": torch.tensor(0.5)}],
        "actor_regularizer": [{}, {"smooth": torch.tensor(0.5)}],
    }
    bad = {
        "critic_target": [
            (torch.zeros(4), "shape"),
            (torch.zeros(1, 2, 5), "shape"),
            (torch.full((5,), torch.nan), "not finite"),
            (0.0, "expected a tensor"),
        ],
        "critic_regularizer": [
            ({"x": torch.zeros(5)}, "not a scalar"),
            ({"x": torch.tensor(torch.inf)}, "'x' that is not finite"),
            ({"x": 0.5}, "no tensor"),
            ([], "gave a list"),
        ],
    }
    bad["actor_regularizer"] = bad["critic_regularizer"]
    for hook, answers in good.items():
        for answer in answers:
            assert call(hook, answer, batch) is answer
    for hook, cases in bad.items():
        for answer, sentence in cases:
            with pytest.raises(OutriderError, match=sentence) as caught:
                call(hook, answer, batch)
            assert str(caught.value).startswith(f"plugin fake: its {hook} ")


def call(hook, answer, batch):
    inner = SimpleNamespace(target=lambda *_: answer, losses=lambda *_: answer)
    hooks = session_of(plugin(**{hook: lambda self, ctx: inner})).hooks(context)
    if hook == "critic_target":
        return hooks.critic_target.target(batch, None)
    (checked,) = getattr(hooks, f"{hook}s")
    return checked.losses(None)


def test_gradient_transforms_run_in_order_and_leave_finite_gradients():
    torch = pytest.importorskip("torch")
    order = []

    def transform(name, factor):
        def apply(group, parameters):
            order.append((name, group))
            for p in parameters:
                p.grad.mul_(factor)
            return {"factor": factor}

        inner = SimpleNamespace(apply=apply)
        return plugin(name, gradient_transform=lambda self, ctx: inner)

    session = session_of(transform("twice", 2.0), transform("blown", float("inf")))
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    first, second = session.hooks(context).gradient_transforms
    assert first.apply("critic", [parameter]) == {"factor": 2.0}
    assert parameter.grad.tolist() == [2.0] * 3
    with pytest.raises(OutriderError, match=r"plugin blown: .*'critic' that are not finite"):
        second.apply("critic", [parameter])
    assert order == [("twice", "critic"), ("blown", "critic")]


def test_losses_of_all_plugins_are_kept_in_the_order_of_the_recipe():
    def regularizer(value):
        return plugin(
            f"p{value}", critic_regularizer=lambda self, ctx: SimpleNamespace(losses=value)
        )

    hooks = session_of(regularizer(2), regularizer(1)).hooks(context)
    assert [checked.inner.losses for checked in hooks.critic_regularizers] == [2, 1]


# Planner, diagnostics, bundle parts


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (np.zeros(3), r"subgoal of shape \(3,\), expected \(2,\)"),
        (np.full(2, np.nan), "not finite"),
        ("left", "gave a str"),
    ],
)
def test_a_planner_gives_a_finite_subgoal_of_the_goals_shape(answer, sentence):
    def planner(value):
        inner = SimpleNamespace(plan=lambda *_: value)
        return session_of(plugin(planner=lambda self, ctx: inner)).planner(context)

    observation, goal = np.zeros(4, np.float32), np.zeros(2, np.float32)
    assert planner(np.ones(2)).plan(observation, goal, 0.0).dtype == np.float32
    with pytest.raises(OutriderError, match=sentence):
        planner(answer).plan(observation, goal, 0.0)


def test_a_diagnostic_gives_a_finite_section_or_none():
    def examine(answer):
        inner = SimpleNamespace(examine=lambda *_: answer)
        made = session_of(plugin(diagnostic=lambda self, ctx: inner)).diagnostics(context)
        ((name, diagnostic),) = made
        assert name == "fake"
        return diagnostic.examine("demonstrations", [fake_episode()], fake_task())

    section = ReportSection("Fine", {"x": 1.0})
    assert examine(section) is section
    assert examine(None) is None
    with pytest.raises(OutriderError, match="gave a dict, expected a ReportSection"):
        examine({})
    with pytest.raises(OutriderError, match="'x' that is not finite"):
        examine(ReportSection("Bad", {"x": float("nan")}))


def test_bundle_parts_have_plain_relative_names_and_bytes():
    def parts(files):
        return session_of(plugin(bundle_parts=lambda self, ctx: files)).bundle_parts(context)

    assert parts({"net/critic.onnx": b"x"}) == {"fake": {"net/critic.onnx": b"x"}}
    for name in ("../x", "/x", "a//b", ".hidden", "a/../b", "a b", "", "a\\b", 3):
        with pytest.raises(OutriderError, match="not plain and relative"):
            parts({name: b""})
    with pytest.raises(OutriderError, match="not bytes"):
        parts({"x": "text"})
    with pytest.raises(OutriderError, match="gave a list"):
        parts(["x"])


# Time and state


def test_time_is_kept_for_each_hook_and_drained_as_means():
    session = session_of(explorer_plugin(gives([0] * N)))
    explorer = session.hooks(context).explorer
    before = session.clock.calls["fake.explorer"]
    explorer.refusals(fake_capabilities())
    assert session.clock.calls["fake.explorer"] == before + 1
    assert set(session.timings()) == {"fake.explorer"}
    assert session.timings()["fake.explorer"] > 0
    figures = session.drain_timings()
    assert set(figures) == {"hooks/fake.explorer_ms"}
    assert figures["hooks/fake.explorer_ms"] > 0
    assert session.drain_timings() == {}


class Counting(Fixed):
    """An explorer whose answer depends on how often it was asked, and on its generator."""

    def __init__(self, rng):
        super().__init__(self.count)
        self.calls, self.rng = 0, rng

    def count(self, *_):
        self.calls += 1
        return Selection((np.arange(N) + self.calls + self.rng.integers(M)) % M)

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


def counting():
    session = session_of(plugin(explorer=lambda self, ctx: Counting(ctx.rng)))
    return session, session.hooks(context).explorer


def choices(explorer, count):
    view = CandidateView(np.zeros((N, M, 2, 2), np.float32), np.zeros((N, M), np.int64))
    asked = (np.zeros((N, 4), np.float32), view, np.zeros((K, N, M), np.float32), None)
    return [explorer.choose(*asked).index.tolist() for _ in range(count)]


def test_state_and_generators_go_round():
    old, explorer = counting()
    choices(explorer, 5)
    state = old.state_dict()
    assert state["objects"] == {"fake.explorer": {"calls": 5}}
    expected = choices(explorer, 8)
    new, resumed = counting()
    new.load_state_dict(state)
    assert choices(resumed, 8) == expected
    assert choices(counting()[1], 8) != expected


def test_state_survives_a_checkpoint(tmp_path):
    pytest.importorskip("torch")
    from outrider.core.learning.checkpoint import load_checkpoint, save_checkpoint

    old, explorer = counting()
    choices(explorer, 5)
    save_checkpoint(tmp_path / "step", old.state_dict())
    new, resumed = counting()
    new.load_state_dict(load_checkpoint(tmp_path / "step"))
    assert choices(resumed, 8) == choices(explorer, 8)


def test_the_plugins_with_state_must_be_those_of_the_checkpoint():
    session, _ = counting()
    state, empty = session.state_dict(), PluginSession([]).state_dict()
    with pytest.raises(OutriderError, match=r"holds no state of fake\.explorer"):
        session.load_state_dict(empty)
    with pytest.raises(OutriderError, match=r"nothing here takes fake\.explorer"):
        PluginSession([]).load_state_dict(state)


def test_a_plugin_that_refuses_its_state_is_named():
    session, _ = counting()
    state = session.state_dict()
    state["objects"]["fake.explorer"] = {}
    with pytest.raises(OutriderError, match="plugin fake: its explorer raised KeyError: 'calls'"):
        session.load_state_dict(state)


def test_a_misspelt_hook_is_an_error_even_without_discovery():
    with pytest.raises(OutriderError, match=r"plugins: .*explorre"):
        session_of(plugin(explorre=lambda self, ctx: None))
