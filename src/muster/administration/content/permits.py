"""Checks whether a work would be applied before it is created: on the hub for the caller, on the managed cluster for its executor.

The hub is asked three things: whether the caller may create works for the cluster (or change the existing one of that name),
whether the caller may use the executor, and, by a dry run, whether it admits this very work. The dry run decides, because only the
hub knows how strict it is. The managed cluster is checked by the agent's own code, with the reviews that the agent would create.
Nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from muster.administration.content.grants import Grant
from muster.administration.content.manifests import is_work
from muster.administration.content.terms import definitions
from muster.administration.content.works import require_cluster
from muster.administration.errors import AdministrationError
from muster.api import Document, MalformedObject
from muster.api.work.v1 import GROUP, ExecutorServiceAccount, ManifestWork, ManifestWorkSpec
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import GVR, Object
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.runtime.auth import missing_rights
from muster.runtime.cache import UNKNOWN
from muster.runtime.client import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeClient,
    KubeError,
    NoKindMatch,
    NotFound,
    RESTMapper,
)
from muster.runtime.client.builtin import SELF_SUBJECT_REVIEWS
from muster.work.agent.apply_plan import ApplyPlan, kinds, make_plan
from muster.work.agent.applying import ClusterApplier
from muster.work.agent.executor import ExecutorGate, ExecutorOptions
from muster.work.agent.executor.demands import identity_of, verbs
from muster.work.agent.interfaces import Drafts, InvalidManifest, Manifest, ManifestOwner, Refusal
from muster.work.names import EXECUTE_AS

HUB: Final = "hub"
MANAGED: Final = "cluster"
NO_OWNER: Final = ManifestOwner("", "")
"""The owner of the work's objects: its AppliedManifestWork does not exist yet."""
WORK_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
"""The verbs that a user needs to manage works, not only to create one."""


