"""Credentials of a service account for pods on another cluster: a Secret with `kubeconfig` and `token`.

The token is requested with a limited lifetime and replaced after two thirds of it; the kubeconfig refers to it by file, so a
program that mounts the Secret reads the new one without a restart. It is replaced at once if the account was recreated or the
cluster's address or CA changed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

from muster.api import Document
from muster.api.operator.v1 import GROUP
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.confinement import read
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.objects import Object
from muster.runtime.client import ClientConfig, KubeClient, NotFound, dump_kubeconfig
from muster.runtime.client.builtin import SECRETS, SERVICE_ACCOUNTS
from muster.runtime.install import named

LIFETIME: Final = timedelta(days=7)
RENEWAL: Final = f"{GROUP}/renew-after"
ORIGIN: Final = f"{GROUP}/token-origin"


@dataclass(frozen=True)
class AccountSecret:
    """`account` exists on the other cluster in `account_namespace`; the Secret is stored on this one."""

    name: str
    namespace: str
    account: str
    account_namespace: str
    labels: Mapping[str, str]


async def ensure_account_secret(
    here: KubeClient, far: KubeClient, target: ClientConfig, wanted: AccountSecret, manager: str, clock: Clock = SYSTEM
) -> datetime:
    """Ensure valid credentials; returns when they must be checked again."""
    account = await far.get(SERVICE_ACCOUNTS, wanted.account, wanted.account_namespace)
    origin = sha256(repr((account["metadata"]["uid"], target.server, _authority(target))).encode()).hexdigest()[:32]
    try:
        found = await here.get(SECRETS, wanted.name, wanted.namespace)
    except NotFound:
        found = None
    renewal = _renewal(found, origin)
    if renewal is not None and clock.now() < renewal:
        return renewal
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(LIFETIME.total_seconds())},
    }
    answer = await far.create(SERVICE_ACCOUNTS, review, wanted.account_namespace, name=wanted.account, subresource="token")
    now, expires = clock.now(), parse_time(answer["status"]["expirationTimestamp"])
    renewal = now + (expires - now) * 2 / 3
    user, far_away = wanted.account, replace(target, namespace="")
    kubeconfig = dump_kubeconfig(far_away, cluster="hub", user=user, context=user, token_file="token")
    content = {"kubeconfig": kubeconfig, "token": answer["status"]["token"]}
    document: Document = {
        "metadata": {
            **named(wanted.name, wanted.namespace),
            "labels": dict(wanted.labels),
            "annotations": {ORIGIN: origin, RENEWAL: format_time(renewal)},
        },
        "type": "Opaque",
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in content.items()},
    }
    await here.apply(SECRETS, document, manager=manager)
    return renewal


def _renewal(secret: Object | None, origin: str) -> datetime | None:
    annotations = (secret or {}).get("metadata", {}).get("annotations") or {}
    if annotations.get(ORIGIN) != origin or not {"kubeconfig", "token"} <= set((secret or {}).get("data") or ()):
        return None
    try:
        return parse_time(annotations.get(RENEWAL) or "")
    except ValueError:
        return None


def _authority(target: ClientConfig) -> bytes:
    return read(target.ca) if isinstance(target.ca, Path) else target.ca or b""
