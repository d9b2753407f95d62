"""Configurations: unknown keys, overrides, choices, recipes."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PositiveInt

from outrider.core.config import (
    Choice,
    StrictModel,
    dump_yaml,
    override,
    read_yaml,
    validate,
)
from outrider.core.errors import OutriderError
from outrider.core.recipe import Recipe, find_recipe, load_recipe


class Inner(StrictModel):
    depth: PositiveInt = 3
    kind: Literal["a", "b"] = "a"


class Outer(StrictModel):
    inner: Inner = Inner()
    maybe: Inner | None = None
    name: str = "x"


def refusal(values, model=Outer):
    with pytest.raises(OutriderError) as caught:
        validate(model, values, "file.yaml")
    return str(caught.value)


def test_an_unknown_key_names_the_place_the_nearest_and_the_valid_ones():
    assert refusal({"nam": "y"}) == (
        "file.yaml.nam: unknown key. did you mean 'name'? valid: inner, maybe, name"
    )
    assert "file.yaml.inner.dept" in refusal({"inner": {"dept": 1}})
    assert "did you mean 'depth'" in refusal({"inner": {"dept": 1}})
    assert "did you mean 'depth'" in refusal({"maybe": {"dept": 1}})


def test_a_wrong_value_is_shown_with_its_place():
    assert "file.yaml.inner.depth" in refusal({"inner": {"depth": 0}})
    assert "(got 0)" in refusal({"inner": {"depth": 0}})
    assert "'a' or 'b'" in refusal({"inner": {"kind": "c"}})


def test_a_huge_value_is_not_printed_whole():
    assert len(refusal({"inner": {"depth": "x" * 10_000}})) < 300


def test_configs_are_frozen():
    with pytest.raises(Exception, match="frozen"):
        Outer().name = "y"


def test_choice_takes_a_name_or_a_mapping_and_dumps_what_it_took():
    assert Choice.model_validate("sac") == Choice(use="sac")
    choice = Choice.model_validate({"use": "sac", "width": 3})
    assert choice.options == {"width": 3}
    assert Choice.model_validate(choice.dump()) == choice


def test_override_makes_sections_and_leaves_the_original():
    values = {"a": {"b": 1}, "n": None}
    changed = override(values, ["a.b=2", "a.c=[1, 2]", "n.x=true", "d.e.f=text"])
    assert changed == {"a": {"b": 2, "c": [1, 2]}, "n": {"x": True}, "d": {"e": {"f": "text"}}}
    assert values == {"a": {"b": 1}, "n": None}


@pytest.mark.parametrize(
    ("assignment", "words"),
    [("a", "no assignment"), ("=3", "no assignment"), ("a.b.c=1", "is a value"), ("a=[", "YAML")],
)
def test_bad_assignments_are_refused(assignment, words):
    with pytest.raises(OutriderError, match=words):
        override({"a": {"b": 1}}, [assignment])


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text("xy", min_size=1), plain))
def test_yaml_round_trip(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("yaml") / "c.yaml"
    path.write_text(dump_yaml(values))
    assert read_yaml(path) == values


def test_yaml_that_would_run_code_or_is_no_mapping_is_refused(tmp_path):
    path = tmp_path / "c.yaml"
    for text in ("!!python/object/apply:os.getcwd []", "- 1", "a: [", "\xff"):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(OutriderError, match=r"c\.yaml"):
            read_yaml(path)
    path.write_text("#" * (1024 * 1024 + 1))
    with pytest.raises(OutriderError, match="larger than 1 MiB"):
        read_yaml(path)


def test_a_resolved_recipe_reads_back_equal(tmp_path):
    recipe = load_recipe(find_recipe("quickstart"), ["seed=7"])
    path = tmp_path / "config.yaml"
    path.write_text(dump_yaml(recipe.resolved()))
    assert validate(Recipe, read_yaml(path), "x") == recipe
    assert recipe.seed == 7


def test_a_plugin_without_settings_may_be_left_empty(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("task: {name: toy/x}\npolicy: diffusion\nplugins: {df-expense: }\n")
    assert load_recipe(path).plugins == {"df-expense": {}}
