"""What a plugin offers: providers of the right type, under names of their own, with defaults."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from outrider.core.errors import MissingDependency
from outrider.core.host.host import PROVIDERS, provider_name
from outrider.core.host.objects import FinetunerProvider, TaskProvider
from outrider.core.learning.types import Capabilities
from outrider.core.testing.declaration import UNKNOWN_KEY
from outrider.core.testing.randomness import untouched_randomness
from outrider.core.testing.subject import Subject


def check_offers(subject: Subject) -> None:
    """Every provider is of its type, has a name of its own, and builds its default config.

    Task families list their names, where what they need is installed, and finetuners declare
    their capabilities, both without touching a global generator.

    Raises:
        AssertionError: naming the offer that is not so.
    """
    for kind in subject.hooks:
        if kind not in PROVIDERS:
            continue
        with untouched_randomness(f"its offer of {kind}"):
            first, again = _asked(subject, kind), _asked(subject, kind)
            names = [provider_name(provider) for provider in first]
            assert len(set(names)) == len(names), f"it offers {kind} of one name twice: {names}"
            assert names == [provider_name(p) for p in again], (
                f"its offer of {kind} changes from one instance to the next"
            )
            for provider in first:
                _check_provider(provider, f"its {kind} {provider_name(provider)!r}")


def _asked(subject: Subject, kind: str) -> list[Any]:
    providers = list(getattr(subject.plugin(subject.plugin.Config()), kind)())
    for provider in providers:
        assert isinstance(provider, PROVIDERS[kind]), (
            f"its offer of {kind} holds a {type(provider).__name__}, "
            f"expected a {PROVIDERS[kind].__name__}"
        )
        name = provider_name(provider)
        assert name and "/" not in name, f"its offer of {kind} holds the name {name!r}"
    return providers


def _check_provider(provider: Any, what: str) -> None:
    for attribute in ("config", "expert_config"):
        if hasattr(provider, attribute):
            _check_config(getattr(provider, attribute), f"{what} ({attribute})")
    if isinstance(provider, FinetunerProvider):
        declared = provider.capabilities(provider.config())
        assert isinstance(declared, Capabilities), f"{what} declares {declared!r}"
    if isinstance(provider, TaskProvider):
        _check_names(provider, what)


def _check_config(config: type[BaseModel], what: str) -> None:
    try:
        made = config()
    except ValidationError as error:
        raise AssertionError(f"{what} cannot be made from nothing: {error.errors()[0]}") from error
    again = config.model_validate(made.model_dump(mode="json"))
    assert again == made, f"{what} does not read back what a run folder keeps of it"
    assert config.model_config.get("extra") == "forbid", f"{what} accepts unknown keys"
    try:
        config.model_validate({UNKNOWN_KEY: 1})
    except ValidationError:
        return
    raise AssertionError(f"{what} accepts an unknown key")


def _check_names(provider: TaskProvider, what: str) -> None:
    try:
        names = provider.names()
    except MissingDependency:
        return
    assert names, f"{what} lists no task"
    assert len(set(names)) == len(names), f"{what} lists a task twice"
