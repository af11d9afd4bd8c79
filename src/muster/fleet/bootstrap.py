"""Kubeconfigs of a hub: the bootstrap kubeconfig of new agents, and the administrator's.

The bootstrap kubeconfig has a token of the bootstrap service account that `registration.hub.install` created; it is valid for
`LIFETIME` seconds. Both are secrets: only the owner can read the files, and they are never logged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from muster.machinery.privatefiles import replace_private
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE
from muster.runtime.client import AuthInfo, ClientConfig, KubeClient, dump_kubeconfig
from muster.runtime.client.builtin import SERVICE_ACCOUNTS

BOOTSTRAP_USER: Final = f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:{BOOTSTRAP_ACCOUNT}"
LIFETIME: Final = 24 * 3600


async def bootstrap_identity(hub: KubeClient) -> AuthInfo:
    """The bootstrap identity, with a fresh token."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": LIFETIME}}
    issued = await hub.create(SERVICE_ACCOUNTS, request, BOOTSTRAP_NAMESPACE, name=BOOTSTRAP_ACCOUNT, subresource="token")
    return AuthInfo(token=issued["status"]["token"])


def write_kubeconfig(path: Path, server: str, ca: bytes, identity: AuthInfo) -> None:
    """Write a kubeconfig with one context, readable by the owner only, replaced atomically."""
    content = dump_kubeconfig(ClientConfig(server, ca, identity=identity), cluster="hub", user="user", context="hub")
    replace_private(path, content)
