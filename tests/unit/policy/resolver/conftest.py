"""The cluster that the vectors of the fact sheet were recorded with."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.policy.dependencies import LocalSource


def config_map(name: str, data: dict[str, str] | None, **labels: str) -> Object:
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop", "labels": labels}}
    return made if data is None else {**made, "data": data}


def secret(name: str, data: dict[str, str]) -> Object:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"}, "data": encoded}


def node(name: str, *roles: str) -> Object:
    labels = {f"node-role.kubernetes.io/{role}": "" for role in roles}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"pods": 110}}


SETTINGS = {
    "color": "blue", "size": "7", "enabled": "true", "cidrs": "[10.0.0.1, 10.0.0.2]", "text": "one\ntwo\n", "yesno": "yes",
    "day": "2024-02-29", "kv": "a: b", "note": "a # b",
}  # fmt: skip
ZONES = {"a": "red", "b": "green", "c": "grey"}
OBJECTS: list[Object] = [
    secret("creds", {"user": "alice", "pass": "s3cr3t"}),
    secret("edge-tls", {"tls.crt": "CERT", "tls.key": "KEY"}),
    config_map("settings", SETTINGS),
    config_map("bare", None),
    *(config_map(f"zone-{zone}", {"color": color}, tier="web", zone=zone) for zone, color in ZONES.items()),
    node("n1", "infra"),
    node("n2", "infra", "worker"),
    node("n3", "infra", "storage"),
    {
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim", "metadata": {"name": "region"},
        "spec": {"value": "eu"},
    },
    {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": "c1"}},
]  # fmt: skip


@pytest.fixture
def shop() -> LocalSource:
    return LocalSource(OBJECTS)


def quoted(text: str) -> dict[str, Any]:
    return {"v": text}
