"""`object-templates-raw`: a text that becomes the list of object templates when its own templates are resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from muster.kube import yaml
from muster.machinery.golang.errors import GoError
from muster.machinery.objects import Object
from muster.policy.configuration.definitions import has_template
from muster.policy.configuration.diffs import CENSORED
from muster.policy.configuration.interfaces import TemplateResolver
from muster.policy.resolver.interfaces import ObjectSource, ResolveError, ResolveOptions

_LIST: Final = "[]*v1.ObjectTemplate"
_ITEM: Final = "v1.ObjectTemplate"
_JSON_TYPES: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


class RawTemplatesError(Exception):
    """The text is not a list of templates. `invalid` if only a change of the policy can help."""

    def __init__(self, message: str, *, invalid: bool = False) -> None:
        super().__init__(message)
        self.invalid = invalid


async def resolve_raw(text: str, resolver: TemplateResolver, source: ObjectSource, options: ResolveOptions) -> list[Object]:
    """The templates of the policy. Raises RawTemplatesError."""
    if not has_template(text):
        try:
            return _templates(yaml.load(text), "error unmarshaling JSON: while decoding JSON: ")
        except (yaml.YAMLError, GoError) as error:
            raise RawTemplatesError(f"Error parsing object-templates-raw YAML: {_explained(error)}", invalid=True) from error
    try:
        resolution = await resolver.resolve(text, source, replace(options, input_is_yaml=True))
        found = _templates(resolution.value, "failed unmarshalling resolved object-templates-raw template: ")
    except (ResolveError, GoError) as error:
        raise RawTemplatesError(str(error)) from error
    if resolution.sensitive:
        return [template if template.get("recordDiff") else {**template, "recordDiff": CENSORED} for template in found]
    return found


def _templates(value: Any, prefix: str) -> list[Object]:
    if value is None:
        return []
    items: Sequence[Any] = value if isinstance(value, list) else ()
    for item, kind, expected in ((value, list, _LIST), *((item, dict, _ITEM) for item in items)):
        if not isinstance(item, kind):
            found = _JSON_TYPES.get(type(item), "null")
            raise GoError(f"{prefix}json: cannot unmarshal {found} into Go value of type {expected}")
    return list(items)


def _explained(error: Exception) -> str:
    return f"error converting YAML to JSON: {error}" if isinstance(error, yaml.YAMLError) else str(error)
