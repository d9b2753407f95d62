"""Sections of the report on what came out: success, films, the table, curves, command traces."""

import base64
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from outrider.core import seeds
from outrider.core.errors import OutriderError
from outrider.core.evaluation.bars import interval_chart, outcome_strip
from outrider.core.evaluation.charts import Series, line_chart, trace_chart
from outrider.core.evaluation.markup import Markup, join, tag
from outrider.core.evaluation.rundata import LABELS, Curve, RunData, as_interval, is_number
from outrider.core.evaluation.smoothness import default_cutoff
from outrider.core.evaluation.statistics import Interval, PairedSuccess
from outrider.core.evaluation.table import CHUNK_START, Comparison, EpisodeTable, compare
from outrider.core.evaluation.wording import duration, number, percent
from outrider.core.types import Episode

MAX_CURVES = 9  # per stage, before the rest is folded away
MAX_TRACES = 12

_STYLES = {"base": "s0", "finetuned": "s1"}
_MEASURES = {
    "action_rate": ("Action rate", "mean |Δa| per second"),
    "action_acceleration": ("Action acceleration", "mean |Δ²a| per s²"),
    "rms_jerk": ("RMS jerk", "root mean square of Δ³a, per s³"),
    "high_frequency_ratio": ("High-frequency power", "share above {cutoff:.3g} Hz"),
    "reversal_rate": ("Reversal rate", "changes of direction per second"),
    "chunk_jump": ("Chunk-boundary jump", "mean norm of the step into a new chunk"),
    "chunk_jump_ratio": ("Boundary jump ratio", "against the steps inside a chunk"),
}
_STRIP = "One square per episode in the order of the seeds; full is a success, hollow a failure."
# Curves that people look for first.
_FIRST = ("success", "return", "loss", "length", "q_", "value", "reward", "entropy", "grad")


def comparison_of(data: RunData) -> Comparison | None:
    """Finetuned against base on common seeds, if both were evaluated on the same ones."""
    base, finetuned = data.tables.get("base"), data.tables.get("finetuned")
    if base is None or finetuned is None:
        return None
    try:
        return compare(base, finetuned, seeds.generator(base.noise.seed, "comparison"))
    except OutriderError as error:
        if str(error) not in data.problems:
            data.problems.append(str(error))
        return None


def returns_of(data: RunData) -> dict[str, Interval]:
    """Label -> mean return, for each evaluated policy."""
    found = {name: as_interval(data.section(name).get("return")) for name in LABELS}
    found |= {name: Interval(**table.summary()["return"]) for name, table in data.tables.items()}
    return {name: interval for name, interval in found.items() if interval is not None}


def headline(
    success: Mapping[str, Interval],
    comparison: Comparison | None,
    returns: Mapping[str, Interval] | None = None,
) -> str:
    """One or two honest sentences on what finetuning did.

    Where no episode succeeded (some tasks have no notion of success), they are about `returns`.
    """
    base, finetuned = success.get("base"), success.get("finetuned")
    if returns and _all_failed(success):
        return f"No episode ended in success. {_returned(returns, comparison)}"
    if base is None or finetuned is None:
        known = [f"{name} succeeds in {_share(x)}" for name, x in success.items()]
        return f"{'; '.join(known).capitalize()}." if known else "No policy was evaluated yet."
    if finetuned.value == base.value:
        text = f"Success is {percent(base.value)} before and after finetuning."
    else:
        verb = "raised" if finetuned.value > base.value else "lowered"
        ends = f"from {percent(base.value)} to {percent(finetuned.value)}"
        text = f"Finetuning {verb} success {ends} on {finetuned.n} episodes."
    if comparison is not None:
        return f"{text} {_paired(comparison.success)}"
    apart = finetuned.low > base.high or finetuned.high < base.low
    return f"{text} The 95% intervals {'do not overlap' if apart else 'overlap'}."


def _all_failed(success: Mapping[str, Interval]) -> bool:
    return bool(success) and all(interval.value == 0 for interval in success.values())


