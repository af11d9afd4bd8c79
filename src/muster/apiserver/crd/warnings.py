"""Warnings for clients of custom resources: deprecated versions, and finalizers without a domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.apiserver.registry.group_versions import version_priority
from muster.kube import names
from muster.machinery.golang.quoting import quote

Raw = Mapping[str, Any]
_STANDARD: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_REASON: Final = "to avoid accidental conflicts with other finalizer writers"


def deprecation(version: Raw, spec: Raw) -> str:
    """The warning for requests to a deprecated version; empty if it is not deprecated."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    replacements = [
        other["name"]
        for other in spec["versions"]
        if other.get("served") and not other.get("deprecated") and version_priority(other["name"]) < version_priority(name)
    ]
    text = f"{group}/{name} {kind} is deprecated"
    return f"{text}; use {group}/{min(replacements, key=version_priority)} {kind}" if replacements else text


def finalizer_warnings(new: Raw, old: Raw | None) -> list[str]:
    """Warnings about added finalizers that are not qualified names."""
    before = set() if old is None else set(old["metadata"].get("finalizers") or ())
    warnings: list[str] = []
    for name in sorted(set(new["metadata"].get("finalizers") or ()) - before):
        where = f"metadata.finalizers: {quote(name)}"
        warnings += [f"{where}: {problem}" for problem in names.qualified_name(name)]
        if "/" not in name and name not in _STANDARD:
            preferred = (
                "a domain-qualified finalizer name including a path (/)" if "." in name else "a domain-qualified finalizer name"
            )
            warnings.append(f"{where}: prefer {preferred} {_REASON}")
    return warnings
