"""Names of things: which resource (`Resource`), which object (`Key`), and the URL path of either.

A `Resource` is declared once as a constant by whoever uses it; nothing here asks a server's discovery.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

Object = dict[str, Any]
"""A Kubernetes object as JSON."""
_ELSEWHERE = frozenset((".", ".."))
"""What HTTP clients resolve in paths."""


class Key(NamedTuple):
    """Which object of a known resource; `namespace` is empty for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    api_version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object, or of a collection when no name is given."""
        if name in _ELSEWHERE or namespace in _ELSEWHERE:
            raise ValueError(f"{name or namespace!r} names nothing: it would lead to another place")
        parts = ["/api" if "/" not in self.api_version else "/apis", self.api_version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        elif name and self.namespaced:
            raise ValueError(f"{self.plural} live in namespaces: none was given for {name!r}")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=":"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


NAMESPACES = Resource("v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
SECRETS = Resource("v1", "secrets", "Secret")
LEASES = Resource("coordination.k8s.io/v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io/v1", "events", "Event")
TOKEN_REVIEWS = Resource("authentication.k8s.io/v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
DEFINITIONS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
API_SERVICES = Resource("apiregistration.k8s.io/v1", "apiservices", "APIService", namespaced=False)
