"""A status is never larger than what is stored: what tells something is listed, and the rest as far as there is room."""

from __future__ import annotations

import msgspec
import pytest

from muster.api.resource import known_fields
from muster.api.work.v1 import FeedbackRule, JsonPath, ManifestsTemplate, ManifestWork, ManifestWorkSpec, ManifestWorkStatus
from muster.work.agent.reporting import ManifestFailure, ManifestResult, Reporter
from muster.work.agent.reporting.room import OBJECT
from tests.unit.work.reporting.builders import FIRST, LATER, manifest, said, work

LIVE = {"metadata": {"name": "a"}, "data": {"long": "é" * 30_000}}
LONG = [FeedbackRule(type="JSONPaths", json_paths=(JsonPath(name="long", path=".data.long"),))]


def large(count: int, status: ManifestWorkStatus | None = None) -> ManifestWork:
    raw = msgspec.Raw(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c0000","namespace":"app"}}')
    spec = ManifestWorkSpec(workload=ManifestsTemplate(manifests=(raw,) * count))
    return msgspec.structs.replace(work(status), spec=spec)


def healthy(place: int) -> ManifestResult:
    return ManifestResult(manifest(f"c{place}", ordinal=place), live=LIVE)


def failing(place: int, text: str = "no") -> ManifestResult:
    return ManifestResult(manifest(f"c{place}", ordinal=place), failure=ManifestFailure("AppliedManifestFailed", text))


def stored(subject: ManifestWork, status: ManifestWorkStatus) -> int:
    """As Go writes it."""
    raw = msgspec.json.encode(known_fields(msgspec.structs.replace(subject, status=status)))
    return len(raw) + 5 * sum(map(raw.count, (b"<", b">", b"&")))


CASES = {
    "six thousand that are fine": [healthy(place) for place in range(6000)],
    "three thousand that failed": [failing(place, "x" * 600) for place in range(3000)],
    "six hundred with markup": [failing(place, "<&>" * 400) for place in range(600)],
    "a hundred long values": [
        ManifestResult(manifest(f"c{place}", ordinal=place, feedback=LONG), live=LIVE) for place in range(100)
    ],
}


@pytest.mark.parametrize("outcomes", CASES.values(), ids=CASES.keys())
def test_a_status_is_never_larger_than_what_is_stored(outcomes: list[ManifestResult]) -> None:
    subject = large(len(outcomes))
    status = Reporter().status(subject, outcomes, FIRST)
    assert stored(subject, status) <= OBJECT + 20_000
    listed = [entry.resource_meta.ordinal for entry in status.resource_status.manifests]
    assert listed == sorted(listed)
    assert 10 < len(listed) < len(outcomes)
    assert f"there is room for {len(listed)} of {len(outcomes)} manifests" in said(status, "Applied").message
    again = Reporter().status(large(len(outcomes), status), outcomes, LATER)
    assert again is status


def test_what_is_not_as_it_should_be_comes_first() -> None:
    outcomes = [failing(place) if place % 1000 == 999 else healthy(place) for place in range(4000)]
    status = Reporter().status(large(4000), outcomes, FIRST)
    listed = {entry.resource_meta.ordinal for entry in status.resource_status.manifests}
    assert {999, 1999, 2999, 3999} < listed
    assert 2500 not in listed
    assert said(status, "Applied").status == "False"
    assert said(status, "Available").message == "4 of 4000 resources are not available"


def test_a_thousand_manifests_are_all_listed() -> None:
    outcomes = [healthy(place) if place % 2 else failing(place, "x" * 400) for place in range(1000)]
    status = Reporter().status(large(1000), outcomes, FIRST)
    assert len(status.resource_status.manifests) == 1000
    assert said(status, "Applied").message == "Failed to apply manifest work"
