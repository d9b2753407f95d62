"""HTML and SVG as nested calls. Whatever is not `Markup` already is escaped, without exception."""

import html
from collections.abc import Iterable
from typing import Any


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


_VOID = frozenset({"img", "br", "meta"})


def escape(value: Any) -> Markup:
    """`value` as text, safe between tags and inside quoted attributes."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value), quote=True))


def join(parts: Iterable[Any]) -> Markup:
    """Parts one after the other; None is left out."""
    return Markup("".join(escape(part) for part in parts if part is not None))


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """An element: `tag("p", "a < b", class_="note")`.

    A trailing underscore is dropped from an attribute's name and other underscores become
    hyphens; an attribute that is None is left out. `name` and attribute names are our own
    constants, never data.
    """
    words = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    ]
    opening = f"<{name}{''.join(words)}>"
    return Markup(opening if name in _VOID else f"{opening}{join(children)}</{name}>")
