"""One evaluation of one policy: read, decide, write and report, kind by kind, in the order in which OLM needs them.

The modules of the kinds make decisions from the objects that are passed to them; their writes are executed here, and their
reports are collected in a draft of the status. If the cluster fails, the reports so far are kept and the rest of the status
stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.policy.comparison import ComparisonError
from muster.policy.operators import (
    catalog_source,
    cluster_service_version,
    conditions,
    crds,
    deployments,
    install_plan,
    operator_group,
    package_manifest,
    subscription,
)
from muster.policy.operators.desired import compared_subscription
from muster.policy.operators.drift import Drift, find_drift
from muster.policy.operators.kinds import (
    CATALOG_SOURCES,
    CSVS,
    INSTALL_PLANS,
    MANAGED_KEY,
    OPERATOR_GROUPS,
    SUBSCRIPTIONS,
    name_of,
    namespace_of,
    operator_selector,
    text_at,
    uid_of,
)
from muster.policy.operators.object_reader import ObjectReader
from muster.policy.operators.object_writer import write_object
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.resource_builder import BuiltResources, OtherPolicies, ResourceBuilder
from muster.policy.operators.status import StatusDraft
from muster.policy.operators.steps import Delete, Report, Step
from muster.runtime.client import Conflict, Forbidden, KubeClient, KubeError, NoKindMatch
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS

log = get_logger("muster.policy.operators.evaluation")

OLM_RETRY_INTERVAL: Final = 60.0
"""Seconds until a cluster without OLM is checked again; an installed kind triggers it earlier."""
PACKAGE_RETRY_INTERVAL: Final = 30.0
"""Seconds until a missing package is looked up again: it cannot be watched."""
_OLM_KINDS: Final = (OPERATOR_GROUPS, SUBSCRIPTIONS, INSTALL_PLANS, CSVS, CATALOG_SOURCES)
_NOT_INSTALLED: Final = "because Operator Lifecycle Manager is not installed on the cluster"


@dataclass
class Evaluation:
    """Use `run` once. The results are in the draft, and here."""

    builder: ResourceBuilder
    reader: ObjectReader
    client: KubeClient
    other_policies: OtherPolicies
    draft: StatusDraft
    now: Callable[[], datetime]
    failed: bool = False
    """Whether templates or the cluster failed: previously read objects may be needed again."""
    failure: KubeError | None = None
    """The error of the cluster."""
    retry_after: float | None = None
    _about: str = conditions.VALID_SPEC
    """The current kind."""

    async def run(self, policy: ResolvedPolicy) -> None:
        """Raises Conflict if something changed meanwhile: the draft must not be reported then."""
        try:
            await self._run(policy)
        except NoKindMatch:
            self._report_missing_olm()
        except Conflict:
            raise
        except (KubeError, ComparisonError) as error:
            self.failed = True
            self.failure = error if isinstance(error, KubeError) else None
            if isinstance(error, Forbidden | ComparisonError) and self._about in conditions.TYPES:
                self.draft.put(Report(conditions.unknown(self._about, f"{self._about}Unknown", f"because {error}")))

    async def _run(self, policy: ResolvedPolicy) -> None:
        build = await self.builder.build(policy)
        self._report_validity(build)
        if build.failure is not None or build.waits_for_package:
            return
        policy = build.policy
        group_correct = await self._operator_group(policy, build)
        found = await self._subscription(policy, build.subscription, group_correct=group_correct)
        await self._install_plan(policy, found)
        csv = await self._cluster_service_version(policy, found)
        self._package(policy, build.manifest, found, csv)
        await self._crds(policy, found)
        await self._deployments(policy, csv)
        await self._catalog_source(policy, found)

    def _report_validity(self, build: BuiltResources) -> None:
        draft = self.draft
        draft.put(Report(conditions.valid(build.problem)))
        if build.label:
            draft.label, draft.overlapping = build.label, build.overlapping
        self.failed = build.unresolved or build.failure is not None
        self.failure = build.failure
        if build.waits_for_package:
            self.retry_after = PACKAGE_RETRY_INTERVAL

    def _report_missing_olm(self) -> None:
        self.retry_after = OLM_RETRY_INTERVAL
        for resource in _OLM_KINDS:
            self.draft.put(Report(conditions.unknown(resource.kind, "OLMNotInstalled", _NOT_INSTALLED)))

    async def _operator_group(self, policy: ResolvedPolicy, build: BuiltResources) -> bool:
        self._about = OPERATOR_GROUPS.kind
        desired = build.operator_group
        if desired is None:
            self.draft.put(Report(conditions.unknown(OPERATOR_GROUPS.kind)))
            return False
        namespace = namespace_of(desired)
        found = await self.reader.objects(OPERATOR_GROUPS, namespace)
        if not policy.is_musthave:
            others = await self.reader.objects(SUBSCRIPTIONS, namespace)
            own = name_of(build.subscription or {})
            await self._execute(operator_group.mustnothave(policy, desired, found, others, own))
            return False
        drift: Drift | None = None
        if len(found) == 1 and not operator_group.is_default(desired) and operator_group.is_desired(desired, found[0]):
            drift = await find_drift(self.client, OPERATOR_GROUPS, desired, found[0], operator_group.EXACT_FIELDS)
        step = operator_group.musthave(policy, desired, found, drift)
        await self._execute(step)
        return step.correct

    async def _subscription(self, policy: ResolvedPolicy, desired: Object | None, *, group_correct: bool) -> Object | None:
        self._about = SUBSCRIPTIONS.kind
        if desired is None:
            self.draft.put(Report(conditions.unknown(SUBSCRIPTIONS.kind)))
            return None
        found = await self.reader.object(SUBSCRIPTIONS, namespace_of(desired), name_of(desired))
        if not policy.is_musthave:
            self.draft.intervention_time = ""
            return await self._execute(subscription.mustnothave(policy, desired, found))
        drift: Drift | None = None
        if found is not None:
            compared = compared_subscription(policy, desired)
            drift = await find_drift(self.client, SUBSCRIPTIONS, compared, found, subscription.EXACT_FIELDS)
            failure = None if drift.needed else subscription.failed_resolution(drift.merged)
            if failure is not None:
                return await self._failed_resolution(policy, drift.merged, failure)
        step = subscription.musthave(policy, desired, found, drift, group_correct=group_correct)
        if drift is None or drift.needed or self._intervention_is_over():
            self.draft.intervention_time = ""
        return await self._execute(step)

    async def _failed_resolution(self, policy: ResolvedPolicy, found: Object, failure: Object) -> Object | None:
        consequence = subscription.evaluate_failure(
            found,
            failure,
            reported=self.draft.has(conditions.TYPES[SUBSCRIPTIONS.kind]),
            intervention=self._intervention(),
            now=self.now(),
        )
        self.draft.intervention_time = "" if consequence.intervention is None else format_time(consequence.intervention)
        if consequence.intervention is not None and consequence.intervention > self.now():
            self.retry_after = (consequence.intervention - self.now()).total_seconds() + 1
        if consequence.report is not None:
            self.draft.put(consequence.report)
        if not consequence.unreferenced_csv or not policy.is_enforced:
            return found
        csv = await self.reader.object(CSVS, namespace_of(found), consequence.unreferenced_csv)
        if csv is None or subscription.is_copied(csv):
            return found
        log.info("subscription patched with its csv", namespace=namespace_of(found), name=name_of(found), csv=name_of(csv))
        return await self._execute(subscription.point_to(found, name_of(csv), self.now()))

    def _intervention(self) -> datetime | None:
        try:
            return parse_time(self.draft.intervention_time) if self.draft.intervention_time else None
        except GoError:
            return None

    def _intervention_is_over(self) -> bool:
        planned = self._intervention()
        return planned is not None and planned < self.now() - subscription.INTERVENTION_WINDOW

    async def _install_plan(self, policy: ResolvedPolicy, found: Object | None) -> None:
        self._about = INSTALL_PLANS.kind
        if found is None:
            self.draft.put(Report(conditions.unknown(INSTALL_PLANS.kind)))
            return
        namespace = namespace_of(found)
        knows_csv = text_at(found, "status", "currentCSV") or text_at(found, "status", "installedCSV")
        plans = await self.reader.objects(INSTALL_PLANS, namespace) if knows_csv else []
        plan = install_plan.choose(plans, found)
        if plan is None:
            self.draft.put(install_plan.no_plans(namespace))
            return
        report = install_plan.evaluate(policy, found, plan) if policy.is_musthave else install_plan.mustnothave(plan)
        if report is not None:
            self.draft.put(report)
            return
        covered = install_plan.approved_by(policy, found, plan)
        if not covered.issuperset(install_plan.csv_names(plan)):
            covered |= await self._approved_by_others(found, plan)
        await self._execute(install_plan.approve(policy, found, plan, covered))

    async def _approved_by_others(self, own: Object, plan: Object) -> frozenset[str]:
        """What other policies with a Subscription in the namespace approve."""
        policies = {(one.metadata.namespace, one.metadata.name): one for one in self.other_policies.policies()}
        approved: frozenset[str] = frozenset()
        for other in await self.reader.objects(SUBSCRIPTIONS, namespace_of(own), selector=MANAGED_KEY):
            namespace, _, name = text_at(other, "metadata", "annotations", MANAGED_KEY).partition(".")
            policy = policies.get((namespace, name))
            resolved = None if policy is None else self.other_policies.resolved.get(policy)
            if uid_of(other) != uid_of(own) and resolved is not None and resolved.is_musthave:
                approved |= install_plan.approved_by(resolved, other, plan)
        return approved

    async def _cluster_service_version(self, policy: ResolvedPolicy, found: Object | None) -> Object | None:
        self._about = CSVS.kind
        if found is None:
            self.draft.put(cluster_service_version.NONE_RELEVANT)
            return None
        csvs = await self.reader.objects(CSVS, namespace_of(found), selector=operator_selector(found))
        if policy.is_musthave:
            self.draft.put(cluster_service_version.musthave(policy, found, csvs))
        else:
            await self._execute(cluster_service_version.mustnothave(policy, found, csvs))
        return cluster_service_version.installed(found, csvs)

    def _package(self, policy: ResolvedPolicy, manifest: Object | None, found: Object | None, csv: Object | None) -> None:
        if policy.is_musthave and manifest is not None and found is not None:
            deprecation = package_manifest.deprecation(manifest, found, csv)
            if deprecation is not None:
                self.draft.put(deprecation)
        self.draft.put(package_manifest.minor_channels(policy, manifest, found))

    async def _crds(self, policy: ResolvedPolicy, found: Object | None) -> None:
        self._about = CRDS.kind
        definitions = [] if found is None else await self.reader.objects(CRDS, selector=operator_selector(found))
        await self._execute(crds.evaluate(policy, definitions))

    async def _deployments(self, policy: ResolvedPolicy, csv: Object | None) -> None:
        self._about = DEPLOYMENTS.kind
        if csv is None:
            self.draft.put(deployments.without_csv(policy))
            return
        names, namespace = deployments.names(csv), namespace_of(csv)
        found = {name: await self.reader.object(DEPLOYMENTS, namespace, name) for name in names}
        self.draft.put(deployments.evaluate(policy, csv, found))

    async def _catalog_source(self, policy: ResolvedPolicy, found: Object | None) -> None:
        self._about = CATALOG_SOURCES.kind
        if found is None:
            report = catalog_source.without_subscription(policy)
        else:
            name, namespace = text_at(found, "spec", "source"), text_at(found, "spec", "sourceNamespace")
            catalog = await self.reader.object(CATALOG_SOURCES, namespace, name) if name and namespace else None
            report = catalog_source.evaluate(policy, found, catalog)
        # Its state is either known or unknown: the other condition is obsolete.
        self.draft.drop(conditions.CATALOG)
        self.draft.drop(conditions.CATALOG_UNKNOWN)
        self.draft.put(report)

    async def _execute(self, step: Step) -> Object | None:
        """Execute the writes of a step, and report. Returns the object for later steps."""
        if step.report is not None and (step.announced or not step.writes):
            self.draft.put(step.report)
        if not step.writes:
            return step.subject
        if step.announced:
            self.draft.announce()
        answers = [await write_object(self.client, write) for write in step.writes]
        if step.enforced is not None:
            self.draft.put(step.enforced(answers))
        return step.subject if isinstance(step.writes[-1], Delete) else answers[-1]
