"""The kubeconfig of a server's administrator: one context per cluster, each with a certificate of its own."""

from __future__ import annotations

import base64
from pathlib import Path

from muster.apiserver.server import ApiServer
from muster.kube.yaml import dump
from muster.machinery.privatefiles import replace_private


async def write_kubeconfig(server: ApiServer, path: Path) -> None:
    """One context per cluster, with administrator certificates; readable by the owner only, replaced in one step."""
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
    for name, cluster in list(server.clusters.items()):
        admin = await server.admin_credentials(cluster)
        clusters.append(
            {"name": name, "cluster": {"server": server.cluster_url(name), "certificate-authority-data": _b64(server.ca_pem)}}
        )
        contexts.append({"name": name, "context": {"cluster": name, "user": f"{name}-admin"}})
        pair = {"client-certificate-data": _b64(admin.certificate), "client-key-data": _b64(admin.key)}
        users.append({"name": f"{name}-admin", "user": pair})
    document |= {"clusters": clusters, "contexts": contexts, "users": users}
    replace_private(path, dump(document))


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
