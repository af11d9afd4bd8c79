"""Which namespaces a selector means."""

from __future__ import annotations

import pytest

from muster.machinery.objects import Object
from muster.policy.configuration.namespaces import NamespaceSelectorError, selected_namespaces
from muster.policy.configuration.patterns import PatternError, matcher

NAMES = ("default", "lab-1", "lab-10", "shop")


def selected(selector: Object) -> list[str]:
    namespaces: list[Object] = [{"metadata": {"name": name, "labels": {"name": name}}} for name in reversed(NAMES)]
    return selected_namespaces(selector, namespaces, drop_terminating=False)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ({}, []),
        ({"exclude": ["shop"]}, []),
        ({"include": ["*"]}, list(NAMES)),
        ({"include": ["lab-?"]}, ["lab-1"]),
        ({"include": ["*"], "exclude": ["lab*"]}, ["default", "shop"]),
        ({"matchLabels": {}}, list(NAMES)),
        ({"matchLabels": {"name": "shop"}, "include": ["s*"]}, ["shop"]),
        ({"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["shop"]}], "exclude": ["lab*"]}, ["default"]),
    ],
)
def test_labels_and_patterns_must_all_agree(selector: Object, names: list[str]) -> None:
    assert selected(selector) == names


def test_a_pattern_that_cannot_be_read_is_named() -> None:
    with pytest.raises(NamespaceSelectorError, match=r"^error parsing 'include' pattern '\[a': syntax error in pattern$"):
        selected({"include": ["[a"]})


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("abc", "abc", True),
        ("a*c", "abbc", True),
        ("a*", "a/b", False),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("[c-a]x", "bx", False),
        (r"\*", "*", True),
        (r"[\-x]", "-", True),
        ("a?", "a", False),
        ("", "", True),
        ("****x", "yyx", True),
    ],
)
def test_patterns_are_those_of_gos_filepath_match(pattern: str, name: str, matches: bool) -> None:
    assert matcher(pattern)(name) is matches


@pytest.mark.parametrize("pattern", ["[", "[a", "[]a]", "[a-]", "[-x]", "a\\", "[^]", "x["])
def test_malformed_patterns_are_errors(pattern: str) -> None:
    with pytest.raises(PatternError):
        matcher(pattern)
