"""The permission that a request for a cluster requires on the hub: the virtual verb `<cluster>/<verb>` on the requested resource.

The hub's RBAC compares verbs as a whole, so `foo/get` on pods grants access to pods of the cluster foo and of no other, `*`
grants access to all clusters, and `foo/*` grants nothing. This holds as long as the verb has exactly one slash: names of clusters
have none, and no review is made for a verb that is not a plain word. The attributes contain everything that is sent to a cluster,
so a cached decision for one cluster or request is never used for another.

Usually the verb is that of the request. Commands in a pod and its ports are more than reading, although a WebSocket opens them
with a GET: they require `create` whatever the method, as in Kubernetes since 1.35. The same holds for upgrades through a node's
proxy, behind which the kubelet runs commands for anybody who opens a WebSocket. Other proxies keep the verb of the method.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from muster.kube.names import dns1123_subdomain
from muster.kube.request_info import RequestInfo
from muster.machinery.authorization import AccessAttributes

_COMMANDS: Final = frozenset({"exec", "attach", "portforward"})
_is_verb: Final = re.compile("[a-z][a-z-]{0,62}", re.ASCII).fullmatch


class NoVirtualVerb(Exception):
    """No virtual verb exists for this: the cluster or the verb has an impossible name. Such a request must never be forwarded."""


@lru_cache(4096)
def virtual_verb(cluster: str, verb: str) -> str:
    if not cluster or dns1123_subdomain(cluster):
        raise NoVirtualVerb(f'"{cluster[:80]}" is not the name of a cluster')
    if not _is_verb(verb):
        raise NoVirtualVerb(f'"{verb[:80]}" is not a verb that the hub can grant for a cluster')
    return f"{cluster}/{verb}"


def needed_verb(inner: RequestInfo, upgrade: bool) -> str:
    if inner.is_resource and not inner.group:
        if inner.resource == "pods" and inner.subresource in _COMMANDS:
            return "create"
        if upgrade and inner.resource == "nodes" and inner.subresource == "proxy":
            return "create"
    return inner.verb


def inner_attributes(inner: RequestInfo, upgrade: bool) -> AccessAttributes:
    """The attributes of the request on the cluster, with the cluster's own verb."""
    verb = needed_verb(inner, upgrade)
    if not inner.is_resource:
        return AccessAttributes(verb, path=inner.path)
    if not inner.resource:
        raise NoVirtualVerb("the request names no resource")
    return AccessAttributes(
        verb,
        inner.group,
        inner.version,
        inner.resource,
        inner.subresource,
        inner.namespace,
        inner.name,
        field_selector=inner.field_selector,
        label_selector=inner.label_selector,
    )


def hub_attributes(cluster: str, attributes: AccessAttributes, *, in_namespaces: bool = True) -> AccessAttributes:
    """The same attributes for an access review on the hub.

    If the namespace is included, a RoleBinding in the hub's namespace of that name counts too; otherwise only ClusterRoleBindings
    do.
    """
    return AccessAttributes(
        virtual_verb(cluster, attributes.verb),
        attributes.group,
        attributes.version,
        attributes.resource,
        attributes.subresource,
        attributes.namespace if in_namespaces else "",
        attributes.name,
        attributes.path,
        attributes.field_selector,
        attributes.label_selector,
    )
