"""The fields of a ManagedClusterAddOn for planning: its own configurations, those it was given, and their progress.

Its status is written by the hub and by the cluster's agent, so it may be invalid: a reference without an object equals nothing, and
an invalid time is ignored. It affects only the rollout on its own cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.addon.config_objects import ConfigKey
from muster.api.addon.v1alpha1 import PROGRESSING, AddOnConfig, ManagedClusterAddOn
from muster.api.addon.v1alpha1 import ConfigReference as Reference
from muster.api.addons import MANUAL_ANNOTATION
from muster.api.meta import condition_of
from muster.machinery.golang.timestamps import parse_time
from muster.placement.rollout import Progress, State

COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
IN_PROGRESS: Final = "Progressing"
"""Reasons of the condition Progressing."""


@dataclass(frozen=True)
class HeldConfig:
    """A configuration that the addon has been given on its cluster."""

    key: ConfigKey | None
    spec_hash: str
    applied: bool

    @classmethod
    def of(cls, reference: Reference) -> HeldConfig:
        desired = reference.desired_config
        if desired is None:
            return cls(None, "", applied=False)
        key = ConfigKey(reference.group, reference.resource, desired.namespace, desired.name)
        return cls(key, desired.spec_hash, applied=reference.last_applied_config == desired)


@dataclass(frozen=True)
class InstalledAddon:
    cluster: str
    uid: str = ""
    own: tuple[AddOnConfig, ...] = ()
    """Configurations in the ManagedClusterAddOn's own spec."""
    held: tuple[HeldConfig, ...] = ()
    reason: str = ""
    """The reason of the condition Progressing."""
    since: datetime | None = None
    manual: bool = False
    """Installed manually: no install strategy removes it."""
    deleting: bool = False

    @classmethod
    def of(cls, addon: ManagedClusterAddOn) -> InstalledAddon:
        metadata, status = addon.metadata, addon.status
        progressing = condition_of(status.conditions, PROGRESSING)
        return cls(
            metadata.namespace,
            metadata.uid,
            addon.spec.configs,
            tuple(map(HeldConfig.of, status.config_references)),
            progressing.reason if progressing else "",
            _time(progressing.last_transition_time) if progressing else None,
            metadata.annotations.get(MANUAL_ANNOTATION, "false") != "false",
            bool(metadata.deletion_timestamp),
        )

    def progress(self, wanted: dict[ConfigKey, str]) -> Progress | None:
        """Its progress with these configurations, by their hashes; None if it does not have them yet."""
        if len(self.held) != len(wanted) or {one.key: one.spec_hash for one in self.held} != wanted:
            return None
        if all(one.applied for one in self.held):
            return Progress(State.SUCCEEDED, self.since if self.reason == COMPLETED else None)
        if self.reason == FAILED:
            return Progress(State.FAILED, self.since)
        # Before its works are reported there is no deadline.
        return Progress(State.PROGRESSING, self.since) if self.reason == IN_PROGRESS else Progress(State.PENDING)

    def holds(self, keys: tuple[ConfigKey, ...]) -> bool:
        """Whether it has been given these, in any state."""
        return len(self.held) == len(keys) and {one.key for one in self.held} == set(keys)


def _time(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None
