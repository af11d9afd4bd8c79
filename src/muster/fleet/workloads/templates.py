"""Pod templates of Deployments: which ReplicaSet has the wanted one, its name, and the annotations of both.

The hash in a ReplicaSet's name is Kubernetes' (FNV-1a, safe-encoded without vowels) over our own serialization of the template, so
it is stable but differs from that of a real cluster. The current set is found by comparing templates, as in the real controller,
never by the hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from muster.fleet.attached import reference
from muster.machinery.objects import Object

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MOST, "deprecated.deployment.rollback.to"}
)
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_HISTORY_LENGTH: Final = 2000


def template_hash(template: Object, collisions: int = 0) -> str:
    content = orjson.dumps(template, option=orjson.OPT_SORT_KEYS) + (b"%d" % collisions if collisions else b"")
    number = 0x811C9DC5
    for byte in content:
        number = ((number ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def _bare(template: Object) -> Object:
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.pop("labels", None) or {}).items() if key != HASH_LABEL}
    metadata = {key: value for key, value in metadata.items() if value}
    return {**template, "metadata": {**metadata, **({"labels": labels} if labels else {})}}


def current_set(deployment: Object, sets: Iterable[Object]) -> Object | None:
    """The oldest set with the Deployment's template."""
    wanted = _bare(deployment["spec"]["template"])
    ordered = sorted(sets, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
    return next((each for each in ordered if _bare(each["spec"]["template"]) == wanted), None)


def new_set(deployment: Object, collisions: int, replicas: int, most: int, revision: int) -> Object:
    spec, template = deployment["spec"], deployment["spec"]["template"]
    suffix = template_hash(template, collisions)
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: suffix}
    selector = spec["selector"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment['metadata']['name'][: 252 - len(suffix)]}-{suffix}",
            "namespace": deployment["metadata"]["namespace"],
            "ownerReferences": [reference(deployment, "apps/v1", "Deployment")],
            "labels": labels,
            "annotations": set_annotations(deployment, {}, most, revision),
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


def set_annotations(deployment: Object, present: dict[str, str], most: int, revision: int) -> dict[str, str]:
    """The annotations of the current set: the Deployment's own, its revision, and its sizes."""
    copied = {k: v for k, v in (deployment["metadata"].get("annotations") or {}).items() if k not in _NOT_COPIED}
    notes = {**present, **copied, DESIRED: str(deployment["spec"].get("replicas", 1)), MOST: str(most)}
    before = number(present.get(REVISION))
    if before < revision:
        notes[REVISION] = str(revision)
        if before:
            history = [*filter(None, present.get(HISTORY, "").split(",")), str(before)]
            while len(",".join(history)) > _HISTORY_LENGTH:
                history.pop(0)
            notes[HISTORY] = ",".join(history)
    return notes


def revision_of(obj: Object) -> int:
    return number((obj["metadata"].get("annotations") or {}).get(REVISION))


def number(text: Any) -> int:
    """The number in an annotation; 0 for anything else."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0
