"""What upstream's operators have made becomes the operator's own: nothing of theirs is left in it, or beside it."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.operator.adoption import UPSTREAM_FIELDS
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR
from muster.operator.cluster_manager.components import CA_BUNDLE, HOOKS
from muster.operator.names import CLUSTER_MANAGERS, KLUSTERLETS, UPSTREAM_KLUSTERLET_LABEL
from muster.registration.hub.install import WEBHOOK_SECRET
from muster.registration.names import AGENT_NAMESPACE, HUB_NAMESPACE
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, DEPLOYMENTS, SECRETS
from muster.runtime.install import binding, ensure_namespace
from muster.runtime.webhook import Endpoint
from muster.runtime.webhook.certificates import make_pair
from tests.unit.operator import conftest
from tests.unit.operator.hubs import CM
from tests.unit.operator.hubs import operated as operated_hub
from tests.unit.operator.spokes import IMAGE, WORK_AGENT, Hub, K, operated

Cluster = conftest.Cluster
ADDONS_RIGHT = f"open-cluster-management:{K}-registration:addon-management"
THEIRS = {UPSTREAM_KLUSTERLET_LABEL: K}


def upstreams(name: str = WORK_AGENT, app: str = "klusterlet-manifestwork-agent") -> Object:
    """An agent's Deployment as upstream's operator makes it, in short."""
    container: dict[str, Any] = {"name": "klusterlet-manifestwork-agent", "image": "quay.io/open-cluster-management/work:v1.2.1"}
    container |= {
        "args": ["/work", "agent"],
        "volumeMounts": [{"name": "hub-kubeconfig-secret", "mountPath": "/spoke/hub-kubeconfig"}],
    }
    volumes = [{"name": "hub-kubeconfig-secret", "secret": {"secretName": "hub-kubeconfig-secret"}}]
    template = {"metadata": {"labels": {"app": app, **THEIRS}}, "spec": {"containers": [container], "volumes": volumes}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": app}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": AGENT_NAMESPACE, "labels": THEIRS},
        "spec": spec,
    }


async def installed(here: Cluster, *documents: Object, bindings: tuple[str, ...] = ()) -> None:
    """A Klusterlet whose status says that upstream's operator has made these, which it has."""
    await here.surround(KLUSTERLET_OPERATOR)
    await ensure_namespace(here.admin, AGENT_NAMESPACE)
    related = [
        {"group": "apps", "version": "v1", "resource": "deployments", "namespace": AGENT_NAMESPACE, "name": one["metadata"]["name"]}
        for one in documents
    ]
    for document in documents:
        await here.admin.create(DEPLOYMENTS, document, manager=UPSTREAM_FIELDS)
    related += [
        {"group": CLUSTER_ROLE_BINDINGS.group, "version": "v1", "resource": "clusterrolebindings", "namespace": "", "name": name}
        for name in bindings
    ]
    klusterlet = {"apiVersion": KLUSTERLETS.api_version, "kind": KLUSTERLETS.kind, "metadata": {"name": K}, "spec": {}}
    await here.admin.create(KLUSTERLETS, {**klusterlet, "spec": {"clusterName": "c1"}})
    await here.admin.patch(KLUSTERLETS, K, {"status": {"relatedResources": related}}, subresource="status")


async def bound(here: Cluster, name: str, labels: dict[str, str]) -> None:
    document = binding(
        name, "ClusterRole", "view", {"kind": "ServiceAccount", "name": f"{K}-registration-sa", "namespace": AGENT_NAMESPACE}
    )
    document["metadata"]["labels"] = labels
    await here.admin.create(
        CLUSTER_ROLE_BINDINGS, {"apiVersion": CLUSTER_ROLE_BINDINGS.api_version, "kind": "ClusterRoleBinding", **document}
    )


