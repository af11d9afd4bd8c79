"""Bootstrap credentials of new clusters: a token of the bootstrap service account, or a bootstrap token in a Secret.

Tokens of the account are valid for an hour and issued for each call. The bootstrap token is valid until it is deleted, and there is
only one: repeated calls return the same. A token for a single cluster name is of a service account of its own, which may introduce
only that cluster, and only over gRPC (`registration.hub.install.bound_permissions`). `revoke` deletes all of these, which
invalidates all issued tokens.
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from muster.administration.dryrun import TOKEN, is_dry_run
from muster.administration.errors import AdministrationError
from muster.administration.hubs import CLUSTERADM
from muster.api import Document
from muster.machinery.objects import Object
from muster.operator.applier import ObjectRef, object_refs, remove
from muster.registration.hub.install import BOOTSTRAP_GROUP, bootstrap_permissions, bound_account, bound_permissions
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE, BOUND_LABEL, is_cluster_name
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SECRETS, SERVICE_ACCOUNTS
from muster.runtime.install import apply_all, named

LIFETIME: Final = 3600
TOKEN_NAMESPACE: Final = "kube-system"
TOKEN_ID: Final = "ocmhub"
TOKEN_PREFIX: Final = "bootstrap-token-"
TOKEN_TYPE: Final = "bootstrap.kubernetes.io/token"
HUB_LABEL: Final = "app=cluster-manager"
BOOTSTRAP_USERS: Final = (
    f"system:bootstrap:{TOKEN_ID}",
    f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:{BOOTSTRAP_ACCOUNT}",
)
"""The users as which new clusters authenticate on the hub."""
NAME_RULE: Final = "it has up to 63 lower case letters, digits and '-', and a letter or digit at both ends"
_LETTERS: Final = string.ascii_lowercase + string.digits


def random_secret() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(16))


async def ensure_bootstrap(client: KubeClient) -> None:
    """Create the bootstrap service account and its permissions."""
    await apply_all(client, bootstrap_permissions(), CLUSTERADM)


async def ensure_bound(client: KubeClient, cluster: str) -> None:
    """Create the service account for the agent of one cluster and its permissions. Raises AdministrationError."""
    if not is_cluster_name(cluster):
        raise AdministrationError(f"--cluster-name: {cluster!r} cannot name a cluster", NAME_RULE)
    await apply_all(client, bound_permissions(cluster), CLUSTERADM)


async def account_token(client: KubeClient, seconds: int = LIFETIME, account: str = BOOTSTRAP_ACCOUNT) -> str:
    if is_dry_run(client):
        return TOKEN
    review: Document = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    try:
        answer = await client.create(SERVICE_ACCOUNTS, review, BOOTSTRAP_NAMESPACE, name=account, subresource="token")
    except NotFound:
        raise _missing(f"ServiceAccount {BOOTSTRAP_NAMESPACE}/{account}") from None
    return str(answer["status"]["token"])


async def ensure_bootstrap_token(client: KubeClient, make: Callable[[], str] = random_secret) -> None:
    """An existing one is kept: join commands that contain it stay valid."""
    if await _stored(client):
        return
    content = {
        "description": "Lets clusters introduce themselves to this hub",
        "token-id": TOKEN_ID,
        "token-secret": make(),
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": BOOTSTRAP_GROUP,
    }
    key, value = HUB_LABEL.split("=")
    document: Document = {
        "metadata": {**named(TOKEN_PREFIX + TOKEN_ID, TOKEN_NAMESPACE), "labels": {key: value}},
        "type": TOKEN_TYPE,
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in content.items()},
    }
    await client.apply(SECRETS, document, manager=CLUSTERADM)


async def bootstrap_token(client: KubeClient) -> str:
    """The newest bootstrap token. Raises AdministrationError if there is none."""
    if is_dry_run(client):
        return TOKEN
    stored = await _stored(client)
    if not stored:
        raise _missing(f"a Secret {TOKEN_NAMESPACE}/{TOKEN_PREFIX}… with label {HUB_LABEL}", " --use-bootstrap-token")
    newest = max(stored, key=lambda secret: str(secret["metadata"]["creationTimestamp"]))
    data = {key: base64.b64decode(value).decode() for key, value in (newest.get("data") or {}).items()}
    return f"{data['token-id']}.{data['token-secret']}"


async def _stored(client: KubeClient) -> list[Object]:
    found = await client.list(SECRETS, TOKEN_NAMESPACE, label_selector=HUB_LABEL)
    return [
        secret
        for secret in found.items
        if secret.get("type") == TOKEN_TYPE
        and not secret["metadata"].get("deletionTimestamp")
        and {"token-id", "token-secret"} <= set(secret.get("data") or ())
    ]


def _missing(what: str, flag: str = "") -> AdministrationError:
    return AdministrationError(f"token doesn't exist: there is no {what}", f"run init{flag} again")


async def issue(client: KubeClient, *, use_bootstrap_token: bool = False, cluster: str = "") -> str:
    """`cluster` is the only one for which the token is to be valid."""
    if cluster:
        await ensure_bound(client, cluster)
        return await account_token(client, account=bound_account(cluster))
    return await (bootstrap_token(client) if use_bootstrap_token else account_token(client))


def claims_of(token: str) -> Mapping[str, Any]:
    """The unverified claims in a service account's token; empty if it is no such token."""
    try:
        payload = token.split(".")[1]
        found = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_bound(token: str, cluster: str) -> bool:
    """Whether a token is of the service account for this cluster alone."""
    return claims_of(token).get("sub") == f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:{bound_account(cluster)}"


async def bootstrap_accounts(client: KubeClient) -> list[ObjectRef]:
    """All bootstrap objects, the permissions first."""
    stored = await client.list(SECRETS, TOKEN_NAMESPACE, label_selector=HUB_LABEL)
    kept = [ObjectRef(SECRETS, one["metadata"]["name"], TOKEN_NAMESPACE) for one in stored.items if one.get("type") == TOKEN_TYPE]
    return [*await _bound_accounts(client), *reversed(object_refs(bootstrap_permissions())), *kept]


async def _bound_accounts(client: KubeClient) -> list[ObjectRef]:
    """The objects of the service accounts for single clusters.

    Each kind is searched, so that half removed accounts are found too.
    """
    found = [
        await client.list(resource, namespace, label_selector=BOUND_LABEL)
        for resource, namespace in ((SERVICE_ACCOUNTS, BOOTSTRAP_NAMESPACE), (CLUSTER_ROLES, ""), (CLUSTER_ROLE_BINDINGS, ""))
    ]
    names = sorted({str(one["metadata"]["labels"][BOUND_LABEL]) for several in found for one in several.items})
    return [ref for name in names for ref in reversed(object_refs(bound_permissions(name)))]


async def revoke(client: KubeClient, cluster: str = "") -> list[ObjectRef]:
    """Invalidate all issued tokens; with `cluster`, those for this cluster alone. Returns what was deleted."""
    wanted = list(reversed(object_refs(bound_permissions(cluster)))) if cluster else await bootstrap_accounts(client)
    found = [ref for ref in wanted if await _there(client, ref)]
    await remove(client, found)
    return found


async def _there(client: KubeClient, ref: ObjectRef) -> bool:
    try:
        await client.get(ref.resource, ref.name, ref.namespace)
    except NotFound:
        return False
    return True
