"""An `objectDefinition` before its templates are resolved: what is already known of it, and the context of its templates.

Kind and apiVersion cannot be templates. A name or namespace with a template counts as absent. Whether templates use
`.ObjectName`, `.ObjectNamespace` or `.Object` is determined from the text, as upstream does: only then are they resolved again
for every object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import orjson

from muster.machinery.objects import Object
from muster.policy.names import MANAGED_DELIMITERS

_ENCRYPTED: Final = "$ocm_encrypted:"
_OBJECT_NAMESPACE: Final = re.compile(r"\.ObjectNamespace")
_OBJECT_NAME: Final = re.compile(r"\.ObjectName\W", re.ASCII)
_OBJECT: Final = re.compile(r"\.Object\W", re.ASCII)


class InvalidDefinition(Exception):
    """A field that must be a string is not."""


def has_template(text: str) -> bool:
    return MANAGED_DELIMITERS[0] in text or _ENCRYPTED in text


@dataclass(frozen=True)
class Definition:
    """One object template of a policy."""

    index: int
    template: Object
    """The object template of the policy."""
    document: Object
    """The objectDefinition."""
    compliance: str
    metadata_compliance: str
    recreate_option: str
    record_diff: str
    object_selector: Object | None
    api_version: str
    kind: str
    given_name: str
    given_namespace: str

    @classmethod
    def read(cls, index: int, template: Any) -> Definition:
        """Raises InvalidDefinition."""
        if not isinstance(template, dict):
            raise InvalidDefinition("object-templates")
        document = _object(template, "objectDefinition", required=True)
        metadata = _object(document, "metadata")
        return cls(
            index,
            template,
            document,
            _text(template, "complianceType"),
            _text(template, "metadataComplianceType"),
            _text(template, "recreateOption"),
            _text(template, "recordDiff"),
            None if template.get("objectSelector") is None else _object(template, "objectSelector"),
            _text(document, "apiVersion"),
            _text(document, "kind"),
            _text(metadata, "name"),
            _text(metadata, "namespace"),
        )

    @cached_property
    def text(self) -> str:
        return orjson.dumps(self.document).decode()

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0] if "/" in self.api_version else ""

    @property
    def version(self) -> str:
        return self.api_version.partition("/")[2] if "/" in self.api_version else self.api_version

    @property
    def name(self) -> str:
        """Empty if it is a template."""
        return "" if has_template(self.given_name) else self.given_name

    @property
    def namespace(self) -> str:
        """Empty if it is a template."""
        return "" if self.has_templated_namespace else self.given_namespace

    @property
    def has_templated_namespace(self) -> bool:
        return has_template(self.given_namespace)

    @cached_property
    def has_template(self) -> bool:
        return has_template(self.text)

    @cached_property
    def uses_object(self) -> bool:
        return _OBJECT.search(self.text) is not None

    @cached_property
    def uses_name(self) -> bool:
        return self.uses_object or (self.has_template and _OBJECT_NAME.search(self.text) is not None)

    @cached_property
    def uses_namespace(self) -> bool:
        return self.has_template and _OBJECT_NAMESPACE.search(self.text) is not None

    @property
    def is_mustnothave(self) -> bool:
        return self.compliance.lower() == "mustnothave"

    @property
    def has_status(self) -> bool:
        return "status" in self.document


def _object(document: Object, field: str, *, required: bool = False) -> Object:
    value = document.get(field)
    if value is None and not required:
        return {}
    if not isinstance(value, dict):
        raise InvalidDefinition(field)
    return value


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidDefinition(field)
    return value


def template_context(obj: Object | None, name: str, namespace: str) -> dict[str, Any]:
    """The fields that templates may use: what is known of the object for which they are resolved. Any other field is an error."""
    context: dict[str, Any] = {}
    if name:
        context["Object"] = _without_managed_fields(obj) if obj is not None else {}
    if namespace:
        context["ObjectNamespace"] = namespace
    if name:
        context["ObjectName"] = name
    return context


def _without_managed_fields(obj: Object) -> Object:
    metadata = obj.get("metadata") or {}
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
