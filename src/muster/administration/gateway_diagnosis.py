"""The gateway checks of `doctor`: why it does not answer, and why a cluster is unreachable through it.

They follow the path of a request: is the gateway enabled, does it run, is its certificate the one that the API server trusts, is
its APIService available, does it hide another API? Then for one cluster: the gateway's own condition of it, which covers its
address and credential. Nothing is reported without a gateway and leftovers of one.
"""

from __future__ import annotations

import base64
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from muster.accounts.hub import MANAGED_SERVICE_ACCOUNT
from muster.administration.content.addons import ADDONS
from muster.administration.findings import NOTE, OK, PROBLEM, Diagnosis, Finding, Findings
from muster.administration.readiness import deployment_problem
from muster.api import condition_of
from muster.api.operator.v1 import ClusterManager
from muster.api.proxy.v1alpha1 import GROUP, ClusterGateway
from muster.gateway.addon.addon import ROLE_VARIABLE
from muster.gateway.apiservice import (
    POSSIBLE_API_SERVICES,
    SERVICE,
    SERVING_SECRET,
    api_service_name,
    api_services,
    other_owner,
    shadowed_resources,
    unavailability,
    version_remedy,
)
from muster.gateway.names import COMPONENT, CREDENTIALS_NAMESPACE, RESOURCE
from muster.gateway.target import (
    CLUSTER_TIMEOUT,
    CLUSTER_UNREACHABLE,
    CREDENTIAL_EXPIRED,
    CREDENTIAL_MISSING,
    CREDENTIAL_REFUSED,
    ENDPOINT_MISSING,
    NOT_PROBED,
    TUNNEL_MISSING,
)
from muster.machinery.objects import GVR, Object
from muster.operator.cluster_manager.components import GATEWAY, GATEWAY_DEGRADED
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.operator.names import CLUSTER_MANAGER
from muster.operator.spec import BadSpec
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import Forbidden, NotFound
from muster.runtime.client.builtin import API_SERVICES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, DEPLOYMENTS, SECRETS

SUBJECT: Final = "gateway"
BINDING: Final = f"open-cluster-management:{COMPONENT}"
"""Prefix of the bindings that give the gateway permissions on a cluster; the role's name follows."""


async def gateway(diagnosis: Diagnosis) -> Findings:
    plan = await _plan(diagnosis)
    if plan is None or not plan.gateway:
        async for finding in _leftovers(diagnosis):
            yield finding
        return
    if plan.hosted:
        yield Finding(NOTE, SUBJECT, "it runs on the cluster that hosts this hub", "run doctor there")
        return
    try:
        served = api_services(plan.gateway_version, oam=plan.gateway_oam)
    except BadSpec as error:
        yield Finding(PROBLEM, SUBJECT, f"ClusterManager {plan.name}: {error}", "mend the annotation, or take it away")
        return
    problem = await _problem(diagnosis, plan, served)
    if problem is not None:
        yield problem
        return
    for group, version in served:
        if names := shadowed_resources(group, version, (await diagnosis.hub.list(CRDS)).items):
            text = f"custom resources of {group}/{version} cannot be reached behind it: {', '.join(names)}"
            yield Finding(PROBLEM, SUBJECT, text, version_remedy(plan.gateway_version))
    yield await _cluster(diagnosis, plan)
    if (problem := await _lacking_rights(diagnosis)) is not None:
        yield problem


async def _plan(diagnosis: Diagnosis) -> ClusterManagerPlan | None:
    try:
        return ClusterManagerPlan(await diagnosis.hub.get(ClusterManager, CLUSTER_MANAGER), "")
    except NotFound:
        return None


async def _leftovers(diagnosis: Diagnosis) -> Findings:
    """An APIService without a server breaks discovery on the whole hub, and the deletion of every namespace."""
    for name in POSSIBLE_API_SERVICES:
        try:
            found = await diagnosis.hub.get(API_SERVICES, name)
        except NotFound:
            continue
        if other_owner(found, HUB_NAMESPACE) or unavailability(found) == "":
            continue
        text = f"APIService {name} is left of a gateway that is switched off, and hinders the whole hub: {unavailability(found)}"
        yield Finding(PROBLEM, SUBJECT, text, f"kubectl delete apiservice {name}")


async def _problem(diagnosis: Diagnosis, plan: ClusterManagerPlan, served: list[tuple[str, str]]) -> Finding | None:
    """The first problem on the path."""
    name = GATEWAY.deployment(plan)
    try:
        deployment = await diagnosis.hub.get(DEPLOYMENTS, name, plan.namespace)
    except NotFound as error:
        return Finding(PROBLEM, SUBJECT, f"it is not there yet: {error}", "the operator makes it: does it run? see get hub-info")
    if problem := deployment_problem(deployment):
        return Finding(PROBLEM, SUBJECT, f"it does not run: {problem}", f"see kubectl -n {plan.namespace} logs deployment/{name}")
    degraded = condition_of(plan.manager.status.conditions, GATEWAY_DEGRADED)
    for group, version in served:
        try:
            found = await diagnosis.hub.get(API_SERVICES, api_service_name(version, group))
        except NotFound as error:
            text, remedy = f"the API server is not led to it: {error}", "the operator does that: does it run? see get hub-info"
            if degraded is not None and degraded.status == "True":
                text, remedy = f"the API server is not led to it: {degraded.message}", version_remedy(plan.gateway_version)
            return Finding(PROBLEM, SUBJECT, text, remedy)
        if problem := other_owner(found, plan.hub_namespace):
            return Finding(PROBLEM, SUBJECT, problem, version_remedy(version))
        if problem := await _distrusted(diagnosis, plan, found):
            remedy = "the operator keeps both: does it run? see get hub-info"
            return Finding(PROBLEM, SUBJECT, problem, remedy)
        if problem := unavailability(found):
            text = f"the API server does not reach it: {problem}"
            remedy = f"can the API server connect to Service {plan.namespace}/{SERVICE}? See its log and its endpoints"
            return Finding(PROBLEM, SUBJECT, text, remedy)
    return None


