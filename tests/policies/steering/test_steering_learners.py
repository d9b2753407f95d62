"""DSRL-NA and DSRL-SAC: targets by hand, the traps of published code, learning, state."""

import copy

import numpy as np
import pytest
import torch
from steering_fakes import A, H, O, batch_of, context

from outrider.core.learning.types import Hooks
from outrider.policies.steering.config import NoiseAliasedConfig, NoiseSpaceConfig
from outrider.policies.steering.noise_aliased import NoiseAliased
from outrider.policies.steering.noise_space import NoiseSpace
from outrider.policies.steering.parts import Constraint

SMALL = {"critics": 3, "width": 16, "layers": 2, "learning_rate": 1e-2}


def noise_aliased(hooks=None, seed=0, **config):
    return NoiseAliased(NoiseAliasedConfig(**(SMALL | config)), context(hooks, seed))


def noise_space(hooks=None, seed=0, **config):
    return NoiseSpace(NoiseSpaceConfig(**(SMALL | config)), context(hooks, seed))


def test_target_by_hand_with_every_reduction():
    learner = noise_aliased().action_critics
    batch, decision, bonus = batch_of(), torch.rand(16, H * A), torch.linspace(0, 1, 16)
    heads = learner.target(batch.next_observation, decision)
    for reduction, reduced in (("min", heads.amin(0)), ("mean", heads.mean(0))):
        learner.config = learner.config.model_copy(update={"target_reduction": reduction})
        target = learner.bellman_target(batch, lambda _: (decision, bonus), learner.target)
        assert torch.allclose(target, batch.reward + 0.9 * (reduced + bonus), atol=1e-6)


def test_a_terminal_transition_has_no_next_value_and_a_time_limit_has():
    learner, batch = noise_aliased().action_critics, batch_of()
    batch.bootstrap[:8] = 0.0
    decide = lambda _: (torch.rand(16, H * A), torch.zeros(16))  # noqa: E731
    target = learner.bellman_target(batch, decide, learner.target)
    assert torch.equal(target[:8], batch.reward[:8])
    assert (target[8:] != batch.reward[8:]).all()


def test_entropy_enters_the_backup_only_when_it_is_asked_for():
    observation = torch.randn(64, O)
    for constraint, in_backup, expected in (
        ("entropy", True, True),
        ("entropy", False, False),
        ("kl", True, False),
    ):
        actor = noise_aliased(constraint=constraint, entropy_in_backup=in_backup).actor
        assert bool(actor.next_noise(observation, "learn")[1].abs().sum() > 0) is expected
    assert actor.next_noise(observation, "warmup")[1].abs().sum() == 0


def test_warmup_values_the_pretrained_policy_and_leaves_the_actor_alone():
    learner = noise_aliased()
    before = copy.deepcopy(learner.actor.network.state_dict())
    learner.update(batch_of, "warmup")
    after = learner.actor.network.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    noise, _ = learner.actor.next_noise(torch.zeros(20_000, O), "warmup")
    assert noise.std().item() == pytest.approx(1.0, abs=0.02)  # beyond any bound: plain normal
    learner.update(batch_of, "learn")
    after = learner.actor.network.state_dict()
    assert not all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("build", [noise_aliased, noise_space])
def test_the_base_is_never_changed(build):
    learner = build()
    gain = learner.decoder.base.gain
    for _ in range(3):
        learner.update(batch_of, "learn")
    assert gain.item() == 1.0 and gain.grad is None and not gain.requires_grad


def test_the_noise_bound_is_obeyed_and_prior_noise_is_not_clipped():
    learner = noise_space(noise_bound=1.5, initial_std=5.0)
    candidates = learner.propose(np.zeros((500, O), np.float32), 1, 1)
    steered, prior = candidates.critic_input[:, 0], candidates.critic_input[:, 1]
    assert 1.4 < steered.abs().max() <= 1.5
    assert prior.abs().max() > 2.5
    assert candidates.source[0].tolist() == [0, 1]


def test_candidates_are_decoded_once_and_in_physical_units():
    learner = noise_space()
    candidates = learner.propose(np.zeros((4, O), np.float32), 2, 1)
    assert candidates.chunk.shape == (4, 3, H, A)
    noise = candidates.critic_input.view(4, 3, H, A)
    assert torch.allclose(candidates.chunk, 2 * torch.tanh(noise), atol=1e-6)


def test_what_replay_gets_is_the_executed_chunk_or_the_noise():
    index, executed = np.array([1, 0]), np.random.default_rng(0).normal(size=(2, H, A))
    executed = executed.astype(np.float32)
    aliased, space = noise_aliased(), noise_space()
    observation = np.zeros((2, O), np.float32)
    stored = aliased.executed_decision(aliased.propose(observation, 2, 0), index, executed)
    assert stored == pytest.approx(executed.reshape(2, -1) / 2)
    candidates = space.propose(observation, 2, 0)
    stored = space.executed_decision(candidates, index, executed)
    assert (stored[0] == candidates.critic_input[0, 1].numpy()).all()
    assert (stored[1] == candidates.critic_input[1, 0].numpy()).all()


