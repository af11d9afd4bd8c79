"""A managed cluster with addons, and hands that act for the hub's addon manager, approver and signers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from cryptography import x509

from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import ADDON_LABEL
from muster.kube.certificates import CLIENT_AUTH, CertificateAuthority
from muster.machinery.golang.timestamps import format_micro_time, format_time
from muster.machinery.objects import Object
from muster.registration.agent.agent import Agent
from muster.registration.agent.install import ADDON_ROLE
from muster.runtime.client import served
from muster.runtime.client.builtin import (
    LEASES,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SIGNING_REQUESTS,
)
from muster.runtime.client.errors import Conflict, NotFound
from muster.runtime.install import rule
from tests.unit.registration.agent.conftest import Fleet, until

ADDONS = served(ManagedClusterAddOn)
KUBE_CLIENT = "kubernetes.io/kube-apiserver-client"
SIGNER = "example.com/custom"
NAMESPACE = "open-cluster-management-agent-addon"
USER = "system:open-cluster-management:cluster:c1:addon:{0}:agent:{0}"
GROUPS = ["system:open-cluster-management:cluster:c1:addon:{0}", "system:open-cluster-management:addon:{0}"]


def kube_client(addon: str, user: str = USER) -> Object:
    groups = [group.format(addon) for group in GROUPS]
    return {"signerName": KUBE_CLIENT, "subject": {"user": user.format(addon), "groups": groups}}


def custom(signer: str = SIGNER) -> Object:
    return {"signerName": signer, "subject": {"user": "custom", "organizationUnit": ["unit"]}}


class AddonFleet:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.hub = fleet.hub
        self.clock = fleet.clock
        self.authority = CertificateAuthority.create("custom", fleet.clock.now())
        self.lifetime = timedelta(days=1)
        """Of certificates of the custom signer."""

    @asynccontextmanager
    async def joined(self, **options: Any) -> AsyncIterator[Agent]:
        """An agent that serves its hub; the first time it joins."""
        if not await self.fleet.stored("bootstrap-hub-kubeconfig"):
            await self.fleet.give(self.hub.kubeconfig())
        async with self.fleet.running(**options) as agent:
            if await self.hub.cluster() is None:
                await self.fleet.join()
            await until(lambda: agent.ready, "serving")
            yield agent

    @asynccontextmanager
    async def managed(self) -> AsyncIterator[None]:
        """All requests of addons are approved and signed as they come."""
        approving = asyncio.create_task(self._approve_all())
        try:
            yield
        finally:
            approving.cancel()
            await asyncio.gather(approving, return_exceptions=True)

    async def _approve_all(self) -> None:
        while True:
            await self.approve()
            await asyncio.sleep(0.005)

    async def requests(self, addon: str = "") -> list[Object]:
        selector = f"{ADDON_LABEL}={addon}" if addon else ADDON_LABEL
        return (await self.hub.admin.list(SIGNING_REQUESTS, label_selector=selector)).items

    async def approve(self, verdict: str = "Approved") -> None:
        for csr in await self.requests():
            if not (csr.get("status") or {}).get("conditions"):
                csr["status"] = {"conditions": [{"type": verdict, "status": "True", "reason": "Test", "message": "by hand"}]}
                try:
                    csr = await self.hub.admin.update(SIGNING_REQUESTS, csr, subresource="approval")
                    if csr["spec"]["signerName"] != KUBE_CLIENT and verdict == "Approved":
                        await self._sign(csr)
                except Conflict:
                    continue

    async def _sign(self, csr: Object) -> None:
        request = x509.load_pem_x509_csr(base64.b64decode(csr["spec"]["request"]))
        now = self.clock.now()
        signed = self.authority.sign(request.subject, request.public_key(), now, now + self.lifetime, (CLIENT_AUTH,))
        csr["status"]["certificate"] = base64.b64encode(signed).decode()
        await self.hub.admin.update(SIGNING_REQUESTS, csr, subresource="status")

    async def enable(self, addon: str, *registrations: Object, namespace: str = "", **status: Any) -> None:
        kind = {"apiVersion": ADDONS.api_version, "kind": ADDONS.kind}
        await self.hub.admin.create(ADDONS, {**kind, "metadata": {"name": addon, "namespace": "c1"}, "spec": {}})
        await self.set_status(addon, registrations=list(registrations), **({"namespace": namespace} if namespace else {}), **status)

    async def set_status(self, addon: str, **status: Any) -> None:
        await self.hub.admin.patch(ADDONS, addon, {"status": status}, "c1", subresource="status")

    async def addon(self, addon: str) -> Object:
        return await self.hub.admin.get(ADDONS, addon, "c1")

    async def said(self, addon: str, kind: str) -> Object:
        conditions = ((await self.addon(addon)).get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == kind), {})

    async def verdict(self, addon: str, kind: str) -> str:
        said = await self.said(addon, kind)
        return f"{said['status']}/{said['reason']}" if said else ""

    async def secret(self, name: str, namespace: str = NAMESPACE) -> dict[str, bytes]:
        try:
            found = await self.fleet.admin.get(SECRETS, name, namespace)
        except NotFound:
            return {}
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}

    async def pending(self) -> list[str]:
        found = (await self.fleet.admin.list(SECRETS, "open-cluster-management-agent")).items
        return [one["metadata"]["name"] for one in found if one["metadata"]["name"].startswith("addon-credential-")]

    async def certificate(self, name: str, namespace: str = NAMESPACE) -> x509.Certificate:
        data = await until(lambda: self.secret(name, namespace), f"Secret {name}")
        return x509.load_pem_x509_certificate(data["tls.crt"])

    async def add_namespace(self, name: str, *, labelled: bool = True) -> None:
        """With the rights that the Klusterlet operator gives the agent there."""
        labels = {"addon.open-cluster-management.io/namespace": "true"} if labelled else {}
        await self.fleet.admin.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        bound = await self.fleet.admin.get(ROLE_BINDINGS, ADDON_ROLE, NAMESPACE)
        kept = {"roleRef": bound["roleRef"], "subjects": bound["subjects"]}
        await self.fleet.admin.create(ROLE_BINDINGS, {"metadata": {"name": "addons", "namespace": name}, **kept})

    async def renew(self, addon: str, moment: str | None = None, namespace: str = NAMESPACE) -> None:
        moment = format_micro_time(self.clock.now()) if moment is None else moment
        lease = {"metadata": {"name": addon, "namespace": namespace}, "spec": {"renewTime": moment}}
        await self.fleet.admin.apply(LEASES, lease, manager="addon")

    async def token_infrastructure(self, addon: str) -> str:
        """As the hub's addon manager makes it; gives the account's uid."""
        account = {"metadata": {"name": f"{addon}-agent", "namespace": "c1"}}
        made = await self.hub.admin.create(SERVICE_ACCOUNTS, account)
        uid = str(made["metadata"]["uid"])
        group = {"kind": "Group", "name": "system:open-cluster-management:c1"}
        rules = [rule("", ["serviceaccounts/token"], ["create"], [f"{addon}-agent"])]
        await self.hub.role(f"{addon}-token-role", rules, group, "c1")
        await self.token_ready(addon, uid)
        return uid

    async def token_ready(self, addon: str, uid: str) -> None:
        known = (await self.addon(addon))["status"].get("conditions") or ()
        kept = [one for one in known if one["type"] != "TokenInfrastructureReady"]
        ready = {
            "type": "TokenInfrastructureReady",
            "status": "True",
            "reason": "TokenInfrastructureReady",
            "message": f"ServiceAccount c1/{addon}-agent (UID: {uid}) is ready",
            "lastTransitionTime": format_time(self.clock.now()),
        }
        await self.set_status(addon, conditions=[*kept, ready])
