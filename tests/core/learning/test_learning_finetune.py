"""The finetuning loop on a small simulator: what is stored, who is asked, kill and resume."""

import numpy as np
import pytest
import torch
from steering_fakes import TASK, A, AffinePolicy, H, O

from outrider.core import seeds
from outrider.core.errors import OutriderError
from outrider.core.host.objects import FinetuneContext
from outrider.core.learning.collect import Collector
from outrider.core.learning.finetune import Learner, begin, finetune, restore
from outrider.core.learning.replay import ReplayBuffer
from outrider.core.learning.transitions import Discounting
from outrider.core.learning.types import Hooks
from outrider.core.progress import Silent
from outrider.core.recipe import FinetuneSection
from outrider.core.simulation.fleet import SerialFleet
from outrider.core.simulation.types import Step
from outrider.plugins.df_expense.config import DfExpEnseConfig
from outrider.plugins.df_expense.explorer import DfExpEnse
from outrider.policies.steering.config import NoiseAliasedConfig, NoiseSpaceConfig
from outrider.policies.steering.noise_aliased import NoiseAliased
from outrider.policies.steering.noise_space import NoiseSpace

SECTION = FinetuneSection(
    algorithm="any",
    env_steps=240,
    fleet=3,
    warmup_ticks=5,
    warmup_updates_per_tick=1,
    updates_per_tick=2,
    batch=8,
    checkpoint_every=4,
    log_every=4,
)


class Cart:
    """x' = x + u; success within 0.3 of the origin. Keeps a record of what it executed."""

    spec = TASK

    def __init__(self):
        self.commands = []

    def reset(self, seed):
        self.x = np.random.default_rng(seed).uniform(-5, 5, O).astype(np.float32)
        return self.x.copy()

    def step(self, action):
        self.commands.append(action.copy())
        self.x[:A] += action
        success = bool(np.abs(self.x[:A]).max() < 0.3)
        return Step(self.x.copy(), float(success), success, False)

    def state(self):
        return {}

    def close(self):
        pass


class NoState:
    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def learner_of(explorer=None, space=False, seed=0):
    ctx = FinetuneContext(
        AffinePolicy(), TASK, Hooks(explorer=explorer), torch.Generator().manual_seed(seed)
    )
    small = {"critics": 3, "width": 8, "layers": 1}
    finetuner = (
        NoiseSpace(NoiseSpaceConfig(**small), ctx)
        if space
        else NoiseAliased(NoiseAliasedConfig(**small), ctx)
    )
    carts = [Cart() for _ in range(3)]
    collector = Collector(
        SerialFleet(carts, TASK), finetuner, explorer, Discounting(0.99, "within", 1, -1), seed
    )
    replay = ReplayBuffer(1000, O, H * A)
    learner = Learner(
        finetuner,
        collector,
        replay,
        ctx.base.normalize_observation,
        NoState(),
        seeds.generator(seed, "replay"),
    )
    return learner, carts


def run(learner, tmp_path, resume=False, stop_after=None, section=SECTION):
    lines = []

    def log(step, values):
        lines.append((step, {k: v for k, v in values.items() if not k.startswith("speed/")}))
        if stop_after is not None and len(lines) == stop_after:
            raise KeyboardInterrupt

    if not (resume and restore(learner, tmp_path)):
        begin(learner, tmp_path)
    with Silent().bar("finetune", 1) as bar:
        finetune(learner, section, checkpoints=tmp_path, log=log, bar=bar)
    return lines


def test_every_executed_step_is_counted_and_stored(tmp_path):
    learner, carts = learner_of()
    run(learner, tmp_path)
    executed = sum(len(cart.commands) for cart in carts)
    assert executed == learner.collector.env_steps
    assert SECTION.env_steps <= executed <= SECTION.env_steps + 3 * H
    stored = learner.replay.field("decision").reshape(-1, 3, H, A) * 2  # physical units
    steps = [0, 0, 0]
    rewards = learner.replay.field("reward").reshape(-1, 3)
    ended = learner.replay.field("bootstrap").reshape(-1, 3) == 0
    for tick in range(len(stored)):
        for robot, cart in enumerate(carts):
            count = 1 if ended[tick, robot] and rewards[tick, robot] == 0 else H
            commands = cart.commands[steps[robot] : steps[robot] + count]
            assert stored[tick, robot, :count] == pytest.approx(np.array(commands), abs=1e-6)
            steps[robot] += count


def test_explorers_change_no_budget(tmp_path):
    """Equal updates and replay records per tick, with any explorer; one transition per robot."""
    for i, explorer in enumerate((None, DfExpEnse(DfExpEnseConfig()))):
        learner, _ = learner_of(explorer)
        run(learner, tmp_path / str(i))
        ticks = len(learner.replay) / 3
        assert ticks == int(ticks)
        assert learner.collector.env_steps <= len(learner.replay) * H


