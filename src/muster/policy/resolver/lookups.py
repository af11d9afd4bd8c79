"""Template functions that read a cluster: the reads, the refused lookups, and the results.

A function runs inside a template, which cannot wait; `fetch` gets it the result (see `template_runner.py`). A lookup is by name
or by label selector, and reads nothing else. As soon as something sensitive was read, the run is marked as sensitive.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from muster.gotemplate.golang import fmt
from muster.gotemplate.golang import json as gojson
from muster.gotemplate.limits import charge
from muster.gotemplate.values import NIL_MAP, go_type
from muster.kube.selectors import SelectorError, parse_label_selector
from muster.machinery.objects import GVR, Object
from muster.policy.resolver import encryption
from muster.policy.resolver.errors import (
    ClusterScopedLookup,
    FunctionError,
    InvalidInput,
    LookupFailed,
    MissingAPIResource,
    ObjectNotFound,
    ProtectNotEnabled,
    RestrictedNamespace,
)
from muster.policy.resolver.interfaces import Encryption, ObjectSource, ResolveOptions
from muster.policy.resolver.views import ObjectViews
from muster.runtime.cache import Selection
from muster.runtime.client import KubeError, NoKindMatch, NotFound

T = TypeVar("T")
CLUSTER_CLAIMS: Final = ("cluster.open-cluster-management.io/v1alpha1", "ClusterClaim")
_ROLE_LABEL: Final = "node-role.kubernetes.io/"
_OBJECT_STEPS: Final = 5
"""Cost of one object of a list, in a template's steps."""


