"""A poisoned object of every kind that the addon manager reads harms itself alone: an addon beside it comes through.

What a server's validation refuses cannot be there; so definitions here let everything pass, as those of an old version may.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.api.cluster.v1beta1 import Placement
from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CRDS, ROLE_BINDINGS, SERVICE_ACCOUNTS
from muster.runtime.client.errors import KubeError
from muster.runtime.client.typed import served
from muster.work.kinds import MANIFEST_WORKS
from tests.support.choosing import CLUSTERS, DECISIONS, GROUP
from tests.support.followed_addon import ADDON_GROUP, CONFIGS, INSTALLED, NAMESPACE, OFFERS, TEMPLATES
from tests.unit.addon.conftest import ManagerSite, until

PLACEMENTS = served(Placement)
REQUESTS = GVR("certificates.k8s.io/v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False)
LABELS = {"open-cluster-management.io/addon-name": "hello", "open-cluster-management.io/cluster-name": "c1"}
HUGE = 2**63 - 1
DEEP: Any = {}
for _ in range(60):
    DEEP = {"a": [DEEP]}
HOSTILE: tuple[Any, ...] = (None, "", "x", -1, HUGE, 1e308, True, [], [None], [[]], {}, {"a": None}, DEEP)
"""Where something else is expected."""


async def let_everything_pass(site: ManagerSite) -> None:
    for resource in (CLUSTERS, PLACEMENTS, DECISIONS, OFFERS, INSTALLED, TEMPLATES, CONFIGS, MANIFEST_WORKS):
        definition = await site.admin.get(CRDS, f"{resource.plural}.{resource.group}")
        for version in definition["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        await site.admin.update(CRDS, definition)


def everywhere(shape: Object) -> list[Object]:
    """A document with each hostile value in each place of its first two levels, one at a time."""
    found: list[Object] = []
    for key, inner in shape.items():
        found += [{**shape, key: value} for value in HOSTILE]
        if isinstance(inner, dict):
            found += [{**shape, key: {**inner, place: value}} for place in inner for value in HOSTILE]
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            found += [{**shape, key: [{**inner[0], place: value}]} for place in inner[0] for value in HOSTILE]
    return found


REFERENCE = {
    "group": ADDON_GROUP,
    "resource": "addontemplates",
    "name": "hello",
    "desiredConfig": {"name": "hello", "specHash": "x"},
}
CONDITION = {"type": "Configured", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
ADDON_STATUS = {
    "conditions": [CONDITION],
    "configReferences": [REFERENCE],
    "registrations": [{"signerName": "kubernetes.io/kube-apiserver-client", "subject": {"user": "u", "groups": ["g"]}}],
    "supportedConfigs": [{"group": ADDON_GROUP, "resource": "addontemplates"}],
    "namespace": "somewhere",
    "healthCheck": {"mode": "Lease"},
    "kubeClientDriver": "token",
}
WORK_STATUS = {
    "conditions": [{**CONDITION, "type": "Applied", "observedGeneration": 1}],
    "resourceStatus": {"manifests": [{"resourceMeta": {}, "statusFeedback": {"values": []}, "conditions": []}]},
}
OFFER = {
    "supportedConfigs": [{"group": ADDON_GROUP, "resource": "addontemplates", "defaultConfig": {"name": "hello"}}],
    "installStrategy": {"type": "Placements", "placements": [{"namespace": NAMESPACE, "name": "hello", "configs": []}]},
}
TEMPLATE = {
    "addonName": "evil",
    "agentSpec": {"workload": {"manifests": [{"kind": "X"}]}},
    "registration": [{"type": "KubeClient"}],
}
CONFIG = {
    "customizedVariables": [{"name": "A", "value": "b"}],
    "nodePlacement": {"nodeSelector": {"a": "b"}, "tolerations": []},
    "registries": [{"source": "a", "mirror": "b"}],
    "proxyConfig": {"httpProxy": "x", "caBundle": "x"},
    "agentInstallNamespace": "x",
    "resourceRequirements": [{"containerID": "*:*:*", "resources": {}}],
}


@dataclass
class Poisoned:
    """Counts what the server let pass; what it refuses all the same is refused."""

    admin: KubeClient
    passed: int = 0

    async def put(self, resource: GVR, name: str, namespace: str = "", metadata: Any = None, **rest: Any) -> None:
        place = {"name": name, **({"namespace": namespace} if namespace else {}), **(metadata or {})}
        with suppress(KubeError):
            await self.admin.create(
                resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": place, **rest}
            )
            self.passed += 1
            if "status" in rest:
                await self.patch(resource, name, namespace, {"status": rest["status"]})

    async def patch(self, resource: GVR, name: str, namespace: str, body: Object) -> None:
        with suppress(KubeError):
            await self.admin.patch(resource, name, body, namespace, subresource="status")
            self.passed += 1


async def poison_offers(hub: Poisoned) -> None:
    for number, spec in enumerate(everywhere(OFFER)):
        await hub.put(OFFERS, f"evil{number}", spec=spec)
    rollouts = [{"type": "Progressive", "progressive": {"maxConcurrency": value}} for value in HOSTILE]
    for number, rollout in enumerate(rollouts):
        placement = {"namespace": NAMESPACE, "name": "hello", "rolloutStrategy": rollout}
        strategy = {"type": "Placements", "placements": [placement]}
        await hub.put(OFFERS, f"odd{number}", spec={"installStrategy": strategy}, status=None)


async def poison_addons(hub: Poisoned) -> None:
    for number, status in enumerate(everywhere(ADDON_STATUS)):
        await hub.put(INSTALLED, f"evil{number}", "c1", spec={}, status=status)
    for number, spec in enumerate(HOSTILE):
        await hub.put(INSTALLED, f"odd{number}", "c1", spec=spec)


async def poison_the_addon_of_one_cluster(hub: Poisoned) -> None:
    """The agent of `lost` writes what it likes into the very addon that others have too."""
    for status in everywhere(ADDON_STATUS):
        await hub.patch(INSTALLED, "hello", "lost", {"status": status})


async def poison_works(hub: Poisoned) -> None:
    for number, status in enumerate(everywhere(WORK_STATUS)):
        metadata = {"labels": LABELS}
        await hub.put(MANIFEST_WORKS, f"addon-hello-deploy-{number + 1}", "lost", metadata, spec={}, status=status)


async def poison_templates(hub: Poisoned) -> None:
    for number, spec in enumerate(everywhere(TEMPLATE)):
        await hub.put(TEMPLATES, f"evil{number}", spec=spec)
        supported = [{"group": ADDON_GROUP, "resource": TEMPLATES.plural, "defaultConfig": {"name": f"evil{number}"}}]
        await hub.put(OFFERS, f"evil{number}", spec={"supportedConfigs": supported})
        await hub.put(INSTALLED, f"evil{number}", "c1", spec={})


async def poison_configs(hub: Poisoned) -> None:
    for number, spec in enumerate(everywhere(CONFIG)):
        name = f"evil{number}"
        await hub.put(CONFIGS, name, NAMESPACE, spec=spec)
        reference = {"group": ADDON_GROUP, "resource": CONFIGS.plural, "name": name, "namespace": NAMESPACE}
        supported = [{"group": ADDON_GROUP, "resource": TEMPLATES.plural, "defaultConfig": {"name": "hello"}}]
        await hub.put(OFFERS, name, spec={"supportedConfigs": supported})
        await hub.put(INSTALLED, name, "c1", spec={"configs": [reference]})


async def poison_clusters(hub: Poisoned) -> None:
    for number, value in enumerate(HOSTILE):
        annotations = {"open-cluster-management.io/image-registries": str(value), f"{ADDON_GROUP}/hosting-cluster-name": "x" * 253}
        await hub.put(CLUSTERS, f"evil{number}", metadata={"annotations": annotations}, spec=value, status={"conditions": value})


async def poison_placements(hub: Poisoned) -> None:
    for number, value in enumerate(HOSTILE):
        strategy = {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": value}}}
        await hub.put(PLACEMENTS, f"evil{number}", NAMESPACE, spec=strategy, status={"decisionGroups": value})
        labels = {f"{GROUP}/placement": f"evil{number}", f"{GROUP}/decision-group-index": "none"}
        await hub.put(DECISIONS, f"evil{number}", NAMESPACE, {"labels": labels}, status={"decisions": value})
        more = {"decisions": [{"clusterName": value, "reason": value}, {"clusterName": "../c1"}]}
        await hub.put(DECISIONS, f"odd{number}", NAMESPACE, {"labels": labels}, status=more)
        placement = {"namespace": NAMESPACE, "name": f"evil{number}"}
        spec = {"installStrategy": {"type": "Placements", "placements": [placement]}}
        await hub.put(OFFERS, f"evil{number}", spec=spec)


async def poison_requests(hub: Poisoned) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    usages = ["digital signature", "key encipherment", "client auth"]
    for number, name in enumerate(("", "x" * 64, "system:open-cluster-management:cluster:c1:addon:hello:agent:", "\u2028\x00")):
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
        asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes)).sign(key, hashes.SHA256())
        request = base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()
        for signer in ("kubernetes.io/kube-apiserver-client", "example.com/" + "s" * 200):
            spec = {"request": request, "usages": usages, "signerName": signer}
            await hub.put(REQUESTS, f"addon-c1-hello-{number}{len(signer)}", metadata={"labels": LABELS}, spec=spec)


async def poison_bindings(hub: Poisoned) -> None:
    labels = {**LABELS, "open-cluster-management.io/addon-template-name": "", f"{ADDON_GROUP}/token-infrastructure": "true"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nothing"}
    for name in ("open-cluster-management:hello:clusterrole:agent", "hello-token-role", "x" * 200):
        await hub.put(ROLE_BINDINGS, name, "c1", {"labels": labels}, roleRef=role)
        await hub.put(SERVICE_ACCOUNTS, name.rpartition(":")[2], "c1", {"labels": labels})


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "poison",
    [
        poison_offers,
        poison_addons,
        poison_the_addon_of_one_cluster,
        poison_works,
        poison_templates,
        poison_configs,
        poison_clusters,
        poison_placements,
        poison_requests,
        poison_bindings,
    ],
)
async def test_a_poisoned_object_of_every_kind_harms_itself_alone(site: ManagerSite, poison: Callable[[Poisoned], Any]) -> None:
    await site.with_clusters("c1", "c2", "lost")
    await let_everything_pass(site)
    async with site.followed("hello") as addon:
        await addon.offer(["c1", "c2", "lost"])
        async with site.managed():
            await until(addon, lambda: {"c1", "c2"} <= addon.deployed, "the addon to be there")
            hub = Poisoned(site.admin)
            await poison(hub)
            assert hub.passed >= 6
            await addon.make_cluster("later")
            before = {cluster: settings for cluster, settings in addon.settings.items() if cluster in ("c1", "c2")}
            await addon.change_settings("good evening")
            await until(addon, lambda: all(addon.has_new(one, before[one][0]) for one in ("c1", "c2")), "new settings")
        # A manager that begins with all of that there.
        async with site.managed():
            before = dict(addon.settings)
            await addon.change_settings("good night")
            await until(addon, lambda: all(addon.has_new(one, before[one][0]) for one in ("c1", "c2")), "newer settings")
