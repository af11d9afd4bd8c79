"""The kubeconfig of the administrator of one server or several: one context per cluster, each with a certificate of its own."""

from __future__ import annotations

import base64
from pathlib import Path

from muster.apiserver.server import ApiServer
from muster.kube.yaml import dump
from muster.machinery.privatefiles import replace_private


async def write_kubeconfig(server: ApiServer, path: Path, *others: ApiServer) -> None:
    """One context per cluster, with administrator certificates; readable by the owner only, replaced in one step. No two servers
    may have a cluster of the same name."""
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
        place = {"server": one.cluster_url(name), "certificate-authority-data": _b64(one.ca_pem)}
        clusters.append({"name": name, "cluster": place})
        contexts.append({"name": name, "context": {"cluster": name, "user": f"{name}-admin"}})
        pair = {"client-certificate-data": _b64(admin.certificate), "client-key-data": _b64(admin.key)}
        users.append({"name": f"{name}-admin", "user": pair})
    document |= {"clusters": clusters, "contexts": contexts, "users": users}
    replace_private(path, dump(document))


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
