"""A managed cluster with OLM played from a script and the controller of OperatorPolicies, on an API server in this process, and a
hub beside it for hub templates.

Time stands still but where a test moves it. The controller may die at any of its writes (`Life`), and what it asks is on record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from muster.api.crds import POLICY
from muster.api.policy.v1beta1 import OperatorPolicy
from muster.apiserver.server import ApiServer
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR, Object
from muster.policy.metrics import PolicyMetrics
from muster.policy.names import CONTROLLER, MANAGED_DELIMITERS
from muster.policy.operators import OperatorPolicyController, OperatorPolicyOptions
from muster.policy.operators.kinds import OPERATOR_GROUPS, SUBSCRIPTIONS
from muster.policy.resolver import Resolver
from muster.policy.standalone import HubTemplates
from muster.runtime.cache import DynamicRESTMapper, FollowedSelections
from muster.runtime.client import Conflict, KubeClient, NotFound, served
from muster.runtime.client.builtin import CORE_EVENTS
from muster.runtime.client.gate import Gate
from muster.runtime.controller import ControllerContext, Manager, Runnable
from tests.support.in_process import serving
from tests.support.mortal_hub import Life, Mortal
from tests.support.mortal_site import ADMINISTRATOR, CLUSTER, MortalSite
from tests.support.scripted_olm import CATALOG, CATALOG_NAMESPACE, Package, ScriptedOLM, install_kinds

OPERATORS = "quay"
POLICIES = served(OperatorPolicy)
KINDS = tuple(kind for kind in POLICY if kind.name == str(POLICIES))
QUAY = Package("quay-operator", {"stable-3.10": ["quay-operator.v3.10.0", "quay-operator.v3.10.1"]})


def subscription(**fields: Any) -> Object:
    """As a policy wants it; a field that is None is left out."""
    wanted = {
        "name": QUAY.name,
        "namespace": OPERATORS,
        "channel": QUAY.default_channel,
        "source": CATALOG,
        "sourceNamespace": CATALOG_NAMESPACE,
        **fields,
    }
    return {field: value for field, value in wanted.items() if value is not None}


def operator_policy(name: str, *, namespace: str = CLUSTER, **spec: Any) -> Object:
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "remediationAction": "enforce",
            "complianceType": "musthave",
            "upgradeApproval": "None",
            "subscription": subscription(),
            **spec,
        },
    }


class DistantHub(Mortal):
    """A hub by a way of its own, which is broken once its life is over."""

    way: Gate

    @property
    def gate(self) -> Gate:
        return self.way

    async def probe(self) -> None:
        await self.server_version()


class OperatorSite(MortalSite):
    step = 0.05

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.olm = ScriptedOLM(self.spoke)
        self.olm_acts = True
        """Whether OLM goes on while tests wait."""

    def distant_hub(self, life: Life) -> KubeClient:
        client = DistantHub(self.server.client(self.server.clusters["hub"], ADMINISTRATOR))
        client.life = life
        client.way = Gate(client.server, client.probe, clock=self.clock)
        return client

    async def prepare(self) -> None:
        await self.define(self.spoke, KINDS)
        for namespace in (CLUSTER, OPERATORS):
            await self.create_namespace(namespace)

    async def install_olm(self, *packages: Package) -> None:
        await install_kinds(self.spoke)
        await self.olm.prepare(*(packages or (QUAY,)))

    @asynccontextmanager
    async def controller(
        self, life: Life | None = None, *, hub: KubeClient | None = None, user: UserInfo = ADMINISTRATOR, **options: Any
    ) -> AsyncIterator[Life]:
        """While a controller lives, or until its life is over."""
        living = life or Life()
        client = self.client(CLUSTER, living, user)
        context = ControllerContext.of(client, CONTROLLER, clock=self.clock)
        selections = FollowedSelections(client, clock=self.clock)
        mapper = DynamicRESTMapper(client, clock=self.clock)
        hub_templates = HubTemplates(client, context.informers, cluster_name=CLUSTER, hub=hub, clock=self.clock)
        controller = OperatorPolicyController(
            context,
            hub_templates,
            Resolver(MANAGED_DELIMITERS),
            selections,
            mapper,
            client,
            OperatorPolicyOptions(namespaces=(CLUSTER,), **options),
            PolicyMetrics(context.metrics),
        )
        self.selections, self.metrics = selections, context.metrics
        manager = Manager()
        manager.add_context(context)
        runnables: dict[str, Runnable] = {
            "selections": selections,
            "kinds": mapper,
            "hub": hub_templates,
            "operatorpolicies": controller,
        }
        manager.add_controllers(runnables)
        async with self.living(manager.run, living):
            yield living

    # What people do.

    async def create(self, document: Object) -> Object:
        return await self.spoke.create(POLICIES, document, document["metadata"]["namespace"])

    async def change(self, name: str, **spec: Any) -> Object:
        return await self.spoke.patch(POLICIES, name, {"spec": spec}, CLUSTER)

    # What there is.

    async def status(self, name: str) -> Object:
        return (await self.spoke.get(POLICIES, name, CLUSTER)).get("status") or {}

    async def condition(self, name: str, kind: str) -> Object:
        return next((one for one in (await self.status(name)).get("conditions", ()) if one["type"] == kind), {})

    async def related(self, name: str, kind: str) -> list[Object]:
        return [one for one in (await self.status(name)).get("relatedObjects", ()) if one["object"]["kind"] == kind]

    async def object(self, resource: GVR, name: str, namespace: str = OPERATORS) -> Object | None:
        return await self.find(self.spoke, resource, name, namespace)

    async def subscription(self, name: str = QUAY.name) -> Object | None:
        return await self.object(SUBSCRIPTIONS, name)

    async def groups(self, namespace: str = OPERATORS) -> list[Object]:
        return (await self.spoke.list(OPERATOR_GROUPS, namespace)).items

    async def messages(self, owner: str) -> list[str]:
        """What the owner of a policy was told, the oldest first."""
        found = [one for one in (await self.spoke.list(CORE_EVENTS, CLUSTER)).items if one["involvedObject"]["name"] == owner]
        return [one["message"] for one in sorted(found, key=lambda one: int(one["metadata"]["name"].rpartition(".")[2], 16))]

    # Waiting.

    async def others_act(self) -> None:
        if self.olm_acts:
            with suppress(Conflict, NotFound):
                await self.olm.step()

    async def reported(self, name: str, compliant: str, words: str = "", moving: float = 0.05) -> Object:
        """The status of a policy, once it says so."""
        seen: list[Any] = []

        async def look() -> Object | None:
            status = await self.status(name)
            message = next((one["message"] for one in status.get("conditions", ()) if one["type"] == "Compliant"), "")
            seen[:] = [message]
            return status if status.get("compliant") == compliant and words in message else None

        try:
            found: Object = await self.until(look, f"{name} to be {compliant} with {words!r}", moving=moving)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {seen}") from None
        return found


@asynccontextmanager
async def operator_site(*, olm: bool = True) -> AsyncIterator[OperatorSite]:
    async with serving("hub", CLUSTER) as server:
        site = OperatorSite(server)
        await site.prepare()
        if olm:
            await site.install_olm()
        yield site
