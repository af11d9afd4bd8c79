"""The diagnosis of a cluster that is not available: checks from the hub's own components to the agent's.

Each step checks one thing and returns findings: what is right, what is wrong and the remedy. A step that lacks a permission reports
that and does not stop the others. Steps are in order of dependency, so the first problem is usually the cause of the rest.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from muster.administration.addon_diagnosis import addons
from muster.administration.agent_warnings import last_warning
from muster.administration.aws.agent_diagnosis import agents_identity
from muster.administration.aws.diagnosis import aws_identity
from muster.administration.findings import NOTE, OK, PROBLEM, Diagnosis, Finding, Findings
from muster.administration.gateway_diagnosis import gateway
from muster.administration.grpc_diagnosis import agent_connection, grpc_server
from muster.administration.members.accept import by_certificate
from muster.administration.members.klusterlets import find_klusterlets, list_klusterlets
from muster.administration.members.requests import RequestFilter, judge, request_servers
from muster.administration.policy_diagnosis import policies
from muster.administration.readiness import deployment_problem, hub_problem
from muster.administration.work_diagnosis import works
from muster.api import MalformedObject, condition_of, is_true
from muster.api.cluster.v1 import ACCEPTED, AVAILABLE, CLOCK_SYNCED, JOINED, ManagedCluster
from muster.api.operator.v1 import ClusterManager, Klusterlet
from muster.machinery.golang.durations import human_duration
from muster.machinery.golang.timestamps import parse_time
from muster.operator.klusterlet.plan import KlusterletPlan, agent_namespace_of
from muster.operator.names import CLUSTER_MANAGER, OPERATOR_NAMESPACE
from muster.registration.drivers.certificates.requests import issued_certificate, validity_of, verdict_of
from muster.registration.drivers.flags import AWS, AWS_ALIAS, GRPC
from muster.registration.hub import install as registration
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import (
    BOOTSTRAP_SECRET,
    CLUSTER_LABEL,
    DEFAULT_LEASE_SECONDS,
    HUB_SECRET,
    LEASE,
    LEASE_PERIODS,
    cluster_role,
    registration_binding,
)
from muster.runtime.client import Forbidden, KubeClient, KubeError, NotFound, StatusError
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    LEASES,
    ROLE_BINDINGS,
    SECRETS,
    SIGNING_REQUESTS,
)
from muster.runtime.webhook import Hook
from muster.work.hub import install as work
from muster.work.kinds import MANIFEST_WORKS

DELETION_SECONDS: Final = 60.0

Step = Callable[[Diagnosis], Findings]
Probe = Callable[[Diagnosis], Awaitable[None]]


async def diagnose(diagnosis: Diagnosis) -> list[Finding]:
    findings: list[Finding] = []
    for subject, step in STEPS:
        try:
            findings += [one async for one in step(diagnosis)]
        except Forbidden as error:
            # A caller who may not read the cluster must not see that nothing is wrong with it.
            verdict = PROBLEM if step is _existence else NOTE
            findings.append(Finding(verdict, subject, f"cannot be read: {error}", "run doctor with permission to read it"))
        except MalformedObject as error:
            findings.append(Finding(PROBLEM, subject, f"cannot be read: {error}"))
        except KubeError as error:
            findings.append(Finding(PROBLEM, subject, str(error)))
    return findings


async def _controllers(diagnosis: Diagnosis) -> Findings:
    subject = "hub"
    try:
        operator = await diagnosis.hub.get(DEPLOYMENTS, CLUSTER_MANAGER, OPERATOR_NAMESPACE)
        manager = await diagnosis.hub.get(ClusterManager, CLUSTER_MANAGER)
    except NotFound:
        yield Finding(
            NOTE, subject, "it has no operator and ClusterManager; are its controllers installed by other means?", "run init"
        )
        return
    if problem := deployment_problem(operator):
        remedy = f"see kubectl -n {OPERATOR_NAMESPACE} describe deployment {CLUSTER_MANAGER}"
        yield Finding(PROBLEM, subject, f"the operator does not run: {problem}", remedy)
    elif problem := hub_problem(manager):
        yield Finding(PROBLEM, subject, f"not all of it works: {problem}", "see get hub-info")
    else:
        yield Finding(OK, subject, "operator and components run")


async def _webhooks(diagnosis: Diagnosis) -> Findings:
    without = "without them the acceptance of clusters is not authorized: run init"
    async for finding in _judges(diagnosis, "webhooks", registration.HOOKS, without, _touch):
        yield finding


async def _work_webhooks(diagnosis: Diagnosis) -> Findings:
    without = "without them the executors of works are not authorized: run init"
    async for finding in _judges(diagnosis, "webhooks of works", work.HOOKS, without, _try_work):
        yield finding


async def _judges(diagnosis: Diagnosis, subject: str, hooks: Iterable[Hook], without: str, probe: Probe) -> Findings:
    """Check admission webhooks by a dry run: they decide on every write."""
    missing = []
    for hook in hooks:
        try:
            await diagnosis.hub.get(hook.resource, hook.name)
        except NotFound:
            missing.append(hook.name)
    if missing:
        yield Finding(NOTE, subject, f"not configured: {', '.join(missing)}", without)
        return
    try:
        await probe(diagnosis)
    except NotFound:
        # About the namespace, which the hub creates when it accepts the cluster.
        yield Finding(
            NOTE, subject, f"not tried: the hub has no namespace {diagnosis.name}", "it makes it when the cluster is accepted"
        )
        return
    except KubeError as error:
        if not (isinstance(error, StatusError) and error.by_webhook):
            if isinstance(error, Forbidden):
                raise
            text = f"a write to the cluster is not answered: {error}"
            yield Finding(PROBLEM, subject, text, "see get hub-info: does the webhook run?")
            return
    yield Finding(OK, subject, "they answer")


async def _touch(diagnosis: Diagnosis) -> None:
    """Write the cluster (a dry run), or create it as its agent would: webhooks are called only for valid writes."""
    try:
        await diagnosis.hub.patch(MANAGED_CLUSTERS, diagnosis.name, {"metadata": {}}, dry_run=True)
    except NotFound:
        await _introduce(diagnosis)


async def _introduce(diagnosis: Diagnosis) -> None:
    await diagnosis.hub.create(
        MANAGED_CLUSTERS,
        {
            "apiVersion": MANAGED_CLUSTERS.api_version,
            "kind": MANAGED_CLUSTERS.kind,
            "metadata": {"name": diagnosis.name},
            "spec": {"hubAcceptsClient": False},
        },
        dry_run=True,
    )


async def _try_work(diagnosis: Diagnosis) -> None:
    nothing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "doctor", "namespace": "default"}}
    await diagnosis.hub.create(
        MANIFEST_WORKS,
        {
            "apiVersion": MANIFEST_WORKS.api_version,
            "kind": MANIFEST_WORKS.kind,
            "metadata": {"generateName": "doctor-", "namespace": diagnosis.name},
            "spec": {"workload": {"manifests": [nothing]}},
        },
        dry_run=True,
    )


async def _existence(diagnosis: Diagnosis) -> Findings:
    subject = "ManagedCluster"
    try:
        diagnosis.cluster = await diagnosis.hub.get(ManagedCluster, diagnosis.name)
    except NotFound:
        yield await _unknown(diagnosis, subject)
        return
    if diagnosis.cluster.metadata.deletion_timestamp:
        yield _deletion(diagnosis, diagnosis.cluster)


async def _unknown(diagnosis: Diagnosis, subject: str) -> Finding:
    """A cluster that does not exist on the hub; a dry run checks whether its agent could create it."""
    text = "there is none of this name"
    try:
        await _introduce(diagnosis)
    except Forbidden as error:
        if error.by_webhook:
            return Finding(PROBLEM, subject, f"{text}, and the hub refuses to have one: {error}", _WEBHOOK_REMEDY)
    except KubeError as error:
        return Finding(PROBLEM, subject, f"{text}, and none can be made: {error}", _WEBHOOK_REMEDY)
    return Finding(
        PROBLEM,
        subject,
        f"{text}: the agent has not introduced the cluster",
        "run join on the cluster; if that was done, run doctor with --managed-cluster-kubeconfig: its token may have expired",
    )


_WEBHOOK_REMEDY: Final = (
    "the agent cannot introduce the cluster until this is mended: see the webhook that is named (kubectl get "
    "validatingwebhookconfigurations,mutatingwebhookconfigurations) and get hub-info"
)


def _deletion(diagnosis: Diagnosis, cluster: ManagedCluster) -> Finding:
    deleting = condition_of(cluster.status.conditions, "Deleting")
    held = ", ".join(cluster.metadata.finalizers)
    text = f"it is being deleted{f', held by {held}' if held else ''}{f': {deleting.message}' if deleting else ''}"
    since = (diagnosis.clock.now() - parse_time(cluster.metadata.deletion_timestamp or "")).total_seconds()
    if since <= DELETION_SECONDS:
        return Finding(PROBLEM, "ManagedCluster", text, "wait until it is deleted, then join again")
    remedy = "what is left in its namespace has to go first: works (delete work --force) and addons (addon disable)"
    return Finding(
        PROBLEM, "ManagedCluster", f"{text}; for {human_duration(since)} now", f"{remedy}; does the hub's controller run?"
    )


async def _acceptance(diagnosis: Diagnosis) -> Findings:
    cluster = diagnosis.cluster
    if cluster is None:
        return
    subject = "acceptance"
    if not cluster.spec.hub_accepts_client:
        yield Finding(PROBLEM, subject, "the cluster is not accepted", f"run accept --clusters {diagnosis.name}")
        return
    condition = condition_of(cluster.status.conditions, ACCEPTED)
    if condition is None:
        yield Finding(PROBLEM, subject, "accepted, and the hub's controller has not acted on it", "does it run? see get hub-info")
    elif condition.status != "True":
        yield Finding(
            PROBLEM, subject, f"the hub could not grant access: {condition.reason}: {condition.message}", "mend this; it is retried"
        )
    else:
        yield Finding(OK, subject, "accepted")


async def _requests(diagnosis: Diagnosis) -> Findings:
    """The agent's signing requests, as long as it has not joined."""
    cluster = diagnosis.cluster
    if cluster is not None and (not by_certificate(cluster) or is_true(cluster.status.conditions, JOINED)):
        return
    subject = "certificate requests"
    found = (await diagnosis.hub.list(SIGNING_REQUESTS, label_selector=f"{CLUSTER_LABEL}={diagnosis.name}")).items
    if not found:
        yield Finding(
            PROBLEM,
            subject,
            "the agent has not requested a certificate",
            "check the agent: run doctor with --managed-cluster-kubeconfig",
        )
    wanted = RequestFilter(servers=await request_servers(diagnosis.hub))
    for csr in found:
        name = csr["metadata"]["name"]
        judgement = judge(csr, cluster, wanted)
        if judgement.objection:
            remedy = f"if you know the requester, run accept --clusters {diagnosis.name} --requesters {judgement.agent or 'AGENT'}"
            yield Finding(PROBLEM, subject, f"CSR {name}: {judgement.objection}", remedy if judgement.agent else "")
        elif judgement.good:
            yield Finding(
                PROBLEM,
                subject,
                f"CSR {name} waits for approval: key {judgement.fingerprint}",
                f"run accept --clusters {diagnosis.name}",
            )
        elif failed := verdict_of(csr, "Denied", "Failed"):
            text = f"CSR {name} is {failed['type'].lower()}: {failed.get('message') or failed.get('reason')}"
            yield Finding(PROBLEM, subject, text, f"delete it (kubectl delete csr {name}), and the agent creates another one")
        elif issued_certificate(csr):
            yield Finding(OK, subject, f"CSR {name} is approved and signed")
        else:
            text = f"CSR {name} is approved and not signed"
            yield Finding(PROBLEM, subject, text, "does this cluster sign at all? some services do not: use another driver")


