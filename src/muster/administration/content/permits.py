"""Whether a work would pass, asked before it is made: the hub about who asks, the managed cluster about its executor.

The hub is asked three things: whether the one who asks may make works for the cluster, whether they may use the executor, and, by
a dry run, whether it would take this very work. The last word is the dry run's, since only the hub knows how strict it is. The
managed cluster is asked by the agent's own gate, as the agent would ask it. Nothing is written anywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from muster.administration.errors import AdministrationError
from muster.api import Document, MalformedObject
from muster.api.work.v1 import GROUP, ExecutorServiceAccount, ManifestWork, ManifestWorkSpec
from muster.registration.access import Right, missing_rights
from muster.registration.kinds import MANIFEST_WORKS
from muster.runtime.errors import BadRequest, Forbidden, Invalid, KubeError, NotFound
from muster.runtime.resource import Resource
from muster.runtime.verbs import KubeClient
from muster.work.agent.executor import ExecutorGate, ExecutorOptions
from muster.work.agent.executor.demands import identity_of, verbs
from muster.work.agent.observing import Mapper, UnservedKind
from muster.work.agent.planning import Plan, kinds, make_plan
from muster.work.agent.seam import Misfit
from muster.work.names import EXECUTE_AS

HUB: Final = "hub"
MANAGED: Final = "cluster"


class Answer(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Check:
    """One question and its answer. `place` is where it was asked."""

    place: str
    subject: str
    verbs: tuple[str, ...]
    answer: Answer
    reason: str = ""


def verdict(checks: Iterable[Check]) -> Answer:
    answers = {check.answer for check in checks}
    return next((one for one in (Answer.NO, Answer.UNKNOWN) if one in answers), Answer.YES)


def work_of(documents: Sequence[Document], executor: ExecutorServiceAccount | None) -> ManifestWork:
    """The work that these documents are: a ManifestWork, or manifests for one. Raises AdministrationError."""
    works = [one for one in documents if (one["apiVersion"], one["kind"]) == (MANIFEST_WORKS.api_version, MANIFEST_WORKS.kind)]
    if works and len(documents) > 1:
        raise AdministrationError("--filename: give either one ManifestWork or the manifests of one")
    kind = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
    body: Document = works[0] if works else {**kind, "spec": {"workload": {"manifests": list(documents)}}}
    if executor is not None:
        account = {"namespace": executor.namespace, "name": executor.name}
        said = {"subject": {"type": "ServiceAccount", "serviceAccount": account}}
        body = {**body, "spec": {**(body.get("spec") or {}), "executor": said}}
    try:
        return ManifestWork.decode(body)
    except MalformedObject as error:
        raise AdministrationError(f"--filename: {error}") from None


def executor_of(spec: ManifestWorkSpec) -> ExecutorServiceAccount | None:
    subject = spec.executor.subject if spec.executor else None
    return subject.service_account if subject else None


# The hub ---------------------------------------------------------------------------------------------------------------------


async def ask_hub(client: KubeClient, cluster: str, work: ManifestWork) -> list[Check]:
    """Raises what the client raises when the hub cannot be asked."""
    wanted = [Right(GROUP, MANIFEST_WORKS.plural, "create", namespace=cluster)]
    executor = executor_of(work.spec)
    if executor is None and work.spec.executor is not None:
        return [Check(HUB, "this work", (), Answer.NO, "its executor names no service account")]
    if executor is not None:
        name = identity_of(executor).name
        wanted.append(Right(GROUP, MANIFEST_WORKS.plural, EXECUTE_AS, name=name, namespace=cluster))
    missing = await missing_rights(client, wanted)
    checks = [_permitted(right, right in missing, cluster) for right in wanted]
    if wanted[0] in missing:
        return checks
    taken = await _taken(client, cluster, work)
    if taken.answer is Answer.YES:
        checks = [_spared(check) if check.answer is Answer.NO else check for check in checks]
    return [*checks, taken]


def _permitted(right: Right, lacks: bool, cluster: str) -> Check:
    subject = f"{MANIFEST_WORKS} {right.name}".rstrip()
    if not lacks:
        return Check(HUB, subject, (right.verb,), Answer.YES)
    reason = f"you lack the permission to {right.verb} {MANIFEST_WORKS} in namespace {cluster}"
    return Check(HUB, subject, (right.verb,), Answer.NO, reason + (f" with the name {right.name}" if right.name else ""))


def _spared(check: Check) -> Check:
    """The hub takes the work all the same: it lets bindings decide, or does not look at executors."""
    return replace(check, answer=Answer.YES, reason=f"{check.reason}, but the hub takes the work all the same")


async def _taken(client: KubeClient, cluster: str, work: ManifestWork) -> Check:
    body = {**work.document(), "metadata": {"generateName": "can-i-", "namespace": cluster}}
    body.pop("status", None)
    what = Check(HUB, "this work", ("create",), Answer.YES)
    try:
        await client.create(MANIFEST_WORKS, body, cluster, dry_run=True)
    except (BadRequest, Forbidden, Invalid, NotFound) as error:
        return replace(what, answer=Answer.NO, reason=str(error))
    return what


# The managed cluster ---------------------------------------------------------------------------------------------------------


async def ask_cluster(client: KubeClient, work: ManifestWork, *, every_verb: bool, review_all: bool) -> list[Check]:
    """What the agent of the cluster would find, for each manifest, if these are its options. Raises what the client raises when it
    cannot be asked."""
    plan = await _planned(client, work.spec)
    executor = executor_of(work.spec)
    misfits = [Check(MANAGED, _named(one), (), Answer.NO, one.problem) for one in plan.misfits if executor or not one.unserved]
    if executor is None:
        return misfits
    gate = ExecutorGate(client, ExecutorOptions(strict=False, every_verb=every_verb, review_all=review_all))
    follower = asyncio.create_task(gate.run())
    try:
        refusals = await gate.check(executor, plan.manifests, ())
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
    checks = []
    for manifest in plan.manifests:
        refusal = refusals.get(manifest.ordinal)
        answer = Answer.YES if refusal is None else Answer.UNKNOWN if refusal.failure else Answer.NO
        demanded = verbs(manifest, every=every_verb)
        checks.append(Check(MANAGED, str(manifest.ref), demanded, answer, refusal.message if refusal else ""))
    return [*checks, *misfits]


async def _planned(client: KubeClient, spec: ManifestWorkSpec) -> Plan:
    mapper = Mapper(client)
    served: dict[tuple[str, str], Resource | str] = {}
    for kind in kinds(spec):
        try:
            served[kind] = await mapper.find(*kind)
        except UnservedKind as error:
            served[kind] = str(error)
    return make_plan(spec, served)


def _named(misfit: Misfit) -> str:
    meta = misfit.meta
    return f"{meta.kind or 'manifest'} {meta.name or meta.ordinal}"


def unasked(place: str, server: str, error: KubeError) -> Check:
    """A place that could not be asked."""
    return Check(place, server, (), Answer.UNKNOWN, str(error))
