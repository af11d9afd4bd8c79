"""An OperatorPolicy with all its templates resolved, as the modules of the kinds use it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.api.policy.v1beta1 import OperatorPolicySpec
from muster.machinery.objects import ObjectKey


@dataclass(frozen=True)
class ResolvedPolicy:
    key: ObjectKey
    spec: OperatorPolicySpec
    versions: tuple[str, ...] = ()
    """The ClusterServiceVersions that may be installed; empty for any."""
    starting_csv: str = ""

    @property
    def is_enforced(self) -> bool:
        return is_enforced(self.spec)

    @property
    def is_musthave(self) -> bool:
        return self.spec.compliance_type.lower() == "musthave"

    @property
    def upgrades_automatically(self) -> bool:
        return self.spec.upgrade_approval == "Automatic"

    def allows(self, csv: str) -> bool:
        return not self.versions or csv in self.versions or (csv != "" and csv == self.starting_csv)


def is_enforced(spec: OperatorPolicySpec) -> bool:
    return spec.remediation_action.lower() == "enforce"


def canonical_versions(entries: Iterable[str]) -> tuple[str, ...]:
    """An entry may contain several versions, separated by commas; empty ones are dropped."""
    return tuple(version.strip() for entry in entries for version in entry.split(",") if version.strip())
