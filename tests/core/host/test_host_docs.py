"""The page on hooks says what the specifications say, and every hook is named by a test."""

import inspect
import re
import textwrap
from pathlib import Path

import pytest

from outrider.core.config import NoConfig
from outrider.core.host import hookspecs, objects
from outrider.core.host.discovery import HOOKS, implemented_hooks, objection
from outrider.core.host.hookspecs import hookimpl

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "hooks.md").read_text()
SECTIONS = dict(re.findall(r"^### `(\w+)\(.*?\)`\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S))


def test_every_hook_belongs_to_exactly_one_family():
    specified = {name for name, value in vars(hookspecs).items() if hasattr(value, "outrider_spec")}
    assert len(set(HOOKS)) == len(HOOKS)
    assert set(HOOKS) == specified


def test_the_page_documents_every_hook_with_its_exact_arguments():
    headings = re.findall(r"^### `(.*)`$", PAGE, re.M)
    expected = []
    for name in HOOKS:
        arguments = ", ".join(inspect.signature(getattr(hookspecs, name)).parameters)
        expected.append(f"{name}({arguments})")
    assert sorted(headings) == sorted(expected)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_of_a_hook_is_one_that_the_host_takes(hook):
    (example,) = re.findall(r"```python\n(.*?)```", SECTIONS[hook], re.S)
    body = textwrap.indent(example, "    ")
    source = f"class Example:\n    name, api, Config = 'example', 1, NoConfig\n{body}"
    namespace = {"hookimpl": hookimpl, "NoConfig": NoConfig, **vars(objects)}
    exec(source, namespace)
    assert objection(namespace["Example"], "example") == ""
    assert implemented_hooks(namespace["Example"]) == (hook,)


@pytest.mark.parametrize("hook", hookspecs.SINGLE_MAKERS)
def test_the_page_says_where_one_answer_is_allowed(hook):
    assert "At most one plugin may answer" in SECTIONS[hook]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_exercised_by_a_test(hook):
    tests = list(Path(__file__).parent.parent.rglob("test_*.py"))
    naming = re.compile(rf"\b{hook}(=|\": )|def {hook}\(")
    assert any(
        naming.search(path.read_text()) for path in tests if path.name != Path(__file__).name
    )


GUIDE = (ROOT / "docs" / "writing_plugins.md").read_text()


def test_the_guide_lists_every_check_of_the_kit():
    from outrider.core import testing
    from outrider.core.testing.kit import CHECKS

    listed = re.findall(r"^\| `(check_\w+)` \|", GUIDE, re.M)
    assert listed == [check.__name__ for check in CHECKS]
    assert set(listed) <= set(testing.__all__)
    for name in re.findall(r"`(fake_\w+|FakeSimulator|untouched_randomness)\b", GUIDE):
        assert name in testing.__all__