async def test_of_upstreams_deployment_nothing_is_left_but_its_name(here: Cluster) -> None:
    await installed(here, upstreams())
    before = await here.admin.get(DEPLOYMENTS, WORK_AGENT, AGENT_NAMESPACE)
    async with operated(here, Hub(here)) as spoke:
        await spoke.says("Applied", "True")
        after = await spoke.deployment(WORK_AGENT)
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "its pods are replaced one after the other"
    assert THEIRS.items().isdisjoint(after["metadata"]["labels"].items())
    pod = after["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    assert container["args"][0] == "work-agent"
    assert (
        {one["name"] for one in pod["volumes"]} == {one["name"] for one in container["volumeMounts"]} == {"hub-kubeconfig", "tmp"}
    )
    assert UPSTREAM_FIELDS not in {one["manager"] for one in after["metadata"]["managedFields"]}


async def test_a_deployment_of_another_selector_is_made_anew(here: Cluster) -> None:
    await installed(here, upstreams(app="elsewise"))
    before = await here.admin.get(DEPLOYMENTS, WORK_AGENT, AGENT_NAMESPACE)
    async with operated(here, Hub(here)) as spoke:
        await spoke.says("Applied", "True")
        after = await spoke.deployment(WORK_AGENT)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["selector"] == {"matchLabels": {"app": "klusterlet-manifestwork-agent"}}


async def test_rights_that_only_upstream_grants_end_and_others_that_the_status_names_do_not(here: Cluster) -> None:
    """The status could be written by somebody who may not delete: what is not upstream's for this Klusterlet stays."""
    for name, labels in ((ADDONS_RIGHT, THEIRS), ("somebodys", {}), ("of-another", {UPSTREAM_KLUSTERLET_LABEL: "another"})):
        await bound(here, name, labels)
    await installed(here, bindings=(ADDONS_RIGHT, "somebodys", "of-another", "gone-already"))
    async with operated(here, Hub(here)) as spoke:
        await spoke.says("Applied", "True")
        assert await here.find(CLUSTER_ROLE_BINDINGS, ADDONS_RIGHT) is None
        assert await here.find(CLUSTER_ROLE_BINDINGS, "somebodys") is not None
        assert await here.find(CLUSTER_ROLE_BINDINGS, "of-another") is not None
        status = (await here.admin.get(KLUSTERLETS, K))["status"]
        assert ADDONS_RIGHT not in {one["name"] for one in status["relatedResources"] if one["resource"] == "clusterrolebindings"}


async def test_upstreams_webhooks_are_believed_until_ours_are_there(here: Cluster) -> None:
    """Their pods go on with the certificate that upstream's operator has made, or take ours from the Secret: nobody knows when."""
    await here.surround(CLUSTER_MANAGER_OPERATOR)
    await ensure_namespace(here.admin, HUB_NAMESPACE)
    theirs, hook = make_pair(["theirs"], SYSTEM.now(), timedelta(days=30)), HOOKS[0]
    data = {key: base64.b64encode(value).decode() for key, value in (("tls.crt", theirs.cert), ("tls.key", theirs.key))}
    secret = {"metadata": {"name": WEBHOOK_SECRET, "namespace": HUB_NAMESPACE}, "type": "kubernetes.io/tls", "data": data}
    await here.admin.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", **secret})
    bundle = {"metadata": {"name": CA_BUNDLE, "namespace": HUB_NAMESPACE}, "data": {"ca-bundle.crt": theirs.ca.decode()}}
    await here.admin.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **bundle})
    configuration = hook.document(Endpoint(theirs.ca, namespace=HUB_NAMESPACE, service="theirs"))
    await here.admin.apply(hook.resource, configuration, manager=UPSTREAM_FIELDS)
    document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": CLUSTER_MANAGERS.kind, "metadata": {"name": CM}, "spec": {}}
    await here.admin.create(CLUSTER_MANAGERS, document)
    kind = {"group": hook.resource.group, "version": "v1", "resource": hook.resource.plural}
    related = [{**kind, "namespace": "", "name": hook.name}]
    await here.admin.patch(CLUSTER_MANAGERS, CM, {"status": {"relatedResources": related}}, subresource="status")
    async with operated_hub(here) as hub:
        await hub.says("Applied", "True")
        trusted = (await here.admin.get(hook.resource, hook.name))["webhooks"][0]["clientConfig"]["caBundle"]
        stored = (await here.admin.get(SECRETS, WEBHOOK_SECRET, HUB_NAMESPACE))["data"]
    assert stored["tls.crt"] != data["tls.crt"]
    assert trusted == stored["ca.crt"]
    authorities = base64.b64decode(trusted)
    assert authorities.endswith(theirs.ca)
    assert len(authorities) > len(theirs.ca)
