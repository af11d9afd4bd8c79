"""Kubeconfigs of a hub: what a new agent gets to ask with, and what an administrator uses.

The bootstrap kubeconfig holds a token of the bootstrap service account that `registration.hub.install` made; it is good for
`LIFETIME` seconds. Both are secrets: they are written for the owner's eyes only and never logged.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

from muster.kube.yaml import dump
from muster.registration.installing import SERVICE_ACCOUNTS
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE
from muster.runtime.resource import Object
from muster.runtime.verbs import KubeClient

BOOTSTRAP_USER: Final = f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:{BOOTSTRAP_ACCOUNT}"
LIFETIME: Final = 24 * 3600


async def bootstrap_user(hub: KubeClient) -> Object:
    """The user entry of a bootstrap kubeconfig, with a fresh token."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": LIFETIME}}
    issued = await hub.create(SERVICE_ACCOUNTS, request, BOOTSTRAP_NAMESPACE, name=BOOTSTRAP_ACCOUNT, subresource="token")
    return {"token": issued["status"]["token"]}


def certificate_user(certificate: bytes, key: bytes) -> Object:
    return {"client-certificate-data": _text(certificate), "client-key-data": _text(key)}


def write_kubeconfig(path: Path, server: str, ca: bytes, user: Object) -> None:
    """A kubeconfig with one context, readable by the owner only, replaced in one step."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": server, "certificate-authority-data": _text(ca)}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "user"}}],
        "current-context": "hub",
    }
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(dump(document))
    temporary.replace(path)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
