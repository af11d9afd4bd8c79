"""The objects of a hub, as documents: a pure function of the plan and the CAs.

If the components run on the hub itself, all documents are applied there. A hosted hub gets CRDs, accounts, roles and webhook
configurations; the hosting cluster gets the Deployments, which connect to the hub by the kubeconfig of their account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.api import Document
from muster.api.addon.v1alpha1 import ClusterManagementAddOn
from muster.api.crds import ACCOUNTS, HUB, definitions
from muster.gateway import apiservice
from muster.gateway.permissions import credentials_namespace
from muster.operator.applier import Wanted, labelled
from muster.operator.cluster_manager import exposure
from muster.operator.cluster_manager.components import (
    CA_BUNDLE,
    COMPONENTS,
    GATEWAY,
    PLACEMENT_CONTROLLER,
    SERVERS,
    Component,
    Webhooks,
    account_secret,
    wanted,
)
from muster.operator.cluster_manager.plan import DEBUG_PORT, ClusterManagerPlan, account_annotations, driver_rules
from muster.operator.deployments import SecretVolume, Workload, deployment
from muster.operator.hub_addons import HUB_ADDONS
from muster.operator.names import CLUSTER_MANAGER_LABEL
from muster.operator.pod_namespaces import RUN
from muster.registration.hub.install import ACCOUNT, conversion, driver_permissions
from muster.runtime.client import served
from muster.runtime.client.builtin import API_SERVICES, CONFIG_MAPS, CRDS, DEPLOYMENTS, NAMESPACES, SERVICE_ACCOUNTS, SERVICES
from muster.runtime.install import account_permissions, named
from muster.runtime.webhook import Endpoint
from muster.work.hub.install import executor_admin

CERTIFICATES: Final = "/serving-certs"
HUB_KUBECONFIG: Final = "/hub-kubeconfig"
SERVICE_PORT: Final = 9443
CLUSTER_ADDONS: Final = served(ClusterManagementAddOn)
HEALTH_PORT: Final = 8081
CONFIG_HASH: Final = "operator.open-cluster-management.io/hash-of"
"""The prefix of the pod annotations with configuration hashes, followed by the ConfigMap's name."""
_NO_HASHES: Final[Mapping[str, str]] = {}

REMOVED_FIRST: Final = ("managedclusteraddons", "manifestworks", "managedclusters", "manifestworkreplicasets")
"""CRDs that are deleted before the others, in this order: each waits for its objects, and these for the kinds before."""


def owned(plan: ClusterManagerPlan, documents: Sequence[Wanted]) -> list[Wanted]:
    return labelled(documents, {CLUSTER_MANAGER_LABEL: plan.name})


def namespace(name: str, *, host_network: bool = False, pods: bool = False) -> Wanted:
    level = "privileged" if host_network else "restricted"
    labels = {"pod-security.kubernetes.io/enforce": level, **(RUN if pods else {})}
    return NAMESPACES, {"metadata": {**named(name), "labels": labels}}


def component_namespace(plan: ClusterManagerPlan) -> Wanted:
    host_network = any(plan.bind(webhooks.field).host_network for _, webhooks in SERVERS)
    return namespace(plan.namespace, host_network=host_network, pods=True)


def trust_bundle(plan: ClusterManagerPlan, authorities: Sequence[bytes]) -> Wanted:
    text = "".join(f"{ca.decode().strip()}\n" for ca in authorities)
    return CONFIG_MAPS, {"metadata": named(CA_BUNDLE, plan.namespace), "data": {"ca-bundle.crt": text}}


def webhook_hosts(plan: ClusterManagerPlan, webhooks: Webhooks) -> list[str]:
    """The host names under which the hub connects to them. Raises BadSpec."""
    if plan.hosted:
        return [plan.hosted_webhook(webhooks.field).address]
    service = f"{webhooks.service}.{plan.namespace}"
    return [f"{service}.svc", service, f"{service}.svc.cluster.local"]


def webhook_endpoint(plan: ClusterManagerPlan, webhooks: Webhooks, ca: bytes) -> Endpoint:
    """Raises BadSpec."""
    if plan.hosted:
        configured = plan.hosted_webhook(webhooks.field)
        return Endpoint(ca, f"https://{configured.address}:{configured.port}")
    return Endpoint(ca, namespace=plan.namespace, port=SERVICE_PORT, service=webhooks.service)


