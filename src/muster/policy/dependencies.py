"""Object sources for templates and comparisons: watched, read directly, or from files.

`FollowingSource` is for one run of a controller that must notice changes: every selection that is read is watched from then on.
After a successful run, `commit` keeps the watches of what it read, and drops all others. After a failed run, `keep` drops
nothing: a change of what was read may repair it, and the rest is needed again then. `DirectSource` sends a request for each read
and watches nothing. `LocalSource` has objects from files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from muster.api import crds
from muster.apiserver.registry.builtin_types import discovery_rows
from muster.kube.selectors import parse_label_selector
from muster.machinery.objects import GVR, Object
from muster.policy.names import PERMISSIONS_NEEDED
from muster.runtime.cache import FollowedSelections, Selection
from muster.runtime.client import (
    BadRequest,
    Forbidden,
    KubeClient,
    NoKindMatch,
    NotFound,
    RESTMapper,
    StatusError,
    Unauthorized,
    Unreachable,
)

READ_TIMEOUT: Final = 10.0
"""Timeout in seconds of a direct read."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_S = TypeVar("_S", bound=StatusError)


class FollowingSource:
    """Reads for one run of `follower`."""

    def __init__(self, selections: FollowedSelections, mapper: RESTMapper, follower: str) -> None:
        self._selections = selections
        self._mapper = mapper
        self._follower = follower
        self._read: set[Selection] = set()
        self._absent_groups: set[str] = set()

    @property
    def selections(self) -> frozenset[Selection]:
        """Selections that were read in this run, whatever the result; except invalid ones, which cannot be watched."""
        return frozenset(self._read)

    @property
    def absent_groups(self) -> frozenset[str]:
        """API groups of kinds that were looked up but are not served. They may be installed later."""
        return frozenset(self._absent_groups)

    async def mapping(self, api_version: str, kind: str) -> GVR:
        try:
            return await _mapping(self._mapper, api_version, kind)
        except NoKindMatch:
            self._absent_groups.add(api_version.rpartition("/")[0])
            raise

    async def read(self, selection: Selection) -> Sequence[Object]:
        try:
            return await self._selections.read(self._follower, selection)
        except (Forbidden, Unauthorized) as error:
            raise _with_remedy(error, selection) from error
        finally:
            if selection in self._selections.selections_of(self._follower):
                self._read.add(selection)

    def commit(self) -> None:
        """The run succeeded: watch what it read, and nothing else."""
        self._selections.settle(self._follower, self._read)

    def keep(self) -> None:
        """The run failed: watch what it read, and what was watched before."""
        self._selections.settle(self._follower, self._read | self._selections.selections_of(self._follower))


def _with_remedy(error: _S, selection: Selection) -> _S:
    """With upstream's text, since the error of a refused watch often contains no details."""
    resource = selection.resource
    query = f"GroupVersion={resource.api_version}, Kind={resource.kind}, Namespace={selection.namespace}, Name={selection.name}"
    if selection.label_selector:
        query += f", Selector={selection.label_selector}"
    message = f"{error}: {PERMISSIONS_NEEDED}: {query}"
    return type(error)(error.code, error.reason, message, error.details, error.retry_after)


async def _mapping(mapper: RESTMapper, api_version: str, kind: str) -> GVR:
    """If discovery of a group fails, it is unknown which kinds exist: this is the server's error, not a missing kind."""
    try:
        return await mapper.mapping(api_version, kind)
    except NoKindMatch as error:
        if error.error is not None:
            raise error.error.with_traceback(None) from None
        raise


class DirectSource:
    """Reads by GET and LIST."""

    def __init__(self, client: KubeClient, mapper: RESTMapper, *, timeout: float = READ_TIMEOUT) -> None:
        self._client = client
        self._mapper = mapper
        self._timeout = timeout

    async def mapping(self, api_version: str, kind: str) -> GVR:
        return await _mapping(self._mapper, api_version, kind)

    async def read(self, selection: Selection) -> Sequence[Object]:
        try:
            async with asyncio.timeout(self._timeout):
                return [stripped(obj) for obj in await self._objects(selection)]
        except ValueError as error:
            # A name that would change the path.
            raise BadRequest(400, "BadRequest", str(error)) from error
        except TimeoutError:
            raise Unreachable(self._client.server, f"no answer within {self._timeout:g} s") from None

    async def _objects(self, selection: Selection) -> Sequence[Object]:
        resource, namespace, name = selection.resource, selection.namespace, selection.name
        if name and (namespace or not resource.namespaced):
            try:
                return [await self._client.get(resource, name, namespace)]
            except NotFound:
                return []
        fields = f"metadata.name={name}" if name else ""
        listed = await self._client.list(resource, namespace, label_selector=selection.label_selector, field_selector=fields)
        return sorted(listed.items, key=_namespace_and_name)


