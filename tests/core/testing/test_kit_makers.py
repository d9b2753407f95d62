"""The kit's checks of randomness, explorers, state and learning objects can all fail."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from host_fakes import plugin
from kit_fakes import check_refused, explorer

from outrider.core.learning.types import Selection
from outrider.core.testing import Subject, check_plugin, fake_capabilities, untouched_randomness

# Randomness


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (random.random, "random"),
        (np.random.rand, r"numpy\.random"),
        (lambda: np.random.seed(0), r"numpy\.random"),
    ],
)
def test_global_generators_are_watched(draw, name):
    def drawing(self, values, rng):
        draw()
        return values.mean(axis=0)

    check_refused(explorer(scores=drawing), f"touches the global generator of {name}")
    check_refused(
        plugin(metrics=lambda self: _ignore(draw())), "a notice touches the global generator"
    )


def _ignore(_):
    return None


def test_torch_is_watched_where_it_is_loaded():
    torch = pytest.importorskip("torch")
    with pytest.raises(AssertionError, match="global generator of torch"), untouched_randomness():
        torch.rand(1)
    with untouched_randomness():
        torch.rand(1, generator=torch.Generator().manual_seed(0))


def test_global_generators_are_left_as_they_were():
    state, legacy = random.getstate(), np.random.get_state(legacy=True)
    with untouched_randomness():
        pass
    with pytest.raises(AssertionError), untouched_randomness():
        random.random()
        np.random.rand()
    assert random.getstate() == state
    assert (np.random.get_state(legacy=True)[1] == legacy[1]).all()


def test_an_error_inside_the_block_is_not_hidden():
    with pytest.raises(ZeroDivisionError), untouched_randomness():
        random.random()
        raise ZeroDivisionError


# Explorers


def shared(self, values, rng):
    SHARED.append(1)
    return values.mean(axis=0) + 9.0 * np.eye(values.shape[2])[len(SHARED) % values.shape[2]]


SHARED: list[int] = []
FAVOURS_ROBOTS = {
    "scores": lambda self, v, rng: v.mean(axis=0) * (-1.0) ** np.arange(v.shape[1])[:, None]
}
OUTSIDE = {"choose": lambda self, o, c, v, rng: Selection(np.full(v.shape[1], 3))}
ONE_ROBOT = {
    "choose": lambda self, o, c, v, rng: Selection(v.mean(axis=0).squeeze().argmax(axis=1))
}
DIVIDES = {
    "choose": lambda self, o, c, v, rng: Selection(
        v.mean(axis=0).argmax(axis=1), {"z": float(np.float64(1.0) / v.std())}
    )
}
WRITES = {"choose": lambda self, o, c, v, rng: c.chunk.fill(0.0)}
SOMETIMES = {
    "choose": lambda self, o, c, v, rng: Selection(
        v.mean(axis=0).argmax(axis=1), {"z": 1.0} if v.std() > 0 else {}
    )
}
UNSEEDED = {
    "scores": lambda self, v, rng: v.mean(axis=0) + np.random.default_rng().random(v.shape[1:])
}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (FAVOURS_ROBOTS, "place in the fleet"),
        (OUTSIDE, "outside 0 to 0"),
        (ONE_ROBOT, "AxisError"),
        (WRITES, "read-only"),
        (SOMETIMES, "for some decisions and not for others"),
        (UNSEEDED, "two instances answer differently"),
        ({"refusals": lambda self, c: ["no"]}, "cannot explore with this finetuner"),
    ],
)
def test_an_explorer_that_breaks_a_rule(changes, sentence):
    check_refused(explorer(**changes), sentence)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_an_explorer_that_divides_by_a_spread_of_zero():
    check_refused(explorer(**DIVIDES), "'z' that is not finite")


def test_state_shared_between_instances_is_found():
    SHARED.clear()
    check_refused(explorer(scores=shared), "differently")


def test_an_explorer_may_draw_its_choice():
    drawn = {"scores": lambda self, v, rng: v.mean(axis=0) + rng.random(v.shape[1:])}
    private = {"scores": lambda self, v, rng: v.mean(axis=0) + self.ctx.rng.random(v.shape[1:])}
    check_plugin(explorer(**drawn))
    check_plugin(explorer(**private))


def test_capabilities_can_be_given():
    picky = {"refusals": lambda self, c: [] if c.critic_space == "noise" else ["noise only"]}
    check_refused(explorer(**picky), "noise only")
    check_plugin(explorer(**picky), capabilities=fake_capabilities(critic_space="noise"))


def test_evaluation_is_bitwise_the_same_or_the_kit_says_so(monkeypatch):
    def sabotage(self, values, rng):
        from outrider.core.testing import exploring

        monkeypatch.setattr(exploring.np, "tanh", lambda x: 0.5 * x)
        return values.mean(axis=0)

    from outrider.core.testing import check_evaluation_unchanged

    with pytest.raises(AssertionError, match="evaluation changes"):
        check_evaluation_unchanged(Subject(explorer(scores=sabotage)))


# State


def turns(self, values, rng):
    return np.eye(values.shape[2])[self.calls % values.shape[2]] + 0 * values[0]


STATE = {
    "scores": turns,
    "state_dict": lambda self: {"calls": self.calls},
    "load_state_dict": lambda self, state: setattr(self, "calls", state["calls"]),
}


def test_state_goes_round():
    check_plugin(explorer(**STATE))
    check_refused(explorer(scores=turns), "after its state was saved and loaded differs")
    lost = STATE | {"load_state_dict": lambda self, state: None}
    check_refused(explorer(**lost), "after its state was saved and loaded differs")
    odd = STATE | {"state_dict": lambda self: {"calls": {1, 2}}}
    check_refused(explorer(**odd), r"state_dict\(\).*\['calls'\] is a set")


# Learning objects


def regularizer(losses, hook="critic_regularizer"):
    return plugin(**{hook: lambda self, ctx: SimpleNamespace(losses=losses)})


def test_learning_objects_are_asked_with_real_gradients():
    torch = pytest.importorskip("torch")
    smooth = regularizer(lambda view: {"s": view.critic(view.observation, view.decision).var()})
    check_plugin(smooth)
    check_plugin(
        regularizer(lambda view: {"s": view.mean(view.observation).var()}, "actor_regularizer")
    )
    steep = regularizer(
        lambda view: {"s": (view.critic(view.observation, view.decision) * 0).abs().sum().sqrt()}
    )
    check_refused(steep, "gradient of its critic_regularizer is not finite")
    drawn = regularizer(lambda view: {"s": view.decision.mean() * torch.rand(())})
    check_refused(drawn, "global generator of torch")
    wide = regularizer(lambda view: {"s": view.critic(view.observation, view.decision)})
    check_refused(wide, r"loss 's' of shape \(3, 8\), not a scalar")


def test_targets_are_asked_with_an_ended_transition():
    pytest.importorskip("torch")

    def target(formula):
        return plugin(critic_target=lambda self, ctx: SimpleNamespace(target=formula))

    check_plugin(
        target(lambda b, view: b.reward + b.bootstrap * view.next_value(b.next_observation))
    )
    check_refused(target(lambda b, view: b.reward / b.bootstrap), "target that is not finite")
    check_refused(target(lambda b, view: b.reward[:3]), "target of shape")


def test_transforms_edit_gradients_and_nothing_else():
    pytest.importorskip("torch")

    def transform(edit):
        return plugin(gradient_transform=lambda self, ctx: SimpleNamespace(apply=edit))

    def scale(group, parameters):
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(0.5)
        return {"scale": 0.5}

    def decay(group, parameters):
        for p in parameters:
            p.data.mul_(0.9)
        return {}

    def careless(group, parameters):
        return {"norm": sum(float(p.grad.norm()) for p in parameters)}

    check_plugin(transform(scale))
    check_refused(transform(decay), "edits parameters")
    check_refused(transform(careless), "gradient_transform raised AttributeError")
