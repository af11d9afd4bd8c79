"""Manifests of the policy controller for a cluster: CRDs, service account and permissions, Deployment, and the uninstall hook.

Names, labels, command line, mounts and environment are those that OCM's policy addon controller renders: a cluster can be
migrated from one to the other, and either image can be used, since Muster's image contains a program `config-policy-controller`
too. The controller may do everything on its cluster, because policies may be about every kind.

On a hosting cluster everything is in the namespace of the hosted cluster, with its policies, and the controller's permissions
there are limited to what it needs for them; it reaches the managed cluster with a kubeconfig that others provide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from muster.addon.agent_pods import container_basics, install_namespace, pod_basics, probe
from muster.api.addons import DELETION_ORPHAN, HOSTED_MANIFEST_LOCATION, PRE_DELETE, hub_kubeconfig_secret
from muster.api.crds import POLICY, definitions
from muster.api.policy.v1 import GROUP, ConfigurationPolicy
from muster.api.policy.v1beta1 import OperatorPolicy
from muster.machinery.objects import Object
from muster.policy.addons.settings import ControllerSettings
from muster.policy.names import CONFIG_POLICY_ADDON, POLICIES_NAMESPACE, STANDALONE_ADDON, UNINSTALLING_ANNOTATION
from muster.runtime.install import RBAC_GROUP, READ, binding, named, rule

PROGRAM: Final = "config-policy-controller"
ACCOUNT: Final = f"{CONFIG_POLICY_ADDON}-sa"
ROLE: Final = f"open-cluster-management:{CONFIG_POLICY_ADDON}"
UNINSTALL: Final = f"{CONFIG_POLICY_ADDON}-uninstall"
KINDS: Final = tuple(kind for kind in POLICY if kind.versions in ((ConfigurationPolicy,), (OperatorPolicy,)))
"""CRDs of policies without the framework: the kind Policy is not among them."""
HUB_FILES: Final = "/var/run/klusterlet"
STANDALONE_FILES: Final = "/var/run/standalone-hub-templating"
MANAGED_FILES: Final = "/var/run/managed-kubeconfig"
HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 8383
_LABELS: Final = {"app": CONFIG_POLICY_ADDON, "release": CONFIG_POLICY_ADDON}

_EVERYTHING: Final = (
    rule("*", ["*"], ["*"]),
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
_PLURALS: Final = [kind.resource.plural for kind in KINDS]
_HOSTED: Final = (
    rule(GROUP, _PLURALS, [*READ, "patch", "update"]),
    rule(GROUP, [f"{plural}/status" for plural in _PLURALS], ["get", "patch", "update"]),
    rule("", ["secrets"], [*READ, "create", "patch", "update", "delete"]),
    rule("", ["events"], [*READ, "create", "patch", "update"]),
    rule("events.k8s.io", ["events"], [*READ, "create", "patch", "update"]),
    rule("", ["pods"], ["get", "list"]),
    rule("apps", ["deployments"], [*READ, "patch", "update"], [CONFIG_POLICY_ADDON]),
    rule("coordination.k8s.io", ["leases"], [*READ, "create", "patch", "update", "delete"]),
)
_DEFINITIONS: Final = (rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ, [kind.name for kind in KINDS]),)


@dataclass(frozen=True)
class ControllerPlan:
    cluster: str
    namespace: str
    image: str
    settings: ControllerSettings
    hosted: bool = False
    hub_templates: bool = False
    """Whether it resolves hub templates, with the user of the standalone addon."""
    uninstalling: bool = False

    @property
    def policies(self) -> str:
        """Namespace of its policies."""
        return self.namespace if self.hosted else self.cluster


def fixed_manifests(plan: ControllerPlan) -> list[Object]:
    """All manifests except the workloads."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": plan.namespace}
    rights = _hosted_rights(plan, subject) if plan.hosted else _rights(subject)
    return [
        *install_namespace(plan.namespace),
        *([] if plan.hosted else [_policies_namespace()]),
        *definitions(KINDS),
        _object("v1", "ServiceAccount", {"metadata": {**named(ACCOUNT, plan.namespace), "labels": dict(_LABELS)}}),
        *rights,
        *([_metrics_service(plan)] if plan.settings.metrics else []),
    ]


