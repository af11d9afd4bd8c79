"""Resolves a policy as its controller would, to show the result.

Hub templates are resolved first, in the whole policy, with the name and labels of one managed cluster; then the managed
templates, with the controller's own code. Without a source for a side, its templates stay unresolved, and a document with
unresolved hub templates has no managed templates yet. For a Policy of the framework the policies in it are explained; any other
object is one template as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import orjson

from muster.machinery.objects import Object
from muster.policy.comparison import ComparisonError, compare
from muster.policy.configuration.definitions import Definition, InvalidDefinition
from muster.policy.configuration.desired import Desired, DesiredObjects
from muster.policy.configuration.diffs import unified_diff
from muster.policy.configuration.raw_templates import RawTemplatesError, resolve_raw
from muster.policy.explanation.reads import Read, RecordingSource
from muster.policy.names import HUB_DELIMITERS, MANAGED_DELIMITERS
from muster.policy.resolver import ObjectSource, ResolveError, ResolveOptions, Resolver, has_template
from muster.policy.standalone.document import has_templates_disabled
from muster.runtime.cache import Selection
from muster.runtime.client import KubeError, NoKindMatch

_MANAGED_CLUSTER: Final = ("cluster.open-cluster-management.io/v1", "ManagedCluster")
_OPERATOR_FIELDS: Final = ("operatorGroup", "subscription", "versions")
_RAW: Final = "object-templates-raw"
_NOT_SHOWN: Final = "# The difference is not shown, because it contains sensitive data."


class Side(Enum):
    HUB = "hub"
    CLUSTER = "cluster"


@dataclass(frozen=True)
class Problem:
    """Why something cannot be resolved."""

    side: Side
    where: str
    message: str


@dataclass(frozen=True)
class Difference:
    """What enforcing the policy would change in an object."""

    what: str
    action: str
    """none, create, update or delete."""
    diff: str = ""


@dataclass
class Explanation:
    name: str
    document: Object
    """Resolved as far as possible."""
    problems: list[Problem] = field(default_factory=list)
    unresolved: list[Side] = field(default_factory=list)
    """The sides whose templates are unresolved, for lack of a source."""
    reads: dict[Side, tuple[Read, ...]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    sensitive: bool = False

    @property
    def is_resolved(self) -> bool:
        return not self.problems


class _Unresolved(Exception):
    """The rest of the document cannot be resolved."""


class Explainer:
    """Explains policies with these clusters, either of which may be absent."""

    def __init__(
        self,
        hub: ObjectSource | None,
        cluster: ObjectSource | None,
        cluster_name: str = "",
        denylist: frozenset[str] = frozenset(),
        *,
        diffs: bool = False,
    ) -> None:
        self._sources = {Side.HUB: hub, Side.CLUSTER: cluster}
        self._cluster_name = cluster_name
        self._denylist = denylist
        self._diffs = diffs
        self._hub_resolver = Resolver(HUB_DELIMITERS)
        self._managed_resolver = Resolver(MANAGED_DELIMITERS)

    async def explain(self, document: Object) -> list[Explanation]:
        """One explanation for each policy in the document."""
        if document.get("kind") != "Policy":
            return [await self._explain(document)]
        templates = (document.get("spec") or {}).get("policy-templates") or ()
        return [await self._explain(one["objectDefinition"]) for one in templates if isinstance(one.get("objectDefinition"), dict)]

    async def _explain(self, document: Object) -> Explanation:
        explanation = Explanation(_name(document), document)
        if has_templates_disabled({"metadata": document.get("metadata") or {}}):
            return explanation
        recording = {side: RecordingSource(source) for side, source in self._sources.items() if source is not None}
        try:
            await self._resolve_hub(explanation, recording.get(Side.HUB))
            await self._resolve_managed(explanation, recording.get(Side.CLUSTER))
        except _Unresolved:
            pass
        explanation.reads = {side: source.reads for side, source in recording.items()}
        return explanation

    # Hub templates

    async def _resolve_hub(self, explanation: Explanation, source: RecordingSource | None) -> None:
        document = explanation.document
        metadata = document.get("metadata") or {}
        part = {**document, "metadata": {key: metadata[key] for key in ("name", "namespace") if key in metadata}}
        part.pop("status", None)
        text = orjson.dumps(part).decode()
        if not has_template(text, HUB_DELIMITERS):
            return
        if source is None:
            explanation.unresolved.append(Side.HUB)
            raise _Unresolved
        try:
            context = await self._hub_context(text, source)
            resolution = await self._hub_resolver.resolve(part, source, ResolveOptions(context, denylist=self._denylist))
        except (ResolveError, KubeError, NoKindMatch) as error:
            explanation.problems.append(Problem(Side.HUB, "", str(error)))
            raise _Unresolved from None
        explanation.sensitive = resolution.sensitive
        explanation.document = {**resolution.value, "metadata": {**metadata, **(resolution.value.get("metadata") or {})}}

    async def _hub_context(self, text: str, source: RecordingSource) -> Mapping[str, Any]:
        context: dict[str, Any] = {"ManagedClusterName": self._cluster_name}
        if ".ManagedCluster" in text and not self._cluster_name:
            raise ResolveError(
                "the hub templates need to know for which managed cluster they are resolved: name it (--cluster-name)"
            )
        if ".ManagedClusterLabels" in text:
            resource = await source.mapping(*_MANAGED_CLUSTER)
            found = await source.read(Selection(resource, "", self._cluster_name))
            if not found:
                raise ResolveError(f'managedclusters.cluster.open-cluster-management.io "{self._cluster_name}" not found')
            context["ManagedClusterLabels"] = found[0]["metadata"].get("labels") or {}
        return context

    # Managed templates

    async def _resolve_managed(self, explanation: Explanation, source: RecordingSource | None) -> None:
        document = explanation.document
        text = orjson.dumps(document.get("spec") if document.get("kind") in _RESOLVERS else document).decode()
        if source is None:
            if has_template(text, encrypted=True):
                explanation.unresolved.append(Side.CLUSTER)
            return
        options = ResolveOptions(denylist=self._denylist, sensitive=explanation.sensitive)
        resolve = _RESOLVERS.get(str(document.get("kind")), Explainer._resolve_whole)
        await resolve(self, explanation, source, options)

    async def _resolve_whole(self, explanation: Explanation, source: RecordingSource, options: ResolveOptions) -> None:
        explanation.document = await self._resolved(explanation, source, options, explanation.document, "")

    async def _resolve_operator(self, explanation: Explanation, source: RecordingSource, options: ResolveOptions) -> None:
        spec = dict(explanation.document.get("spec") or {})
        for name in _OPERATOR_FIELDS:
            if spec.get(name):
                spec[name] = await self._resolved(explanation, source, options, spec[name], f"spec.{name}")
        explanation.document = {**explanation.document, "spec": spec}

    async def _resolved(
        self, explanation: Explanation, source: RecordingSource, options: ResolveOptions, value: Any, where: str
    ) -> Any:
        if not has_template(orjson.dumps(value).decode()):
            return value
        try:
            resolution = await self._managed_resolver.resolve(value, source, options)
        except ResolveError as error:
            explanation.problems.append(Problem(Side.CLUSTER, where, str(error)))
            return value
        explanation.sensitive = explanation.sensitive or resolution.sensitive
        return resolution.value

    async def _resolve_configuration(self, explanation: Explanation, source: RecordingSource, options: ResolveOptions) -> None:
        document = explanation.document
        spec = {key: value for key, value in (document.get("spec") or {}).items() if key != _RAW}
        templates = spec.get("object-templates") or []
        if raw := (document.get("spec") or {}).get(_RAW):
            try:
                templates = await resolve_raw(str(raw), self._managed_resolver, source, options)
            except RawTemplatesError as error:
                explanation.problems.append(Problem(Side.CLUSTER, f"spec.{_RAW}", str(error)))
                return
        desired = DesiredObjects(
            str((document.get("metadata") or {}).get("name", "")),
            spec.get("namespaceSelector") or {},
            source,
            self._managed_resolver,
            options,
            False,
        )
        made: list[Object] = []
        for index, template in enumerate(templates):
            made += await self._resolve_template(explanation, desired, index, template)
        explanation.document = {**document, "spec": {**spec, "object-templates": made}}

    async def _resolve_template(
        self, explanation: Explanation, desired: DesiredObjects, index: int, template: Object
    ) -> list[Object]:
        """The template once for each desired object; unchanged if these cannot be determined."""
        where = f"spec.object-templates[{index}]"
        try:
            definition = Definition.read(index, template)
            targets = await desired.find(definition)
        except InvalidDefinition as error:
            explanation.problems.append(Problem(Side.CLUSTER, where, f"{error} has the wrong type"))
            return [template]
        explanation.sensitive = explanation.sensitive or targets.sensitive
        if targets.event is not None:
            if not targets.event.compliant:
                explanation.problems.append(Problem(Side.CLUSTER, where, targets.event.message))
                return [template]
            return []
        if self._diffs:
            secret = explanation.sensitive or definition.kind == "Secret"
            explanation.differences += [await self._difference(definition, targets, obj, secret=secret) for obj in targets.objects]
        return [{**template, "objectDefinition": obj} for obj in targets.objects]

    # Existing objects

    async def _difference(self, definition: Definition, targets: Desired, obj: Object, *, secret: bool) -> Difference:
        metadata = obj.get("metadata") or {}
        what = " ".join(filter(None, (definition.kind, "/".join(filter(None, (metadata.get("namespace"), metadata.get("name")))))))
        source = self._sources[Side.CLUSTER]
        if source is None or targets.resource is None or not metadata.get("name"):
            return Difference(what, "none", "# The template names no object: objects that match it are only compared.")
        try:
            found = await source.read(Selection(targets.resource, metadata.get("namespace") or "", metadata["name"]))
        except KubeError as error:
            return Difference(what, "none", f"# {error}")
        if definition.is_mustnothave:
            return Difference(what, "delete" if found else "none")
        if not found:
            return Difference(what, "create")
        try:
            compared = compare(obj, found[0], compliance=definition.compliance, metadata_compliance=definition.metadata_compliance)
        except ComparisonError as error:
            return Difference(what, "none", f"# {error}")
        if not (compared.mismatch or compared.missing_key):
            return Difference(what, "none")
        return Difference(what, "update", _NOT_SHOWN if secret else unified_diff(found[0], compared.merged, full=True))


_RESOLVERS: Final = {
    "ConfigurationPolicy": Explainer._resolve_configuration,
    "OperatorPolicy": Explainer._resolve_operator,
}
"""By kind, the fields with managed templates; of other kinds the whole document."""


def _name(document: Object) -> str:
    metadata = document.get("metadata") or {}
    return f"{document.get('kind', '')} {'/'.join(filter(None, (metadata.get('namespace'), metadata.get('name'))))}".strip()