async def _distrusted(diagnosis: Diagnosis, plan: ClusterManagerPlan, found: Object) -> str:
    """Why the API server would not trust the certificate that the gateway serves."""
    name, where = found["metadata"]["name"], f"Secret {plan.namespace}/{SERVING_SECRET}"
    try:
        secret = await diagnosis.hub.get(SECRETS, SERVING_SECRET, plan.namespace)
    except NotFound:
        return f"{where}, which has its certificate, is missing"
    except Forbidden:
        # A caller who may not read Secrets can still check the rest.
        return ""
    try:
        leaf = x509.load_pem_x509_certificate(base64.b64decode((secret.get("data") or {})["tls.crt"]))
        trusted = x509.load_pem_x509_certificates(base64.b64decode(found["spec"].get("caBundle") or ""))
    except (KeyError, ValueError):
        return f"{where} or the caBundle of APIService {name} cannot be read"
    now = diagnosis.clock.now()
    if not leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc:
        return (
            f"{where}: its certificate is not good now: {leaf.not_valid_before_utc:%Y-%m-%d} to {leaf.not_valid_after_utc:%Y-%m-%d}"
        )
    if not any(_issued(leaf, one) for one in trusted):
        return f"the certificate in {where} is of no authority in the caBundle of APIService {name}"
    return ""


def _issued(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


async def _cluster(diagnosis: Diagnosis, plan: ClusterManagerPlan) -> Finding:
    """The gateway's condition of the cluster, and what it lacks."""
    subject, name = "gateway to the cluster", diagnosis.name
    resource = GVR(f"{GROUP}/{plan.gateway_version}", RESOURCE, ClusterGateway.resource.kind, False)
    try:
        status = (await diagnosis.hub.get(resource, name)).get("status") or {}
    except NotFound:
        return Finding(NOTE, subject, "the gateway answers, and does not know the cluster", "it knows those that are accepted")
    if status.get("healthy"):
        return Finding(OK, subject, "the gateway answers, and reaches it")
    reason = str(status.get("healthyReason") or f"{NOT_PROBED}: it has not tried yet")
    cause = reason.partition(":")[0]
    # It is the problem if the addon is enabled and the cluster is available otherwise.
    verdict = PROBLEM if cause != NOT_PROBED and diagnosis.available and await _is_enabled(diagnosis) else NOTE
    remedy = _REMEDIES.get(cause, "").format(cluster=diagnosis.name)
    return Finding(verdict, subject, f"the gateway answers, and does not reach it: {reason}", remedy)


async def _is_enabled(diagnosis: Diagnosis) -> bool:
    try:
        await diagnosis.hub.get(ADDONS, COMPONENT, diagnosis.name)
    except NotFound:
        return False
    return True


_RENEWAL: Final = (
    f"does the agent of addon {MANAGED_SERVICE_ACCOUNT.name} renew it? see get addons {MANAGED_SERVICE_ACCOUNT.name}, and its log "
    f"on the cluster; a Secret of your own in {CREDENTIALS_NAMESPACE} you have to renew"
)
_WAY: Final = "is the way from the gateway's pods to this address open? If it cannot be, have the cluster's agent open a tunnel"
_REMEDIES: Final = {
    ENDPOINT_MISSING: "run join again on a cluster with a cluster-info that has its address, "
    "or set externalServerURLs of its Klusterlet",
    CREDENTIAL_MISSING: f"run addon enable --names {COMPONENT} --clusters {{cluster}}, "
    f"or put a labelled Secret into namespace {CREDENTIALS_NAMESPACE}",
    CREDENTIAL_EXPIRED: _RENEWAL,
    CREDENTIAL_REFUSED: _RENEWAL,
    TUNNEL_MISSING: f"does the agent of addon {COMPONENT} run on the cluster? see get addons {COMPONENT}, and its log there",
    CLUSTER_UNREACHABLE: _WAY,
    CLUSTER_TIMEOUT: _WAY,
}
"""Remedies by cause, where the gateway's own message does not have it."""


async def _lacking_rights(diagnosis: Diagnosis) -> Finding | None:
    """A user who is authenticated but has no permissions there: checks the addon's binding and its role on the cluster."""
    if diagnosis.managed is None or not await _is_enabled(diagnosis):
        return None
    subject = "gateway's rights on the cluster"
    bindings = (await diagnosis.managed.list(CLUSTER_ROLE_BINDINGS)).items
    roles = [one["roleRef"]["name"] for one in bindings if one["metadata"]["name"].startswith(f"{BINDING}:")]
    if not roles:
        remedy = f"the addon's work brings it: see get works --clusters {diagnosis.name} -o wide"
        return Finding(PROBLEM, subject, f"there is no ClusterRoleBinding {BINDING}:…", remedy)
    for role in roles:
        try:
            await diagnosis.managed.get(CLUSTER_ROLES, role)
        except NotFound:
            text = f"it is given ClusterRole {role}, which is not there: whatever the hub allows is refused"
            return Finding(PROBLEM, subject, text, f"make that role on the cluster, or name another: variable {ROLE_VARIABLE}")
    return None
