"""Whatever a definition accepts can be read, gives back all that was received, and keeps what we do not know when it changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import TypedObject, changed_document, merge_patch
from muster.api.crds import ALL
from muster.api.proxy.v1alpha1 import ClusterGateway
from muster.api.resource import known_fields
from muster.api.structural import object_schema
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.kube.structural_schema.validation import SchemaValidator
from tests.unit.api.objects import Maker

KINDS: list[type[TypedObject]] = [*(version for kind in ALL for version in kind.versions), ClusterGateway]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource.kind}.{kind.resource.version}")
drawn = settings(max_examples=30)
makers = st.integers(0, 1 << 32).map(Maker)
_VALIDATORS = {kind: SchemaValidator(object_schema(kind)) for kind in KINDS}


def accepted(maker: Maker, kind: type[TypedObject]) -> dict[str, Any]:
    """Few candidates of a kind with many rules are accepted: drawing until one is costs less than dropping whole examples."""
    for _ in range(200):
        document = maker.object(object_schema(kind), kind.resource.api_version, kind.resource.kind)
        if not _VALIDATORS[kind].errors(document):
            return document
    raise AssertionError(f"none of 200 drawn objects is a {kind.resource.kind}")


def objects_in(value: Any, path: str = "") -> dict[str, Any]:
    """The objects of a document by their paths, those inside lists left out."""
    if not isinstance(value, dict):
        return {}
    found = {path: value}
    for name, item in value.items():
        found |= objects_in(item, f"{path}.{name}")
    return found


@each_kind
@drawn
@given(maker=makers)
def test_every_accepted_object_is_read_and_given_back_whole(kind: type[TypedObject], maker: Maker) -> None:
    document = maker.with_unknown_fields(accepted(maker, kind))
    read = kind.decode(document)
    assert read.document() == document
    assert read.metadata.name == "x"


@each_kind
@drawn
@given(maker=makers)
def test_known_fields_read_again_are_the_same_object(kind: type[TypedObject], maker: Maker) -> None:
    read = kind.decode(accepted(maker, kind))
    assert known_fields(kind.decode(known_fields(read))) == known_fields(read)
    assert merge_patch(read, read) == {}


@each_kind
@drawn
@given(maker=st.integers(0, 1 << 32).map(lambda seed: Maker(seed, nulls=False)))
def test_a_patch_makes_the_change_and_keeps_unknown_fields(kind: type[TypedObject], maker: Maker) -> None:
    received = maker.with_unknown_fields(accepted(maker, kind))
    before = kind.decode(received)
    other = kind.decode(accepted(maker, kind))
    changes = {field.name: getattr(other, field.name) for field in msgspec.structs.fields(kind) if field.name != "metadata"}
    after = msgspec.structs.replace(before, **changes)

    patched = apply_merge_patch(received, merge_patch(before, after))

    assert patched == changed_document(before, after)
    assert known_fields(kind.decode(patched)) == known_fields(after)
    surviving = objects_in(patched)
    in_maps = objects_in(known_fields(before))
    strewn = {
        path for path, value in objects_in(received).items() if "x-unknown" in value and "x-unknown" not in in_maps.get(path, {})
    }
    assert all("x-unknown" in surviving[path] for path in strewn if path in surviving)
