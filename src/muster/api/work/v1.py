"""work.open-cluster-management.io/v1: ManifestWork, manifests for one cluster, and AppliedManifestWork, the record of applying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec

from muster.api.markers import REQUIRED, SUBDOMAIN, EmbeddedObject, Int32, Int64, Time, keyed_by, length, one_of, pattern
from muster.api.meta import Conditions
from muster.api.resource import Record, ResourceType, TypedObject

GROUP: Final = "work.open-cluster-management.io"
APPLIED: Final = "Applied"
AVAILABLE: Final = "Available"

SubdomainName = Annotated[str, pattern(SUBDOMAIN, 253, 1)]


class ResourceIdentifier(Record):
    """A resource among the manifests; in manifestConfigs name and namespace may hold `*`."""

    resource: str
    name: str
    group: str = ""
    namespace: str = ""


class OrphaningRule(ResourceIdentifier):
    """A resource that stays when the work goes."""


class SelectivelyOrphan(Record):
    """Which resources stay when the work goes."""

    orphaning_rules: tuple[OrphaningRule, ...] = ()


class DeleteOption(Record):
    """What becomes of the applied resources when the work is deleted, and when a finished work is."""

    propagation_policy: Annotated[str, one_of("Foreground", "Orphan", "SelectivelyOrphan")] = "Foreground"
    selectively_orphans: SelectivelyOrphan | None = None
    ttl_seconds_after_finished: Int64 | None = None


class ExecutorServiceAccount(Record):
    """A service account of the managed cluster."""

    namespace: SubdomainName
    name: SubdomainName


class ExecutorSubject(Record):
    """In whose name manifests are applied."""

    type: Annotated[str, one_of("ServiceAccount")]
    service_account: ExecutorServiceAccount | None = None


class ManifestWorkExecutor(Record):
    """Whose permissions on the managed cluster bound what the work may do."""

    subject: ExecutorSubject | None = None


class JsonPath(Record):
    """A named value in the status of a resource."""

    name: str
    path: str
    version: str = ""


class FeedbackRule(Record):
    """Which values of an applied resource are reported back."""

    type: Annotated[str, one_of("WellKnownStatus", "JSONPaths")]
    json_paths: Annotated[tuple[JsonPath, ...], keyed_by("name")] = ()


class ConditionRule(Record):
    """How a condition of a manifest is derived from the applied resource."""

    keywords: ClassVar[Mapping[str, Any]] = {
        "x-kubernetes-validations": [
            {"rule": "self.type != 'CEL' || self.condition != \"\"", "message": "a rule of type CEL needs a condition"}
        ]
    }

    type: Annotated[str, one_of("WellKnownConditions", "CEL")]
    condition: str
    cel_expressions: tuple[str, ...] = ()
    message: str = ""
    message_expression: str = ""


class IgnoreField(Record):
    """Fields that the agent leaves alone, and since when."""

    condition: Annotated[str, one_of("OnSpokePresent", "OnSpokeChange"), REQUIRED] = "OnSpokePresent"
    json_paths: tuple[str, ...] = ()
    json_pointers: tuple[str, ...] = ()
    jq_path_expressions: tuple[str, ...] = ()


class ServerSideApply(Record):
    """How server-side apply is done."""

    force: bool = False
    field_manager: Annotated[str, pattern(r"^work-agent")] = "work-agent"
    ignore_fields: Annotated[tuple[IgnoreField, ...], keyed_by("condition")] = ()


class UpdateStrategy(Record):
    """How a resource that exists is brought to what the manifest says."""

    type: Annotated[str, one_of("Update", "CreateOnly", "ServerSideApply", "ReadOnly"), REQUIRED] = "Update"
    server_side_apply: ServerSideApply | None = None


class ManifestConfig(Record):
    """How the manifests that an identifier names are treated."""

    resource_identifier: ResourceIdentifier
    feedback_rules: tuple[FeedbackRule, ...] = ()
    feedback_scrape_type: Annotated[str, one_of("Poll", "Watch")] = "Poll"
    update_strategy: UpdateStrategy | None = None
    condition_rules: Annotated[tuple[ConditionRule, ...], keyed_by("condition")] = ()


class ManifestsTemplate(Record):
    """The manifests."""

    manifests: tuple[EmbeddedObject, ...] = ()


class ManifestWorkSpec(Record):
    """What is to be applied, how, and in whose name."""

    workload: ManifestsTemplate = ManifestsTemplate()
    delete_option: DeleteOption | None = None
    manifest_configs: tuple[ManifestConfig, ...] = ()
    executor: ManifestWorkExecutor | None = None


class ManifestResourceMeta(Record):
    """Which resource a manifest became."""

    ordinal: Int32
    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""
    name: str = ""
    namespace: str = ""

    @property
    def sort(self) -> str:
        """In words: `deployments.apps`, or the kind where the resource is not known."""
        return (self.resource or self.kind or "unknown") + (f".{self.group}" if self.group else "")

    @property
    def key(self) -> str:
        """In words: `<namespace>/<name>`."""
        name = self.name or f"manifest {self.ordinal}"
        return f"{self.namespace}/{name}" if self.namespace else name


class FieldValue(Record):
    """A value of one of four types."""

    type: Annotated[str, one_of("Integer", "String", "Boolean", "JsonRaw")]
    integer: Int64 | None = None
    string: str | None = None
    boolean: bool | None = None
    json_raw: Annotated[str, length(maximum=1024)] | None = None


class FeedbackValue(Record):
    """A named value that was reported back."""

    name: str
    field_value: FieldValue


class StatusFeedback(Record):
    """The values that were reported back."""

    values: Annotated[tuple[FeedbackValue, ...], keyed_by("name")] = ()


class ManifestCondition(Record):
    """How one manifest fares."""

    resource_meta: ManifestResourceMeta
    conditions: Conditions
    status_feedback: StatusFeedback = StatusFeedback()


class ManifestResourceStatus(Record):
    """How the manifests fare."""

    manifests: tuple[ManifestCondition, ...] = ()


class ManifestWorkStatus(Record):
    """How the work fares."""

    conditions: Conditions = ()
    resource_status: ManifestResourceStatus = ManifestResourceStatus()


class ManifestWork(TypedObject):
    """Manifests for the managed cluster whose namespace on the hub the work lives in."""

    resource = ResourceType(GROUP, "v1", "ManifestWork", "manifestworks", "Namespaced")

    spec: ManifestWorkSpec = ManifestWorkSpec()
    status: ManifestWorkStatus = ManifestWorkStatus()


class AppliedManifestWorkSpec(Record):
    """Which work of which hub this is the record of."""

    hub_hash: str
    manifest_work_name: str
    agent_id: str = msgspec.field(name="agentID", default="")


class AppliedResource(Record):
    """A resource that was applied."""

    version: str
    resource: str
    name: str
    group: str = ""
    namespace: str = ""
    uid: str = ""


class AppliedManifestWorkStatus(Record):
    """What was applied."""

    applied_resources: tuple[AppliedResource, ...] = ()
    eviction_start_time: Time = ""


class AppliedManifestWork(TypedObject):
    """The record on a managed cluster of what a ManifestWork put there."""

    resource = ResourceType(GROUP, "v1", "AppliedManifestWork", "appliedmanifestworks", "Cluster")

    spec: AppliedManifestWorkSpec | None = None
    status: AppliedManifestWorkStatus = AppliedManifestWorkStatus()
