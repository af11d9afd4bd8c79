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
    """A resource among the manifests; in manifestConfigs, name and namespace may contain `*`."""

    resource: str
    name: str
    group: str = ""
    namespace: str = ""


class OrphaningRule(ResourceIdentifier):
    """A resource that remains when the work is deleted."""


class SelectivelyOrphan(Record):
    """The resources that remain when the work is deleted."""

    orphaning_rules: tuple[OrphaningRule, ...] = ()


class DeleteOption(Record):
    """What happens to the applied resources when the work is deleted, and when a completed work is deleted."""

    propagation_policy: Annotated[str, one_of("Foreground", "Orphan", "SelectivelyOrphan")] = "Foreground"
    selectively_orphans: SelectivelyOrphan | None = None
    ttl_seconds_after_finished: Int64 | None = None


class ExecutorServiceAccount(Record):
    """A service account of the managed cluster."""

    namespace: SubdomainName
    name: SubdomainName


class ExecutorSubject(Record):
    """The account with whose permissions manifests are applied."""

    type: Annotated[str, one_of("ServiceAccount")]
    service_account: ExecutorServiceAccount | None = None


class ManifestWorkExecutor(Record):
    """The account on the managed cluster whose permissions limit what the work may apply."""

    subject: ExecutorSubject | None = None


class JsonPath(Record):
    """A named value in the status of a resource."""

    name: str
    path: str
    version: str = ""


class FeedbackRule(Record):
    """The values of an applied resource that are reported back."""

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
    """Fields that the agent does not change, and from when on."""

    condition: Annotated[str, one_of("OnSpokePresent", "OnSpokeChange"), REQUIRED] = "OnSpokePresent"
    json_paths: tuple[str, ...] = ()
    json_pointers: tuple[str, ...] = ()
    jq_path_expressions: tuple[str, ...] = ()


class ServerSideApply(Record):
    """The options of server-side apply."""

    force: bool = False
    field_manager: Annotated[str, pattern(r"^work-agent")] = "work-agent"
    ignore_fields: Annotated[tuple[IgnoreField, ...], keyed_by("condition")] = ()


class UpdateStrategy(Record):
    """How an existing resource is updated to match the manifest."""

    type: Annotated[str, one_of("Update", "CreateOnly", "ServerSideApply", "ReadOnly"), REQUIRED] = "Update"
    server_side_apply: ServerSideApply | None = None


class ManifestConfig(Record):
    """How the manifests that an identifier selects are applied and reported."""

    resource_identifier: ResourceIdentifier
    feedback_rules: tuple[FeedbackRule, ...] = ()
    feedback_scrape_type: Annotated[str, one_of("Poll", "Watch")] = "Poll"
    update_strategy: UpdateStrategy | None = None
    condition_rules: Annotated[tuple[ConditionRule, ...], keyed_by("condition")] = ()


class ManifestsTemplate(Record):
    """The manifests."""

    manifests: tuple[EmbeddedObject, ...] = ()


class ManifestWorkSpec(Record):
    """The manifests to apply, how they are applied, and as which account."""

    workload: ManifestsTemplate = ManifestsTemplate()
    delete_option: DeleteOption | None = None
    manifest_configs: tuple[ManifestConfig, ...] = ()
    executor: ManifestWorkExecutor | None = None


class ManifestResourceMeta(Record):
    """The resource that a manifest was applied as."""

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
    """The observed state of one manifest."""

    resource_meta: ManifestResourceMeta
    conditions: Conditions
    status_feedback: StatusFeedback = StatusFeedback()


class ManifestResourceStatus(Record):
    """The observed state of the manifests."""

    manifests: tuple[ManifestCondition, ...] = ()


class ManifestWorkStatus(Record):
    """The observed state of the work."""

    conditions: Conditions = ()
    resource_status: ManifestResourceStatus = ManifestResourceStatus()


class ManifestWork(TypedObject):
    """Manifests for one managed cluster, in that cluster's namespace on the hub."""

    resource = ResourceType(GROUP, "v1", "ManifestWork", "manifestworks", "Namespaced")

    spec: ManifestWorkSpec = ManifestWorkSpec()
    status: ManifestWorkStatus = ManifestWorkStatus()


class AppliedManifestWorkSpec(Record):
    """The work, and its hub, that this object records."""

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
    """The objects that were applied."""

    applied_resources: tuple[AppliedResource, ...] = ()
    eviction_start_time: Time = ""


class AppliedManifestWork(TypedObject):
    """The record, on a managed cluster, of the objects that a ManifestWork applied."""

    resource = ResourceType(GROUP, "v1", "AppliedManifestWork", "appliedmanifestworks", "Cluster")

    spec: AppliedManifestWorkSpec | None = None
    status: AppliedManifestWorkStatus = AppliedManifestWorkStatus()
