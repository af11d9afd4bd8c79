"""policy.open-cluster-management.io/v1: ConfigurationPolicy says which objects a cluster has, Policy carries it to clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec

from muster.api.markers import REQUIRED, FreeObject, Int64, NonEmpty, Time, one_of, pattern
from muster.api.meta import LabelSelector
from muster.api.resource import AGE, Column, Record, ResourceType, TypedObject

GROUP: Final = "policy.open-cluster-management.io"

RemediationAction = Annotated[str, one_of("Inform", "inform", "Enforce", "enforce")]
Severity = Annotated[str, one_of("low", "Low", "medium", "Medium", "high", "High", "critical", "Critical")]
ComplianceState = Annotated[str, one_of("Compliant", "Pending", "NonCompliant", "Terminating")]
PropagatedState = Annotated[str, one_of("Compliant", "Pending", "NonCompliant")]
EvaluationPeriod = Annotated[str, pattern(r"^(?:(?:(?:[0-9]+(?:.[0-9])?)(?:h|m|s|(?:ms)|(?:us)|(?:ns)))|never|watch)+$")]


def _spellings(*words: str) -> tuple[str, ...]:
    """`MustHave` may also be written `Musthave` and `musthave`."""
    return tuple(spelling for word in words for spelling in (word, word.capitalize(), word.lower()))


class CustomMessage(Record):
    """Templates for the messages of the policy."""

    compliant: str = ""
    noncompliant: str = ""


class EvaluationInterval(Record):
    """How often the policy is evaluated, by its last result."""

    compliant: EvaluationPeriod = ""
    noncompliant: EvaluationPeriod = ""


class NamespaceSelector(LabelSelector):
    """Selects namespaces by name patterns and labels."""

    include: tuple[NonEmpty, ...] = ()
    exclude: tuple[NonEmpty, ...] = ()
    terminating_inclusion: Annotated[str, one_of("IfMatch", "Never", "Default")] = "Default"


class ObjectTemplate(Record):
    """An object, and whether it must be there."""

    compliance_type: Annotated[str, one_of(*_spellings("MustHave", "MustOnlyHave", "MustNotHave"))]
    metadata_compliance_type: Annotated[str, one_of(*_spellings("MustHave", "MustOnlyHave"))] = ""
    recreate_option: Annotated[str, one_of("None", "IfRequired", "Always")] = "None"
    object_definition: FreeObject
    object_selector: LabelSelector | None = None
    record_diff: Annotated[str, one_of("Log", "InStatus", "None")] = ""


class ConfigurationPolicySpec(Record):
    """The objects, their namespaces, and whether and how the policy enforces them."""

    keywords: ClassVar[Mapping[str, Any]] = {"oneOf": [{"required": ["object-templates"]}, {"required": ["object-templates-raw"]}]}

    custom_message: CustomMessage = CustomMessage()
    severity: Severity = ""
    remediation_action: Annotated[RemediationAction, REQUIRED] = "inform"
    namespace_selector: NamespaceSelector = NamespaceSelector()
    object_templates: tuple[ObjectTemplate, ...] | None = msgspec.field(name="object-templates", default=None)
    object_templates_raw: str = msgspec.field(name="object-templates-raw", default="")
    evaluation_interval: EvaluationInterval = EvaluationInterval()
    prune_object_behavior: Annotated[str, one_of("DeleteAll", "DeleteIfCreated", "None")] = "None"


class Validity(Record):
    """Whether a template could be parsed."""

    valid: bool | None = None
    reason: str = ""


class PolicyCondition(Record):
    """The result of evaluating one template."""

    type: str
    status: str = ""
    last_transition_time: Time = ""
    reason: str = ""
    message: str = ""


class TemplateStatus(Record):
    """The observed state of one template."""

    compliant: ComplianceState = msgspec.field(name="Compliant", default="")
    validity: Validity = msgspec.field(name="Validity", default=Validity())
    conditions: tuple[PolicyCondition, ...] = ()


class RelatedMetadata(Record):
    """The name of a related object."""

    name: str = ""
    namespace: str = ""


class RelatedResource(Record):
    """A related object."""

    kind: str = ""
    api_version: str = ""
    metadata: RelatedMetadata = RelatedMetadata()


class RelatedProperties(Record):
    """What the policy did to a related object."""

    created_by_policy: bool | None = None
    uid: str = ""
    diff: str = ""
    matches_after_dry_run: bool = False


class RelatedObject(Record):
    """An object that the policy evaluated."""

    object: RelatedResource = RelatedResource()
    compliant: str = ""
    reason: str = ""
    properties: RelatedProperties | None = None


class HistoryEvent(Record):
    """A message that the policy reported."""

    last_timestamp: Time = ""
    message: str = ""


class ConfigurationPolicyStatus(Record):
    """The observed state of the policy on this cluster."""

    compliant: ComplianceState = ""
    compliancy_details: tuple[TemplateStatus, ...] = ()
    last_evaluated: str = ""
    last_evaluated_generation: Int64 = 0
    related_objects: tuple[RelatedObject, ...] = ()
    history: tuple[HistoryEvent, ...] = ()


class ConfigurationPolicy(TypedObject):
    """Objects that must, must only or must not be on the cluster."""

    resource = ResourceType(
        GROUP,
        "v1",
        "ConfigurationPolicy",
        "configurationpolicies",
        "Namespaced",
        columns=(Column("Compliance state", ".status.compliant"),),
    )

    spec: ConfigurationPolicySpec
    status: ConfigurationPolicyStatus = ConfigurationPolicyStatus()


_TEMPLATE_KINDS: Final = ["CertificatePolicy", "ConfigurationPolicy"]


class PolicyDependency(Record):
    """A policy that must be in a state before another is evaluated; policies on the managed cluster have no namespace here."""

    keywords: ClassVar[Mapping[str, Any]] = {
        "oneOf": [
            {"properties": {"kind": {"enum": _TEMPLATE_KINDS}, "namespace": {"maxLength": 0}}},
            {"not": {"properties": {"kind": {"enum": _TEMPLATE_KINDS}}}},
        ]
    }

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    compliance: PropagatedState


class PolicyTemplate(Record):
    """A policy for the managed clusters."""

    object_definition: FreeObject
    extra_dependencies: tuple[PolicyDependency, ...] = ()
    ignore_pending: bool = False


class HubTemplateOptions(Record):
    """The service account with which hub templates look up objects."""

    service_account_name: str = ""


class PolicySpec(Record):
    """The policies that clusters get."""

    disabled: bool
    policy_templates: tuple[PolicyTemplate, ...] = msgspec.field(name="policy-templates")
    remediation_action: RemediationAction = ""
    copy_policy_metadata: bool | None = None
    dependencies: tuple[PolicyDependency, ...] = ()
    hub_template_options: HubTemplateOptions | None = None


class PlacementDecision(Record):
    """A cluster that a placement selected."""

    cluster_name: str = ""
    cluster_namespace: str = ""


class PlacementExclusion(Record):
    """A cluster that is excluded."""

    cluster_name: str = ""


class PolicyPlacement(Record):
    """How the policy was distributed to its clusters."""

    placement_binding: str = ""
    placement: str = ""
    placement_rule: str = ""
    policy_set: str = ""
    decisions: tuple[PlacementDecision, ...] = ()
    exclusions: tuple[PlacementExclusion, ...] = ()


class BindingReference(Record):
    """A binding that still distributes the policy."""

    placement_binding: str = ""


class ClusterCompliance(Record):
    """The observed state of the policy on one cluster."""

    cluster_name: str = msgspec.field(name="clustername", default="")
    cluster_namespace: str = msgspec.field(name="clusternamespace", default="")
    compliant: PropagatedState = ""
    remaining_bindings: tuple[BindingReference, ...] = ()


class TemplateEvent(Record):
    """A message that came from a cluster."""

    last_timestamp: Time = ""
    message: str = ""
    event_name: str = ""


class TemplateDetails(Record):
    """The observed state of one template."""

    template_meta: FreeObject = msgspec.Raw()
    compliant: PropagatedState = ""
    history: tuple[TemplateEvent, ...] = ()


class PolicyStatus(Record):
    """The observed state of the policy."""

    placement: tuple[PolicyPlacement, ...] = ()
    status: tuple[ClusterCompliance, ...] = ()
    compliant: PropagatedState = ""
    details: tuple[TemplateDetails, ...] = ()


class Policy(TypedObject):
    """Policies that the hub carries to the clusters of a placement."""

    resource = ResourceType(
        GROUP,
        "v1",
        "Policy",
        "policies",
        "Namespaced",
        short_names=("plc",),
        columns=(
            Column("Remediation action", ".spec.remediationAction"),
            Column("Compliance state", ".status.compliant"),
            AGE,
        ),
    )

    spec: PolicySpec
    status: PolicyStatus = PolicyStatus()
