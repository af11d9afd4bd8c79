"""The status of a ClusterManagementAddOn: its default configurations, and per placement the progress of the rollout.

A progression keeps its history (applied and known good configurations) as long as its references are among its former ones; with
other references it starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final

import msgspec

from muster.addon.config_objects import ConfigKey
from muster.addon.manager.addon_plan import AddonPlan, PlacementShare, by_placements
from muster.addon.manager.installed import COMPLETED, IN_PROGRESS
from muster.addon.manager.references import ConfigKind, default_configs, in_order, readable_kinds
from muster.api.addon.v1alpha1 import (
    PROGRESSING,
    ClusterManagementAddOn,
    ClusterManagementAddOnStatus,
    ConfigSpecHash,
    DefaultConfigReference,
    InstallConfigReference,
    InstallProgression,
)
from muster.api.meta import Condition, with_condition
from muster.machinery.golang.timestamps import format_time

PLACEMENT_NOT_FOUND: Final = "PlacementNotFound"
INVALID_STRATEGY: Final = "InvalidRolloutStrategy"


def status_of(
    addon: ClusterManagementAddOn, planned: AddonPlan, hash_of: Callable[[ConfigKey], str], now: datetime
) -> ClusterManagementAddOnStatus:
    defaults = tuple(
        DefaultConfigReference(group=key.group, resource=key.resource, desired_config=_config(key, hash_of(key)))
        for keys in default_configs(addon).values()
        for key in keys
    )
    progressions = addon.status.install_progressions
    if not by_placements(addon):
        progressions = ()
    elif planned.plan is not None:
        progressions = tuple(_progression(share, progressions, len(planned.kept), hash_of, now) for share in planned.shares)
    else:
        kinds = readable_kinds(addon)
        progressions = tuple(_with_hashes(progression, kinds, hash_of) for progression in progressions)
    return msgspec.structs.replace(addon.status, default_config_references=defaults, install_progressions=progressions)


def _config(key: ConfigKey, spec_hash: str) -> ConfigSpecHash:
    return ConfigSpecHash(name=key.name, namespace=key.namespace, spec_hash=spec_hash)


def _with_hashes(
    progression: InstallProgression, kinds: Collection[ConfigKind], hash_of: Callable[[ConfigKey], str]
) -> InstallProgression:
    """The progression of an addon that another program manages: the rollout and applied configurations are set by that."""
    references = []
    for one in progression.config_references:
        key = _key(one)
        if key is not None and key[:2] in kinds:
            one = msgspec.structs.replace(one, desired_config=_config(key, hash_of(key)))
        references.append(one)
    return msgspec.structs.replace(progression, config_references=tuple(references))


def _progression(
    share: PlacementShare, before: Sequence[InstallProgression], kept: int, hash_of: Callable[[ConfigKey], str], now: datetime
) -> InstallProgression:
    keys = in_order(share.configs)
    known: dict[ConfigKey, InstallConfigReference] = {}
    old = next((one for one in before if (one.namespace, one.name) == share.key), None)
    if old is not None:
        known = {key: config_reference for config_reference in old.config_references if (key := _key(config_reference)) is not None}
    continued = old is not None and all(key in known for key in keys)
    condition = _condition(share, kept)
    references = []
    for key in keys:
        desired = _config(key, hash_of(key))
        past = known[key] if continued else InstallConfigReference(group=key.group, resource=key.resource)
        reference = msgspec.structs.replace(past, desired_config=desired)
        if condition.reason == COMPLETED:
            reference = msgspec.structs.replace(reference, last_applied_config=desired, last_known_good_config=desired)
        references.append(reference)
    conditions = with_condition(old.conditions if continued and old else (), condition, format_time(now))
    return InstallProgression(
        namespace=share.key.namespace, name=share.key.name, config_references=tuple(references), conditions=conditions
    )


def _key(reference: InstallConfigReference) -> ConfigKey | None:
    desired = reference.desired_config
    return None if desired is None else ConfigKey(reference.group, reference.resource, desired.namespace, desired.name)


def _condition(share: PlacementShare, kept: int) -> Condition:
    if share.missing:
        message = f"Placement {share.key} is not found; no cluster gains or loses the addon by it"
        return Condition(type=PROGRESSING, status="Unknown", reason=PLACEMENT_NOT_FOUND, message=message)
    if share.problem:
        return Condition(type=PROGRESSING, status="False", reason=INVALID_STRATEGY, message=share.problem)
    done, of = len(share.done), len(share.clusters)
    completed = of > 0 and done == of
    status, reason = ("False", COMPLETED) if completed else ("True", IN_PROGRESS)
    count = done if completed else len(share.upgrading) + done
    state = "completed with no errors" if completed else "progressing..."
    message = (
        f"selected clusters {len(share.selected)}. configured addons {count}/{of} {state},"
        f" {len(share.failed)} failed {len(share.rollout.late)} timeout."
    )
    if kept:
        message += f" {kept} installed by hand on other clusters are kept."
    return Condition(type=PROGRESSING, status=status, reason=reason, message=message)