def _returned(returns: Mapping[str, Interval], comparison: Comparison | None) -> str:
    base, finetuned = returns.get("base"), returns.get("finetuned")
    if base is None or finetuned is None:
        known = [f"{name} has a mean return of {_mean(x)}" for name, x in returns.items()]
        return f"{'; '.join(known).capitalize()}."
    verb = "raised" if finetuned.value > base.value else "did not raise"
    text = (
        f"Finetuning {verb} the mean return: {number(base.value)} before, "
        f"{number(finetuned.value)} after, on {finetuned.n} episodes."
    )
    if comparison is None:
        return text
    d = comparison.returns
    doubt = "" if d.low > 0 or d.high < 0 else " So few episodes cannot tell that from chance."
    return (
        f"{text} On common seeds the difference is {_signed(d.value)} "
        f"(95% interval {_signed(d.low)} to {_signed(d.high)}).{doubt}"
    )


def _mean(interval: Interval) -> str:
    return (
        f"{number(interval.value)} over {interval.n} episodes "
        f"(95% interval {number(interval.low)} to {number(interval.high)})"
    )


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{number(value)}"


def _paired(success: PairedSuccess) -> str:
    if not success.gained and not success.lost:
        return "Every episode ended alike for both, which leaves nothing to test."
    d, p = success.difference, success.p_value
    doubt = "" if p < 0.05 else " So few episodes cannot tell that from chance."
    return (
        f"On common seeds the difference is {_points(d.value)} points "
        f"(95% interval {_points(d.low)} to {_points(d.high)}): {success.gained} episodes gained, "
        f"{success.lost} lost, exact McNemar p = {number(p)}.{doubt}"
    )


def _share(interval: Interval) -> str:
    return (
        f"{percent(interval.value)} of {interval.n} episodes "
        f"(95% interval {percent(interval.low)} to {percent(interval.high)})"
    )


def _points(share: float) -> str:
    return f"{100 * share:+.0f}"


def outcome(data: RunData, comparison: Comparison | None) -> Markup:
    """The headline with its figure."""
    success = data.success()
    rows = [(name, interval, _style(name)) for name, interval in success.items()]
    flags = [(name, table.success, _style(name)) for name, table in data.tables.items()]
    parts = [tag("p", headline(success, comparison, returns_of(data)), class_="lead")]
    if _all_failed(success):
        return join(parts)
    if rows:
        parts.append(_figure(interval_chart(rows), "Share of successes; 95% Wilson intervals."))
    if flags:
        parts.append(_figure(outcome_strip(flags), _STRIP))
    return join(parts)


def _figure(content: Markup, caption: str) -> Markup:
    return tag("figure", content, tag("figcaption", caption), class_="wide")


def _style(label: str) -> str:
    return _STYLES.get(label, "s3")


def films(data: RunData) -> Markup | None:
    """The films, before and after, with how they ended."""
    if not data.films:
        return None
    order = {name: i for i, name in enumerate(dict.fromkeys([*_STYLES, *data.tables]))}
    shown = sorted(data.films, key=lambda f: (f.seed, order.get(f.label, len(order)), f.label))
    judged_by_return = _all_failed(data.success())
    figures = []
    for film in shown:
        ending = ("success", "good") if film.success else ("failure", "bad")
        length = f"{film.steps} steps, {duration(film.seconds)}"
        text = f"seed {film.seed}, {length}, return {number(film.returned)}"
        badge = None if judged_by_return else _badge(*ending)
        caption = join([tag("b", film.label), " ", badge, tag("br"), text])
        if not film.faithful:
            caption = join(
                [caption, tag("br"), _badge("the replay left the recorded path", "warn")]
            )
        uri = f"data:image/gif;base64,{base64.b64encode(film.gif).decode()}"
        alt = f"Film of {film.label}, seed {film.seed}"
        image = tag("img", src=uri, alt=alt if judged_by_return else f"{alt}: {ending[0]}")
        figures.append(tag("figure", image, tag("figcaption", caption)))
    note = (
        "Evaluated episodes, played back from their recorded seeds and commands at the robot's "
        f"own speed. {_choice(data)}"
    )
    return join([tag("p", note, class_="soft"), tag("div", *figures, class_="films")])


