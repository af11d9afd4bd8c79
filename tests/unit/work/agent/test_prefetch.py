"""An agent that starts again takes in what it applied before, and nothing else, before its works ask for it."""

import orjson

from muster.machinery.objects import Object
from muster.runtime.cache.observed import head
from muster.work.agent.agent import is_applied

RECORD = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork", "name": "x", "uid": "u"}


def owned_by(*owners: Object) -> bytes:
    return orjson.dumps({"metadata": {"name": "a", "ownerReferences": list(owners)}})


def test_only_what_a_record_owns_is_prefetched() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
    assert is_applied(head(owned_by(other, RECORD)))
    assert not is_applied(head(owned_by(other)))
    assert not is_applied(head(owned_by({**RECORD, "apiVersion": "example.com/v1"})))
    assert not is_applied(head(orjson.dumps({"metadata": {"name": "a"}})))
