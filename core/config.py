"""Reading configurations: values only, unknown keys are errors, one line says what is wrong.

A section of the form `{use: NAME, **rest}` is a `Choice`: NAME picks a provider, and the rest is
validated by the provider's own config type, which lives beside the code that it configures.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from outrider.core.errors import OutriderError, nearest

MAX_CONFIG_BYTES = 1024 * 1024
MAX_SHOWN = 80


class StrictModel(BaseModel):
    """Base of every config: frozen, unknown keys refused, defaults validated."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )


class NoConfig(StrictModel):
    """The config of something that has nothing to set."""


class Choice(StrictModel):
    """A provider by name, and its own settings as they stand in the file.

    Attributes:
        use: the provider's name.
        options: everything else in the section, validated later by the provider's config type.
    """

    use: str
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"use": value}
        if isinstance(value, Mapping) and set(value) != {"use", "options"}:
            return {
                "use": value.get("use"),
                "options": {k: v for k, v in value.items() if k != "use"},
            }
        return value

    def dump(self) -> dict[str, Any]:
        """The section as it stands in a file."""
        return {"use": self.use, **self.options}


M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], values: Mapping[str, Any], where: str) -> M:
    """Build a config, or raise one line that names the key, the reason and the valid keys.

    Args:
        model: the pydantic type.
        values: what the file, the command line or a caller gives.
        where: how the reader would find the section, such as `lift.yaml: finetune`.

    Raises:
        OutriderError: for the first thing that is wrong.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        place = f"{where}.{path}" if path else where
        if first["type"] == "extra_forbidden":
            options = _keys_at(model, first["loc"][:-1])
            raise OutriderError(
                "unknown key", where=place, fix=nearest(str(first["loc"][-1]), options)
            ) from error
        got = "" if first["type"] == "missing" else f" (got {_short(first['input'])})"
        raise OutriderError(first["msg"].lower() + got, where=place) from error


def _keys_at(model: type[BaseModel], path: Sequence[Any]) -> list[str]:
    """Valid keys of the section at `path`, through optional sections."""
    for part in path:
        info = model.model_fields.get(str(part))
        inner = [t for t in _alternatives(info.annotation if info else None) if _is_model(t)]
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) or (annotation,)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping of bounded size; tags that would run code are refused.

    Raises:
        OutriderError: when the file cannot be read or is no mapping.
    """
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise OutriderError("configuration is larger than 1 MiB", where=str(path))
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OutriderError(f"cannot read: {error.strerror or error}", where=str(path)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise OutriderError(f"not valid YAML ({error})", where=str(path)) from error
    if not isinstance(value, dict):
        raise OutriderError("the file must hold a mapping of keys to values", where=str(path))
    return value


def override(values: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Apply `a.b=3` assignments (values are YAML) to a copy of `values`.

    Raises:
        OutriderError: when an assignment has no `=` or descends into something that is no section.
    """
    result: dict[str, Any] = _copy(values)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise OutriderError(
                f"{assignment!r} is no assignment", where="--set", fix="Write --set a.b=3"
            )
        section = result
        for key in keys[:-1]:
            if section.get(key) is None:
                section[key] = {}
            section = section[key]
            if not isinstance(section, dict):
                raise OutriderError(f"{key!r} is a value, not a section", where=f"--set {path}")
        try:
            section[keys[-1]] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise OutriderError(f"not valid YAML ({error})", where=f"--set {path}") from error
    return result


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, list) else value


def dump_yaml(values: Mapping[str, Any]) -> str:
    """YAML text of plain values, keys in their own order."""
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)
