"""Our verdicts about objects of every built-in kind are the real server's, as recorded in data/verdicts.json (see `record`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.registry.inputs.accepted import ACCEPTED
from tests.unit.registry.inputs.builders import Input, Update
from tests.unit.registry.inputs.refused import REFUSED
from tests.unit.registry.inputs.updates import UPDATES
from tests.unit.registry.judge import comparable, created, merged, named, replaced, row

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data/verdicts.json").read_text())


def _id(item: tuple[Any, ...]) -> str:
    return f"{item[1]}-{json.dumps(item[-1])[:60]}"


def _creates(inputs: tuple[Input, ...], kind: str) -> list[Any]:
    assert len(inputs) == len(RECORDED[kind]), "inputs changed: run tests.unit.registry.record against a real server"
    return [pytest.param(place, item, RECORDED[kind][place], id=_id(item)) for place, item in enumerate(inputs)]


@pytest.mark.parametrize(("place", "item", "wanted"), _creates(ACCEPTED, "accepted"))
def test_an_object_is_stored_as_the_real_server_stores_it(place: int, item: Input, wanted: dict[str, Any]) -> None:
    api_version, kind, body = item
    _, verdict = created(row(api_version, kind), named(api_version, kind, body, f"t{place}"))
    assert verdict == wanted


@pytest.mark.parametrize(("place", "item", "wanted"), _creates(REFUSED, "refused"))
def test_an_object_is_refused_with_the_real_servers_words(place: int, item: Input, wanted: dict[str, Any]) -> None:
    api_version, kind, body = item
    _, verdict = created(row(api_version, kind), named(api_version, kind, body, f"t{place}"))
    assert verdict == wanted


@pytest.mark.parametrize(
    ("place", "item", "wanted"),
    [pytest.param(place, item, RECORDED["updates"][place], id=_id(item)) for place, item in enumerate(UPDATES)],
)
def test_a_replacement_ends_as_on_the_real_server(place: int, item: Update, wanted: dict[str, Any]) -> None:
    api_version, kind, body, patch = item
    resource = row(api_version, kind)
    held, first = created(resource, named(api_version, kind, body, f"registry-u{place}"))
    assert held is not None, first
    held["metadata"]["resourceVersion"] = "1"
    verdict = replaced(resource, held, merged(held, patch))
    assert _without_diff(verdict) == _without_diff(wanted)


def _without_diff(verdict: dict[str, Any]) -> dict[str, Any]:
    """The real server appends a Go-syntax diff to some refusals; ours ends where it starts."""
    return {"message": verdict["message"].partition("\n")[0]} if "message" in verdict else verdict


def test_comparing_does_not_change_what_it_compares() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": {"priority": 1}}
    comparable(pod)
    assert pod == {"kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": {"priority": 1}}
