"""Validation of the spec of an access review."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from muster.kube.fielderrors import FieldError, Rendered, invalid


def check_attributes(spec: Mapping[str, Any]) -> list[FieldError]:
    """Exactly one of the two kinds of attributes."""
    path, with_resource = spec.get("nonResourceAttributes"), "resourceAttributes" in spec
    if with_resource and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", shown_path(path), text)]
    if not with_resource and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, text)]
    return []


def shown_path(path: Mapping[str, Any]) -> Rendered:
    """Non-resource attributes in the format of Go's internal type: every field, with its Go name."""
    return Rendered(orjson.dumps({"Path": path.get("path", ""), "Verb": path.get("verb", "")}).decode())