def test_the_warmup_executes_the_pretrained_policy_without_asking_the_explorer(tmp_path):
    class Refuses(DfExpEnse):
        def choose(self, *args):
            raise AssertionError("asked during the warm-up")

    learner, _ = learner_of(Refuses(DfExpEnseConfig()))
    learner.collector.begin()
    decision = learner.collector.decide("warmup")
    assert decision.candidates.source.tolist() == [[1]] * 3
    with pytest.raises(AssertionError, match="asked"):
        learner.collector.decide("learn")


def test_the_explorer_chooses_what_is_executed():
    class Last:
        n_policy, n_prior = 2, 1

        def choose(self, observation, candidates, values, rng):
            from outrider.core.learning.types import Selection

            assert values.shape == (3, 3, 3)
            return Selection(np.full(3, 2), {"figure": 4.0})

    learner, carts = learner_of(Last())
    learner.collector.begin()
    decision = learner.collector.decide("learn")
    learner.collector.submit(decision)
    learner.collector.collect(decision)
    chosen = decision.candidates.chunk[:, 2].numpy()
    for robot, cart in enumerate(carts):
        assert np.array(cart.commands) == pytest.approx(chosen[robot][: len(cart.commands)])
    assert learner.collector.figures()["explore/figure"] == 4.0


def test_without_explorer_it_is_the_algorithm_alone():
    """One candidate of an explorer gives the same commands as none: its generator is its own."""
    one = DfExpEnse(DfExpEnseConfig(candidates=1, prior=0))
    commands = []
    for explorer in (None, one):
        learner, _ = learner_of(explorer)
        learner.collector.begin()
        for _ in range(4):
            decision = learner.collector.decide("learn")
            learner.collector.submit(decision)
            learner.replay.add(learner.collector.collect(decision))
        commands.append(learner.replay.field("decision").copy())
    assert (commands[0] == commands[1]).all()


def test_evaluation_is_untouched_by_an_explorer():
    observation, noise = torch.randn(6, O), torch.randn(6, H, A)
    plain, _ = learner_of()
    explored, _ = learner_of(DfExpEnse(DfExpEnseConfig()))
    assert torch.equal(
        plain.finetuner.policy()(observation, noise),
        explored.finetuner.policy()(observation, noise),
    )


@pytest.mark.parametrize("space", [False, True])
@pytest.mark.parametrize("stop_after", [2, 4])
def test_killed_and_resumed_equals_uninterrupted(tmp_path, space, stop_after):
    build = lambda: learner_of(DfExpEnse(DfExpEnseConfig()), space)  # noqa: E731
    whole, _ = build()
    lines = run(whole, tmp_path / "whole")
    killed, _ = build()
    with pytest.raises(KeyboardInterrupt):
        run(killed, tmp_path / "cut", stop_after=stop_after)
    resumed, _ = build()
    rest = run(resumed, tmp_path / "cut", resume=True)
    assert rest == lines[-len(rest) :]
    assert len(rest) < len(lines)
    assert (resumed.replay.field("decision") == whole.replay.field("decision")).all()
    for a, b in zip(
        whole.finetuner.policy().state_dict().values(),
        resumed.finetuner.policy().state_dict().values(),
        strict=True,
    ):
        assert torch.equal(a, b)


def test_resume_without_a_checkpoint_starts_at_the_beginning(tmp_path):
    a, _ = learner_of()
    b, _ = learner_of()
    assert run(a, tmp_path / "a", resume=True) == run(b, tmp_path / "b")


def test_a_loss_that_is_not_finite_stops_in_one_line_and_keeps_the_checkpoint(tmp_path):
    learner, _ = learner_of()
    original = learner.finetuner.drain_metrics
    calls = []

    def poisoned():
        calls.append(1)
        return original() | ({"dsrl/action_loss": float("nan")} if len(calls) == 3 else {})

    learner.finetuner.drain_metrics = poisoned
    with pytest.raises(OutriderError, match="dsrl/action_loss is not finite after"):
        run(learner, tmp_path)
    assert len(list(tmp_path.glob("step-*"))) >= 1


def test_old_checkpoints_are_pruned(tmp_path):
    learner, _ = learner_of()
    run(learner, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_second_run_does_not_mix_with_the_first(tmp_path):
    first, _ = learner_of()
    run(first, tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    second, _ = learner_of(seed=3)
    with pytest.raises(OutriderError, match="checkpoints of an earlier run"):
        run(second, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_resuming_a_finished_run_adds_nothing(tmp_path):
    first, _ = learner_of()
    run(first, tmp_path)
    again, _ = learner_of()
    assert run(again, tmp_path, resume=True) == []
    assert again.collector.env_steps == first.collector.env_steps
