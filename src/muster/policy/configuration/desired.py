"""The objects that an object template stands for: for each namespace and name, the definition with its templates resolved.

A namespaced kind without a namespace of its own stands for an object in every namespace that the policy selects. A template
without a name stands for every object that its `objectSelector` matches or, without one, for no particular object (and is only
compared). Templates are resolved once, and again only for the values that they depend on. `skipObject` leaves objects out.

An error ends this template only, with an event that contains the reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from muster.api.policy.v1 import RelatedObject
from muster.kube.selectors import SelectorError, from_label_selector_object
from muster.machinery.objects import GVR, Object
from muster.policy.comparison import matches
from muster.policy.configuration import results
from muster.policy.configuration.definitions import Definition, template_context
from muster.policy.configuration.interfaces import TemplateResolver
from muster.policy.configuration.namespaces import NamespaceSelectorError, selected_namespaces, selects_none
from muster.policy.configuration.related import add_related, related_object
from muster.policy.configuration.results import ObjectEvent
from muster.policy.configuration.skip import SKIP_OBJECT, SkipObject
from muster.policy.resolver.interfaces import ObjectSource, ResolveError, ResolveOptions
from muster.runtime.cache import Selection
from muster.runtime.client import KubeError, NoKindMatch
from muster.runtime.client.builtin import NAMESPACES

_EMPTY_CONTEXT: Final[Mapping[str, Any]] = {"Object": {}, "ObjectNamespace": "", "ObjectName": ""}
_SKIPPED: Final = "All objects of kind {} were skipped by the `skipObject` template function"
METHOD_NOT_ALLOWED: Final = 405


class MappingError(Exception):
    """The cluster does not serve the kind; it may do so later."""


@dataclass(frozen=True)
class Desired:
    """The desired objects of a template."""

    objects: tuple[Object, ...] = ()
    resource: GVR | None = None
    related: tuple[RelatedObject, ...] = ()
    event: ObjectEvent | None = None
    """What to report if there are no objects."""
    error: Exception | None = None
    """The error, if any: nothing is pruned, and the policy is evaluated again."""
    sensitive: bool = False
    """Whether templates have read Secrets."""


class _Undetermined(Exception):
    """The desired objects cannot be determined; contains what is reported."""

    def __init__(self, reason: str, message: str, error: Exception | None = None) -> None:
        super().__init__(message)
        self.event = ObjectEvent(False, reason, message)
        self.error = error


@dataclass
class DesiredObjects:
    """Finds the objects of a policy's templates."""

    policy_name: str
    namespace_selector: Object
    source: ObjectSource
    resolver: TemplateResolver | None
    """None if templates must not be resolved."""
    resolve_options: ResolveOptions
    drop_terminating_namespaces: bool
    _namespaces: list[str] | None = field(default=None, init=False)

    async def find(self, definition: Definition) -> Desired:
        if not definition.kind or not definition.version:
            return Desired(
                event=ObjectEvent(
                    False,
                    results.DECODE_ERROR,
                    "The kind and apiVersion fields are required on the object template at index "
                    f"{definition.index} in policy {self.policy_name}",
                )
            )
        try:
            resource = await self.source.mapping(definition.api_version, definition.kind)
        except (NoKindMatch, KubeError) as error:
            return await self._unmapped(definition, error)
        try:
            return await self._of_resource(definition, resource)
        except _Undetermined as undetermined:
            return Desired(resource=resource, event=undetermined.event, error=undetermined.error)

    async def _unmapped(self, definition: Definition, error: Exception) -> Desired:
        if self.resolver is not None and definition.has_template and await self._skips_unmapped(definition):
            return Desired(event=ObjectEvent(True, "", _SKIPPED.format(definition.kind)))
        if isinstance(error, NoKindMatch):
            error = MappingError(
                f"couldn't find mapping resource with kind {definition.kind} in API version {definition.api_version}, "
                "please check if you have CRD deployed"
            )
        return Desired(event=ObjectEvent(False, results.MAPPING_ERROR, str(error)), error=error)

    async def _skips_unmapped(self, definition: Definition) -> bool:
        skip = SkipObject()
        with contextlib.suppress(ResolveError):  # Only the unknown kind is reported.
            await self._resolve(definition, _EMPTY_CONTEXT, skip)
        return skip.called

    async def _of_resource(self, definition: Definition, resource: GVR) -> Desired:
        found = await self._objects(definition, resource)
        desired, skipped, sensitive = await self._resolved(definition, resource, found)
        if not desired:
            if skipped:
                message = _SKIPPED
            elif definition.object_selector is not None:
                message = "No objects of kind {} were matched from the policy objectSelector"
            else:
                message = "No objects of kind {} were matched from the objectDefinition metadata"
            return Desired(resource=resource, event=ObjectEvent(True, "", message.format(definition.kind)))
        if definition.is_mustnothave and not definition.given_name and definition.object_selector is not None:
            return await self._matching(definition, resource, found, desired, sensitive)
        return Desired(tuple(desired), resource, sensitive=sensitive)

    async def _objects(self, definition: Definition, resource: GVR) -> dict[str, dict[str, Object | None]]:
        """By namespace and name, the objects for which templates are resolved, if they use `.Object`."""
        namespaces = await self._namespaces_of(definition, resource)
        selector = definition.object_selector
        if not definition.name and selector is not None:
            return {namespace: await self._selected(definition, resource, namespace) for namespace in namespaces}
        found: dict[str, dict[str, Object | None]] = {}
        for namespace in namespaces:
            obj = None
            if definition.uses_object and definition.name and not definition.has_templated_namespace:
                obj = await self._existing(definition, resource, namespace)
            found[namespace] = {definition.name: obj}
        return found

    async def _namespaces_of(self, definition: Definition, resource: GVR) -> Sequence[str]:
        if not resource.namespaced:
            return ("",)
        if definition.namespace:
            return (definition.namespace,)
        namespaces = await self._selected_namespaces()
        if not namespaces and definition.has_templated_namespace:
            return ("",)
        if not namespaces:
            raise _Undetermined(
                results.NO_NAMESPACE,
                f"{_described(definition)} has no namespace specified from the policy namespaceSelector nor the object metadata",
            )
        return namespaces

    async def _selected_namespaces(self) -> list[str]:
        if self._namespaces is None:
            selector = self.namespace_selector
            try:
                every = () if selects_none(selector) else await self.source.read(Selection(NAMESPACES))
                self._namespaces = selected_namespaces(selector, every, drop_terminating=self.drop_terminating_namespaces)
            except (NamespaceSelectorError, KubeError) as error:
                message = f"Error filtering namespaces with provided namespaceSelector: {error}"
                raise _Undetermined(results.NAMESPACE_SELECTOR_ERROR, message, error) from error
        return self._namespaces

    async def _existing(self, definition: Definition, resource: GVR, namespace: str) -> Object | None:
        try:
            found = await self.source.read(Selection(resource, namespace, definition.name))
        except KubeError as error:
            if getattr(error, "code", 0) == METHOD_NOT_ALLOWED:
                raise _Undetermined(results.UNWATCHABLE, unwatchable(definition.index, error), error) from error
            return None  # The comparison reads it again, and reports the error.
        return found[0] if found else None

    async def _selected(self, definition: Definition, resource: GVR, namespace: str) -> dict[str, Object | None]:
        problem = f"resources with provided objectSelector in the object-template at index [{definition.index}]"
        try:
            selector = object_selector(definition)
        except SelectorError as error:
            message = f"Error parsing provided objectSelector in the object-template at index [{definition.index}]: {error}"
            raise _Undetermined(results.OBJECT_SELECTOR_ERROR, message, error) from error
        try:
            found = await self.source.read(Selection(resource, namespace, label_selector=selector))
        except KubeError as error:
            hint = ", it may require evaluationInterval to be set" if getattr(error, "code", 0) == METHOD_NOT_ALLOWED else ""
            message = f"Error listing {problem}{hint}: {error}"
            raise _Undetermined(results.OBJECT_SELECTOR_ERROR, message, error) from error
        return {obj["metadata"]["name"]: obj for obj in found}

    async def _resolved(
        self, definition: Definition, resource: GVR, found: Mapping[str, Mapping[str, Object | None]]
    ) -> tuple[list[Object], bool, bool]:
        """The objects, whether some were skipped, and whether templates have read Secrets."""
        desired: list[Object] = []
        skipped = sensitive = False
        templated = self.resolver is not None and definition.has_template
        document: Any = None if templated else definition.document
        for namespace, named in found.items():
            if templated and definition.uses_namespace:
                document = None
            for name, obj in named.items():
                if templated and definition.uses_name:
                    document = None
                if document is None:
                    skip = SkipObject()
                    context = template_context(obj, name, namespace)
                    try:
                        document, read_secrets = await self._resolve(definition, context, skip)
                    except ResolveError as error:
                        if not skip.called:
                            raise _Undetermined(results.TEMPLATE_ERROR, str(error), error) from error
                    if skip.called:
                        document, skipped = None, True
                        continue
                    sensitive = sensitive or read_secrets
                desired.append(self._checked(definition, resource, document, name, namespace))
        return desired, skipped, sensitive

    async def _resolve(self, definition: Definition, context: Mapping[str, Any], skip: SkipObject) -> tuple[Any, bool]:
        if self.resolver is None:
            raise AssertionError("there is no resolver")
        options = replace(self.resolve_options, context=context, custom_functions=SKIP_OBJECT, bind={"skipObject": skip})
        resolution = await self.resolver.resolve(definition.document, self.source, options)
        return resolution.value, resolution.sensitive

    def _checked(self, definition: Definition, resource: GVR, document: Any, name: str, namespace: str) -> Object:
        if not isinstance(document, dict) or not isinstance(document.get("metadata", {}), dict):
            raise _Undetermined(
                results.DECODE_ERROR,
                "Decoding error, please check your policy file! Aborting handling the object template at index "
                f"[{definition.index}] in policy `{self.policy_name}` with error = `the object definition is no object`",
            )
        metadata = _metadata(document)
        placed = _placed(
            document, _stripped(metadata.get("name")) or name.strip(), _stripped(metadata.get("namespace")) or namespace.strip()
        )
        if isinstance(placed.get("kind"), str):
            placed["kind"] = placed["kind"].strip()
        metadata = placed["metadata"]
        if not selects_none(self.namespace_selector) and metadata.get("namespace", "") != namespace:
            raise _Undetermined(
                results.TEMPLATE_ERROR,
                "The object definition's namespace must match the result from the namespace selector after template resolution",
            )
        if resource.namespaced and definition.has_templated_namespace and not metadata.get("namespace"):
            raise _Undetermined(
                results.TEMPLATE_ERROR, f"{_described(definition)} has no namespace specified after template resolution"
            )
        if definition.object_selector is not None and metadata.get("name", "") != name:
            raise _Undetermined(
                results.TEMPLATE_ERROR,
                "The object definition's name must match the result from the object selector after template resolution",
            )
        return placed

    async def _matching(
        self,
        definition: Definition,
        resource: GVR,
        found: Mapping[str, Mapping[str, Object | None]],
        desired: Sequence[Object],
        sensitive: bool,
    ) -> Desired:
        """For mustnothave, the objects that match more of the template than its labels."""
        targeted = []
        for obj in desired:
            metadata = obj["metadata"]
            existing = found.get(metadata.get("namespace", ""), {}).get(metadata.get("name", ""))
            unnamed = _placed(obj, "", metadata.get("namespace", ""))
            if existing is not None and matches(unnamed, existing, compliance=definition.compliance):
                targeted.append(obj)
        if targeted:
            return Desired(tuple(targeted), resource, sensitive=sensitive)
        related: list[RelatedObject] = []
        for namespace, named in found.items():
            for name in named:
                entry = related_object(resource, definition.kind, namespace, name, compliant=True, reason="")
                add_related(related, (entry,))
        namespaces = sorted(found)
        where = "namespaces:" if len(namespaces) > 1 else "namespace"
        message = f"{resource.plural} missing as expected in {where} {', '.join(namespaces)}"
        return Desired(resource=resource, related=tuple(related), event=ObjectEvent(True, "", message))


def object_selector(definition: Definition) -> str:
    """Raises SelectorError."""
    selector = definition.object_selector
    return "" if selector is None else str(from_label_selector_object(selector))


def unwatchable(index: int, error: Exception) -> str:
    return f"Error with object-template at index [{index}], it may require evaluationInterval to be set: {error}"


def _described(definition: Definition) -> str:
    return f"namespaced object{f' {definition.name}' if definition.name else ''} of kind {definition.kind}"


def _metadata(document: Object) -> dict[str, Any]:
    metadata: dict[str, Any] = document.get("metadata") or {}
    return metadata


def _stripped(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _placed(document: Object, name: str, namespace: str) -> Object:
    """The document with this namespace and name."""
    metadata = {key: value for key, value in _metadata(document).items() if key not in ("name", "namespace")}
    if name:
        metadata["name"] = name
    if namespace:
        metadata["namespace"] = namespace
    return {**document, "metadata": metadata}
