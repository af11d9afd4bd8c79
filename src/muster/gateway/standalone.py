"""A gateway that no operator keeps: what an administrator installs for one that is started by hand.

The hub's API server finds it by a Service that names a host (ExternalName), so that it may run anywhere that server can reach. The
gateway keeps its certificate itself, and tells the APIServices of new authorities; it has the rights for just that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.api import Document
from muster.api.crds import HUB, definitions
from muster.gateway.apiservice import SERVICE, SERVING_SECRET, api_service, api_service_name, collision
from muster.gateway.install import RULES
from muster.gateway.names import COMPONENT
from muster.gateway.permissions import ACCOUNT, credentials_namespace, namespace_permissions
from muster.gateway.serving import OwnCertificate
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import API_SERVICES, CRDS, ROLE_BINDINGS, ROLES, SERVICES
from muster.runtime.install import (
    InstallError,
    account_permissions,
    apply_all,
    await_definitions,
    binding,
    ensure_namespace,
    named,
    rule,
)

MANAGER: Final = f"muster-{COMPONENT}-install"
_ROLE: Final = f"open-cluster-management:{COMPONENT}"
_KINDS: Final = tuple(kind for kind in HUB if kind.resource.plural == "managedclusters")


@dataclass(frozen=True)
class Standalone:
    namespace: str
    host: str
    """Where the hub's API server finds the gateway."""
    port: int
    served: tuple[tuple[str, str], ...]


async def install(client: KubeClient, wanted: Standalone, *, clock: Clock = SYSTEM) -> None:
    """Everything but APIServices, and wait until the definitions are served. Raises InstallError and what the client raises."""
    if problem := await collision(client, wanted.served, wanted.namespace):
        raise InstallError(f"{problem}; serve the gateway in another version: --api-version")
    await ensure_namespace(client, wanted.namespace)
    await apply_all(client, [(CRDS, document) for document in definitions(_KINDS)], MANAGER)
    await apply_all(client, [credentials_namespace(), *_permissions(wanted), _service(wanted)], MANAGER)
    await await_definitions(client, [kind.name for kind in _KINDS], clock)
    await OwnCertificate(client, wanted.namespace, list(wanted.served), clock=clock).load()


async def lead_to(client: KubeClient, wanted: Standalone, *, clock: Clock = SYSTEM) -> None:
    """Have the APIServices, best when the gateway answers: before that the hub's API server finds nobody, and looks again late."""
    pair = await OwnCertificate(client, wanted.namespace, list(wanted.served), clock=clock).load()
    for group, version in wanted.served:
        await client.apply(API_SERVICES, api_service(group, version, wanted.namespace, pair.ca, wanted.port), manager=MANAGER)


def _permissions(wanted: Standalone) -> list[tuple[GVR, Document]]:
    namespace = wanted.namespace
    names = [api_service_name(version, group) for group, version in wanted.served]
    own = rule(API_SERVICES.group, [API_SERVICES.plural], ["get", "patch"], names)
    secret = [rule("", ["secrets"], ["get", "update", "patch"], [SERVING_SECRET]), rule("", ["secrets"], ["create"])]
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    return [
        *account_permissions(ACCOUNT, namespace, _ROLE, [*RULES, own]),
        *namespace_permissions(namespace, credentials=False),
        *namespace_permissions(namespace, credentials=True),
        (ROLES, {"metadata": named(_ROLE, namespace), "rules": secret}),
        (ROLE_BINDINGS, binding(_ROLE, "Role", _ROLE, subject, namespace)),
    ]


def _service(wanted: Standalone) -> tuple[GVR, Document]:
    ports = [{"name": "https", "port": wanted.port, "protocol": "TCP", "targetPort": wanted.port}]
    return SERVICES, {
        "metadata": named(SERVICE, wanted.namespace),
        "spec": {"type": "ExternalName", "externalName": wanted.host, "ports": ports},
    }
