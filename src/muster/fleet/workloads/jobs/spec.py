"""The spec of a Job, as types. Decoded from the stored object, which the server has defaulted and validated."""

from __future__ import annotations

from typing import Final

import msgspec

from muster.machinery.objects import Object

CONTROLLER: Final = "kubernetes.io/job-controller"
INDEXED: Final = "Indexed"


class Part(msgspec.Struct, frozen=True, rename="camel"):
    pass


class ExitCodes(Part, frozen=True):
    operator: str
    values: tuple[int, ...] = ()
    container_name: str | None = None


class PodConditionPattern(Part, frozen=True):
    type: str
    status: str = "True"


class FailureRule(Part, frozen=True):
    action: str
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class FailurePolicy(Part, frozen=True):
    rules: tuple[FailureRule, ...] = ()


class SuccessRule(Part, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Part, frozen=True):
    rules: tuple[SuccessRule, ...] = ()


class JobSpec(Part, frozen=True):
    template: Object
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    managed_by: str = CONTROLLER

    @property
    def indexed(self) -> bool:
        return self.completion_mode == INDEXED

    @property
    def replaces_only_failed(self) -> bool:
        """Whether a terminating pod is replaced only after its end, and counts as failed only then."""
        return self.pod_replacement_policy == "Failed" or self.pod_failure_policy is not None

    @property
    def indexes(self) -> int:
        """The number of indexes; 0 if the Job has none."""
        return (self.completions or 0) if self.indexed else 0


def spec_of(job: Object) -> JobSpec:
    return msgspec.convert(job["spec"], JobSpec, strict=True)


def is_ours(job: Object) -> bool:
    """Whether it has no other controller (managedBy)."""
    return (job["spec"].get("managedBy") or CONTROLLER) == CONTROLLER
