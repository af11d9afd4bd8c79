"""The administrator kubeconfig of one or more servers: a context with a client certificate for each cluster."""

from __future__ import annotations

import base64
from pathlib import Path

from muster.apiserver.server import ApiServer
from muster.kube.yaml import dump
from muster.machinery.privatefiles import replace_private


async def write_kubeconfig(server: ApiServer, path: Path, *others: ApiServer) -> None:
    """Write a kubeconfig with one context per cluster and administrator certificates: readable by the owner only, replaced
    atomically. Cluster names must be unique among the servers."""
    document: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(server.clusters)),
        "clusters": [],
        "contexts": [],
        "users": [],
    }
    clusters: list[object] = []
    contexts: list[object] = []
    users: list[object] = []
    served = [(each, name) for each in (server, *others) for name in each.clusters]
    for one, name in served:
        admin = await one.admin_credentials(one.clusters[name])
        cluster = {"server": one.cluster_url(name), "certificate-authority-data": _b64(one.ca_pem)}
        clusters.append({"name": name, "cluster": cluster})
        contexts.append({"name": name, "context": {"cluster": name, "user": f"{name}-admin"}})
        pair = {"client-certificate-data": _b64(admin.certificate), "client-key-data": _b64(admin.key)}
        users.append({"name": f"{name}-admin", "user": pair})
    document |= {"clusters": clusters, "contexts": contexts, "users": users}
    replace_private(path, dump(document))


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