async def _permissions(diagnosis: Diagnosis) -> Findings:
    cluster = diagnosis.cluster
    if cluster is None or not cluster.spec.hub_accepts_client:
        return
    role, binding = cluster_role(diagnosis.name), registration_binding(diagnosis.name)
    wanted = ((CLUSTER_ROLES, role, ""), (CLUSTER_ROLE_BINDINGS, role, ""), (ROLE_BINDINGS, binding, diagnosis.name))
    missing = []
    for resource, name, namespace in wanted:
        try:
            await diagnosis.hub.get(resource, name, namespace)
        except NotFound:
            missing.append(f"{resource.kind} {namespace + '/' if namespace else ''}{name}")
    if missing:
        yield Finding(PROBLEM, "permissions", f"missing: {', '.join(missing)}", "the hub's controller makes them: does it run?")
    else:
        yield Finding(OK, "permissions", "granted")


async def _lease(diagnosis: Diagnosis) -> Findings:
    cluster = diagnosis.cluster
    if cluster is None or not cluster.spec.hub_accepts_client:
        return
    subject = "lease"
    try:
        found = await diagnosis.hub.get(LEASES, LEASE, diagnosis.name)
    except NotFound:
        yield Finding(
            PROBLEM, subject, f"there is no Lease {diagnosis.name}/{LEASE}", "the hub's controller makes it: does it run?"
        )
        return
    renewed = (found.get("spec") or {}).get("renewTime")
    if not renewed or not is_true(cluster.status.conditions, JOINED):
        yield Finding(
            PROBLEM, subject, "the agent has never renewed it", "check the agent: run doctor with --managed-cluster-kubeconfig"
        )
        return
    age = (diagnosis.clock.now() - parse_time(renewed)).total_seconds()
    bound = (cluster.spec.lease_duration_seconds or DEFAULT_LEASE_SECONDS) * LEASE_PERIODS
    text = f"last renewed {human_duration(max(age, 0))} ago"
    if age > bound:
        yield Finding(PROBLEM, subject, f"{text}: the agent is down or cannot reach the hub", "check the agent and its network")
    else:
        yield Finding(OK, subject, text)


