"""What a hub consists of, as documents: a pure function of the plan and of whom to trust.

A component is a row of `COMPONENTS`: its Deployment `<name>-<suffix>`, its account with rights of its own, its arguments. Where the
hub is the cluster that the components run on, all documents go to that one. A hosted hub gets definitions, accounts, roles and
webhook configurations; the cluster that hosts it gets the Deployments, which find the hub by the kubeconfig of their account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from muster.api import Document
from muster.api.crds import HUB, definitions
from muster.api.operator.v1 import BindConfiguration, DefaultWebhookConfiguration
from muster.operator.applying import Wanted, labelled
from muster.operator.cluster_manager.plan import Plan, identity_creator, registration_arguments
from muster.operator.deployments import SecretVolume, Workload, deployment
from muster.operator.names import CLUSTER_MANAGER_LABEL, DEPLOYMENTS, SERVICES
from muster.operator.spec import ROLE_ARN
from muster.registration.hub.install import (
    ACCOUNT,
    HOOKS,
    HUB_WORK,
    SERVICE,
    WEBHOOK_SECRET,
    WEBHOOK_WORK,
    WebhookEndpoint,
    handed_out,
)
from muster.registration.installing import SERVICE_ACCOUNTS, account_permissions, named
from muster.runtime.resource import CONFIG_MAPS, DEFINITIONS, NAMESPACES

CA_BUNDLE: Final = "ca-bundle-configmap"
WEBHOOK_ACCOUNT: Final = "registration-webhook-sa"
CERTIFICATES: Final = "/serving-certs"
HUB_KUBECONFIG: Final = "/hub-kubeconfig"
SERVICE_PORT: Final = 9443

REMOVED_FIRST: Final = ("managedclusteraddons", "manifestworks", "managedclusters", "manifestworkreplicasets")
"""Definitions that go before the others, in this order: each waits for its objects, and those for the ones before."""


@dataclass(frozen=True)
class Component:
    """`degraded` is the condition that tells of it; `rules` are what its account may do on the hub."""

    suffix: str
    account: str
    role: str
    rules: Callable[[], Sequence[Document]]
    workload: Callable[[Plan, Workload], Workload]
    degraded: str

    def deployment(self, plan: Plan) -> str:
        return f"{plan.name}-{self.suffix}"

    def cluster_role(self, plan: Plan) -> str:
        return f"open-cluster-management:{plan.name}-{self.role}"


def _bind(plan: Plan) -> BindConfiguration:
    option = plan.manager.spec.deploy_option
    if plan.hosted:
        return plan.hosted_webhook.bind_configuration
    configured = option.default.registration_webhook_configuration if option.default else DefaultWebhookConfiguration()
    return configured.bind_configuration


def _controller(plan: Plan, workload: Workload) -> Workload:
    arguments = ("hub", "--no-install", "--no-webhook", f"--namespace={plan.hub_namespace}", "--health-host=$(POD_IP)")
    return replace(workload, args=(*arguments, *_connection(plan), *registration_arguments(plan)))


def _webhook(plan: Plan, workload: Workload) -> Workload:
    bind = _bind(plan)
    gates = [argument for argument in registration_arguments(plan) if argument.startswith("--feature-gates=")]
    arguments = (
        "hub",
        "--no-install",
        "--no-controllers",
        f"--namespace={plan.hub_namespace}",
        f"--webhook-cert-dir={CERTIFICATES}",
        "--webhook-host=$(POD_IP)",
        f"--webhook-port={bind.port}",
        "--health-host=$(POD_IP)",
        f"--health-port={bind.health_probe_port}",
    )
    certificates = SecretVolume("certificates", WEBHOOK_SECRET, CERTIFICATES)
    return replace(
        workload,
        args=(*arguments, *_connection(plan), *gates),
        ports={"webhook": bind.port},
        health_port=bind.health_probe_port,
        secrets=(*workload.secrets, certificates),
        host_network=bind.host_network,
    )


def _connection(plan: Plan) -> tuple[str, ...]:
    return (f"--kubeconfig={HUB_KUBECONFIG}/kubeconfig",) if plan.hosted else ()


CONTROLLER: Final = Component(
    "registration-controller",
    ACCOUNT,
    "registration:controller",
    lambda: (*HUB_WORK, *handed_out()),
    _controller,
    "HubRegistrationDegraded",
)
WEBHOOK: Final = Component(
    "registration-webhook", WEBHOOK_ACCOUNT, "registration:webhook", lambda: WEBHOOK_WORK, _webhook, "HubRegistrationDegraded"
)
COMPONENTS: Final = (CONTROLLER, WEBHOOK)
ACCOUNTS: Final = tuple(dict.fromkeys(component.account for component in COMPONENTS))


def account_secret(account: str) -> str:
    """Where, beside the components of a hosted hub, an account's kubeconfig is."""
    return f"{account}-kubeconfig"


