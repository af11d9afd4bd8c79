"""An OperatorPolicy with all its templates resolved: what the decisions about each kind look at."""

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
    """The ClusterServiceVersions that may be installed; any, when there are none here."""
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
    """Each entry may be several, separated by commas; empty ones do not count."""
    return tuple(version.strip() for entry in entries for version in entry.split(",") if version.strip())