async def _availability(diagnosis: Diagnosis) -> Findings:
    cluster = diagnosis.cluster
    if cluster is None:
        return
    if cluster.spec.hub_accepts_client and not is_true(cluster.status.conditions, JOINED):
        text = "the agent has not come back with its certificate"
        yield Finding(PROBLEM, "joining", text, "check the agent: run doctor with --managed-cluster-kubeconfig")
    condition = condition_of(cluster.status.conditions, AVAILABLE)
    if condition is not None and condition.status == "True":
        yield Finding(OK, "availability", "the cluster is available")
    elif condition is not None:
        remedy = {
            "ManagedClusterKubeAPIServerUnavailable": "check the cluster's own API server",
            "ManagedClusterLeaseUpdateStopped": "check the agent, and whether it reaches the hub",
        }.get(condition.reason, "")
        yield Finding(PROBLEM, "availability", f"{condition.status}: {condition.reason}: {condition.message}", remedy)
    clock = condition_of(cluster.status.conditions, CLOCK_SYNCED)
    if clock is not None and clock.status == "False":
        yield Finding(PROBLEM, "clock", clock.message, "set the clocks of hub and cluster right (NTP)")


async def _agent(diagnosis: Diagnosis) -> Findings:
    """Checks on the managed cluster, if there is a kubeconfig for it."""
    if diagnosis.managed is None:
        if diagnosis.cluster is None or not is_true(diagnosis.cluster.status.conditions, AVAILABLE):
            yield Finding(NOTE, "agent", "not checked", "give --managed-cluster-kubeconfig to check the managed cluster too")
        return
    mine = await find_klusterlets(diagnosis.managed, diagnosis.name)
    if not mine:
        others = [one.spec.cluster_name or one.metadata.name for one in await list_klusterlets(diagnosis.managed)]
        text = (
            f"no klusterlet has this cluster's name; there is {', '.join(others)}" if others else "no klusterlet is installed there"
        )
        yield Finding(PROBLEM, "agent", text, "run join there under this name")
        return
    for klusterlet in mine:
        async for finding in _klusterlet(diagnosis, diagnosis.managed, klusterlet):
            yield finding


