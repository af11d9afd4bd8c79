"""Limits a status to what etcd stores: an object above 1.5 MiB is refused, and with it the whole status.

A work of 500 KiB may have thousands of manifests, whose entries are longer than they are. If they do not all fit, entries with
information come first: failures, missing objects, and values or conditions that rules request; then as many of the others as fit.
The conditions of the work are made of all of them. Invariant: the same entries give the same list, in the order of the spec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from muster.api.work.v1 import ManifestCondition, ManifestWorkSpec
from muster.work.agent.reporting.rules import comes_from_rule

OBJECT: Final = 1_400_000
"""Bytes of a work as it is stored; the rest is for its metadata and for what a request takes around it."""
LEAST: Final = 128 * 1024
"""Bytes for the entries, however large the spec is."""
_ENTRY: Final = 700
"""Bytes of an entry of three conditions at most, without its names, messages and values."""
_ESCAPED: Final = 6
"""Bytes that one character may take: some are written by their number."""

Entries = tuple[ManifestCondition, ...]


def fitting(entries: Entries, spec: ManifestWorkSpec) -> Entries:
    """The entries that fit into the object together with the spec."""
    spec_size = sum(map(len, spec.workload.manifests))
    if spec_size + sum(map(_at_most, entries)) <= OBJECT:
        return entries
    room = max(LEAST, OBJECT - _stored(msgspec.json.encode(spec)))
    sizes = [_stored(msgspec.json.encode(entry)) + 1 for entry in entries]
    if sum(sizes) <= room:
        return entries
    listed: list[int] = []
    for index in sorted(range(len(entries)), key=lambda index: not _is_informative(entries[index])):
        if sizes[index] <= room:
            room -= sizes[index]
            listed.append(index)
    return tuple(entries[index] for index in sorted(listed))


def _at_most(entry: ManifestCondition) -> int:
    """What it surely does not exceed, without writing it."""
    values: Sequence[str] = [one.field_value.string or one.field_value.json_raw or "" for one in entry.status_feedback.values]
    meta = entry.resource_meta
    names = len(meta.group) + len(meta.resource) + len(meta.kind) + len(meta.namespace) + len(meta.name)
    texts = sum(len(condition.message) + len(condition.type) for condition in entry.conditions)
    parts = max(0, len(entry.conditions) - 3) + len(values)
    return _ENTRY + 200 * parts + names + _ESCAPED * (texts + sum(map(len, values)))


def _stored(raw: bytes) -> int:
    """Kubernetes writes the characters of markup by their number."""
    return len(raw) + (_ESCAPED - 1) * sum(map(raw.count, (b"<", b">", b"&")))


def _is_informative(entry: ManifestCondition) -> bool:
    reported = bool(entry.status_feedback.values) or any(map(comes_from_rule, entry.conditions))
    return reported or any(condition.status != "True" for condition in entry.conditions)