def hub_definitions(converter: Endpoint) -> list[Wanted]:
    return [(CRDS, document) for document in definitions(HUB, conversion(converter))]


def account_definitions() -> list[Wanted]:
    """The CRDs of the account bindings and their subjects."""
    return [(CRDS, document) for document in definitions(ACCOUNTS)]


def addon_definitions(plan: ClusterManagerPlan) -> list[Wanted]:
    """The CRDs of Muster's own addons that no other component needs."""
    kinds = [kind for name in plan.hub_addons for kind in HUB_ADDONS[name].kinds]
    return [(CRDS, document) for document in definitions(kinds)]


def hub_addons(plan: ClusterManagerPlan) -> list[Wanted]:
    return [(CLUSTER_ADDONS, HUB_ADDONS[name].definition()) for name in plan.hub_addons]


def hub_permissions(plan: ClusterManagerPlan) -> list[Wanted]:
    """Accounts and their permissions on the hub. Raises BadSpec."""
    accounts = accounts_and_roles(plan, wanted(plan))
    accounts += driver_permissions(plan.hub_namespace, driver_rules(plan))
    return accounts if plan.hosted else _with_annotations(plan, accounts)


def accounts_and_roles(plan: ClusterManagerPlan, components: Sequence[Component] = COMPONENTS) -> list[Wanted]:
    documents: list[Wanted] = [executor_admin(plan.name)]
    for component in components:
        role, rules = component.cluster_role(plan), component.may(plan)
        documents += account_permissions(component.account, plan.hub_namespace, role, rules)
        documents += component.more_permissions(plan)
    return documents


def _with_annotations(plan: ClusterManagerPlan, documents: list[Wanted]) -> list[Wanted]:
    """Adds the annotations of registration drivers to the controllers' account, where they run."""
    annotations = account_annotations(plan)
    if not annotations:
        return documents
    return [_annotated(document, annotations) if _is_account(document, ACCOUNT) else document for document in documents]


def _is_account(wanted: Wanted, name: str) -> bool:
    return wanted[0] is SERVICE_ACCOUNTS and wanted[1]["metadata"]["name"] == name


def _annotated(wanted: Wanted, annotations: Mapping[str, str]) -> Wanted:
    resource, document = wanted
    return resource, {**document, "metadata": {**document["metadata"], "annotations": dict(annotations)}}


def components(plan: ClusterManagerPlan, hashes: Mapping[str, str] = _NO_HASHES) -> list[Wanted]:
    """On the cluster of the components: Services, and the Deployments. `hashes` are those of users' ConfigMaps, by name: a
    component that reads one at its start is rolled out again when it changes. Raises BadSpec."""
    documents: list[Wanted] = []
    if plan.hosted:
        accounts = [component.account for component in wanted(plan)]
        documents += _with_annotations(plan, [(SERVICE_ACCOUNTS, {"metadata": named(name, plan.namespace)}) for name in accounts])
    documents += [(SERVICES, _service(plan, component, webhooks)) for component, webhooks in SERVERS]
    if plan.grpc_server:
        documents.append((SERVICES, exposure.service(plan)))
    if plan.placement_debug:
        documents.append((SERVICES, _debug_service(plan)))
    if plan.gateway:
        documents.append((SERVICES, _gateway_service(plan)))
    documents += [(DEPLOYMENTS, deployment(_workload(plan, component, hashes))) for component in wanted(plan)]
    return documents


def _service(plan: ClusterManagerPlan, component: Component, webhooks: Webhooks) -> Document:
    port = {"name": "webhook", "port": SERVICE_PORT, "targetPort": plan.bind(webhooks.field).port, "protocol": "TCP"}
    return {
        "metadata": named(webhooks.service, plan.namespace),
        "spec": {"selector": component.selected_by(plan), "ports": [port]},
    }


def debug_service_name(plan: ClusterManagerPlan) -> str:
    return f"{plan.name}-placement"