def _policies_namespace() -> Object:
    """It is kept when the addon is removed, because people may have other objects in it."""
    return _object("v1", "Namespace", {"metadata": {**named(POLICIES_NAMESPACE), "annotations": {DELETION_ORPHAN: ""}}})


def _rights(subject: Object) -> list[Object]:
    return [
        _rbac("ClusterRole", {"metadata": named(ROLE), "rules": list(_EVERYTHING)}),
        _rbac("ClusterRoleBinding", binding(ROLE, "ClusterRole", ROLE, subject)),
    ]


def _hosted_rights(plan: ControllerPlan, subject: Object) -> list[Object]:
    # A hosting cluster may have the controllers of many clusters.
    definitions_role = f"{ROLE}:{plan.cluster}"
    return [
        _rbac("Role", {"metadata": named(ROLE, plan.namespace), "rules": list(_HOSTED)}),
        _rbac("RoleBinding", binding(ROLE, "Role", ROLE, subject, plan.namespace)),
        _rbac("ClusterRole", {"metadata": named(definitions_role), "rules": list(_DEFINITIONS)}),
        _rbac("ClusterRoleBinding", binding(definitions_role, "ClusterRole", definitions_role, subject)),
    ]


def _metrics_service(plan: ControllerPlan) -> Object:
    port = {"name": "metrics", "port": 8080, "targetPort": METRICS_PORT, "protocol": "TCP"}
    metadata = {**named(f"{CONFIG_POLICY_ADDON}-metrics", plan.namespace), "labels": dict(_LABELS)}
    return _object("v1", "Service", {"metadata": metadata, "spec": {"selector": dict(_LABELS), "ports": [port]}})


def deployment(plan: ControllerPlan) -> Object:
    volumes = _volumes(plan)
    pod = {
        **pod_basics(ACCOUNT),
        "containers": [_controller(plan, volumes)],
        "volumes": [{"name": name, "secret": {"secretName": secret}} for name, (secret, _) in volumes.items()],
    }
    metadata = {
        **named(CONFIG_POLICY_ADDON, plan.namespace),
        "labels": dict(_LABELS),
        "annotations": {UNINSTALLING_ANNOTATION: str(plan.uninstalling).lower()},
    }
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": dict(_LABELS)},
        # Two controllers would report twice, each with a rate limit of its own.
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": dict(_LABELS)}, "spec": pod},
    }
    return _object("apps/v1", "Deployment", {"metadata": metadata, "spec": spec})


def _volumes(plan: ControllerPlan) -> dict[str, tuple[str, str]]:
    """By name of the volume: the Secret, and the path of its files."""
    volumes = {"klusterlet-config": (hub_kubeconfig_secret(CONFIG_POLICY_ADDON), HUB_FILES)}
    if plan.hosted:
        secret = plan.settings.managed_kubeconfig or f"{CONFIG_POLICY_ADDON}-managed-kubeconfig"
        volumes["managed-kubeconfig-secret"] = (secret, MANAGED_FILES)
    if plan.hub_templates:
        volumes["standalone-hub-templating-kubeconfig"] = (hub_kubeconfig_secret(STANDALONE_ADDON), STANDALONE_FILES)
    return volumes


