"""What a plugin says of itself: its name, its configuration, its hooks and their types."""

from __future__ import annotations

import types
import typing
from collections.abc import Collection
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError

from outrider.core.host import hookspecs
from outrider.core.host.discovery import hook_parameters, objection
from outrider.core.learning import types as learning_types
from outrider.core.testing.randomness import untouched_randomness
from outrider.core.testing.subject import Subject

UNKNOWN_KEY = "a_key_that_no_plugin_has"


def check_declaration(subject: Subject) -> None:
    """The host takes the class: name, api, Config, requirements, hooks and their arguments.

    Raises:
        AssertionError: with the reason that `outrider plugins` would print.
    """
    reason = objection(subject.plugin, getattr(subject.plugin, "name", ""))
    assert not reason, f"the host refuses the plugin: {reason}"


def check_config(subject: Subject) -> None:
    """Unknown keys are refused, and a resolved configuration reads back as it was written.

    Raises:
        AssertionError: when either does not hold.
        OutriderError: when `subject.config` itself is refused.
    """
    config_type = subject.plugin.Config
    try:
        config_type.model_validate(dict(subject.config) | {UNKNOWN_KEY: 1})
    except ValidationError as error:
        kinds = [e["type"] for e in error.errors() if e["loc"][-1:] == (UNKNOWN_KEY,)]
        assert kinds == ["extra_forbidden"], "its Config does not refuse an unknown key"
    else:
        raise AssertionError("its Config accepts an unknown key")
    config = config_type.model_validate(dict(subject.config))
    again = config_type.model_validate(config.model_dump(mode="json"))
    assert again == config, (
        "its Config does not read back what a run folder keeps of it: "
        f"{config!r} comes back as {again!r}"
    )


def check_instance(subject: Subject) -> None:
    """An instance is made from the configuration, without touching a global generator.

    A plugin with offers must also be made from no configuration at all, since offers are asked
    for before any recipe is read.

    Raises:
        AssertionError: when it is not so.
    """
    with untouched_randomness("making the plugin"):
        subject.instance()
    if set(subject.hooks) & set(hookspecs.OFFERS):
        try:
            subject.plugin(subject.plugin.Config())
        except Exception as error:
            raise AssertionError(
                f"a plugin with offers must be made from its default Config, and this one raises "
                f"{type(error).__name__}: {error}"
            ) from error


def check_type_hints(subject: Subject) -> None:
    """Annotations of hooks agree with the specification, where they can be resolved.

    Raises:
        AssertionError: naming the hook, the argument and both types.
    """
    for name in subject.hooks:
        wanted = _hints(getattr(hookspecs, name))
        given = _hints(getattr(subject.plugin, name))
        if wanted is None or given is None:
            continue
        for parameter in hook_parameters(subject.plugin, name):
            mine = given.get(parameter.name, Any)
            theirs = wanted[parameter.name]
            assert _fits(theirs, mine), (
                f"its hook {name!r} annotates {parameter.name!r} as {_say(mine)}; "
                f"it gets {_say(theirs)}"
            )
        answer = given.get("return", Any)
        assert _fits(answer, wanted["return"]), (
            f"its hook {name!r} is annotated to return {_say(answer)}; "
            f"the specification says {_say(wanted['return'])}"
        )


def _hints(function: Any) -> dict[str, Any] | None:
    """Resolved annotations, with the learning types at hand; None where a name is unknown."""
    try:
        return typing.get_type_hints(function, localns=vars(learning_types))
    except Exception:  # an annotation may be any expression
        return None


def _fits(given: Any, wanted: Any) -> bool:
    """Whether every value of type `given` may stand where `wanted` is expected.

    Says yes where it cannot tell: this is a check for mistakes, not a type checker.
    """
    if Any in (given, wanted) or given == wanted or wanted is object:
        return True
    options = _members(wanted)
    return all(any(_one_fits(member, option) for option in options) for member in _members(given))


def _members(hint: Any) -> Collection[Any]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _one_fits(given: Any, wanted: Any) -> bool:
    if Any in (given, wanted) or given == wanted:
        return True
    outer, frame = get_origin(given) or given, get_origin(wanted) or wanted
    if not (isinstance(outer, type) and isinstance(frame, type)):
        return True
    if getattr(frame, "_is_protocol", False) and frame is not outer:
        methods = [name for name, value in vars(frame).items() if _is_public_method(name, value)]
        return all(callable(getattr(outer, name, None)) for name in methods)
    if not issubclass(outer, frame):
        return False
    pairs = zip(_inner(given), _inner(wanted), strict=False)
    return all(_fits(mine, theirs) for mine, theirs in pairs)


def _inner(hint: Any) -> tuple[Any, ...]:
    return tuple(part for part in get_args(hint) if part is not Ellipsis)


def _is_public_method(name: str, value: Any) -> bool:
    return callable(value) and not name.startswith("_")


def _say(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
