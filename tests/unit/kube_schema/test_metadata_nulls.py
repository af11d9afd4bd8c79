"""Nulls inside of an object's metadata are empty values, as Go reads them; recorded from kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.structural_schema.embedded import clean_metadata


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"labels": {"a": None, "b": "c"}}, {"labels": {"a": "", "b": "c"}}),
        ({"annotations": {"a": None}}, {"annotations": {"a": ""}}),
        ({"finalizers": [None, "a/b"]}, {"finalizers": ["", "a/b"]}),
        ({"ownerReferences": [None]}, {"ownerReferences": [{}]}),
        ({"labels": None, "finalizers": None, "ownerReferences": None}, {}),
    ],
)
def test_nulls_are_empty_values(said: dict[str, Any], read: dict[str, Any]) -> None:
    assert clean_metadata(said) == []
    assert said == read
