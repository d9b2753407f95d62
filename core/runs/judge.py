"""The stages that look: evaluation on common seeds, films, diagnostics."""

from __future__ import annotations

from contextlib import closing

from outrider.core import seeds
from outrider.core.data.store import open_store
from outrider.core.errors import OutriderError
from outrider.core.evaluation.films import film
from outrider.core.evaluation.rollout import evaluate
from outrider.core.evaluation.storage import (
    evaluations,
    load_evaluation,
    save_evaluation,
    save_film,
    save_section,
)
from outrider.core.evaluation.table import EpisodeTable, compare
from outrider.core.learning.checkpoint import latest_checkpoint
from outrider.core.learning.threads import torch_threads
from outrider.core.learning.types import ChunkPolicy
from outrider.core.runs.train import load_base, load_finetuned
from outrider.core.runs.workshop import Workshop, as_act
from outrider.core.types import Episode

FILM_SIZE = (240, 180)


def evaluate_policy(shop: Workshop, label: str) -> EpisodeTable:
    """Evaluate `base` or `finetuned` on the recipe's seeds; keeps episodes, films and results."""
    folder, section = shop.folder, shop.folder.recipe.evaluate
    policy = policy_of(shop, label)
    with closing(shop.task.fleet(section.fleet, section.workers)) as fleet, torch_threads(1):
        table = evaluate(
            as_act(policy),
            fleet,
            policy.horizon,
            policy.execute,
            range(section.seed, section.seed + section.episodes),
            section.noise,
            section.seed,
            on_episode=lambda episode: shop.session.notify(
                "episode_finished", run=folder.path, episode=episode
            ),
            reporter=shop.reporter,
            title=f"evaluate {label}",
        )
    save_evaluation(folder.path, label, table)
    folder.add_results({label: table.summary()})
    compare_policies(shop)
    return table


def policy_of(shop: Workshop, label: str) -> ChunkPolicy:
    """The base or the finetuned policy."""
    return load_base(shop).policy if label == "base" else load_finetuned(shop)


def available(shop: Workshop) -> list[str]:
    """Which policies the run has by now, in the order in which they were made."""
    found = ["base"] if shop.folder.base_policy.is_dir() else []
    if latest_checkpoint(shop.folder.checkpoints("finetune")) is not None:
        found.append("finetuned")
    if not found:
        raise OutriderError(
            "there is no policy to evaluate", where=str(shop.folder.path), fix="Pretrain first."
        )
    return found


def compare_policies(shop: Workshop) -> None:
    """Pair base and finetuned by seed, once both were evaluated."""
    run = shop.folder.path
    if not {"base", "finetuned"} <= set(evaluations(run)):
        return
    base, finetuned = load_evaluation(run, "base"), load_evaluation(run, "finetuned")
    rng = seeds.generator(base.noise.seed, "comparison")
    shop.folder.add_results({"comparison": compare(base, finetuned, rng).to_json()})


def make_films(shop: Workshop) -> None:
    """Film the same seeds for every policy; without a display the run goes on and says why."""
    run, count = shop.folder.path, shop.folder.recipe.evaluate.film
    tables = {label: load_evaluation(run, label) for label in evaluations(run)}
    chosen = telling_episodes(tables, count)
    if not chosen:
        return
    width, height = FILM_SIZE
    try:
        with closing(shop.task.simulator()) as simulator:
            for label, table in tables.items():
                for index in chosen:
                    shown = film(simulator, table.episodes[index], width=width, height=height)
                    save_film(run, label, shown)
    except OutriderError as error:
        shop.reporter.say(f"no films: {error}")


def telling_episodes(tables: dict[str, EpisodeTable], count: int) -> list[int]:
    """Episodes that the base policy fails and the finetuned one solves first, then the others."""
    if not tables:
        return []
    episodes = len(next(iter(tables.values())).episodes)
    gained = set(range(episodes))
    if {"base", "finetuned"} <= set(tables):
        gain = tables["finetuned"].success & ~tables["base"].success
        gained = {i for i in range(episodes) if gain[i]}
    return sorted(range(episodes), key=lambda i: (i not in gained, i))[:count]


def diagnose(shop: Workshop) -> None:
    """Let the diagnostics of the run's plugins examine demonstrations and evaluations."""
    base = load_base(shop).policy
    found = shop.session.diagnostics(shop.context_for((base.execute, base.action_size)))
    if not found:
        return
    run, spec = shop.folder.path, shop.spec()
    material: dict[str, list[Episode]] = {
        "demonstrations": list(open_store(shop.folder.demos).episodes())
    }
    material |= {label: list(load_evaluation(run, label).episodes) for label in evaluations(run)}
    for plugin, diagnostic in found:
        for label, episodes in material.items():
            section = diagnostic.examine(label, episodes, spec)
            if section is not None:
                save_section(run, plugin, label, section)
