"""The hash of a work's status, as Go's agents compute it: sha256 of the status as Go encodes it, with sorted keys.

Go encodes by its types: structs always, even if empty, strings of manifest conditions even if empty, and an unset time as null.
"""

from __future__ import annotations

import hashlib

import msgspec

from muster.api.meta import Condition
from muster.api.resource import known_fields
from muster.api.work.v1 import ManifestCondition, ManifestWorkStatus
from muster.machinery.golang.json import encode_json
from muster.machinery.objects import Object


def status_hash(status: ManifestWorkStatus) -> str:
    conditions, manifests = status_parts(status)
    document: Object = {"resourceStatus": {"manifests": manifests} if manifests else {}}
    if conditions:
        document["conditions"] = conditions
    return hashlib.sha256(encode_json(document).encode()).hexdigest()


def status_parts(status: ManifestWorkStatus) -> tuple[list[Object], list[Object]]:
    """The conditions of a work and the status of its manifests, as Go encodes them."""
    return [_condition(item) for item in status.conditions], [_manifest(item) for item in status.resource_status.manifests]


def _condition(condition: Condition) -> Object:
    written: Object = known_fields(condition)
    written["lastTransitionTime"] = condition.last_transition_time or None
    return written


def _manifest(manifest: ManifestCondition) -> Object:
    return {
        "resourceMeta": msgspec.to_builtins(manifest.resource_meta),
        "statusFeedback": known_fields(manifest.status_feedback),
        "conditions": [_condition(item) for item in manifest.conditions],
    }