def _controller(plan: ControllerPlan, volumes: dict[str, tuple[str, str]]) -> Object:
    container: dict[str, Any] = {
        **container_basics(CONFIG_POLICY_ADDON, plan.settings.image or plan.image),
        "command": [PROGRAM],
        "args": _arguments(plan),
        "env": [
            {"name": "WATCH_NAMESPACE", "value": plan.policies},
            {"name": "OPERATOR_NAME", "value": CONFIG_POLICY_ADDON},
            _own_field("POD_NAME", "metadata.name"),
            _own_field("POD_NAMESPACE", "metadata.namespace"),
            _own_field("POD_IP", "status.podIP"),
        ],
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, (_, path) in volumes.items()],
        "resources": {"requests": {"memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "livenessProbe": probe("/healthz", HEALTH_PORT, failureThreshold=3),
        "readinessProbe": probe("/readyz", HEALTH_PORT, failureThreshold=3),
        "startupProbe": probe("/readyz", HEALTH_PORT, failureThreshold=30),
    }
    if plan.settings.metrics:
        container["ports"] = [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}]
    return container


def _own_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _arguments(plan: ControllerPlan) -> list[str]:
    settings = plan.settings
    operators = settings.operator_policies
    optional = {
        f"--tls-min-version={settings.tls_min_version}": bool(settings.tls_min_version),
        f"--tls-cipher-suites={settings.tls_cipher_suites}": bool(settings.tls_cipher_suites),
        f"--metrics-bind-address=$(POD_IP):{METRICS_PORT}": settings.metrics,
        f"--target-kubeconfig-path={MANAGED_FILES}/kubeconfig": plan.hosted,
        "--enable-operator-policy=true": operators,
        f"--operator-policy-default-namespace={settings.operator_namespace}": operators and bool(settings.operator_namespace),
        f"--standalone-hub-templates-kubeconfig-path={STANDALONE_FILES}/kubeconfig": plan.hub_templates,
    }
    return [
        "controller",
        "--enable-lease=true",
        f"--cluster-name={plan.cluster}",
        f"--hub-kubeconfig-path={HUB_FILES}/kubeconfig",
        "--leader-elect=false",
        f"--log-encoder={settings.log_encoder}",
        f"--log-level={'error' if settings.log_level == -1 else settings.log_level}",
        f"--v={settings.package_log_level}",
        f"--evaluation-concurrency={settings.concurrency}",
        f"--client-max-qps={settings.client_qps}",
        f"--client-burst={settings.client_burst}",
        f"--health-probe-bind-address=$(POD_IP):{HEALTH_PORT}",
        *(flag for flag, wanted in optional.items() if wanted),
    ]


def uninstall_hook(plan: ControllerPlan, controller: Object) -> Object:
    """The pod that has the controller remove its finalizers from policies before it is removed itself. Its placement, image and
    environment are those of `controller`, the configured Deployment."""
    like = controller["spec"]["template"]["spec"]
    (container,) = like["containers"]
    own = [f"--policy-namespace={plan.policies}"]
    if not plan.hosted:
        own.append(f"--additional-namespace={POLICIES_NAMESPACE}")
    names = [f"--deployment-name={CONFIG_POLICY_ADDON}", f"--deployment-namespace={plan.namespace}"]
    done = {
        **container_basics(UNINSTALL, container["image"]),
        "command": [PROGRAM],
        "args": ["trigger-uninstall", *names, *own, f"--v={plan.settings.package_log_level}"],
        "env": [one for one in container["env"] if one["name"].lower() in ("http_proxy", "https_proxy", "no_proxy")],
        "resources": {"requests": {"memory": "64Mi"}, "limits": {"memory": "512Mi"}},
    }
    placed = {field: like[field] for field in ("nodeSelector", "tolerations") if field in like}
    metadata = {**named(UNINSTALL, plan.namespace), "labels": {"app": UNINSTALL}, "annotations": {PRE_DELETE: ""}}
    spec = {**pod_basics(ACCOUNT), "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 0, "containers": [done], **placed}
    return _object("v1", "Pod", {"metadata": metadata, "spec": spec})


def on_hosting_cluster(manifest: Object) -> Object:
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), HOSTED_MANIFEST_LOCATION: "hosting"}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _rbac(kind: str, body: Object) -> Object:
    return _object(f"{RBAC_GROUP}/v1", kind, body)


def _object(api_version: str, kind: str, body: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, **body}
