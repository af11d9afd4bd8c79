"""Hosted mode, where the target cluster is another one: its kubeconfig, and copies of Secrets.

An administrator creates a Secret with the kubeconfig. It must be self-contained: if it referred to files of the operator's pod,
it could send the operator's own token to any server.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from muster.operator.names import KUBECONFIG_KEY
from muster.runtime.client import ClientConfig, HttpClient, KubeClient, KubeconfigError, NotFound, parse_kubeconfig
from muster.runtime.client.builtin import SECRETS
from muster.runtime.install import named


async def read_kubeconfig_secret(client: KubeClient, secret: str, namespace: str) -> tuple[bytes, ClientConfig] | None:
    """The kubeconfig in a Secret; None if there is none. Raises KubeconfigError for an invalid one."""
    source = f"Secret {namespace}/{secret}"
    try:
        found = await client.get(SECRETS, secret, namespace)
        kubeconfig = base64.b64decode((found.get("data") or {})[KUBECONFIG_KEY])
        config = parse_kubeconfig(kubeconfig, source=source)
        refuse_foreign_files(config, source)
        return kubeconfig, config
    except (NotFound, KeyError):
        return None
    except ValueError as error:
        raise KubeconfigError(source, "", KUBECONFIG_KEY, str(error)) from error


def connect_by_kubeconfig(kubeconfig: bytes) -> KubeClient:
    """Raises KubeconfigError."""
    return HttpClient(parse_kubeconfig(kubeconfig), agent="muster-operator")


def refuse_foreign_files(config: ClientConfig, source: str) -> None:
    """Raises KubeconfigError for a kubeconfig that refers to files or programs."""
    identity = config.identity
    if identity.exec_plugin is not None:
        raise KubeconfigError(source, "user", "exec", "the operator runs no programs for others")
    named = {
        "certificate-authority": config.ca,
        "client-certificate": identity.cert,
        "client-key": identity.key,
        "tokenFile": identity.token_file,
    }
    for field, value in named.items():
        if isinstance(value, Path):
            raise KubeconfigError(source, "", field, "must be in the kubeconfig itself, not in a file")


async def copy_secret(
    source: KubeClient, target: KubeClient, name: str, namespaces: tuple[str, str], labels: Mapping[str, str], manager: str
) -> bool:
    """Copy a Secret from the first namespace to the second; returns whether it exists."""
    there, here = namespaces
    try:
        found = await source.get(SECRETS, name, there)
    except NotFound:
        return False
    copy = {"metadata": {**named(name, here), "labels": dict(labels)}, "type": found["type"], "data": found.get("data") or {}}
    await target.apply(SECRETS, copy, manager=manager)
    return True