class Answer(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Check:
    """One check and its result. `target` is the cluster that answered."""

    target: str
    subject: str
    verbs: tuple[str, ...]
    answer: Answer
    reason: str = ""
    grant: Grant | None = None
    """The missing permission that would turn a no into a yes, if it is one."""


def verdict(checks: Iterable[Check]) -> Answer:
    answers = {check.answer for check in checks}
    return next((one for one in (Answer.NO, Answer.UNKNOWN) if one in answers), Answer.YES)


def work_of(documents: Sequence[Document], parts: Document) -> ManifestWork:
    """The work in these documents: a ManifestWork, or manifests for one.

    `parts` are further fields of its spec. Raises AdministrationError.
    """
    works = [document for document in documents if is_work(document)]
    if works and len(documents) > 1:
        raise AdministrationError("--filename: give either one ManifestWork or the manifests of one")
    kind = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
    body: Document = works[0] if works else {**kind, "spec": {"workload": {"manifests": list(documents)}}}
    body = {**body, "spec": {**(body.get("spec") or {}), **parts}}
    try:
        return ManifestWork.decode(body)
    except MalformedObject as error:
        raise AdministrationError(f"--filename: {error}") from None


def executor_of(spec: ManifestWorkSpec) -> ExecutorServiceAccount | None:
    subject = spec.executor.subject if spec.executor else None
    return subject.service_account if subject else None


# The hub ---------------------------------------------------------------------------------------------------------------------


async def check_hub(client: KubeClient, cluster: str, work: ManifestWork) -> list[Check]:
    """Raises the client's errors if the hub does not answer."""
    executor = executor_of(work.spec)
    if executor is None and work.spec.executor is not None:
        return [Check(HUB, "this work", (), Answer.NO, "its executor names no service account")]
    try:
        await require_cluster(client, cluster)
    except AdministrationError as error:
        return [Check(HUB, f"{MANAGED_CLUSTERS} {cluster}", (), Answer.NO, str(error))]
    there = await _there(client, cluster, work)
    wanted = [AccessAttributes("update" if there else "create", GROUP, resource=MANIFEST_WORKS.plural, namespace=cluster)]
    if executor is not None:
        name = identity_of(executor).name
        wanted.append(AccessAttributes(EXECUTE_AS, GROUP, resource=MANIFEST_WORKS.plural, namespace=cluster, name=name))
    missing = await missing_rights(client, wanted)
    asker = await _asker(client) if missing else ""
    checks = [_permitted(right, right in missing, asker) for right in wanted]
    if wanted[0] in missing:
        return checks
    taken = await _taken(client, cluster, work, there)
    if taken.answer is Answer.YES:
        checks = [_spared(check) if check.answer is Answer.NO else check for check in checks]
    return [*checks, taken]


async def _there(client: KubeClient, cluster: str, work: ManifestWork) -> Object | None:
    """The cluster's existing work of this name, if the caller may read it; one that is being deleted cannot be changed."""
    if not work.metadata.name:
        return None
    try:
        found = await client.get(MANIFEST_WORKS, work.metadata.name, cluster)
    except (BadRequest, Forbidden, NotFound):
        return None
    return None if found["metadata"].get("deletionTimestamp") else found


async def _asker(client: KubeClient) -> str:
    """The caller's user name, by SelfSubjectReview; empty if the hub does not serve it."""
    try:
        review = await client.create(
            SELF_SUBJECT_REVIEWS, {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}
        )
    except KubeError:
        return ""
    return str(((review.get("status") or {}).get("userInfo") or {}).get("username") or "")


def _permitted(right: AccessAttributes, lacks: bool, asker: str) -> Check:
    subject = f"{MANIFEST_WORKS} {right.name}".rstrip()
    if not lacks:
        return Check(HUB, subject, (right.verb,), Answer.YES)
    reason = f"you lack the permission to {right.verb} {MANIFEST_WORKS} in namespace {right.namespace}"
    verbs = (right.verb,) if right.name else WORK_VERBS
    grant = Grant("works", f"--user={asker or '<you>'}", right.namespace, str(MANIFEST_WORKS), verbs, right.name)
    return Check(HUB, subject, (right.verb,), Answer.NO, reason + (f" with the name {right.name}" if right.name else ""), grant)


def _spared(check: Check) -> Check:
    """The check as passed: the hub admits the work all the same, because bindings decide or executors are not checked."""
    return replace(check, answer=Answer.YES, reason=f"{check.reason}, but the hub takes the work all the same", grant=None)


async def _taken(client: KubeClient, cluster: str, work: ManifestWork, there: Object | None) -> Check:
    document = work.document()
    name = {"name": work.metadata.name} if work.metadata.name else {"generateName": "can-i-"}
    what = Check(HUB, "this work", ("update" if there else "create",), Answer.YES)
    try:
        if there is not None:
            await client.update(MANIFEST_WORKS, {**there, "spec": document.get("spec") or {}}, dry_run=True)
        else:
            body = {**document, "metadata": {**name, "namespace": cluster}}
            body.pop("status", None)
            await client.create(MANIFEST_WORKS, body, cluster, dry_run=True)
    except (BadRequest, Forbidden, Invalid, NotFound) as error:
        return replace(what, answer=Answer.NO, reason=str(error))
    except (AlreadyExists, Conflict) as error:
        return replace(what, answer=Answer.UNKNOWN, reason=str(error))
    return what


# The managed cluster ---------------------------------------------------------------------------------------------------------


async def check_cluster(client: KubeClient, work: ManifestWork, *, every_verb: bool, review_all: bool) -> list[Check]:
    """What the cluster's agent would decide for each manifest, if it has these options.

    Raises the client's errors if the cluster does not answer.
    """
    plan = await _planned(client, work.spec)
    executor = executor_of(work.spec)
    invalid = _unfit(work, plan, bool(executor))
    if executor is None:
        return invalid
    gate = ExecutorGate(client, ExecutorOptions(strict=False, every_verb=every_verb, review_all=review_all))
    follower = asyncio.create_task(gate.run())
    try:
        refusals = await gate.check(executor, plan.manifests, (), Drafts(ClusterApplier(client), NO_OWNER, lambda _: UNKNOWN))
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
    judged = [
        _judged(executor, manifest, refusals.get(manifest.ordinal), verbs(manifest, every=every_verb))
        for manifest in plan.manifests
    ]
    return [*judged, *invalid]


def _judged(executor: ExecutorServiceAccount, manifest: Manifest, refusal: Refusal | None, demanded: tuple[str, ...]) -> Check:
    ref = manifest.ref
    if refusal is None:
        return Check(MANAGED, str(ref), demanded, Answer.YES)
    if refusal.failure:
        return Check(MANAGED, str(ref), demanded, Answer.UNKNOWN, refusal.message)
    account = f"--serviceaccount={executor.namespace}:{executor.name}"
    grant = Grant(f"executor-{executor.name}", account, ref.namespace, str(ref.resource), demanded)
    # An executor that would grant permissions which it does not have is not helped by one more permission; the reason explains it.
    lacks = refusal.verb in demanded
    return Check(MANAGED, str(ref), demanded, Answer.NO, refusal.message, grant if lacks else None)


def _unfit(work: ManifestWork, plan: ApplyPlan, strict: bool) -> list[Check]:
    """A kind that the work itself defines is waited for, unless (`strict`) nothing is applied before everything can be."""
    spec = work.document().get("spec") or {}
    brought = definitions([one for one in (spec.get("workload") or {}).get("manifests") or () if isinstance(one, dict)])
    checks = []
    for invalid_manifest in plan.invalid:
        problem = invalid_manifest.problem
        if invalid_manifest.unserved and (invalid_manifest.meta.group, invalid_manifest.meta.kind) in brought:
            if not strict:
                continue
            problem += "; with an executor, its definition has to be there before: put that into a work of its own"
        checks.append(Check(MANAGED, _named(invalid_manifest), (), Answer.NO, problem))
    return checks


async def _planned(client: KubeClient, spec: ManifestWorkSpec) -> ApplyPlan:
    mapper = RESTMapper(client)
    served: dict[tuple[str, str], GVR | str] = {}
    for kind in kinds(spec):
        try:
            served[kind] = await mapper.mapping(*kind)
        except NoKindMatch as error:
            served[kind] = str(error)
    return make_plan(spec, served)


def _named(invalid_manifest: InvalidManifest) -> str:
    meta = invalid_manifest.meta
    name = f"{meta.namespace}/{meta.name}" if meta.namespace and meta.name else meta.name
    return f"{meta.kind or 'manifest'} {name or meta.ordinal}"


def unchecked(target: str, server: str, error: KubeError) -> Check:
    """The check of a cluster that did not answer."""
    return Check(target, server, (), Answer.UNKNOWN, str(error))
