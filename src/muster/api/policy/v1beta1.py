"""policy.open-cluster-management.io/v1beta1: OperatorPolicy, an operator that must (not) be installed by OLM."""

from __future__ import annotations

from typing import Annotated

import msgspec

from muster.api.markers import REQUIRED, FreeObject, Int64, Time, default, one_of
from muster.api.meta import Conditions
from muster.api.policy.v1 import GROUP, ComplianceState, HistoryEvent, RelatedResource, RemediationAction, Severity
from muster.api.resource import Record, ResourceType, TypedObject

KeepOrDelete = Annotated[str, one_of("Keep", "Delete")]
Verdict = Annotated[str, one_of("Compliant", "NonCompliant")]


class RemovalBehavior(Record):
    """What is removed together with the operator."""

    operator_groups: Annotated[str, one_of("Keep", "DeleteIfUnused")] = "DeleteIfUnused"
    subscriptions: KeepOrDelete = "Delete"
    cluster_service_versions: KeepOrDelete = "Delete"
    custom_resource_definitions: KeepOrDelete = "Keep"


class ComplianceConfig(Record):
    """What counts as compliant."""

    catalog_source_unhealthy: Verdict = "Compliant"
    deployments_unavailable: Verdict = "NonCompliant"
    upgrades_available: Verdict = "Compliant"
    deprecations_present: Verdict = "Compliant"
    minor_channel_upgrade_available: Verdict = "Compliant"


class OperatorPolicySpec(Record):
    """The operator, and whether and how the policy enforces it."""

    severity: Severity = ""
    remediation_action: Annotated[RemediationAction, REQUIRED] = "inform"
    compliance_type: Annotated[str, one_of("musthave", "mustnothave")]
    operator_group: FreeObject = msgspec.Raw()
    subscription: FreeObject
    versions: tuple[str, ...] = ()
    removal_behavior: Annotated[RemovalBehavior, default({})] = RemovalBehavior()
    upgrade_approval: Annotated[str, one_of("None", "Automatic")]
    compliance_config: Annotated[ComplianceConfig, default({})] = ComplianceConfig()


class RelatedProperties(Record):
    """What the policy did to a related object."""

    created_by_policy: bool | None = None
    uid: str = ""


class RelatedObject(Record):
    """An object that the policy evaluated."""

    object: RelatedResource = RelatedResource()
    compliant: str = ""
    reason: str = ""
    properties: RelatedProperties | None = None


class OperatorPolicyStatus(Record):
    """The observed state of the operator."""

    compliant: ComplianceState = ""
    observed_generation: Int64 = 0
    conditions: Conditions = ()
    related_objects: tuple[RelatedObject, ...] = ()
    resolved_subscription_label: str = ""
    overlapping_policies: tuple[str, ...] = ()
    subscription_intervention_time: Time = ""
    history: tuple[HistoryEvent, ...] = ()


class OperatorPolicy(TypedObject):
    """An operator that must or must not be on the cluster."""

    resource = ResourceType(GROUP, "v1beta1", "OperatorPolicy", "operatorpolicies", "Namespaced")

    spec: OperatorPolicySpec | None = None
    status: OperatorPolicyStatus = OperatorPolicyStatus()
