"""Rules of single kinds, as a table: which parts of a manifest are applied, and which of its fields are closed.

Of namespaces, pods and service accounts only labels and annotations are kept in sync, because the rest belongs to the cluster or is
immutable. What other controllers inject stays: CA bundles, tokens, aggregated rules. The status of a manifest is never applied. A
closed field that a manifest does not have is empty: no data means no entries.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.machinery.objects import GVR, Object
from muster.work.agent.applying.comparison import ComparisonRules, paired
from muster.work.agent.interfaces import ApplyProblem

_NOT_CONTENT: Final = frozenset(("apiVersion", "kind", "metadata", "status"))
_SELECTORS: Final = frozenset(("matchLabels", "nodeSelector"))
_RBAC: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"
_PLACEHOLDERS: Final = ("", "Cg==")
"""CA bundles that are placeholders for an injected one."""
_INJECTED: Final = (
    ("labels", "config.openshift.io/inject-trusted-cabundle", "ca-bundle.crt"),
    ("annotations", "service.beta.openshift.io/inject-cabundle", "service-ca.crt"),
)
"""Labels and annotations that request an injected CA, and the key of the ConfigMap where it is put."""

Content = Callable[[Object, Object], Object]
"""From a manifest's own content and the live object to what the manifest says of it."""


@dataclass(frozen=True, slots=True)
class KindRules:
    fields: ComparisonRules
    content: Content = lambda desired, _: desired
    metadata_only: bool = False
    """Whether nothing but labels and annotations is the manifest's to keep."""


def _whole(*closed: str) -> Content:
    """A manifest with nothing in these fields has them empty."""
    return lambda desired, _: {**{field: [] for field in closed}, **desired}


def _secret(desired: Object, live: Object) -> Object:
    """`stringData` is only another spelling of data; a token's data is also its controller's."""
    content = {"data": {}, **folded(desired)}
    if content.get("type", live.get("type")) == "kubernetes.io/service-account-token":
        content["data"] = {**(live.get("data") or {}), **(content["data"] or {})}
    return content


def folded(desired: Object) -> Object:
    """A Secret's content with `stringData` in its data, as the server stores it."""
    content = {key: value for key, value in desired.items() if key != "stringData"}
    texts = desired.get("stringData")
    if not isinstance(texts, dict) or not texts:
        return content
    data = dict(content.get("data") or {})
    for key, value in texts.items():
        encoded = base64.b64encode(str(value).encode()).decode()
        if data.setdefault(key, encoded) != encoded:
            raise ApplyProblem(
                "AppliedManifestFailed", f'Secret.stringData["{key}"] conflicts with Secret.data["{key}"]: set it only once'
            )
    return {**content, "data": data}


def _config_map(desired: Object, live: Object) -> Object:
    metadata, present = live.get("metadata") or {}, live.get("data") or {}
    injected = {
        key: present[key] for where, label, key in _INJECTED if key in present and (metadata.get(where) or {}).get(label) == "true"
    }
    data = desired.get("data") or {}
    return {"binaryData": {}, **desired, "data": {**injected, **data} if isinstance(data, dict) else data}


def _service(desired: Object, live: Object) -> Object:
    """Where a port leads is its own number unless that is said, and servers see to that only for ports that are new. A Service that
    selects nothing is not to select anything."""
    spec, present = desired.get("spec"), (live.get("spec") or {}).get("ports") or []
    if not isinstance(spec, dict):
        return desired
    spec = {"selector": {}, **spec}
    if isinstance(spec.get("ports"), list):
        spec["ports"] = [_led(port, before) for port, before in paired(spec["ports"], present)]
    return {**desired, "spec": spec}


def _led(port: Any, before: Any) -> Any:
    if not isinstance(port, dict) or not before or "targetPort" in port or port.get("port") in (None, before.get("port")):
        return port
    return {**port, "targetPort": port["port"]}


def _cluster_role(desired: Object, _: Object) -> Object:
    """The rules of an aggregated role are its controller's."""
    return (
        {key: value for key, value in desired.items() if key != "rules"}
        if desired.get("aggregationRule")
        else {"rules": [], **desired}
    )


def _without_placeholders(desired: Any, _: Object) -> Any:
    """An authority that the manifest leaves open stays what was injected."""
    if isinstance(desired, dict):
        return {
            key: _without_placeholders(value, _)
            for key, value in desired.items()
            if not (key == "caBundle" and (value is None or value in _PLACEHOLDERS))
        }
    return [_without_placeholders(value, _) for value in desired] if isinstance(desired, list) else desired


def _builtin(*closed: str) -> ComparisonRules:
    return ComparisonRules(builtin=True, closed=_SELECTORS | frozenset(closed))


_TABLE: Final[Mapping[tuple[str, str], KindRules]] = {
    ("", "Namespace"): KindRules(_builtin(), metadata_only=True),
    ("", "Pod"): KindRules(_builtin(), metadata_only=True),
    ("", "ServiceAccount"): KindRules(_builtin(), metadata_only=True),
    ("", "ConfigMap"): KindRules(_builtin("data", "binaryData"), _config_map),
    ("", "Secret"): KindRules(_builtin("data"), _secret),
    ("", "Service"): KindRules(_builtin("selector"), _service),
    (_RBAC, "Role"): KindRules(_builtin("rules"), _whole("rules")),
    (_RBAC, "RoleBinding"): KindRules(_builtin(), _whole("subjects")),
    (_RBAC, "ClusterRoleBinding"): KindRules(_builtin(), _whole("subjects")),
    (_RBAC, "ClusterRole"): KindRules(_builtin("rules"), _cluster_role),
    (_ADMISSION, "ValidatingWebhookConfiguration"): KindRules(_builtin(), _without_placeholders),
    (_ADMISSION, "MutatingWebhookConfiguration"): KindRules(_builtin(), _without_placeholders),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): KindRules(ComparisonRules(builtin=True), _without_placeholders),
    ("apiregistration.k8s.io", "APIService"): KindRules(ComparisonRules(builtin=True), _without_placeholders),
}
_BUILTIN: Final = KindRules(_builtin())
_CUSTOM: Final = KindRules(ComparisonRules())


def rules_of(resource: GVR) -> KindRules:
    found = _TABLE.get((resource.group, resource.kind))
    if found is not None:
        return found
    return _BUILTIN if "." not in resource.group or resource.group.endswith(".k8s.io") else _CUSTOM


def content_of(document: Object) -> Object:
    """A manifest's or an object's own fields."""
    return {key: value for key, value in document.items() if key not in _NOT_CONTENT}
