"""Which configurations an addon has on a cluster: as planned, as recorded in its status, and as the hub serves them now.

A plan that is released becomes the references of the status; one that is not leaves them as they are, and says so. What was applied
last is kept until something newer is. Where another process plans, the references are read from the status, and only what is the
addon's own business is filled in: the generation that was seen, and the hash of what the ManagedClusterAddOn itself names.

An object counts for rendering only at the hash that is wanted: one that was edited and not released for this cluster yet must not
reach it by the back door of the next pass.
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
    """Put what is planned into the status, if it is this cluster's turn."""
    if not planned.released:
        message = "Configurations updated and not configured yet"
        draft.set(CONFIGURED, False, "ConfigurationsNotConfigured", message)
        return
    draft.put(config_references=planned_references(planned, draft.status.config_references))
    draft.set(CONFIGURED, True, "ConfigurationsConfigured", "Configurations configured")


def planned_references(planned: Planned, present: References) -> References:
    """The references of a plan, with what is known of them from before."""
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
    """The references with what is seen of their objects; of those in `own` the hash too."""
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
        # Edited, and not wanted so yet: nothing is written before it is.
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
    """Some are not there, or nothing says yet at which hash they are wanted."""
    current: bool
    """All are as they are wanted."""


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
    """The first of the addon's own configurations that it does not read."""
    kinds = {(one.group, one.resource) for one in supported}
    return next((config for config in addon.spec.configs if (config.group, config.resource) not in kinds), None)


def config_hashes(references: References) -> dict[str, str]:
    """The references as works carry them."""
    hashes: dict[str, str] = {}
    for reference in references:
        if (desired := reference.desired_config) is not None:
            hashes[config_key(reference.group, reference.resource, desired.namespace, desired.name)] = desired.spec_hash
    return hashes


def config_key(group: str, resource: str, namespace: str, name: str) -> str:
    return f"{resource}.{group}/{namespace}/{name}" if group else f"{resource}/{namespace}/{name}"
