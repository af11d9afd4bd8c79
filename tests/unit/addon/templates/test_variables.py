"""Variables in templates: what is put into manifests, what is reported, and that a value stays a value."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.addon.agent_addon import AddonError
from muster.addon.templates.variables import Substitution
from tests.support.template_addons import config_of, rendered, template_of, variable

VALUES = {"X": "x", "Q": 'a"b', "I": 'v","evil":"1'}
TEXT = st.text(max_size=12) | st.sampled_from(["{{", "}}", "{{X}}", "{{ X }}", "{{NOPE}}", "{{X", "a{{I}}b", "{{{X}}}", "{{\n}}"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


def shape(document: Any) -> Any:
    """A document without its strings: how many fields and items there are, and of which type."""
    if isinstance(document, dict):
        return sorted(json.dumps(shape(value)) for value in document.values())
    if isinstance(document, list):
        return [shape(item) for item in document]
    return "text" if isinstance(document, str) else document


@pytest.mark.parametrize(
    ("manifest", "expected", "unknown"),
    [
        ({"a": "{{X}}", "b": "{{ X }}", "c": "{{NOPE}}"}, {"a": "x", "b": "x", "c": ""}, ("NOPE",)),
        ({"a": "{{Q}}"}, {"a": 'a"b'}, ()),
        ({"a": "{{I}}"}, {"a": 'v","evil":"1'}, ()),
        ({"a": "{{X"}, {"a": "{{X"}, ()),
        ({"a": "X}}"}, {"a": "X}}"}, ()),
        ({"a": "{{X}}{{X}}-{{Q}}"}, {"a": 'xx-a"b'}, ()),
        ({"{{X}}": ["{{X}}", 1, None, True]}, {"x": ["x", 1, None, True]}, ()),
        ({"a": "{{ {{X}} }}"}, {"a": " }}"}, ("{{X",)),
        ({"a": "{{}}"}, {"a": ""}, ("",)),
        ({"a": "{{x}}"}, {"a": ""}, ("x",)),
    ],
)
def test_vectors_of_substitution(manifest: Any, expected: Any, unknown: tuple[str, ...]) -> None:
    """Defect 21: quotes break and inject nothing, blanks and open braces neither."""
    substitution = Substitution(VALUES)
    assert substitution.apply(manifest) == expected
    assert substitution.unknown == unknown


def test_values_are_not_looked_into_again() -> None:
    assert Substitution({"A": "{{B}}", "B": "b"}).apply({"a": "{{A}}"}) == {"a": "{{B}}"}


def test_two_fields_that_would_get_one_name_are_refused() -> None:
    with pytest.raises(AddonError, match=r"\{\{X\}\}"):
        Substitution(VALUES).apply({"x": 1, "{{X}}": 2})


@given(JSON, st.dictionaries(st.sampled_from(["X", "Q", "I"]), st.text(max_size=20)))
def test_whatever_the_values_are_the_document_keeps_its_structure(document: Any, values: dict[str, str]) -> None:
    try:
        changed = Substitution(values).apply(document)
    except AddonError:
        return
    assert json.loads(json.dumps(changed)) == changed
    assert shape(changed) == shape(document)


@given(st.text(max_size=30).filter(lambda text: "{{" not in text))
def test_text_without_variables_is_left_alone(text: str) -> None:
    assert Substitution(VALUES).apply({"a": text}) == {"a": text}


@pytest.mark.parametrize("text", ["{{" * 500_000, "{{X" * 300_000, "{" * 1_000_000 + "}}" * 10, "{{}}" * 200_000])
def test_braces_in_any_number_take_time_in_proportion(text: str) -> None:
    before = time.process_time()
    Substitution(VALUES).apply({"a": text})
    assert time.process_time() - before < 5


def test_values_that_would_fill_the_hub_are_refused() -> None:
    with pytest.raises(AddonError, match="MiB"):
        Substitution({"A": "a" * 1024}).apply(["{{A}}" * 1000] * 100)


@pytest.mark.parametrize("depth", [300, 900])
def test_a_manifest_that_is_nested_too_deeply_is_an_error_of_the_addon(depth: int) -> None:
    deep: Any = "x"
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(AddonError, match="nested too deeply"):
        rendered(template_of({"apiVersion": "v1", "kind": "ConfigMap", "data": deep}))


def test_a_template_with_unknown_variables_is_rendered_and_says_which() -> None:
    """Defect 21: they would vanish without a word."""
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "{{NOPE}}", "b": "{{ALSO}}"}}
    agent = rendered(template_of(config_map))
    assert agent.manifests[0]["data"] == {"a": "", "b": ""}
    assert agent.warnings == ("undefined variables are empty: NOPE, ALSO",)


def test_others_braces_make_no_endless_and_no_unprintable_report() -> None:
    data = {f"k{number}": "{{" + "\x1b" + "n" * 500 + f"{number}" + "}}" for number in range(30)}
    data |= {f"s{number}": "{{" + f"name{number}" + "}}" for number in range(30)}
    [warning] = rendered(template_of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})).warnings
    assert len(warning) < 1000
    assert "\x1b" not in warning
    assert warning.endswith("more")


def test_later_sources_of_values_win_and_nobody_redefines_who_the_cluster_is() -> None:
    said = [variable("HUB_KUBECONFIG", "/own"), variable("CLUSTER_NAME", "another"), variable("MINE", "m")]
    data = {"a": "{{HUB_KUBECONFIG}} {{CLUSTER_NAME}} {{INSTALL_NAMESPACE}} {{MINE}}"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}
    agent = rendered(template_of(config_map, registration=[]), config_of(namespace="there", customizedVariables=said))
    assert agent.manifests[0]["data"] == {"a": "/own cluster1 there m"}
    assert not agent.warnings