_WELL: Final = {
    "Applied": ("True",),
    "Available": ("True",),
    "RegistrationDesiredDegraded": ("False",),
    # The operator cannot test this: only the agents' own pods can.
    "HubConnectionDegraded": ("False", "Unknown"),
}


async def _klusterlet(diagnosis: Diagnosis, managed: KubeClient, klusterlet: Klusterlet) -> Findings:
    subject = f"klusterlet {klusterlet.metadata.name}"
    bad = [
        condition
        for condition in klusterlet.status.conditions
        if condition.status not in _WELL.get(condition.type, (condition.status,))
    ]
    for one in bad:
        yield Finding(PROBLEM, subject, f"{one.type} is {one.status}: {one.reason}: {one.message}", _REMEDIES.get(one.type, ""))
    if not klusterlet.status.conditions:
        yield Finding(PROBLEM, subject, "its operator has not acted on it", f"does {OPERATOR_NAMESPACE}/klusterlet run?")
    elif not bad:
        yield Finding(OK, subject, "its operator finds nothing wrong")
    if klusterlet.metadata.deletion_timestamp:
        held = ", ".join(klusterlet.metadata.finalizers) or "nobody"
        remedy = (
            f"does its operator run? see kubectl -n {OPERATOR_NAMESPACE} get deployment klusterlet; or run unjoin --force there"
        )
        yield Finding(PROBLEM, subject, f"it is being deleted, and held by {held}", remedy)
    if not diagnosis.available and (warning := await last_warning(managed, agent_namespace_of(klusterlet))):
        yield Finding(NOTE, "agent's last warning", warning)
    plan = KlusterletPlan(klusterlet, "")
    if plan.registration.registration_driver.auth_type in (AWS, AWS_ALIAS):
        async for finding in agents_identity(diagnosis, managed, klusterlet):
            yield finding
        return
    yield await _credential(diagnosis, managed, agent_namespace_of(klusterlet))
    if plan.endpoints.name == GRPC:
        async for finding in agent_connection(diagnosis, managed, klusterlet):
            yield finding


