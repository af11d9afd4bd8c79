"""The namespaces of a template's manifests on the managed cluster.

With a configured namespace, every namespaced manifest moves there, Namespaces get its name, and so do service accounts in bindings.
Namespaces of an addon are labelled, so that the registration agent may store the addon's credentials in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster.api.addons import NAMESPACE_LABEL
from muster.machinery.objects import Object

_BINDINGS: Final = ("RoleBinding", "ClusterRoleBinding")


def is_namespace(manifest: Object) -> bool:
    return manifest.get("kind") == "Namespace" and manifest.get("apiVersion") == "v1"


def namespace_of(manifest: Object) -> str:
    return str(metadata_of(manifest).get("namespace") or "")


def metadata_of(manifest: Object) -> dict[str, Any]:
    """A manifest's own metadata, not to be changed; empty if it has none."""
    metadata = manifest.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def moved(manifests: Sequence[Object], namespace: str) -> list[Object]:
    """The manifests in another namespace; unchanged if none is given."""
    if not namespace:
        return list(manifests)
    there = [_moved(manifest, namespace) for manifest in manifests]
    # Several Namespaces become one: duplicates are dropped.
    first = next((manifest for manifest in there if is_namespace(manifest)), None)
    return [manifest for manifest in there if not is_namespace(manifest) or manifest is first]


def labelled(manifests: Iterable[Object]) -> list[Object]:
    """With the label by which the agent recognizes namespaces of addons."""
    return [_labelled(manifest) if is_namespace(manifest) else manifest for manifest in manifests]


def _moved(manifest: Object, namespace: str) -> Object:
    change: Object = {}
    if is_namespace(manifest):
        change["metadata"] = {**metadata_of(manifest), "name": namespace}
    elif namespace_of(manifest):
        change["metadata"] = {**metadata_of(manifest), "namespace": namespace}
    subjects = manifest.get("subjects")
    if manifest.get("kind") in _BINDINGS and isinstance(subjects, list):
        change["subjects"] = [_moved_subject(subject, namespace) for subject in subjects]
    return {**manifest, **change}


def _moved_subject(subject: Any, namespace: str) -> Any:
    is_account = isinstance(subject, dict) and subject.get("kind") == "ServiceAccount"
    return {**subject, "namespace": namespace} if is_account else subject


def _labelled(manifest: Object) -> Object:
    metadata = metadata_of(manifest)
    labels = metadata.get("labels")
    return {
        **manifest,
        "metadata": {**metadata, "labels": {**(labels if isinstance(labels, dict) else {}), NAMESPACE_LABEL: "true"}},
    }