def _debug_service(plan: ClusterManagerPlan) -> Document:
    port = {"name": "https", "port": DEBUG_PORT, "targetPort": DEBUG_PORT, "protocol": "TCP"}
    return {
        "metadata": named(debug_service_name(plan), plan.namespace),
        "spec": {"selector": PLACEMENT_CONTROLLER.selected_by(plan), "ports": [port]},
    }


def _gateway_service(plan: ClusterManagerPlan) -> Document:
    port = {"name": "https", "port": apiservice.SERVICE_PORT, "targetPort": apiservice.PORT, "protocol": "TCP"}
    return {
        "metadata": named(apiservice.SERVICE, plan.namespace),
        "spec": {"selector": GATEWAY.selected_by(plan), "ports": [port]},
    }


def gateway_on_hosted_hub(plan: ClusterManagerPlan) -> list[Wanted]:
    """An ExternalName Service on a remote hub that leads to the gateway. Raises BadSpec."""
    host, port = plan.gateway_address
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    spec = {"type": "ExternalName", "externalName": host, "ports": ports}
    return [credentials_namespace(), (SERVICES, {"metadata": named(apiservice.SERVICE, plan.hub_namespace), "spec": spec})]


def gateway_api_services(plan: ClusterManagerPlan, ca: bytes) -> list[Wanted]:
    """Raises BadSpec."""
    port = plan.gateway_address[1] if plan.hosted else apiservice.SERVICE_PORT
    served = apiservice.api_services(plan.gateway_version, oam=plan.gateway_oam)
    return [(API_SERVICES, apiservice.api_service(group, version, plan.hub_namespace, ca, port)) for group, version in served]


def _workload(plan: ClusterManagerPlan, component: Component, hashes: Mapping[str, str]) -> Workload:
    spec = plan.manager.spec
    read = {config_map.config_map for config_map in component.config_maps}
    bind = plan.bind(component.webhooks.field) if component.webhooks else None
    return Workload(
        component.deployment(plan),
        plan.namespace,
        component.account,
        component.image(plan),
        _arguments(plan, component),
        container=component.container(plan),
        app=component.app,
        replicas=plan.replicas,
        health_port=bind.health_probe_port if bind else HEALTH_PORT,
        ports={"webhook": bind.port} if bind else component.ports(plan),
        secrets=_secrets(plan, component),
        config_maps=component.config_maps,
        tokens=component.tokens(plan),
        environment=component.variables(plan),
        labels={CLUSTER_MANAGER_LABEL: plan.name},
        pod_annotations={f"{CONFIG_HASH}-{name}": value for name, value in hashes.items() if name in read},
        placement=spec.node_placement,
        resources=spec.resource_requirement,
        host_network=bind is not None and bind.host_network,
        automount=not plan.hosted,
    )


def _arguments(plan: ClusterManagerPlan, component: Component) -> tuple[str, ...]:
    arguments = [component.command, *component.flags, f"--namespace={plan.hub_namespace}", "--health-host=$(POD_IP)"]
    if component.webhooks is not None:
        bind = plan.bind(component.webhooks.field)
        arguments += [f"--webhook-cert-dir={CERTIFICATES}", "--webhook-host=$(POD_IP)"]
        arguments += [f"--webhook-port={bind.port}", f"--health-port={bind.health_probe_port}"]
    if plan.hosted:
        arguments.append(f"--kubeconfig={HUB_KUBECONFIG}/kubeconfig")
    return (*arguments, *component.settings(plan))


def _secrets(plan: ClusterManagerPlan, component: Component) -> tuple[SecretVolume, ...]:
    secrets = [SecretVolume("hub-kubeconfig", account_secret(component.account), HUB_KUBECONFIG)] if plan.hosted else []
    if component.webhooks is not None:
        secrets.append(SecretVolume("certificates", component.webhooks.secret, CERTIFICATES))
    return (*secrets, *component.secrets(plan))


def webhook_configurations(plan: ClusterManagerPlan, webhooks: Webhooks, endpoint: Endpoint) -> list[Wanted]:
    return [(hook.resource, hook.document(endpoint)) for hook in webhooks.wanted(plan)]


def definitions_in_order_of_removal() -> list[str]:
    names = {kind.resource.plural: kind.name for kind in (*HUB, *ACCOUNTS)}
    first = [names[plural] for plural in REMOVED_FIRST]
    return [*first, *(name for name in names.values() if name not in first)]