_REMEDIES: Final = {
    "HubConnectionDegraded": "is the hub reachable from there? has the bootstrap token expired? run join again with a new one",
    "Available": "see the pods of the agent: kubectl get pods -A",
    "RegistrationDesiredDegraded": "see the pods of the agent: kubectl get pods -A",
    "Applied": "correct what the message names; it is retried",
}


async def _credential(diagnosis: Diagnosis, managed: KubeClient, namespace: str) -> Finding:
    subject = "agent's credential"
    try:
        secret = await managed.get(SECRETS, HUB_SECRET, namespace)
    except NotFound:
        try:
            await managed.get(SECRETS, BOOTSTRAP_SECRET, namespace)
        except NotFound:
            return Finding(
                PROBLEM, subject, f"there is no Secret {namespace}/{BOOTSTRAP_SECRET} to introduce itself with", "run join"
            )
        return Finding(
            PROBLEM, subject, f"there is no Secret {namespace}/{HUB_SECRET} yet: it has not been accepted", "run accept on the hub"
        )
    certificate = base64.b64decode((secret.get("data") or {}).get("tls.crt") or "")
    if not certificate:
        return Finding(NOTE, subject, "it has no certificate")
    try:
        validity = validity_of(certificate)
    except ValueError:
        return Finding(
            PROBLEM, subject, "its certificate cannot be read", f"delete Secret {namespace}/{HUB_SECRET}: the agent registers again"
        )
    until = validity.until
    if until <= diagnosis.clock.now():
        text = f"its certificate expired at {until:%Y-%m-%dT%H:%M:%SZ}"
        return Finding(PROBLEM, subject, text, "run get token on the hub and join again")
    if validity.since > diagnosis.clock.now():
        text = f"its certificate is good only from {validity.since:%Y-%m-%dT%H:%M:%SZ} on, by the clock here"
        return Finding(PROBLEM, subject, text, "set the clocks of hub and cluster right (NTP)")
    return Finding(OK, subject, f"its certificate is good until {until:%Y-%m-%dT%H:%M:%SZ}")


STEPS: Final[tuple[tuple[str, Step], ...]] = (
    ("hub", _controllers),
    ("ManagedCluster", _existence),
    ("webhooks", _webhooks),
    ("webhooks of works", _work_webhooks),
    ("certificate requests", _requests),
    ("acceptance", _acceptance),
    ("AWS identity", aws_identity),
    ("permissions", _permissions),
    ("lease", _lease),
    ("availability", _availability),
    ("gRPC server", grpc_server),
    ("gateway", gateway),
    ("works", works),
    ("addons", addons),
    ("policies", policies),
    ("agent", _agent),
)
