"""A hub without Kubernetes as the tests of its services need it: opened, its services at work, the hub's controllers beside it."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.api.agents import CLUSTER_LABEL, GRPC_SIGNER, LEASE, AgentIdentity
from muster.api.work.v1 import ManifestWork, ManifestWorkStatus
from muster.kube.certificates import generate_key
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.registration.hub.clusters.rbac import common_roles, own_role
from muster.registration.hub.install import install_base
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE
from muster.runtime.auth import AccessReviewer
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LEASES, NAMESPACES, ROLE_BINDINGS
from muster.transport.codecs.objects import encode_object
from muster.transport.codecs.sequence import Sequence
from muster.transport.codecs.works import decode_spec, encode_spec, encode_status
from muster.transport.contract.event import MAX_EVENT, CloudEvent
from muster.transport.contract.rows import CLUSTERS, SIGNING_REQUEST_ROW, WORKS, Row
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.services.interfaces import ResourceChange, Service
from muster.transport.services.reduction import reduction_of
from muster.transport.services.store.hub import SqlHub, SqlHubOptions, sql_hub

CREATE = (Subresource.SPEC, Action.CREATE)
UPDATE = (Subresource.SPEC, Action.UPDATE)
STATUS = (Subresource.STATUS, Action.UPDATE)

_numbers = itertools.count()
sequence = Sequence()


@dataclass(frozen=True)
class TestCaller:
    __test__ = False
    user: UserInfo
    cluster: str
    is_agent: bool


def agent_of(cluster: str) -> TestCaller:
    identity = AgentIdentity(cluster, "agent1")
    groups = (*sorted(identity.organizations), AUTHENTICATED)
    return TestCaller(UserInfo(identity.common_name, groups=groups), cluster, True)


def newcomer(cluster: str, name: str = f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:{BOOTSTRAP_ACCOUNT}") -> TestCaller:
    return TestCaller(UserInfo(name, groups=(AUTHENTICATED,)), cluster, False)


class RunningHub:
    def __init__(self, hub: SqlHub, max_event: int = MAX_EVENT) -> None:
        self.hub = hub
        self.services = hub.services(AccessReviewer(hub.client), max_event=max_event)
        self.changes: list[tuple[Row, Action, str, str]] = []
        """Row, action, cluster and resource id of every change that was told."""
        for service in self.services.values():
            service.register_handler(self._recorder(service.row))

    def _recorder(self, row: Row) -> Callable[[ResourceChange], None]:
        def record(change: ResourceChange) -> None:
            self.changes.append((row, change.action, change.cluster, change.resource_id))

        return record

    @property
    def admin(self) -> KubeClient:
        return self.hub.client

    def service(self, row: Row) -> Service:
        return self.services[row.data_type]

    async def publish(self, row: Row, asked: tuple[Subresource, Action], obj: Object, caller: TestCaller) -> CloudEvent | None:
        event = encode_object(row, obj, EventType(row.data_type, *asked), source=caller.cluster, now=SYSTEM.now())
        return await self.service(row).handle_status_update(event, caller)

    async def report(self, work: Object, status: Object, caller: TestCaller, number: int | None = None) -> None:
        """A work's status, as an agent sends it that got the work from this hub."""
        await self.service(WORKS).handle_status_update(work_report(work, status, number), caller)

    def known(self, row: Row, cluster: str) -> list[CloudEvent]:
        return self.service(row).list(cluster)

    def told(self, row: Row, cluster: str) -> list[Action]:
        return [action for each, action, whose, _ in self.changes if (each, whose) == (row, cluster)]

    async def join(self, cluster: str) -> TestCaller:
        """A cluster that has introduced itself and was let in, by the hub's own rules and with its Lease."""
        body = {"metadata": {"name": cluster}, "spec": {"hubAcceptsClient": False}}
        await self.publish(CLUSTERS, CREATE, body, newcomer(cluster))
        await self.let_in(cluster)
        return agent_of(cluster)

    async def let_in(self, cluster: str) -> None:
        await self.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster}})
        own = own_role(cluster, {}, accepted=True)
        group = {"kind": "Group", "name": f"system:open-cluster-management:{cluster}", "apiGroup": "rbac.authorization.k8s.io"}
        await self.admin.apply(CLUSTER_ROLES, own.body, manager="test")
        name = own.body["metadata"]["name"]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        body: Object = {"metadata": {"name": name}, "roleRef": {**reference, "name": name}, "subjects": [group]}
        await self.admin.apply(CLUSTER_ROLE_BINDINGS, body, manager="test")
        for role in common_roles({}):
            await self.admin.apply(CLUSTER_ROLES, role.body, manager="test")
            name = role.body["metadata"]["name"]
            metadata = {"name": name, "namespace": cluster}
            body = {"metadata": metadata, "roleRef": {**reference, "name": name}, "subjects": [group]}
            await self.admin.apply(ROLE_BINDINGS, body, manager="test")
        metadata = {"name": LEASE, "namespace": cluster, "labels": {CLUSTER_LABEL: cluster}}
        await self.admin.create(LEASES, {"metadata": metadata, "spec": {"leaseDurationSeconds": 60}}, cluster)
        await self.admin.patch(CLUSTERS.resource, cluster, {"spec": {"hubAcceptsClient": True}})

    async def create_work(self, cluster: str, name: str = "", **metadata: Any) -> Object:
        name = name or f"work-{next(_numbers)}"
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
        body = {
            "apiVersion": WORKS.resource.api_version,
            "kind": WORKS.resource.kind,
            "metadata": {"name": name, "namespace": cluster, **metadata},
            "spec": {"workload": {"manifests": [manifest]}},
        }
        return await self.admin.create(WORKS.resource, body, cluster)

    async def work(self, cluster: str, name: str) -> Object:
        return await self.admin.get(WORKS.resource, name, cluster)