HUB_ACCOUNT_SECRETS: Final = tuple(account_secret(account) for account in ACCOUNTS)


def owned(plan: Plan, documents: Sequence[Wanted]) -> list[Wanted]:
    return labelled(documents, {CLUSTER_MANAGER_LABEL: plan.name})


def namespace(name: str, *, host_network: bool = False) -> Wanted:
    level = "privileged" if host_network else "restricted"
    return NAMESPACES, {"metadata": {**named(name), "labels": {"pod-security.kubernetes.io/enforce": level}}}


def component_namespace(plan: Plan) -> Wanted:
    return namespace(plan.namespace, host_network=_bind(plan).host_network)


def trust_bundle(plan: Plan, ca: bytes) -> Wanted:
    return CONFIG_MAPS, {"metadata": named(CA_BUNDLE, plan.namespace), "data": {"ca-bundle.crt": ca.decode()}}


def webhook_hosts(plan: Plan) -> list[str]:
    """Under which names the hub reaches its webhooks."""
    if plan.hosted:
        return [plan.hosted_webhook.address]
    service = f"{SERVICE}.{plan.namespace}"
    return [f"{service}.svc", service, f"{service}.svc.cluster.local"]


def webhook_endpoint(plan: Plan, ca: bytes) -> WebhookEndpoint:
    if plan.hosted:
        configured = plan.hosted_webhook
        return WebhookEndpoint(ca, f"https://{configured.address}:{configured.port}")
    return WebhookEndpoint(ca, namespace=plan.namespace, port=SERVICE_PORT)


def hub_definitions(endpoint: WebhookEndpoint) -> list[Wanted]:
    return [(DEFINITIONS, document) for document in definitions(HUB, endpoint.conversion())]


def hub_permissions(plan: Plan) -> list[Wanted]:
    """On the hub: accounts and what they may do. Raises BadSpec."""
    accounts = accounts_and_roles(plan)
    return accounts if plan.hosted else _with_aws_role(plan, accounts)


def accounts_and_roles(plan: Plan) -> list[Wanted]:
    documents: list[Wanted] = []
    for component in COMPONENTS:
        rules = component.rules()
        documents += account_permissions(component.account, plan.hub_namespace, component.cluster_role(plan), rules)
    return documents


def _with_aws_role(plan: Plan, documents: list[Wanted]) -> list[Wanted]:
    """The controllers' account, where they run, is tied to the role as which they make identities."""
    role_arn = identity_creator(plan)
    if not role_arn:
        return documents
    return [_annotated(one, {ROLE_ARN: role_arn}) if _is_account(one, ACCOUNT) else one for one in documents]


def _is_account(wanted: Wanted, name: str) -> bool:
    return wanted[0] is SERVICE_ACCOUNTS and wanted[1]["metadata"]["name"] == name


def _annotated(wanted: Wanted, annotations: Mapping[str, str]) -> Wanted:
    resource, document = wanted
    return resource, {**document, "metadata": {**document["metadata"], "annotations": dict(annotations)}}


def components(plan: Plan) -> list[Wanted]:
    """Where the components run: the Service of the webhooks, and the Deployments."""
    documents: list[Wanted] = []
    if plan.hosted:
        accounts: list[Wanted] = [(SERVICE_ACCOUNTS, {"metadata": named(account, plan.namespace)}) for account in ACCOUNTS]
        documents += _with_aws_role(plan, accounts)
    documents.append((SERVICES, _service(plan)))
    documents += [(DEPLOYMENTS, deployment(component.workload(plan, _workload(plan, component)))) for component in COMPONENTS]
    return documents


def _service(plan: Plan) -> Document:
    port = {"name": "webhook", "port": SERVICE_PORT, "targetPort": _bind(plan).port, "protocol": "TCP"}
    return {
        "metadata": named(SERVICE, plan.namespace),
        "spec": {"selector": {"app": WEBHOOK.deployment(plan)}, "ports": [port]},
    }


def _workload(plan: Plan, component: Component) -> Workload:
    spec = plan.manager.spec
    hub = SecretVolume("hub-kubeconfig", account_secret(component.account), HUB_KUBECONFIG)
    return Workload(
        component.deployment(plan),
        plan.namespace,
        component.account,
        plan.registration_image,
        (),
        replicas=plan.replicas,
        secrets=(hub,) if plan.hosted else (),
        labels={CLUSTER_MANAGER_LABEL: plan.name},
        placement=spec.node_placement,
        resources=spec.resource_requirement,
        automount=not plan.hosted,
    )


def webhook_configurations(endpoint: WebhookEndpoint) -> list[Wanted]:
    return [(hook.resource, hook.document(endpoint)) for hook in HOOKS]


def definitions_in_order_of_removal() -> list[str]:
    names = {kind.resource.plural: kind.name for kind in HUB}
    first = [names[plural] for plural in REMOVED_FIRST]
    return [*first, *(name for name in names.values() if name not in first)]
