"""The configurations of an addon on a cluster: planned, recorded in its status, and currently on the hub.

A released plan becomes the references of the status; otherwise they stay unchanged, with a condition. The last applied
configuration is kept until a newer one is applied. If another process plans, the references are read from the status, and only the
addon's own fields are updated: the observed generation, and the hash of configurations in the ManagedClusterAddOn's own spec.

An object is used for rendering only if it has the desired hash: one that was edited but not released for this cluster must not be
deployed by the next reconcile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from muster.addon.agent_addon import ConfigObject
from muster.addon.config_objects import ConfigObjects
from muster.addon.framework.status_draft import CONFIGURED, StatusDraft
from muster.addon.plans import Planned
from muster.api.addon.v1alpha1 import AddOnConfig, ConfigGroupResource, ConfigReference, ManagedClusterAddOn

References = tuple[ConfigReference, ...]


def configure(draft: StatusDraft, planned: Planned) -> None:
    """Set the planned references in the status, if they are released for this cluster."""
    if not planned.released:
        message = "Configurations updated and not configured yet"
        draft.set(CONFIGURED, False, "ConfigurationsNotConfigured", message)
        return
    draft.put(config_references=planned_references(planned, draft.status.config_references))
    draft.set(CONFIGURED, True, "ConfigurationsConfigured", "Configurations configured")


def planned_references(planned: Planned, present: References) -> References:
    """The references of a plan, with the recorded fields."""
    known = {(old.group, old.resource, *_referent(old)): old for old in reversed(present)}
    wanted: list[ConfigReference] = []
    for config in planned.configs:
        same = known.get((config.group, config.resource, config.config.namespace, config.config.name))
        wanted.append(
            ConfigReference(
                group=config.group,
                resource=config.resource,
                name=config.config.name,
                namespace=config.config.namespace,
                last_observed_generation=same.last_observed_generation if same else 0,
                desired_config=config.config,
                last_applied_config=same.last_applied_config if same else None,
            )
        )
    return tuple(wanted)


def observed(references: References, objects: ConfigObjects, own: Sequence[AddOnConfig] = ()) -> References:
    """The references with the observed generation of their objects; for those in `own` the hash too."""
    named = {(one.group, one.resource, one.namespace, one.name) for one in own}
    return tuple(_observed(reference, objects, named) for reference in references)


def _observed(reference: ConfigReference, objects: ConfigObjects, named: Collection[tuple[str, str, str, str]]) -> ConfigReference:
    desired = reference.desired_config
    if desired is None:
        return reference
    key = (reference.group, reference.resource, desired.namespace, desired.name)
    found = objects.get(*key)
    if found is None:
        return reference
    if key in named:
        desired = msgspec.structs.replace(desired, spec_hash=found.spec_hash)
    if found.spec_hash != desired.spec_hash:
        # Edited and not released: unchanged until then.
        return reference
    generation = (found.document.get("metadata") or {}).get("generation")
    seen = generation if isinstance(generation, int) else 0
    return msgspec.structs.replace(reference, desired_config=desired, last_observed_generation=seen)


def _referent(reference: ConfigReference) -> tuple[str, str]:
    desired = reference.desired_config
    return (desired.namespace, desired.name) if desired is not None else (reference.namespace, reference.name)


@dataclass(frozen=True)
class Resolved:
    """The objects of an addon's references."""

    configs: tuple[ConfigObject, ...]
    missing: bool
    """Some do not exist, or have no desired hash yet."""
    current: bool
    """All have the desired hash."""


def resolve(references: References, objects: ConfigObjects) -> Resolved:
    configs: list[ConfigObject] = []
    missing, current = False, True
    for reference in references:
        desired = reference.desired_config
        found = None if desired is None else objects.get(reference.group, reference.resource, desired.namespace, desired.name)
        if desired is None or found is None or not desired.spec_hash:
            missing = True
            continue
        configs.append(found)
        current = current and found.spec_hash == desired.spec_hash
    return Resolved(tuple(configs), missing, current and not missing)


def unsupported(addon: ManagedClusterAddOn, supported: Iterable[ConfigGroupResource]) -> AddOnConfig | None:
    """The first of the addon's own configurations of an unsupported kind."""
    kinds = {(one.group, one.resource) for one in supported}
    return next((config for config in addon.spec.configs if (config.group, config.resource) not in kinds), None)


def config_hashes(references: References) -> dict[str, str]:
    """The references in the format of works' annotations."""
    hashes: dict[str, str] = {}
    for reference in references:
        if (desired := reference.desired_config) is not None:
            hashes[config_key(reference.group, reference.resource, desired.namespace, desired.name)] = desired.spec_hash
    return hashes


def config_key(group: str, resource: str, namespace: str, name: str) -> str:
    return f"{resource}.{group}/{namespace}/{name}" if group else f"{resource}/{namespace}/{name}"