def _choice(data: RunData) -> str:
    """Whether the films are simply the first episodes, which cannot flatter."""
    for label in {film.label for film in data.films} & set(data.tables):
        filmed = sorted(film.seed for film in data.films if film.label == label)
        if filmed != sorted(data.tables[label].seeds[: len(filmed)].tolist()):
            return "They were picked out."
    return "They are the first of the evaluation."


def _badge(text: str, kind: str) -> Markup:
    return tag("span", text, class_=f"badge {kind}")


def evaluation(data: RunData, comparison: Comparison | None) -> Markup | None:
    """Success, return, length and smoothness of each policy, and the paired difference."""
    tables = data.tables
    if not tables:
        return None
    first = next(iter(tables.values()))
    summaries = {name: table.summary() for name, table in tables.items()}
    head = [tag("th", "")] + [tag("th", name, class_="n") for name in tables]
    if comparison is not None:
        head.append(tag("th", "difference", class_="n"))
    rows = []
    for key, title in (("success", "Success"), ("return", "Return"), ("length", "Length (steps)")):
        cells = [
            _interval_cell(Interval(**s[key]), share=key == "success") for s in summaries.values()
        ]
        rows.append(_row(title, "", cells, _difference(comparison, key)))
    for key, (title, unit) in _MEASURES.items():
        cells = [_cell(number(s["smoothness"][key])) for s in summaries.values()]
        unit = unit.format(cutoff=default_cutoff(first.task.rate_hz))
        rows.append(_row(title, unit, cells, _difference(comparison, key)))
    body = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows))
    return join([tag("div", body, class_="scroll"), tag("p", _reading(first), class_="note")])


def _reading(table: EpisodeTable) -> str:
    noise = "sampled" if table.noise.kind == "sample" else "zero"
    return (
        f"{len(table.episodes)} episodes from reset seed {table.episodes[0].seed} on, {noise} "
        f"noise, {table.execute} of {table.noise.horizon} steps of each chunk executed at "
        f"{table.task.rate_hz:g} Hz. Brackets are 95% intervals: Wilson for success, bootstrap of "
        "the mean otherwise; differences are paired by seed. Smoothness is measured on executed "
        "commands, averaged over action elements and episodes; lower is smoother."
    )


def _interval_cell(interval: Interval, *, share: bool) -> Markup:
    show = percent if share else number
    return _cell(show(interval.value), f"[{show(interval.low)}, {show(interval.high)}]")


def _difference(comparison: Comparison | None, key: str) -> Markup | None:
    if comparison is None:
        return None
    if key == "success":
        d = comparison.success.difference
        return _cell(f"{_points(d.value)} points", f"[{_points(d.low)}, {_points(d.high)}]")
    plain = {"return": comparison.returns, "length": comparison.length}
    d = plain[key] if key in plain else comparison.smoothness[key]
    return _cell(_signed(d.value), f"[{number(d.low)}, {number(d.high)}]")


def _cell(text: str, small: str = "") -> Markup:
    return tag("td", text, tag("small", small) if small else None, class_="n")


def _row(title: str, unit: str, cells: Sequence[Markup], difference: Markup | None) -> Markup:
    name = tag("th", title, tag("small", unit) if unit else None, scope="row")
    return tag("tr", name, *cells, difference)


