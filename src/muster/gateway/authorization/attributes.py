"""What a request for a cluster needs on the hub: the virtual verb `<cluster>/<verb>` on whatever the request is about.

The hub's RBAC compares verbs whole, so `foo/get` on pods opens pods of the cluster foo and of no other, `*` opens them everywhere,
and `foo/*` opens nothing. That holds as long as the slash between the two is the only one: a cluster's name has none, and a verb
that is not a plain word is never asked about. Requests that ask for the same differ in nothing that is sent to a cluster, so an
answer that is remembered for one cluster is never found for another.

Usually the verb is that of the request. Commands in a pod and its ports are more than reading, though a WebSocket opens them with a
GET: they need `create` whatever the method, as Kubernetes has it since 1.35 and older clusters do not. The same holds for upgrades
through a node's proxy, behind which the kubelet runs commands for whoever opens a WebSocket. Other proxies keep the method's verb.
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
    """There is nothing to ask the hub about: no cluster can be called so, or no request has such a verb. Never to be forwarded."""


@lru_cache(4096)
def virtual_verb(cluster: str, verb: str) -> str:
    if not cluster or dns1123_subdomain(cluster):
        raise NoVirtualVerb(f'"{cluster[:80]}" is not the name of a cluster')
    if not _is_verb(verb):
        raise NoVirtualVerb(f'"{verb[:80]}" is not a verb that the hub could grant on a cluster')
    return f"{cluster}/{verb}"


def needed_verb(inner: RequestInfo, upgrade: bool) -> str:
    if inner.is_resource and not inner.group:
        if inner.resource == "pods" and inner.subresource in _COMMANDS:
            return "create"
        if upgrade and inner.resource == "nodes" and inner.subresource == "proxy":
            return "create"
    return inner.verb


def inner_attributes(inner: RequestInfo, upgrade: bool) -> AccessAttributes:
    """What the request asks of the cluster, with the cluster's own verb."""
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


def on_hub(cluster: str, asked: AccessAttributes, *, in_namespaces: bool = True) -> AccessAttributes:
    """The same as a question to the hub.

    With the namespace in it, a RoleBinding in the hub's namespace of that name counts too; without, only ClusterRoleBindings do.
    """
    return AccessAttributes(
        virtual_verb(cluster, asked.verb),
        asked.group,
        asked.version,
        asked.resource,
        asked.subresource,
        asked.namespace if in_namespaces else "",
        asked.name,
        asked.path,
        asked.field_selector,
        asked.label_selector,
    )
