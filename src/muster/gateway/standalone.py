"""What an administrator installs on the hub for a gateway without an operator, one that is started by hand.

The hub's API server reaches it by a Service of type ExternalName, so it may run on any host that this server can reach. The
gateway manages its certificate itself and writes new CA bundles to the APIServices; it has the permissions for just that.
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
from muster.gateway.serving_certificate import ManagedCertificate
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
class StandaloneGateway:
    namespace: str
    host: str
    """Address at which the hub's API server reaches the gateway."""
    port: int
    served: tuple[tuple[str, str], ...]


async def install(client: KubeClient, wanted: StandaloneGateway, *, clock: Clock = SYSTEM) -> None:
    """Install everything but the APIServices, and wait until the CRDs are established. Raises InstallError and the client's
    errors."""
    if problem := await collision(client, wanted.served, wanted.namespace):
        raise InstallError(f"{problem}; serve the gateway in another version: --api-version")
    await ensure_namespace(client, wanted.namespace)
    await apply_all(client, [(CRDS, document) for document in definitions(_KINDS)], MANAGER)
    await apply_all(client, [credentials_namespace(), *_permissions(wanted), _service(wanted)], MANAGER)
    await await_definitions(client, [kind.name for kind in _KINDS], clock)
    await ManagedCertificate(client, wanted.namespace, list(wanted.served), clock=clock).load()


async def apply_api_services(client: KubeClient, wanted: StandaloneGateway, *, clock: Clock = SYSTEM) -> None:
    """Apply the APIServices; call this when the gateway answers. Otherwise the API server finds no server and checks again late."""
    pair = await ManagedCertificate(client, wanted.namespace, list(wanted.served), clock=clock).load()
    for group, version in wanted.served:
        await client.apply(API_SERVICES, api_service(group, version, wanted.namespace, pair.ca, wanted.port), manager=MANAGER)


def _permissions(wanted: StandaloneGateway) -> list[tuple[GVR, Document]]:
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


def _service(wanted: StandaloneGateway) -> tuple[GVR, Document]:
    ports = [{"name": "https", "port": wanted.port, "protocol": "TCP", "targetPort": wanted.port}]
    return SERVICES, {
        "metadata": named(SERVICE, wanted.namespace),
        "spec": {"type": "ExternalName", "externalName": wanted.host, "ports": ports},
    }
