"""Protobuf bodies marshalled by the Go types of every built-in kind decode to the JSON the same types give.

data/corpus.jsonl.gz holds pairs made by tools/protobuf_corpus, which filled objects at random (all unset, mostly set, mostly unset;
zero values and empty strings included), marshalled them, and read them back to show what survives the wire.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from muster.apiserver.builtin.resources import builtin_resources
from muster.apiserver.decode import protobuf, typed
from muster.apiserver.decode.layouts import definition_of

with gzip.open(Path(__file__).parent / "data/corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
    CORPUS: list[dict[str, Any]] = [json.loads(line) for line in lines]


def _kinds() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for sample in CORPUS:
        found.setdefault(sample["gvk"], []).append(sample)
    return found


@pytest.mark.parametrize("kind", _kinds())
def test_a_body_from_go_decodes_to_gos_own_json(kind: str) -> None:
    for sample in _kinds()[kind]:
        assert protobuf.decode(base64.b64decode(sample["pb"])) == sample["json"]


@pytest.mark.parametrize("kind", _kinds())
def test_gos_json_is_already_in_normal_form(kind: str) -> None:
    definition = definition_of(*kind.split("/"))
    assert definition is not None
    for sample in _kinds()[kind]:
        assert typed.struct(definition)(copy.deepcopy(sample["json"])) == sample["json"]


def test_every_served_kind_is_in_the_corpus() -> None:
    covered = set(_kinds())
    assert {f"{row.group}/{row.version}/{row.kind}" for row in builtin_resources()} <= covered
    assert "/v1/DeleteOptions" in covered
    assert "authentication.k8s.io/v1/TokenRequest" in covered
