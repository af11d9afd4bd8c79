"""The objects of a managed cluster, as documents: a pure function of the plan.

An agent is a row of `COMPONENTS` or `SINGLETON_COMPONENTS`: its Deployment `<klusterlet>-<suffix>`, its account, the permissions of
that on the managed cluster and in the agent namespace, and its arguments. Objects that all Klusterlets of a cluster share (CRDs,
the namespace of addons) have the label value `SHARED` instead of a Klusterlet's name, so that they do not take them from each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api import Document, condition_of
from muster.api.crds import SPOKE, definitions
from muster.machinery.objects import GVR
from muster.operator.applier import Wanted, labelled
from muster.operator.deployments import SecretVolume, Workload, deployment
from muster.operator.klusterlet import properties
from muster.operator.klusterlet.plan import (
    CLUSTER_PROPERTY,
    KlusterletPlan,
    agent_arguments,
    work_arguments,
    work_gates,
    work_options,
)
from muster.operator.names import ADDON_NAMESPACE, EXTERNAL_MANAGED_SECRET, KLUSTERLET_LABEL
from muster.operator.pod_namespaces import RUN
from muster.registration.agent.install import ADDON_RULES, CLUSTER_RULES, NAMESPACE_RULES
from muster.registration.agent.reports.claims import PROPERTIES
from muster.registration.names import HUB_SECRET
from muster.runtime.client import served
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from muster.runtime.install import account_permissions, binding, named
from muster.work.agent import install as work

SHARED: Final = "ALL"
"""Not a valid object name, since it has capitals."""
REGISTRATION_DEGRADED: Final = "RegistrationDesiredDegraded"
WORK_DEGRADED: Final = "WorkDesiredDegraded"
HUB_CONNECTION: Final = "HubConnectionDegraded"
HUB_SECRET_MISSING: Final = "HubKubeConfigSecretMissing"
HUB_KUBECONFIG_MISSING: Final = "HubKubeConfigMissing"
MANAGED_KUBECONFIG: Final = "/spoke/config"
HUB_KUBECONFIG: Final = "/spoke/hub-kubeconfig"
HEALTH_PORT: Final = 8081


@dataclass(frozen=True)
class Component:
    suffix: str
    account_suffix: str
    role: str
    """The part of its roles' names that names it."""
    cluster_rules: Sequence[Document]
    namespace_rules: Sequence[Document]
    arguments: Callable[[KlusterletPlan], list[str]]
    degraded: tuple[str, ...]
    """The conditions that report it."""
    managed_secret: str
    """The Secret with its kubeconfig for the managed cluster, in the hosted modes."""
    app: str
    """The label by which its pods are selected. It and the container's name are upstream's, so that either operator can take over
    the other's Deployment."""
    container: str
    executes: bool = False
    """Whether it applies works: then it also has the permissions that works may need."""
    needs_hub: bool = False
    """Whether it starts only once there is a credential for the hub, which it reads from files."""

    def deployment(self, plan: KlusterletPlan) -> str:
        return f"{plan.name}-{self.suffix}"

    def account(self, plan: KlusterletPlan) -> str:
        return f"{plan.name}-{self.account_suffix}"

    def cluster_role(self, plan: KlusterletPlan) -> str:
        return f"open-cluster-management:{plan.name}-{self.role}:agent"

    def namespace_role(self, plan: KlusterletPlan) -> str:
        return f"open-cluster-management:management:{plan.name}-{self.role}:agent"


def _electing(plan: KlusterletPlan) -> list[str]:
    return ["--leader-elect"] if plan.replicas > 1 else []


def _registration(plan: KlusterletPlan) -> list[str]:
    return ["agent", *agent_arguments(plan), *_electing(plan)]


def _work(plan: KlusterletPlan) -> list[str]:
    endpoints = plan.endpoints
    hub = [f"--workload-source-driver={endpoints.name}", f"--workload-source-config={HUB_KUBECONFIG}/{endpoints.key}"]
    return ["work-agent", *hub, *work_arguments(plan), *_electing(plan)]


def _both(plan: KlusterletPlan) -> list[str]:
    gates = [gates.replace("--feature-gates", "--work-feature-gates") for gates in work_gates(plan)]
    return [*_registration(plan), "--with-work", f"--hub-kubeconfig-dir={HUB_KUBECONFIG}", *work_options(plan), *gates]