def curves(data: RunData) -> Markup | None:
    """Learning curves of each stage, the usual ones first."""
    if not data.curves:
        return None
    parts: list[Markup] = []
    for stage in dict.fromkeys(c.stage for c in data.curves):
        found = sorted((c for c in data.curves if c.stage == stage), key=_rank)
        shown = tag("div", *map(_curve, found[:MAX_CURVES]), class_="charts")
        parts += [tag("h3", stage.capitalize()) if stage else Markup(""), shown]
        if found[MAX_CURVES:]:
            rest = tag("div", *map(_curve, found[MAX_CURVES:]), class_="charts")
            parts.append(tag("details", tag("summary", f"{len(found) - MAX_CURVES} more"), rest))
    return join(parts)


def _rank(curve: Curve) -> tuple[int, str]:
    hits = [i for i, word in enumerate(_FIRST) if word in curve.name]
    return (min(hits, default=len(_FIRST)), curve.name)


def _curve(curve: Curve) -> Markup:
    chart = line_chart(
        curve.name,
        [Series(curve.name, curve.x, curve.y, "s1" if curve.stage == "finetune" else "s5")],
        "step",
        may_log="loss" in curve.name,
        share="success" in curve.name and curve.y.min() >= 0 and curve.y.max() <= 1,
    )
    return tag("figure", tag("figcaption", curve.name), chart)


def traces(data: RunData) -> Markup | None:
    """Executed commands of the first seed, each policy in one chart per action element."""
    if not data.tables:
        return None
    first = {name: table.episodes[0] for name, table in data.tables.items()}
    table = next(iter(data.tables.values()))
    fields = [f for f in table.task.action.fields for _ in range(f.size)]
    charts = []
    for j, label in enumerate(table.task.action.labels()[:MAX_TRACES]):
        chart = _trace(label, j, first, table.task.rate_hz, fields[j].unit)
        charts.append(tag("figure", tag("figcaption", label), chart))
    items = [tag("span", tag("i", class_=_style(name)), name) for name in first]
    left = table.task.action.size - len(charts)
    return join(
        [
            tag("p", *items, class_="legend"),
            tag("div", *charts, class_="charts"),
            tag("p", f"{left} further action elements are not drawn.", class_="note")
            if left
            else None,
            tag("p", _trace_note(first), class_="note"),
        ]
    )


def _trace(label: str, j: int, episodes: Mapping[str, Episode], rate: float, unit: str) -> Markup:
    series = [
        Series(name, np.arange(len(e) + 1) / rate, _held(e, j), _style(name), steps=True)
        for name, e in episodes.items()
    ]
    last = list(episodes.values())[-1]
    return trace_chart(label, series, unit, np.flatnonzero(last.extra[CHUNK_START]) / rate)


def _held(episode: Episode, j: int) -> npt.NDArray[np.float64]:
    """Command j of each step, (T + 1,): the last one holds for a step like the others."""
    return np.append(episode.action[:, j], episode.action[-1, j]).astype(np.float64)


def _trace_note(episodes: Mapping[str, Episode]) -> str:
    name, last = list(episodes.items())[-1]
    return f"Episode of seed {last.seed}. Marks at the foot: where {name} began a new chunk."


def tiles(data: RunData) -> Markup | None:
    """The figures of deployment at a glance."""
    parity, latency, control = (data.section(k) for k in ("parity", "latency_ms", "control"))
    found = []
    if is_number(parity.get("max_abs_error")):
        text = f"parity error on {parity.get('n', '?')} observations"
        found.append(_tile(number(parity["max_abs_error"]), text))
    if is_number(latency.get("p99")):
        found.append(_tile(f"{number(latency['p99'])} ms", "controller latency, p99"))
    misses, ticks = control.get("deadline_misses"), control.get("ticks")
    if is_number(misses) and is_number(ticks):
        found.append(_tile(f"{misses} of {ticks}", "deadlines missed in control"))
    if is_number(data.results.get("wall_s")):
        found.append(_tile(duration(float(data.results["wall_s"])), "wall time of the run"))
    return tag("div", *found, class_="tiles") if found else None


def _tile(figure: str, text: str) -> Markup:
    return tag("div", tag("b", figure), tag("span", text), class_="tile")