class Fetch(Protocol):
    """Returns the result of a coroutine to a function inside a template, once per key."""

    def __call__(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T: ...


class _Found(NamedTuple):
    resource: GVR
    objects: Sequence[Object]


class Lookups:
    """The reads of one run. `private`: the template modifies maps, and gets copies."""

    def __init__(self, source: ObjectSource, options: ResolveOptions, fetch: Fetch, views: ObjectViews, *, private: bool) -> None:
        self.sensitive = False
        self._source = source
        self._options = options
        self._fetch = fetch
        self._views = views
        self._private = private

    def bound(self) -> dict[str, Callable[..., Any]]:
        return {
            "fromSecret": self.from_secret,
            "fromConfigMap": self.from_config_map,
            "copySecretData": self.copy_secret_data,
            "copyConfigMapData": self.copy_config_map_data,
            "fromClusterClaim": self.from_cluster_claim,
            "lookupClusterClaim": self.lookup_cluster_claim,
            "lookup": self.lookup,
            "getNodesWithExactRoles": self.get_nodes_with_exact_roles,
            "hasNodesWithExactRoles": self.has_nodes_with_exact_roles,
            "protect": self.protect,
        }

    # Objects of any kind

    def lookup(self, api_version: str, kind: str, namespace: str, name: str, *selectors: str) -> Mapping[str, Any]:
        if not name:
            return {"items": self._list(api_version, kind, namespace, selectors)}
        try:
            return self._get(api_version, kind, namespace, name, selectors)
        except ObjectNotFound:
            return NIL_MAP

    def _list(self, api_version: str, kind: str, namespace: str, selectors: tuple[str, ...]) -> list[Object]:
        try:
            found = self._find(api_version, kind, namespace, "", selectors)
        except ObjectNotFound:
            return []
        charge(_OBJECT_STEPS * len(found.objects))
        return [self._views.of(obj, found.resource, private=self._private) for obj in found.objects]

    def _get(self, api_version: str, kind: str, namespace: str, name: str, selectors: tuple[str, ...] = ()) -> Object:
        found = self._find(api_version, kind, namespace, name, selectors)
        if not found.objects:
            raise ObjectNotFound(f'{found.resource} "{name}" not found', (name,))
        return self._views.of(found.objects[0], found.resource, private=self._private)

    def _find(self, api_version: str, kind: str, namespace: str, name: str, selectors: tuple[str, ...]) -> _Found:
        arguments = (api_version, kind, namespace, name, *selectors)
        if not api_version or not kind:
            raise InvalidInput("the apiVersion and kind are required")
        restricted = self._options.lookup_namespace
        if restricted and namespace and namespace != restricted:
            raise RestrictedNamespace(f"the namespace argument is restricted to {restricted}")
        if api_version.count("/") > 1:
            raise InvalidInput(f"unexpected GroupVersion string: {api_version}", arguments)
        selector = _selector(selectors)
        query = (api_version, kind, namespace or restricted, name, "" if name else selector)
        try:
            found = self._fetch(query, lambda: self._read(*query))
        except NoKindMatch:
            text = "one or more API resources are not installed on the API server"
            raise MissingAPIResource(text, arguments) from None
        except NotFound as error:
            raise ObjectNotFound(str(error), arguments) from error
        except KubeError as error:
            raise LookupFailed(str(error), arguments) from error
        if kind == "Secret" and found.objects:
            self.sensitive = True
        return found

    async def _read(self, api_version: str, kind: str, namespace: str, name: str, selector: str) -> _Found:
        resource = await self._source.mapping(api_version, kind)
        if not resource.namespaced:
            namespace = ""
            if self._options.lookup_namespace and not self._is_allowed(resource.group, kind, name):
                raise ClusterScopedLookup(f"lookup of cluster-scoped resource '{kind}/{name}' is not allowed", (kind, name))
        return _Found(resource, await self._source.read(Selection(resource, namespace, name, selector)))

    def _is_allowed(self, group: str, kind: str, name: str) -> bool:
        return any(
            allowed.group in ("*", group) and allowed.kind in ("*", kind) and allowed.name in ("*", name)
            for allowed in self._options.allow_list
        )

    # ConfigMaps and Secrets

    def from_config_map(self, namespace: str, name: str, key: str) -> str:
        return _text(self._data("ConfigMap", namespace, name, key), key)

    def from_secret(self, namespace: str, name: str, key: str) -> str:
        value = _text(self._data("Secret", namespace, name, key), key)
        return encryption.protect(self._encryption, value) if self._encrypts else value

    def copy_config_map_data(self, namespace: str, name: str) -> str:
        return gojson.marshal(self._data("ConfigMap", namespace, name))

    def copy_secret_data(self, namespace: str, name: str) -> str:
        data = self._data("Secret", namespace, name)
        if data and self._encrypts:
            data = {key: encryption.protect(self._encryption, fmt.show(value)) for key, value in data.items()}
        return gojson.marshal(data)

    def _data(self, kind: str, namespace: str, name: str, key: str | None = None) -> Mapping[str, Any] | None:
        if not name or key == "" or not (namespace or self._options.lookup_namespace):
            required = "namespace and name" if key is None else "namespace, name, and key"
            raise InvalidInput(f"the input is invalid: {required} must be specified")
        try:
            data = self._get("v1", kind, namespace, name).get("data")
        except FunctionError as error:
            what = "failed to get the secret" if kind == "Secret" else "failed getting the ConfigMap"
            raise type(error)(f"{what} {name} from {namespace}: {error}", (namespace, name)) from error.__cause__
        return data if isinstance(data, dict) else None

    # Encryption

    @property
    def _encryption(self) -> Encryption:
        return self._options.encryption or Encryption()

    @property
    def _encrypts(self) -> bool:
        return self._encryption.encrypt

    def protect(self, value: str) -> str:
        if not self._encrypts:
            raise ProtectNotEnabled("the protect template function is not enabled in this mode")
        return encryption.protect(self._encryption, value)

    # ClusterClaims

    def from_cluster_claim(self, name: str) -> str:
        if not name:
            raise InvalidInput("a claim name must be provided")
        try:
            claim = self._get(*CLUSTER_CLAIMS, "", name)
        except FunctionError as error:
            raise type(error)(str(error), (name,)) from error.__cause__
        spec = claim.get("spec")
        if not isinstance(spec, dict):
            raise InvalidInput(f"unexpected ClusterClaim format: {name}", (name,))
        value = spec.get("value", "")
        if not isinstance(value, str):
            raise InvalidInput(f"interface conversion: interface {{}} is {go_type(value)}, not string")
        return value

    def lookup_cluster_claim(self, name: str) -> str:
        try:
            return self.from_cluster_claim(name)
        except ObjectNotFound:
            return ""

    # Nodes

    def get_nodes_with_exact_roles(self, *roles: str) -> Mapping[str, Any]:
        wanted = tuple(_ROLE_LABEL + role for role in roles if role.strip())
        if not wanted:
            raise InvalidInput("the input is invalid: at least one name must be specified")
        allowed = {*wanted, _ROLE_LABEL + "worker"}
        try:
            nodes = self._list("v1", "Node", "", wanted)
        except FunctionError as error:
            raise type(error)(str(error), roles) from error.__cause__
        return {"items": [node for node in nodes if _roles(node) <= allowed]}

    def has_nodes_with_exact_roles(self, *roles: str) -> bool:
        return bool(self.get_nodes_with_exact_roles(*roles)["items"])


def _selector(selectors: tuple[str, ...]) -> str:
    """Several selectors are joined; if the first one is empty, everything is selected, whatever follows."""
    if not selectors or not selectors[0]:
        return ""
    try:
        return str(parse_label_selector(",".join(selectors)))
    except SelectorError as error:
        raise InvalidInput(str(error), selectors) from None


def _text(data: Mapping[str, Any] | None, key: str) -> str:
    value = (data or {}).get(key)
    return value if isinstance(value, str) else ""


def _roles(node: Object) -> set[str]:
    labels = (node.get("metadata") or {}).get("labels") or {}
    return {label for label in labels if label.startswith(_ROLE_LABEL.rstrip("/"))}