@pytest.mark.parametrize("build", [noise_aliased, noise_space])
def test_scores_are_those_of_the_ensemble(build):
    learner = build()
    observation = np.random.default_rng(0).normal(size=(4, O)).astype(np.float32)
    candidates = learner.propose(observation, 2, 1)
    values = learner.critic_values(observation, candidates)
    assert values.shape == (3, 4, 3)
    critics = learner.action_critics if build is noise_aliased else learner.critics
    one = critics.network(
        torch.from_numpy(observation[2:3]) / 10, candidates.critic_input[2, 1][None]
    )
    assert values[:, 2, 1] == pytest.approx(one[:, 0].detach().numpy(), abs=1e-5)


@pytest.mark.parametrize(("kind", "target"), [("entropy", -1.0), ("kl", 1.0)])
def test_the_constraint_weight_rises_when_violated_and_falls_with_slack(kind, target):
    for cost, grows in ((3.0, True), (-3.0, False)):
        constraint = Constraint(kind, target, 0.5, 1e-2)
        constraint.adapt(torch.full((4,), cost))
        assert bool(constraint.weight > 0.5) is grows


def test_distillation_makes_noise_critics_agree_with_action_critics():
    learner = noise_aliased(distill_fraction=4.0, tau=1e-6)
    for optimizer in (learner.action_critics.optimized.optimizer,):
        optimizer.param_groups[0]["lr"] = 0.0
    observation, noise = torch.randn(256, O), torch.randn(256, H * A)

    def gap():
        with torch.no_grad():
            truth = learner.action_critics.network(
                observation, learner.decoder.decode(observation, noise)
            )
            return (learner.noise_critics.network(observation, noise) - truth).square().mean()

    before = gap()
    counter = iter(range(10_000))
    for _ in range(150):
        learner.update(lambda: batch_of(64, seed=next(counter)), "warmup")
    assert gap() < 0.15 * before


@pytest.mark.parametrize("build", [noise_aliased, noise_space])
def test_finds_the_rewarded_action_of_a_bandit(build):
    """Reward -4 |a - 0.6|^2 summed over the chunk and no next value: the actor must move there."""
    options = {"constraint": "kl", "constraint_target": 8.0, "temperature": 0.1}
    learner = build(noise_bound=2.5, actor_reduction="mean", critics=2, **options)
    rng = torch.Generator().manual_seed(5)

    def sample():
        noise = torch.randn(128, H * A, generator=rng)
        action = torch.tanh(noise)
        decision = action if build is noise_aliased else noise
        batch = batch_of(128)
        batch.observation = torch.randn(128, O, generator=rng)
        batch.decision, batch.bootstrap = decision, torch.zeros(128)
        batch.reward = -(action - 0.6).square().sum(1) * 4
        return batch

    def value(chunk):
        return -4 * (chunk.detach() / 2 - 0.6).square().sum((1, 2)).mean().item()

    observation, noise = torch.randn(500, O), torch.randn(500, H, A)
    before = value(learner.decoder.base(observation, noise))
    for _ in range(250):
        learner.update(sample, "learn")
    after = value(learner.policy()(observation, noise))
    assert before < -10 and after > -3


@pytest.mark.parametrize("build", [noise_aliased, noise_space])
def test_a_restored_learner_continues_bit_for_bit(build):
    one, two = build(seed=0), build(seed=9)
    for _ in range(3):
        one.update(batch_of, "learn")
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for learner in (one, two):
        learner.drain_metrics()
        for _ in range(2):
            learner.update(batch_of, "learn")
    assert one.drain_metrics() == two.drain_metrics()
    observation = np.ones((2, O), np.float32)
    assert torch.equal(one.propose(observation, 2, 1).chunk, two.propose(observation, 2, 1).chunk)


@pytest.mark.parametrize("build", [noise_aliased, noise_space])
def test_global_random_state_is_left_alone(build):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    learner = build()
    learner.update(batch_of, "learn")
    learner.propose(np.zeros((2, O), np.float32), 1, 1)
    assert torch.equal(before, torch.get_rng_state())


class _Constant:
    """A critic target of a plugin."""

    def target(self, batch, view):
        assert view.next_value(batch.next_observation).shape == batch.reward.shape
        assert view.critics(
            batch.next_observation, view.next_decision(batch.next_observation)
        ).shape == (3, len(batch.reward))
        return torch.full_like(batch.reward, 7.0)


class _Penalty:
    """A regulariser of critics and actors, and a gradient transform, that record their calls."""

    def __init__(self):
        self.seen, self.groups = [], []

    def losses(self, view):
        self.seen.append((type(view).__name__, view.variable))
        return {"penalty": torch.ones((), requires_grad=True) * 2.0}

    def apply(self, group, parameters):
        self.groups.append(group)
        assert all(p.grad is not None for p in parameters)
        return {"norm": 1.0}


def test_hooks_take_part_where_the_contract_says():
    penalty = _Penalty()
    hooks = Hooks(
        critic_target=_Constant(),
        critic_regularizers=(penalty,),
        actor_regularizers=(penalty,),
        gradient_transforms=(penalty,),
    )
    learner = noise_aliased(hooks)
    learner.update(batch_of, "learn")
    assert penalty.seen == [
        ("CriticView", "action"),
        ("ActorView", "noise"),
        ("CriticView", "noise"),
    ]
    assert penalty.groups == ["critic_action", "actor", "critic_noise"]
    metrics = learner.drain_metrics()
    assert metrics["dsrl/target"] == 7.0
    assert metrics["dsrl/action_penalty"] == 2.0
    assert all(np.isfinite(list(metrics.values())))