def work_report(work: Object, status: Object, number: int | None = None) -> CloudEvent:
    sent = orjson.loads(reduction_of(WORKS)(orjson.dumps(work)))
    received = decode_spec(encode_spec(sent, Action.CREATE, now=SYSTEM.now()))
    assert received.obj is not None
    typed: ManifestWorkStatus = ManifestWork.decode({**work, "status": status}).status
    metadata = received.obj["metadata"]
    chosen = sequence.next() if number is None else number
    return encode_status(metadata, typed, source=f"{work['metadata']['namespace']}-work-agent", sequence=chosen, now=SYSTEM.now())


def applied(message: str = "") -> Object:
    when = "2026-11-16T00:00:00Z"
    condition = {"type": "Applied", "status": "True", "reason": "Done", "message": message, "lastTransitionTime": when}
    return {"conditions": [condition]}


def signing_request(cluster: str, name: str, key: ec.EllipticCurvePrivateKey | None = None) -> Object:
    identity = AgentIdentity(cluster, "agent1")
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in sorted(identity.organizations)]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, identity.common_name))
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject)).sign(key or generate_key(), hashes.SHA256())
    request = base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
    return {
        "kind": SIGNING_REQUEST_ROW.resource.kind,
        "apiVersion": SIGNING_REQUEST_ROW.resource.api_version,
        "metadata": {"name": name, "labels": {CLUSTER_LABEL: cluster}},
        "spec": {"request": request, "signerName": GRPC_SIGNER, "usages": ["digital signature", "key encipherment", "client auth"]},
    }


def data_of(event: CloudEvent) -> Object:
    assert event.data is not None
    found: Object = orjson.loads(event.data)
    return found


@asynccontextmanager
async def running_hub(
    database: str,
    directory: Path,
    install: Callable[[KubeClient], Awaitable[None]] = install_base,
    *,
    max_event: int = MAX_EVENT,
    **options: Any,
) -> AsyncIterator[RunningHub]:
    """A hub whose services run, as a server process has it."""
    async with AsyncExitStack() as stack:
        chosen = SqlHubOptions(database, directory / f"{next(_numbers)}.kubeconfig", **options)
        hub = await stack.enter_async_context(sql_hub(chosen, install))
        running = RunningHub(hub, max_event)
        tasks = [asyncio.create_task(service.run()) for service in running.services.values()]
        try:
            await until(lambda: all(service.synced for service in running.services.values()), "the services are synced")
            yield running
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    """The first true answer; asked again and again."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if found:
                return found
            await asyncio.sleep(0.005)
    raise AssertionError(what)
