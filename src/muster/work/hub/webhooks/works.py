"""Admission of ManifestWorks and of the templates of ManifestWorkReplicaSets.

Both have the same spec and are checked alike: manifests, the expressions of their configurations, the format of the executor, and
whether the writer may act as the executors concerned. A request that does not change the spec is accepted: agents add and remove
their finalizers, and must never be blocked. One label counts as a change of the spec: that by which a replica set finds its works,
because its controller overwrites them. Agents may not change owner references and finalizers other than their own: they could have
a work garbage collected, or block its deletion.

A replica set's works are created wherever its placements select, now and later, so its writer needs the executor on all clusters,
also for a change of the placements only. It is checked even if its controller is disabled, since it may be enabled later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.api.work.v1 import GROUP, ManifestWork, ManifestWorkSpec
from muster.api.work.v1alpha1 import ManifestWorkReplicaSet
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object
from muster.registration.names import agent_groups
from muster.runtime.webhook import AdmissionRequest, AdmissionResponse, Denied, allow, bad_request, read
from muster.work.hub.webhooks.authorization import ExecutorPolicy
from muster.work.hub.webhooks.configs import config_problem
from muster.work.hub.webhooks.executors import Executor, MalformedExecutor, concerned, executor_of
from muster.work.hub.webhooks.manifests import manifest_problem, manifest_warnings, manifests_of
from muster.work.names import REPLICA_SET_LABEL, WORK_FINALIZER

TEMPLATE: Final = "manifestWorkTemplate"
_WRITES: Final = ("CREATE", "UPDATE")

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class WorkLimits:
    """`nil_counts`: a work without executor counts as running as the agent."""

    limit: int
    nil_counts: bool = False


@dataclass(frozen=True)
class ReviewedWork:
    """A spec of works to be written. `kind` and `where` name it in a refusal."""

    new: Spec
    old: Spec | None
    """The stored spec; None if the object is new."""
    typed: ManifestWorkSpec
    at: str
    """The path of the spec in its object."""
    kind: str
    namespace: str
    """The namespace of the works; empty: any."""
    empty: str
    """The message if there are no manifests."""

    def refusal(self, who: UserInfo, executor: Executor) -> str:
        where = f"namespace {self.namespace}" if self.namespace else "all namespaces"
        return f"user {who.name} cannot manipulate the {self.kind} with executor {executor} in {where}"


class WorkWebhooks:
    def __init__(self, policy: ExecutorPolicy, rules: WorkLimits) -> None:
        self._policy = policy
        self._rules = rules

    async def validate_work(self, request: AdmissionRequest) -> AdmissionResponse:
        _guard_metadata(request)
        if not _writes_spec(request) and not _changes_hands(request):
            return allow()
        typed = read(ManifestWork, request.object).spec
        new, old, namespace = _spec(request.object), _old(request), request.key.namespace
        empty = "manifests should not be empty"
        return await self._judge(request.user, ReviewedWork(new, old, typed, "spec", "Manifestwork", namespace, empty))

    async def validate_replica_set(self, request: AdmissionRequest) -> AdmissionResponse:
        if not _writes_spec(request):
            return allow()
        spec = read(ManifestWorkReplicaSet, request.object).spec
        typed = ManifestWorkSpec() if spec is None else spec.manifest_work_template
        before = _old(request)
        new, old = _part(_spec(request.object), TEMPLATE), None if before is None else _part(before, TEMPLATE)
        empty = "Workload manifests should not be empty"
        subject = ReviewedWork(new, old, typed, f"spec.{TEMPLATE}", "ManifestWorkReplicaSet", "", empty)
        return await self._judge(request.user, subject)

    async def _judge(self, who: UserInfo, subject: ReviewedWork) -> AdmissionResponse:
        if problem := shape_problem(subject, self._rules.limit):
            raise bad_request(problem)
        for executor in executors(subject, nil_counts=self._rules.nil_counts):
            if not await self._policy.allows(who, executor, subject.namespace):
                raise bad_request(subject.refusal(who, executor))
        return allow(*manifest_warnings(manifests_of(subject.new), manifests_of(subject.old or {}), subject.at))


def shape_problem(subject: ReviewedWork, limit: int) -> str | None:
    """The first problem of the manifests and their configurations that the old spec did not have."""
    old = subject.old or {}
    new_manifests, old_manifests = manifests_of(subject.new), manifests_of(old)
    if not new_manifests and (subject.old is None or old_manifests):
        return subject.empty
    return manifest_problem(new_manifests, old_manifests, limit, subject.at) or config_problem(
        subject.typed.manifest_configs, subject.new, old, subject.at
    )


def executors(subject: ReviewedWork, *, nil_counts: bool) -> tuple[Executor, ...]:
    """The executors whose permissions the writer needs. Raises Denied for a new spec with an invalid executor."""
    try:
        new = executor_of(subject.new, subject.at)
    except MalformedExecutor as error:
        raise bad_request(str(error)) from error
    if subject.old is None:
        return concerned(new, None, is_new=True, nil_counts=nil_counts)
    try:
        old = executor_of(subject.old)
    except MalformedExecutor:
        # It was stored without admission; nothing was ever applied as it, so no permission is needed to correct it.
        return concerned(new, None, is_new=True, nil_counts=nil_counts)
    return concerned(new, old, is_new=False, nil_counts=nil_counts)


def _writes_spec(request: AdmissionRequest) -> bool:
    if request.operation not in _WRITES:
        return False
    try:
        # Not by equality: in Python, True == 1.
        new, old = (_bytes(_spec(document)) for document in (request.object, request.old_object))
    except TypeError:
        raise bad_request("spec is nested too deeply") from None
    return request.old_object is None or new != old


def _guard_metadata(request: AdmissionRequest) -> None:
    """Raises Denied if an agent changes owner references or finalizers of others."""
    namespace = request.key.namespace
    if request.operation not in _WRITES or agent_groups(namespace).isdisjoint(request.user.groups):
        return
    new, old = (_part(document, "metadata") for document in (request.object, request.old_object))
    for field in ("finalizers", "ownerReferences"):
        if _foreign(new, field) != _foreign(old, field):
            why = f"agents of a cluster cannot change metadata.{field}"
            raise Denied(f'manifestworks.{GROUP} "{request.key.name}" is forbidden: {why}', 403, "Forbidden")


def _foreign(metadata: Spec, field: str) -> list[Any]:
    listed = metadata.get(field)
    return [one for one in listed if one != WORK_FINALIZER] if isinstance(listed, list) else []


def _changes_hands(request: AdmissionRequest) -> bool:
    """Whether a work is added to a replica set or removed from one: the controller of the set writes it with its own
    permissions."""
    return request.operation in _WRITES and _replica_set(request.object) != _replica_set(request.old_object)


def _replica_set(document: Object | None) -> object:
    return _part(_part(document, "metadata"), "labels").get(REPLICA_SET_LABEL) or ""


def _old(request: AdmissionRequest) -> Spec | None:
    return None if request.old_object is None else _spec(request.old_object)


def _spec(document: Object | None) -> Spec:
    return _part(document, "spec")


def _part(document: Mapping[str, Any] | None, name: str) -> Spec:
    found = document.get(name) if isinstance(document, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _bytes(spec: Spec) -> bytes:
    return orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
