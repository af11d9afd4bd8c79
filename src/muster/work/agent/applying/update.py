"""From a manifest and the live object to the object to write, if there is one: the Update strategy as pure functions.

Labels and annotations are added to; a key that ends in `-` takes the key before the dash away. Finalizers stay the cluster's.
Content is compared and overlaid as `agreeing` does it, by the rules of the kind.
"""

from __future__ import annotations

from typing import Any

from muster.machinery.objects import Object
from muster.work.agent.applying.comparison import ComparisonRules, agrees, drop_nulls, drop_unspecified, overlay, replacement
from muster.work.agent.applying.kinds import content_of, rules_of
from muster.work.agent.applying.owners import owners_wanted, reference
from muster.work.agent.interfaces import Manifest, ManifestOwner
from muster.work.agent.manifests import as_new


def creation(manifest: Manifest, owner: ManifestOwner) -> Object:
    """What to POST."""
    document = as_new(manifest.document)
    if manifest.owned:
        document["metadata"]["ownerReferences"] = [reference(owner)]
    return document


def merged(manifest: Manifest, live: Object, owner: ManifestOwner, before: Any = None, *, replacing: bool = False) -> Object | None:
    """The object to PUT, or None if nothing differs. `before` is the shape of the last manifest, if known.

    With `replacing`, maps that change lose the fields that the manifest does not set, for a server that refused both together.
    """
    kind = rules_of(manifest.ref.resource)
    content = wanted = content_of(live)
    if not kind.metadata_only:
        desired = drop_nulls(kind.content(drop_nulls(content_of(manifest.document)), live))
        wanted = drop_unspecified(_removable(before), desired, content) if before else content
        if not agrees(desired, wanted, kind.fields):
            wanted = (replacement if replacing else overlay)(desired, wanted, kind.fields)
    metadata = metadata_wanted(manifest, live, owner)
    if wanted is content and metadata is None:
        return None
    untouched = {key: value for key, value in live.items() if key not in content}
    kept = {key: value for key, value in (metadata or live["metadata"]).items() if key != "managedFields"}
    resource = manifest.ref.resource
    return {**untouched, "apiVersion": resource.api_version, "kind": resource.kind, **wanted, "metadata": kept}


def _removable(before: Any) -> Any:
    """A number of replicas that was removed from the manifest is left to the autoscaler, not reset to the default of one."""
    spec = before.get("spec")
    if not isinstance(spec, dict) or "replicas" not in spec:
        return before
    return {**before, "spec": {key: value for key, value in spec.items() if key != "replicas"}}


def metadata_wanted(manifest: Manifest, live: Object, owner: ManifestOwner) -> Object | None:
    """The live metadata with the manifest's labels, annotations and owners, or None if it has them already."""
    desired = manifest.document.get("metadata") or {}
    metadata = live["metadata"]
    changes: Object = {}
    for field in ("labels", "annotations"):
        present = metadata.get(field) or {}
        wanted = _keyed(desired.get(field) or {}, present)
        if wanted != present:
            changes[field] = wanted
    owners = owners_wanted(live, owner, manifest.owned)
    if owners != (metadata.get("ownerReferences") or []):
        changes["ownerReferences"] = owners
    return {**metadata, **changes} if changes else None


def _keyed(desired: Object, live: Object) -> Object:
    gone = {key[:-1] for key in desired if key.endswith("-")}
    kept = {key: value for key, value in live.items() if key not in gone}
    return {**kept, **{key: value for key, value in desired.items() if not key.endswith("-") and value is not None}}


def agreed(manifest: Manifest, live: Object) -> bool:
    """Whether the object has all fields of the manifest, whatever else it has; owners are not compared."""
    rules = ComparisonRules(builtin=rules_of(manifest.ref.resource).fields.builtin)
    desired = manifest.document.get("metadata") or {}
    metadata = live["metadata"]
    return agrees(drop_nulls(content_of(manifest.document)), content_of(live), rules) and all(
        (metadata.get(field) or {}).get(key) == value
        for field in ("labels", "annotations")
        for key, value in (desired.get(field) or {}).items()
    )
