"""`report.html`: what a run did and how well, in one file that needs neither network nor script."""

from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from outrider.core.errors import OutriderError
from outrider.core.evaluation import report_outcome as outcome
from outrider.core.evaluation import report_particulars as particulars
from outrider.core.evaluation.markup import Markup, escape, join, tag
from outrider.core.evaluation.rundata import RunData, read_run
from outrider.core.files import write_text

_Section = tuple[str, str, Markup | None]  # anchor, title, content


def write_report(run: Path) -> Path:
    """Write `report.html` of a run folder and return its path.

    Stages that did not take place are left out, and parts that cannot be read are named on the
    page. The same folder gives the same page.

    Raises:
        OutriderError: when the folder is missing or holds nothing of a run, or when the disk is
            full; a report that stood there stays.
    """
    path = run / "report.html"
    write_text(path, render(read_run(run)))
    return path


def read_summary(run: Path) -> dict[str, Any]:
    """What the evaluations of a run amount to: `policies`, `comparison` (or None), `headline`.

    Raises:
        OutriderError: when there is no run, nothing in it was evaluated, or a part of it cannot
            be read.
    """
    data = read_run(run)
    if data.problems:
        raise OutriderError(data.problems[0])
    if not data.tables:
        raise OutriderError("no policy was evaluated yet", where=str(run))
    comparison = outcome.comparison_of(data)
    return {
        "policies": {label: table.summary() for label, table in data.tables.items()},
        "comparison": None if comparison is None else comparison.to_json(),
        "headline": outcome.headline(data.success(), comparison, outcome.returns_of(data)),
    }


def render(data: RunData) -> str:
    """The page."""
    sections = [(a, t, content) for a, t, content in _sections(data) if content]
    links = [tag("a", title, href=f"#{anchor}") for anchor, title, _ in sections]
    body = [tag("section", tag("h2", title), content, id=a) for a, title, content in sections]
    page = join([_header(data), tag("nav", *links), tag("main", _problems(data), *body)])
    template = files(__package__).joinpath("template.html").read_text(encoding="utf-8")
    return Template(template).substitute(title=escape(f"{data.name}: Outrider report"), body=page)


def _sections(data: RunData) -> list[_Section]:
    comparison = outcome.comparison_of(data)
    return [
        ("outcome", "Outcome", join([outcome.outcome(data, comparison), outcome.tiles(data)])),
        ("films", "Films", outcome.films(data)),
        ("evaluation", "Evaluation", outcome.evaluation(data, comparison)),
        ("curves", "Learning curves", outcome.curves(data)),
        ("commands", "Commands", outcome.traces(data)),
        ("demonstrations", "Demonstrations", particulars.demonstrations(data)),
        ("deployment", "Deployment", particulars.deployment(data)),
        ("plugins", "Plugins", particulars.plugins(data)),
        *_diagnostics(data),
        ("times", "Time", particulars.times(data)),
        ("provenance", "Provenance", particulars.provenance(data)),
    ]


def _diagnostics(data: RunData) -> list[_Section]:
    return [
        (f"diagnostic-{i}", section.title, particulars.diagnostics(plugin, label, section))
        for i, (plugin, label, section) in enumerate(data.sections)
    ]


def _header(data: RunData) -> Markup:
    parts = [
        _named(data, "task", "name"),
        _named(data, "policy", "use"),
        _named(data, "finetune", "algorithm", "use"),
        _seed(data),
    ]
    line = " · ".join(part for part in parts if part)
    return tag(
        "header",
        tag("p", "Outrider report", class_="kicker"),
        tag("h1", data.name),
        tag("p", line, class_="soft"),
    )


def _named(data: RunData, *path: str) -> str:
    value: Any = data.config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _seed(data: RunData) -> str:
    seed = data.config.get("seed")
    return f"seed {seed}" if isinstance(seed, int) else ""


def _problems(data: RunData) -> Markup | None:
    if not data.problems:
        return None
    items = [tag("li", problem) for problem in data.problems]
    return tag("div", tag("b", "Left out of this report"), tag("ul", *items), class_="callout")
