"""Policies on a cluster for the user: which exist, whether they are compliant, and why they are not evaluated.

Policies that were not created by the policy framework have no status on the hub. They are read on the cluster itself, or through
the hub's gateway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.administration.gateway.clusters import resource_of
from muster.api.policy.v1 import ConfigurationPolicy
from muster.api.policy.v1beta1 import OperatorPolicy
from muster.gateway.client import GatewayApi
from muster.gateway.names import PROXY
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import parse_bool
from muster.machinery.objects import Object
from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION, HUB_DELIMITERS, PERMISSIONS_NEEDED
from muster.runtime.client import KubeClient, NotFound, served

KINDS: Final = (served(ConfigurationPolicy), served(OperatorPolicy))


@dataclass(frozen=True)
class PolicyView:
    document: Object
    cluster: str = ""
    """The cluster, if several were queried."""

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.document["metadata"].get("namespace") or "")

    @property
    def kind(self) -> str:
        return str(self.document.get("kind") or "")

    @property
    def action(self) -> str:
        return str(_part(self.document, "spec").get("remediationAction") or "").lower()

    @property
    def compliant(self) -> str:
        """Compliant, NonCompliant, Pending or Terminating; empty before the first evaluation."""
        return str(_part(self.document, "status").get("compliant") or "")

    @property
    def message(self) -> str:
        """The last message, without the compliance at its beginning."""
        history = _part(self.document, "status").get("history")
        newest = history[0] if isinstance(history, list) and history and isinstance(history[0], dict) else {}
        return str(newest.get("message") or "").removeprefix(f"{self.compliant}; ")

    @property
    def has_hub_templates(self) -> bool:
        """Whether the policy has hub templates, by the policy controller's rule: not if its templates are disabled."""
        annotations = _part(self.document["metadata"], "annotations")
        try:
            off = parse_bool(str(annotations.get(DISABLE_TEMPLATES_ANNOTATION) or "false"))
        except GoError:
            off = False
        return not off and HUB_DELIMITERS[0].encode() in orjson.dumps(self.document.get("spec") or {})

    @property
    def refusal(self) -> str:
        """The message if its templates refer to objects that the resolving user may not read; else empty.

        It is in the conditions, whichever other message the policy has.
        """
        if self.compliant != "NonCompliant":
            return ""
        status = _part(self.document, "status")
        details = [one for one in _list(status, "compliancyDetails") if isinstance(one, dict)]
        conditions = [one for each in (status, *details) for one in _list(each, "conditions") if isinstance(one, dict)]
        messages = [self.message, *(str(one.get("message") or "") for one in conditions)]
        return next((message for message in messages if PERMISSIONS_NEEDED in message), "")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


async def policies_of(client: KubeClient, namespace: str = "") -> list[PolicyView] | None:
    """All policies on the client's cluster, or in one namespace of it; None if no kind of policy is served."""
    found: list[PolicyView] = []
    served_kinds = 0
    for resource in KINDS:
        try:
            items = (await client.list(resource, namespace)).items
        except NotFound:
            continue
        served_kinds += 1
        found += [PolicyView({"apiVersion": resource.api_version, "kind": resource.kind, **one}) for one in items]
    return _sorted(found) if served_kinds else None


async def policies_through(hub: KubeClient, api: GatewayApi, cluster: str, namespace: str = "") -> list[PolicyView] | None:
    """The same of a managed cluster, through the hub's gateway. Raises the client's errors."""
    found: list[PolicyView] = []
    served_kinds = 0
    for resource in KINDS:
        within = f"namespaces/{namespace}/" if namespace else ""
        path = f"{PROXY}/apis/{resource.api_version}/{within}{resource.plural}"
        try:
            answer = await hub.get(resource_of(api), cluster, subresource=path)
        except NotFound:
            continue
        served_kinds += 1
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        found += [PolicyView({**kind, **one}, cluster) for one in answer.get("items") or ()]
    return _sorted(found) if served_kinds else None


def _sorted(found: list[PolicyView]) -> list[PolicyView]:
    return sorted(found, key=lambda one: (one.namespace, one.name, one.kind))


def _list(document: Object, field: str) -> list[Any]:
    part = document.get(field)
    return part if isinstance(part, list) else []


def _part(document: Object, field: str) -> Object:
    part = document.get(field)
    return part if isinstance(part, dict) else {}