WORK_ACCOUNT: Final = "work-sa"
REGISTRATION: Final = Component(
    "registration-agent",
    "registration-sa",
    "registration",
    CLUSTER_RULES,
    NAMESPACE_RULES,
    _registration,
    (REGISTRATION_DEGRADED,),
    f"{EXTERNAL_MANAGED_SECRET}-registration",
    app="klusterlet-registration-agent",
    container="registration-controller",
)
WORK: Final = Component(
    "work-agent",
    WORK_ACCOUNT,
    "work",
    work.CLUSTER_RULES,
    work.NAMESPACE_RULES,
    _work,
    (WORK_DEGRADED,),
    f"{EXTERNAL_MANAGED_SECRET}-work",
    app="klusterlet-manifestwork-agent",
    container="klusterlet-manifestwork-agent",
    executes=True,
    needs_hub=True,
)
SINGLE_AGENT: Final = Component(
    "agent",
    WORK_ACCOUNT,
    "registration",
    (*CLUSTER_RULES, *work.CLUSTER_RULES),
    (*NAMESPACE_RULES, *work.NAMESPACE_RULES),
    _both,
    (REGISTRATION_DEGRADED, WORK_DEGRADED),
    f"{EXTERNAL_MANAGED_SECRET}-agent",
    app="klusterlet-agent",
    container="klusterlet-agent",
    executes=True,
)
COMPONENTS: Final = (REGISTRATION, WORK)
SINGLETON_COMPONENTS: Final = (SINGLE_AGENT,)
MANAGED_SECRETS: Final = tuple(component.managed_secret for component in (*COMPONENTS, *SINGLETON_COMPONENTS))


def registering(plan: KlusterletPlan) -> Component:
    """The agent that registers the cluster and its addons."""
    return SINGLE_AGENT if plan.singleton else REGISTRATION


def components(plan: KlusterletPlan) -> tuple[Component, ...]:
    return SINGLETON_COMPONENTS if plan.singleton else COMPONENTS


def owned(plan: KlusterletPlan, documents: Sequence[Wanted]) -> list[Wanted]:
    return labelled(documents, {**plan.labels, KLUSTERLET_LABEL: plan.name})


def shared(documents: Sequence[Wanted]) -> list[Wanted]:
    return labelled(documents, {KLUSTERLET_LABEL: SHARED})


def _namespace(name: str, *, pods: bool = True) -> Wanted:
    # On OpenShift, schedules the pods on the cores reserved for management workloads.
    annotations = {"workload.openshift.io/allowed": "management"}
    return NAMESPACES, {"metadata": {**named(name), "annotations": annotations, **({"labels": dict(RUN)} if pods else {})}}


def spoke_definitions(plan: KlusterletPlan) -> list[Wanted]:
    further = [properties.definition()] if plan.gate(CLUSTER_PROPERTY) else []
    return shared([(CRDS, document) for document in (*definitions(SPOKE), *further)])


def served_kinds() -> dict[str, GVR]:
    """The kinds that may have been installed for agents, by the CRD's name."""
    ours = {kind.name: served(kind.versions[0]) for kind in SPOKE}
    return {**ours, properties.DEFINITION: PROPERTIES}


def addon_namespace() -> list[Wanted]:
    return shared([_namespace(ADDON_NAMESPACE)])


def klusterlet_namespace(plan: KlusterletPlan) -> list[Wanted]:
    """The namespace on the managed cluster. Hosted agents have no pods there."""
    return owned(plan, [_namespace(plan.klusterlet_namespace, pods=not plan.hosted)])


def agent_namespace(plan: KlusterletPlan) -> list[Wanted]:
    return owned(plan, [_namespace(plan.agent_namespace)])


def managed_permissions(plan: KlusterletPlan) -> list[Wanted]:
    """Accounts and their permissions on the managed cluster. Raises BadSpec."""
    documents: list[Wanted] = [_account(plan, f"{plan.name}-{WORK_ACCOUNT}", plan.klusterlet_namespace)]
    for component in components(plan):
        account = component.account(plan)
        permissions = account_permissions(account, plan.klusterlet_namespace, component.cluster_role(plan), component.cluster_rules)
        documents += [
            _account(plan, account, plan.klusterlet_namespace) if permission[0] is SERVICE_ACCOUNTS else permission
            for permission in permissions
        ]
        if component.executes:
            documents += _execution(plan, account)
    return owned(plan, _once(documents))


def _execution(plan: KlusterletPlan, account: str) -> list[Wanted]:
    """Permissions that works may need beyond the agent's own role: Kubernetes' `admin`, and roles that are aggregated for the agent
    by label."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": plan.klusterlet_namespace}
    prefix = f"open-cluster-management:{plan.name}-work"
    aggregate = f"{prefix}:aggregate"
    return [
        (CLUSTER_ROLES, work.aggregated_role(aggregate)),
        (CLUSTER_ROLE_BINDINGS, binding(aggregate, "ClusterRole", aggregate, subject)),
        (CLUSTER_ROLE_BINDINGS, binding(f"{prefix}:execution-admin", "ClusterRole", "admin", subject)),
    ]


def management_permissions(plan: KlusterletPlan) -> list[Wanted]:
    """Accounts on the cluster of the agents, and their permissions in the agent namespace. Raises BadSpec."""
    documents: list[Wanted] = []
    for component in components(plan):
        account, role = component.account(plan), component.namespace_role(plan)
        subject = {"kind": "ServiceAccount", "name": account, "namespace": plan.agent_namespace}
        documents.append(_account(plan, account, plan.agent_namespace))
        documents.append((ROLES, {"metadata": named(role, plan.agent_namespace), "rules": list(component.namespace_rules)}))
        documents.append((ROLE_BINDINGS, binding(role, "Role", role, subject, plan.agent_namespace)))
    return owned(plan, documents)


def addon_permissions(plan: KlusterletPlan, namespaces: Sequence[str]) -> list[Wanted]:
    """The agent's permissions for addons in these namespaces of the managed cluster. Raises BadSpec."""
    role = f"open-cluster-management:{plan.name}-registration:addon-management"
    return _addon_permissions(plan, role, plan.klusterlet_namespace, namespaces)


