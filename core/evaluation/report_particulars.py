"""Sections of the report on how it came about: data, deployment, plugins, diagnostics, config."""

import base64
from collections.abc import Mapping
from typing import Any

from outrider.core.evaluation.bars import duration_chart
from outrider.core.evaluation.markup import Markup, join, tag
from outrider.core.evaluation.rundata import RunData, as_interval, is_number
from outrider.core.evaluation.wording import duration, number, percent
from outrider.core.host.objects import Finding, ReportSection

_SHARES = ("success", "share", "fraction")
_GOOD_STATES = frozenset({"ready", "active", "used", "ok"})


def demonstrations(data: RunData) -> Markup | None:
    """What the policy was pretrained on."""
    return _facts(data.section("demonstrations"))


def deployment(data: RunData) -> Markup | None:
    """Parity, latency and the control check of the exported bundle."""
    titles = (
        ("parity", "Parity with the trained policy"),
        ("latency_ms", "Latency of the controller (ms)"),
        ("control", "Real-time control of the simulated robot"),
    )
    parts: list[Markup] = []
    for key, title in titles:
        facts = _facts(data.section(key))
        if facts is not None:
            parts += [tag("h3", title), facts]
    return join(parts) if parts else None


def plugins(data: RunData) -> Markup | None:
    """Which plugins took part, in what, for how long, and which were switched off and why."""
    rows = _records(data.results.get("plugins"))
    if not rows:
        return None
    heads = ("Plugin", "Version", "Hooks", "State", "Time in hooks")
    head = tag("tr", *[tag("th", text) for text in heads])
    body = [_plugin(row) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="scroll")


def _records(value: Any) -> list[dict[str, Any]]:
    """A list of mappings, or name -> mapping (or version) as one."""
    if isinstance(value, Mapping):
        return [
            {"name": name, **(dict(v) if isinstance(v, Mapping) else {"version": v})}
            for name, v in value.items()
        ]
    return [dict(v) for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def _plugin(row: Mapping[str, Any]) -> Markup:
    state = str(row.get("state", "ready"))
    reason = row.get("reason") or row.get("error")
    kind = "good" if state in _GOOD_STATES and not reason else "bad"
    package = row.get("distribution") or row.get("package")
    seconds = row.get("seconds")
    if isinstance(seconds, Mapping):
        times: Any = join(
            tag("div", f"{hook} ", tag("span", duration(float(s)), class_="soft"))
            for hook, s in seconds.items()
            if is_number(s)
        )
    else:
        times = duration(float(seconds)) if is_number(seconds) else "-"
    return tag(
        "tr",
        tag("th", row.get("name", "?"), tag("small", package) if package else None, scope="row"),
        tag("td", row.get("version", "-")),
        tag("td", _inline(row.get("hooks", "-"))),
        tag(
            "td",
            tag("span", state, class_=f"badge {kind}"),
            tag("small", reason) if reason else None,
        ),
        tag("td", times),
    )


def diagnostics(plugin: str, label: str, section: ReportSection) -> Markup:
    """What one plugin says of one set of episodes."""
    return join(
        [
            tag("p", f"By the plugin {plugin}, on the episodes called {label}.", class_="soft"),
            tag("p", section.text) if section.text else None,
            _findings(section.findings),
            _facts(section.numbers),
            *[_table(caption, *table) for caption, table in section.tables.items()],
            _figures(section.figures),
        ]
    )


def _findings(findings: tuple[Finding, ...]) -> Markup | None:
    if not findings:
        return None
    items = [
        tag(
            "li",
            tag("b", f.where),
            f": {f.what} ({number(f.value)}, threshold {number(f.threshold)})",
        )
        for f in findings
    ]
    title = f"{len(findings)} finding{'s' if len(findings) > 1 else ''} to look at"
    return tag("div", tag("b", title), tag("ul", *items), class_="callout")


def _table(caption: str, columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...]) -> Markup:
    numeric = [all(is_number(row[j]) for row in rows) for j in range(len(columns))]
    styles = ["n" if is_numeric else None for is_numeric in numeric]
    head = [tag("th", name, class_=style) for name, style in zip(columns, styles, strict=True)]
    body = [
        tag("tr", *[tag("td", _value("", v), class_=s) for v, s in zip(row, styles, strict=True)])
        for row in rows
    ]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_="compact")
    return join([tag("h3", caption), tag("div", table, class_="scroll")])


def _figures(figures: Mapping[str, bytes]) -> Markup | None:
    if not figures:
        return None
    found = []
    for caption, png in figures.items():
        uri = f"data:image/png;base64,{base64.b64encode(png).decode()}"
        found.append(tag("figure", tag("img", src=uri, alt=caption), tag("figcaption", caption)))
    return tag("div", *found, class_="figures")


def times(data: RunData) -> Markup | None:
    """How long each stage took."""
    stages = data.results.get("wall_s")
    if not isinstance(stages, Mapping):
        stages = data.section("stages_s")
    rows = [(str(name), float(s)) for name, s in stages.items() if is_number(s)]
    return tag("div", duration_chart(rows), class_="wide") if rows else None


def provenance(data: RunData) -> Markup | None:
    """Versions and the resolved configuration."""
    versions = _facts(data.section("versions"))
    parts: list[Markup] = []
    if versions is not None:
        parts += [tag("h3", "Versions"), versions]
    if data.config_text:
        text = tag("pre", data.config_text)
        parts += [
            tag("h3", "Configuration"),
            tag("details", tag("summary", "config.yaml, every value"), text),
        ]
    return join(parts) if parts else None


def _facts(values: Mapping[str, Any]) -> Markup | None:
    """Names and values, side by side; nested mappings are spelled out with a dot."""
    flat = _flatten(values)
    if not flat:
        return None
    return tag("dl", *[tag("div", tag("dt", _title(k)), tag("dd", _value(k, v))) for k, v in flat])


def _flatten(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and as_interval(value) is None:
            found += _flatten(value, f"{name}.")
        else:
            found.append((name, value))
    return found


def _title(key: str) -> str:
    return key.replace("_", " ")


def _value(key: str, value: Any) -> Markup | str:
    interval = as_interval(value)
    share = any(word in key for word in _SHARES)
    if interval is not None:
        show = percent if share else number
        ends = f"[{show(interval.low)}, {show(interval.high)}]"
        return join([f"{show(interval.value)} {ends}", tag("small", f"n = {interval.n}")])
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if is_number(value):
        return percent(value) if share and 0 <= value <= 1 else number(value)
    return _inline(value)


def _inline(value: Any) -> str:
    if value is None:
        return "-"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