def stripped(obj: Object) -> Object:
    """The object without managedFields and the last-applied annotation, as templates see it; it shares the rest with the
    original."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return obj
    annotations = metadata.get("annotations")
    is_applied = isinstance(annotations, dict) and _LAST_APPLIED in annotations
    if "managedFields" not in metadata and not is_applied:
        return obj
    metadata = {key: value for key, value in metadata.items() if key != "managedFields"}
    if isinstance(annotations, dict) and is_applied:
        kept = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
        metadata["annotations"] = kept
        if not kept:
            del metadata["annotations"]
    return {**obj, "metadata": metadata}


def _namespace_and_name(obj: Object) -> tuple[str, str]:
    metadata = obj.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


class LocalSource:
    """Reads of given objects. The known kinds are those of Kubernetes and OCM, of the given CustomResourceDefinitions, and of
    the objects themselves."""

    def __init__(self, objects: Iterable[Object], *, like: Iterable[Object] = ()) -> None:
        """`like`: objects that do not exist, but whose kinds do."""
        self._objects: dict[tuple[str, str], list[Object]] = {}
        for obj in objects:
            kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
            self._objects.setdefault(kind, []).append(stripped(obj))
        self._by_key = {(kind, _namespace_and_name(obj)): obj for kind, given in self._objects.items() for obj in given}
        examples = {kind: [*given] for kind, given in self._objects.items()}
        for obj in like:
            examples.setdefault((str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")), []).append(obj)
        self._kinds = {**_guessed_kinds(examples), **_known_kinds(), **_defined_kinds(self._objects)}

    async def mapping(self, api_version: str, kind: str) -> GVR:
        try:
            return self._kinds[api_version, kind]
        except KeyError:
            raise NoKindMatch(api_version, kind) from None

    async def read(self, selection: Selection) -> Sequence[Object]:
        kind = selection.resource.api_version, selection.resource.kind
        if selection.name and (selection.namespace or not selection.resource.namespaced):
            obj = self._by_key.get((kind, (selection.namespace, selection.name)))
            return [] if obj is None else [obj]
        selector = parse_label_selector(selection.label_selector)
        found = []
        for obj in self._objects.get(kind, ()):
            namespace, name = _namespace_and_name(obj)
            labels = (obj.get("metadata") or {}).get("labels")
            if selection.namespace in ("", namespace) and selection.name in ("", name) and selector.matches(labels):
                found.append(obj)
        return sorted(found, key=_namespace_and_name)


_Kinds = dict[tuple[str, str], GVR]


@cache
def _known_kinds() -> _Kinds:
    kinds: _Kinds = {}
    for row in discovery_rows():
        api_version = f"{row['group']}/{row['version']}" if row["group"] else row["version"]
        kinds[api_version, row["kind"]] = GVR(api_version, row["plural"], row["kind"], row["namespaced"])
    for definition in crds.ALL:
        for version in definition.versions:
            served = version.resource
            api_version = served.api_version
            kinds[api_version, served.kind] = GVR(api_version, served.plural, served.kind, served.scope == "Namespaced")
    return kinds


def _defined_kinds(objects: dict[tuple[str, str], list[Object]]) -> _Kinds:
    kinds: _Kinds = {}
    for definition in objects.get(("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ()):
        spec: dict[str, Any] = definition.get("spec") or {}
        names = spec.get("names") or {}
        for version in spec.get("versions") or ():
            api_version = f"{spec.get('group')}/{version.get('name')}"
            kind = str(names.get("kind"))
            kinds[api_version, kind] = GVR(api_version, str(names.get("plural")), kind, spec.get("scope") == "Namespaced")
    return kinds


def _guessed_kinds(objects: dict[tuple[str, str], list[Object]]) -> _Kinds:
    """Plurals as kubectl guesses them without discovery."""
    kinds: _Kinds = {}
    for (api_version, kind), given in objects.items():
        plural = kind.lower()
        if plural.endswith("y"):
            plural = plural[:-1] + "ies"
        else:
            plural += "es" if plural.endswith("s") else "s"
        kinds[api_version, kind] = GVR(api_version, plural, kind, any(_namespace_and_name(obj)[0] for obj in given))
    return kinds
