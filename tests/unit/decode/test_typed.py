"""What decoding into a Go type and encoding it again does to a value."""

from __future__ import annotations

from typing import Any

import pytest

from muster.apiserver.builtin.resources import builtin_resources
from muster.apiserver.decode import DecodeError, scalars, strict


def shown(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    row = next(row for row in builtin_resources() if row.kind == kind)
    return strict.normalize(obj, row.schema)


def test_nothing_changes_in_an_object_that_is_in_normal_form() -> None:
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x", "labels": {"a": "b"}}, "data": {"k": "v"}}
    data = obj["data"]
    result = shown("ConfigMap", obj)
    assert result is obj
    assert result["data"] is data


def test_structs_that_go_always_encodes_appear() -> None:
    pod = shown("Pod", {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}})
    assert pod == {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "resources": {}}]}, "status": {}}


def test_a_list_without_omitempty_is_null_when_absent_or_empty() -> None:
    assert shown("Role", {"metadata": {}}) == {"metadata": {}, "rules": None}
    assert shown("Role", {"metadata": {}, "rules": []}) == {"metadata": {}, "rules": None}


def test_zero_values_of_omitempty_fields_vanish_but_pointers_to_zero_stay() -> None:
    deployment = shown("Deployment", {"spec": {"replicas": 0, "minReadySeconds": 0, "paused": False, "template": {}}})
    assert deployment["spec"]["replicas"] == 0
    assert "minReadySeconds" not in deployment["spec"]
    assert "paused" not in deployment["spec"]


def test_null_means_unset_and_in_maps_the_zero_value() -> None:
    assert shown("ConfigMap", {"data": {"a": None}, "immutable": None}) == {"metadata": {}, "data": {"a": ""}}


def test_a_creation_time_that_is_unset_is_not_shown() -> None:
    assert shown("ConfigMap", {"metadata": {"creationTimestamp": None}}) == {"metadata": {}}


def test_quantities_times_and_numbers_get_their_spelling() -> None:
    pod = shown("Pod", {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}]}})
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    lease = shown("Lease", {"spec": {"renewTime": "2026-01-01T01:00:00.5+01:00"}})
    assert lease["spec"]["renewTime"] == "2026-01-01T00:00:00.500000Z"


@pytest.mark.parametrize(
    ("given", "shown_as"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1.5", "1500m"), ("1.125", "1.125"), ("+5", "+5"), ("0.5Gi", "512Mi"), ("1024Mi", "1Gi"),
        ("2000", "2k"), ("1e3", "1e3"), ("00", "0"), ("100", "100"), ("64Ki", "64Ki"), ("0.1Mi", "104857600m"), ("-1", "-1"),
    ],
)  # fmt: skip
def test_a_quantity_is_spelled_canonically(given: str, shown_as: str) -> None:
    assert scalars.quantity_text(given) == shown_as


@pytest.mark.parametrize("text", ["", "x", "1Z", "1.2.3", "1 Gi", "--1", "1kk"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        scalars.quantity_text(text)


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0s"), (1, "1ns"), (1500, "1.5µs"), (2 * 10**6, "2ms"), (10**9, "1s"), (90 * 10**9, "1m30s"),
        (3600 * 10**9, "1h0m0s"), (3661 * 10**9 + 5 * 10**8, "1h1m1.5s"), (-5 * 10**9, "-5s"),
    ],
)  # fmt: skip
def test_a_duration_reads_as_it_prints(nanos: int, text: str) -> None:
    assert scalars.duration_text(text) == text
    assert scalars.duration_text(f"{nanos}ns") == text


@pytest.mark.parametrize("text", ["", "5", "1x", "s", "1h-1m", "99999999999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        scalars.duration_text(text)


@pytest.mark.parametrize(("given", "kept"), [("YQ==", "YQ=="), ("YW\nJj", "YWJj"), ("YR==", "YQ=="), ("", "")])
def test_base64_is_re_encoded(given: str, kept: str) -> None:
    assert scalars.base64_text(given) == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T02:00:00.999+02:00", "2026-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_a_time_is_shown_in_utc_with_whole_seconds(given: str, kept: str | None) -> None:
    assert scalars.time_text(given) == kept
