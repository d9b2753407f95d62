"""The stages that learn: demonstrations, pretraining, finetuning."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import torch

from outrider.core import seeds
from outrider.core.data.demonstrations import Demonstrations
from outrider.core.data.readers import load_demonstrations
from outrider.core.data.store import open_store, write_store
from outrider.core.errors import OutriderError
from outrider.core.host.objects import FinetuneContext
from outrider.core.learning.checkpoint import latest_checkpoint, load_checkpoint
from outrider.core.learning.collect import Collector
from outrider.core.learning.finetune import Learner, begin, finetune, restore
from outrider.core.learning.logbook import Logbook
from outrider.core.learning.policy_file import SavedPolicy, load_policy, save_policy
from outrider.core.learning.pretrain import pretrain
from outrider.core.learning.replay import ReplayBuffer
from outrider.core.learning.seeding import demonstration_fields
from outrider.core.learning.threads import torch_threads
from outrider.core.learning.transitions import Discounting
from outrider.core.learning.types import ChunkPolicy, Finetuner, Hooks
from outrider.core.recipe import FinetuneSection
from outrider.core.runs.collect import collect
from outrider.core.runs.workshop import Workshop

if TYPE_CHECKING:
    from outrider.core.simulation.types import Fleet

STAGE = "finetune"


def demonstrate(shop: Workshop) -> None:
    """Collect demonstrations by the expert, or read those that the recipe names, into the store."""
    folder, section = shop.folder, shop.folder.recipe.demos
    if section.path is None:
        collect(shop.host, folder.recipe.task, section, folder.demos, shop.reporter)
    else:
        given = load_demonstrations(section.path, shop.host)
        _require_same_sizes(given, shop)
        write_store(folder.demos, shop.spec(), given.episodes(), dict(given.source))
    store = open_store(folder.demos)
    demonstrations = store.load()
    demonstrations.require_finite(folder.demos)
    lengths = demonstrations.lengths
    source = dict(store.source)
    folder.add_results(
        {
            "demonstrations": {
                "episodes": len(lengths),
                "steps": int(lengths.sum()),
                "length": {
                    "min": int(lengths.min()),
                    "mean": float(lengths.mean()),
                    "max": int(lengths.max()),
                },
                "digest": demonstrations.digest(),
                **{k: source[k] for k in ("attempts", "expert_success") if k in source},
            }
        }
    )


def _require_same_sizes(given: Demonstrations, shop: Workshop) -> None:
    spec = shop.spec()
    for what, mine, theirs in (
        ("observation", spec.observation, given.task.observation),
        ("action", spec.action, given.task.action),
    ):
        if mine.size != theirs.size:
            raise OutriderError(
                f"{what} has {theirs.size} numbers ({', '.join(f.name for f in theirs.fields)}), "
                f"the task {spec.task} has {mine.size} "
                f"({', '.join(f.name for f in mine.fields)})",
                where=str(shop.folder.recipe.demos.path),
            )


def pretrain_base(shop: Workshop, *, resume: bool) -> None:
    """Train the base policy on the store and save it."""
    folder = shop.folder
    provider, config = shop.policy_provider()
    policy = provider.build(config, shop.spec())
    pretrain(
        policy,
        open_store(folder.demos).load(),
        folder.recipe.pretrain,
        seed=folder.recipe.seed,
        out=folder.path,
        reporter=shop.reporter,
        resume=resume,
        settings=config.model_dump(mode="json"),
        on_metrics=lambda step, values: shop.session.notify(
            "metrics", run=folder.path, step=step, values=values
        ),
    )
    save_policy(
        folder.base_policy, policy, provider.name, config.model_dump(mode="json"), shop.spec()
    )


def load_base(shop: Workshop) -> SavedPolicy:
    """The pretrained policy of the run."""
    return load_policy(shop.folder.base_policy, shop.host)


def finetune_base(shop: Workshop, *, resume: bool) -> None:
    """Finetune the base policy in simulation, with the plugins of the run."""
    folder, section = shop.folder, _section(shop)
    base = load_base(shop).policy
    hooks = shop.session.hooks(shop.context_for((base.execute, base.action_size)))
    finetuner = build_finetuner(shop, base, hooks)
    with (
        torch_threads(section.threads),
        closing(shop.task.fleet(section.fleet, section.workers)) as fleet,
    ):
        learner = _learner(shop, base, finetuner, hooks, fleet)
        resumed = resume and restore(learner, folder.checkpoints(STAGE))
        if not resumed:
            begin(learner, folder.checkpoints(STAGE))
        began = time.perf_counter()
        _run(shop, learner, section, resume_at=learner.collector.env_steps if resumed else None)
        folder.add_results({"finetuning": _summary(learner, time.perf_counter() - began)})


def _run(shop: Workshop, learner: Learner, section: FinetuneSection, resume_at: int | None) -> None:
    """The loop, with its metrics written and told to the plugins."""
    folder = shop.folder
    with (
        Logbook(folder.path, STAGE, resume_at) as book,
        shop.reporter.bar(STAGE, section.env_steps) as bar,
    ):

        def log(step: int, values: Mapping[str, float]) -> None:
            figures = dict(values) | shop.session.drain_timings()
            book.write(step, figures)
            shop.session.notify("metrics", run=folder.path, step=step, values=figures)

        finetune(learner, section, checkpoints=folder.checkpoints(STAGE), log=log, bar=bar)


def _section(shop: Workshop) -> FinetuneSection:
    section = shop.folder.recipe.finetune
    if section is None:
        raise OutriderError("the recipe has no section 'finetune'", where=str(shop.folder.path))
    return section


def build_finetuner(shop: Workshop, base: ChunkPolicy, hooks: Hooks) -> Finetuner:
    """The recipe's finetuner around a base policy."""
    section = _section(shop)
    provider, config = shop.finetuner_provider(section)
    generator = torch.Generator().manual_seed(seeds.integer(shop.folder.recipe.seed, STAGE))
    return provider.build(
        config, FinetuneContext(base, shop.spec(), hooks, generator, section.device)
    )


