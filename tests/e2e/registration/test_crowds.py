"""Many at once, with a rotten one among them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.e2e.registration.conftest import Fleet
from tests.support.administrator import MANAGED_CLUSTERS, managed_cluster
from tests.support.client import Reply
from tests.support.crowd import Crowd
from tests.support.registration import Hub
from tests.support.sites import beside_kube

pytestmark = beside_kube

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/managedclusters.cluster.open-cluster-management.io"
MALFORMED: dict[str, dict[str, Any]] = {
    "rotten-spec": {"spec": {"hubAcceptsClient": "maybe", "leaseDurationSeconds": "often", "taints": {"not": "a list"}}},
    "rotten-list": {"spec": ["nothing", "here"]},
    "rotten-status": {"spec": {"hubAcceptsClient": True}, "status": {"conditions": "none"}},
}


@contextlib.contextmanager
def anything_goes(hub: Hub) -> Iterator[None]:
    """As on a cluster whose objects are older than their schema."""
    versions = hub.admin.get(DEFINITION).expect(200)["spec"]["versions"]
    loose = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    plain = [{**version, "schema": loose, "subresources": {}} for version in versions]
    hub.admin.patch(DEFINITION, {"spec": {"versions": plain}}).expect(200)
    try:
        with hub.without_webhooks():
            yield
    finally:
        hub.admin.patch(DEFINITION, {"spec": {"versions": versions}}).expect(200)


@pytest.mark.timeout(240)
def test_two_hundred_clusters_join_at_once_and_malformed_ones_disturb_nobody(fleet: Fleet) -> None:
    hub = fleet.hub

    def plant(name: str) -> Reply:
        return hub.admin.post(MANAGED_CLUSTERS, {**managed_cluster(name), **MALFORMED[name]})

    with anything_goes(hub):
        for name in MALFORMED:
            hub.wait_reply(partial(plant, name), f"{name} to be taken", 201, 409)

    with Crowd(fleet.spoke, hub, "many", 200) as crowd:
        crowd.wait_available(200, 180)

    kept = {name: hub.find(name) for name in MALFORMED}
    assert all(kept.values())
    assert hub.process.running
    for name in MALFORMED:
        with anything_goes(hub):
            hub.wait_reply(partial(hub.admin.delete, f"{MANAGED_CLUSTERS}/{name}"), f"{name} to go", 200, 404)