def hosted_addon_permissions(plan: KlusterletPlan, namespaces: Sequence[str]) -> list[Wanted]:
    """The same for addons that are hosted on the agent's cluster, if that is another one. Raises BadSpec."""
    role = f"open-cluster-management:management:{plan.name}-registration:addon-management"
    return _addon_permissions(plan, role, plan.agent_namespace, namespaces)


def _addon_permissions(plan: KlusterletPlan, role: str, account_namespace: str, namespaces: Sequence[str]) -> list[Wanted]:
    """Bindings in these namespaces only: a role alone grants nothing."""
    if not plan.addons:
        return []
    account = registering(plan).account(plan)
    subject = {"kind": "ServiceAccount", "name": account, "namespace": account_namespace}
    bindings = [(ROLE_BINDINGS, binding(role, "ClusterRole", role, subject, namespace)) for namespace in namespaces]
    return owned(plan, [(CLUSTER_ROLES, {"metadata": named(role), "rules": list(ADDON_RULES)}), *bindings])


def running_in(namespaces: Sequence[str]) -> list[Wanted]:
    """Namespaces of others in which addons' pods run, on nodes that require the label; the operator does not own them."""
    return [(NAMESPACES, {"metadata": {**named(namespace), "labels": dict(RUN)}}) for namespace in namespaces]


def _account(plan: KlusterletPlan, name: str, namespace: str) -> Wanted:
    annotations = dict(plan.by_driver.annotations)
    metadata: Document = {**named(name, namespace), **({"annotations": annotations} if annotations else {})}
    return SERVICE_ACCOUNTS, {"metadata": metadata}


def _once(documents: Sequence[Wanted]) -> list[Wanted]:
    unique: list[Wanted] = []
    for document in documents:
        if document not in unique:
            unique.append(document)
    return unique


def deployments(plan: KlusterletPlan) -> list[Wanted]:
    """Raises BadSpec."""
    return owned(plan, [(DEPLOYMENTS, agent_deployment(plan, component)) for component in components(plan)])


def agent_deployment(plan: KlusterletPlan, component: Component) -> Document:
    spec = plan.klusterlet.spec
    alias = spec.hub_api_server_host_alias
    secrets = [SecretVolume("spoke-kubeconfig", component.managed_secret, MANAGED_KUBECONFIG)] if plan.hosted else []
    if component.needs_hub:
        secrets.append(SecretVolume("hub-kubeconfig", HUB_SECRET, HUB_KUBECONFIG))
    where = [f"--spoke-kubeconfig={MANAGED_KUBECONFIG}/kubeconfig"] if plan.hosted else []
    return deployment(
        Workload(
            component.deployment(plan),
            plan.agent_namespace,
            component.account(plan),
            plan.work_image if component is WORK else plan.agent_image,
            (*component.arguments(plan), *where, f"--health-port={HEALTH_PORT}"),
            container=component.container,
            app=component.app,
            replicas=_replicas(plan, component),
            health_port=HEALTH_PORT,
            # An agent whose cluster is not accepted yet is ready.
            ready_path="/healthz",
            secrets=tuple(secrets),
            scratch=_scratch(plan, component),
            # All agents authenticate to the hub with the same identity.
            tokens=plan.by_driver.tokens,
            environment=plan.by_driver.variables,
            labels={**plan.labels, KLUSTERLET_LABEL: plan.name},
            placement=spec.node_placement,
            resources=spec.resource_requirement,
            priority_class=spec.priority_class_name,
            host_aliases={alias.hostname: alias.ip} if alias else {},
        )
    )


def _scratch(plan: KlusterletPlan, component: Component) -> dict[str, str]:
    """Directories in which the registration agent writes files for others."""
    if component.needs_hub:
        return {}
    return {**plan.by_driver.scratch, **({"hub-kubeconfig": HUB_KUBECONFIG} if plan.singleton else {})}


def _replicas(plan: KlusterletPlan, component: Component) -> int:
    """Zero for an agent without a credential; but once registered it must run to clean up, even if the connection has failed."""
    connection = condition_of(plan.klusterlet.status.conditions, HUB_CONNECTION)
    missing = {HUB_SECRET_MISSING, HUB_KUBECONFIG_MISSING}
    waiting = connection is None or (connection.status == "True" and not missing.isdisjoint(connection.reason.split(",")))
    return 0 if component.needs_hub and waiting else plan.replicas