def load_finetuned(shop: Workshop) -> ChunkPolicy:
    """The finetuned policy of the run, from its newest checkpoint."""
    newest = latest_checkpoint(shop.folder.checkpoints(STAGE))
    if newest is None:
        raise OutriderError(
            "there is no finetuned policy", where=str(shop.folder.path), fix="Finetune first."
        )
    finetuner = build_finetuner(shop, load_base(shop).policy, Hooks())
    finetuner.load_state_dict(load_checkpoint(newest)["finetuner"])
    policy = finetuner.policy()
    policy.eval()
    return policy


def _learner(
    shop: Workshop, base: ChunkPolicy, finetuner: Finetuner, hooks: Hooks, fleet: Fleet
) -> Learner:
    section = _section(shop)
    discounting = Discounting(
        section.discount, section.chunk_discount, section.reward_scale, section.reward_offset
    )
    chunk = base.execute * base.action_size
    noise = base.horizon * base.action_size
    decision = {"action": chunk, "combined": chunk, "noise": noise, "none": chunk}
    replay = ReplayBuffer(
        section.replay,
        base.observation_size,
        decision[finetuner.capabilities.critic_space],
        finetuner.payload_sizes(),
    )
    if section.demonstrations:
        demonstrations = open_store(shop.folder.demos).load()
        replay.add(demonstration_fields(demonstrations, base, finetuner, discounting))
    collector = Collector(fleet, finetuner, hooks.explorer, discounting, shop.folder.recipe.seed)
    return Learner(
        finetuner,
        collector,
        replay,
        base.normalize_observation,
        shop.session,
        seeds.generator(shop.folder.recipe.seed, "replay"),
    )


def _summary(learner: Learner, seconds: float) -> dict[str, float]:
    collector = learner.collector
    return {
        "env_steps": collector.env_steps,
        "episodes": collector.episodes,
        "transitions": len(learner.replay),
        "wall_s": seconds,
    }
