"""RBAC for users of clusters behind the gateway: what `gateway grant` prints.

Two permissions are needed on the hub. The first is for the gateway to a cluster: `clustergateways/proxy` with the cluster's name,
with the verb of each HTTP method that is used. The second is for the request itself: the gateway checks on the hub whether the user
has the virtual verb `<cluster>/<verb>` on the resource, so a role has `foo/get` on `pods` where one for the hub itself has `get`.
RBAC compares verbs exactly and has no `foo/*`, so all are listed; the verb `*` would mean every cluster. A Role in a namespace of
the hub is for the namespace of the same name on the cluster. A shell in a pod needs `create` on `pods/exec` with any method, so a
viewer has none.

The roles' rules follow Kubernetes' own `view`, `edit` and `admin`: a viewer reads no Secrets, an editor reads and writes them. A
role is named by its content, so repeating a grant changes nothing, and no role of others is ever extended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from muster.administration.errors import AdministrationError
from muster.api import Document
from muster.gateway.client import GatewayApi
from muster.gateway.names import COMPONENT, PROXY, RESOURCE
from muster.kube.names import dns1123_label, dns1123_subdomain
from muster.machinery.objects import GVR
from muster.operator.applier import Wanted
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, ROLE_BINDINGS, ROLES
from muster.runtime.install import RBAC_GROUP, binding, named, rule

VIEWER, EDITOR, ADMIN = "viewer", "editor", "admin"
ROLE_NAMES: Final = (VIEWER, EDITOR, ADMIN)
READ: Final = ("get", "list", "watch")
WRITE: Final = ("create", "update", "patch", "delete", "deletecollection")
_METHODS: Final = ("get", "create", "update", "patch", "delete")
"""Verbs on `clustergateways/proxy`: of GET, POST, PUT, PATCH and DELETE. Lists and watches are GETs."""

_SEEN: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "services/status",
    ),
    "apps": (
        "controllerrevisions",
        "daemonsets",
        "deployments",
        "deployments/scale",
        "replicasets",
        "statefulsets",
        "statefulsets/scale",
    ),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "discovery.k8s.io": ("endpointslices",),
    "events.k8s.io": ("events",),
    "metrics.k8s.io": ("pods",),
    "networking.k8s.io": ("ingresses", "networkpolicies"),
    "policy": ("poddisruptionbudgets",),
}
"""What a viewer may read in namespaces."""
_SEEN_OF_CLUSTER: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("namespaces", "nodes", "persistentvolumes"),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "metrics.k8s.io": ("nodes",),
    "networking.k8s.io": ("ingressclasses",),
    "scheduling.k8s.io": ("priorityclasses",),
    "storage.k8s.io": ("storageclasses",),
}
_WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "secrets",
        "services",
    ),
    **{group: _SEEN[group] for group in ("apps", "autoscaling", "batch", "networking.k8s.io", "policy")},
}
_USED: Final = ("pods/attach", "pods/exec", "pods/portforward", "pods/eviction")
"""What an editor may only create."""
_NON_RESOURCE_VERBS: Final = ("get", "head", "post", "put", "patch", "delete")
_PROBED: Final = ("/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version")


@dataclass(frozen=True)
class Access:
    """A grant: a role on clusters, in these of their namespaces or in all.

    `resources` are further ones, in kubectl's notation (`widgets.example.com`), with the verbs that the role has on others.
    """

    subject: Document
    role: str
    clusters: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    create_namespaces: bool = False


def user(name: str) -> Document:
    return {"kind": "User", "apiGroup": RBAC_GROUP, "name": _stated(name, "USER")}


def group(name: str) -> Document:
    return {"kind": "Group", "apiGroup": RBAC_GROUP, "name": _stated(name, "--group")}


def service_account(reference: str) -> Document:
    """The subject of `namespace:name`. Raises AdministrationError."""
    namespace, separator, name = reference.partition(":")
    if not separator or dns1123_label(namespace) or dns1123_subdomain(name):
        raise AdministrationError(f"--serviceaccount: {reference!r} names no account", "write namespace:name")
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def _stated(name: str, flag: str) -> str:
    if not name.strip():
        raise AdministrationError(f"{flag}: must not be empty")
    return name


def manifests(access: Access, api: GatewayApi) -> list[Wanted]:
    """The roles and their bindings. Raises AdministrationError."""
    for flag, given in (("--cluster", access.clusters), ("--namespace", access.namespaces)):
        for one in given:
            if flaws := dns1123_label(one):
                raise AdministrationError(f"{flag}: {one!r}: {flaws[0]}")
    further = [_resource(one) for one in access.resources]
    wanted: list[Wanted] = []
    for cluster in dict.fromkeys(access.clusters):
        proxy_rule = rule(api.group, [f"{RESOURCE}/{PROXY}"], _METHODS[:1] if access.role == VIEWER else _METHODS, [cluster])
        rules = _rules(access.role, cluster, further, whole=not access.namespaces)
        name = f"{COMPONENT}:{cluster}:{access.role}"
        if not access.namespaces:
            wanted += _bound(CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, name, "", [proxy_rule, *rules], access.subject)
            continue
        wanted += _bound(CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, f"{COMPONENT}:{cluster}:{PROXY}", "", [proxy_rule], access.subject)
        for namespace in dict.fromkeys(access.namespaces):
            wanted += _bound(ROLES, ROLE_BINDINGS, name, namespace, rules, access.subject)
    made = [(NAMESPACES, {"metadata": named(fromkey)}) for fromkey in dict.fromkeys(access.namespaces) if access.create_namespaces]
    return [(resource, _whole(resource, document)) for resource, document in [*made, *wanted]]


async def require_namespaces(client: KubeClient, namespaces: Sequence[str]) -> None:
    """Raises AdministrationError for a namespace that does not exist on the hub."""
    for name in namespaces:
        try:
            await client.get(NAMESPACES, name)
        except NotFound:
            text = f"--namespace: the hub has no namespace {name}, in which the role would be"
            raise AdministrationError(text, "make it with --create-namespace") from None


def _rules(role: str, cluster: str, further: Sequence[tuple[str, str]], *, whole: bool) -> list[Document]:
    """`whole`: cluster-scoped resources too."""
    read, write = [f"{cluster}/{verb}" for verb in READ], [f"{cluster}/{verb}" for verb in WRITE]
    if role == ADMIN:
        everything = rule("*", ["*"], [*read, *write])
        paths = {"nonResourceURLs": ["*"], "verbs": [f"{cluster}/{method}" for method in _NON_RESOURCE_VERBS]}
        return [everything, paths] if whole else [everything]
    rules = [rule(group, resources, read) for group, resources in _SEEN.items()]
    if whole:
        rules += [rule(group, resources, read) for group, resources in _SEEN_OF_CLUSTER.items()]
        rules.append({"nonResourceURLs": list(_PROBED), "verbs": read[:1]})
    else:
        # The namespace itself, which kubectl may read.
        rules.append(rule("", ["namespaces"], read[:1]))
    rules += [rule(group, [resource], read) for group, resource in further]
    if role == EDITOR:
        rules.append(rule("", ["secrets"], read))
        rules += [rule(group, resources, write) for group, resources in _WRITTEN.items()]
        rules += [rule(group, [resource], write) for group, resource in further]
        rules.append(rule("", _USED, write[:1]))
    return rules


def _bound(roles: GVR, bindings: GVR, name: str, namespace: str, rules: Sequence[Document], subject: Document) -> list[Wanted]:
    """A role and its binding, named by a hash of their content."""
    role = f"{name}-{_digest(rules)}"
    return [
        (roles, {"metadata": named(role, namespace), "rules": list(rules)}),
        (bindings, binding(f"{role}-{_digest(subject)}", roles.kind, role, subject, namespace)),
    ]


def _digest(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]


def _resource(name: str) -> tuple[str, str]:
    """Group and resource. Raises AdministrationError."""
    resource, _, group = name.partition(".")
    plural, _, subresource = resource.partition("/")
    if dns1123_label(plural) or (subresource and dns1123_label(subresource)) or (group and dns1123_subdomain(group)):
        raise AdministrationError(f"--resource: {name!r} is no resource", "write it as kubectl does, such as widgets.example.com")
    return group, resource


def _whole(resource: GVR, document: Document) -> Document:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}
