"""The AWS checks of `doctor` on the managed cluster: whether the agents' pods have their role, and whether the hub accepts it.

The configuration of the pods (annotation of the service account, token volume, variables) is compared with the Klusterlet's ARNs.
Then `doctor` uses a token of their service account to assume one role after the other, up to a request to the hub's API server: the
first that is refused is named. The caller's network may differ from the agents': an endpoint that is unreachable from here is no
problem of a cluster that is available.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Final

import orjson

from muster.administration.findings import NOTE, OK, PROBLEM, Diagnosis, Finding, Findings
from muster.administration.members.klusterlets import account_token, hub_secret
from muster.api.operator.v1 import Klusterlet
from muster.aws.errors import AwsError, NoLibrary, Throttled, Unavailable
from muster.aws.policies import AUDIENCE
from muster.aws.process_env import ROLE_ARN as ROLE_VARIABLE
from muster.aws.process_env import TOKEN_FILE as TOKEN_VARIABLE
from muster.aws.role_names import RoleNames
from muster.machinery.objects import Object
from muster.operator.klusterlet.connection import open_secret
from muster.operator.klusterlet.manifests import Component, components
from muster.operator.klusterlet.plan import KlusterletPlan
from muster.registration.drivers.awsirsa import PROFILE
from muster.registration.drivers.awsirsa.as_agent import agents_token, with_token
from muster.registration.drivers.awsirsa.names import ROLE_ARN, TOKEN_DIRECTORY, TOKEN_FILE
from muster.registration.drivers.awsirsa.spoke import role_in
from muster.registration.drivers.endpoints import EndpointError
from muster.registration.drivers.errors import BadField
from muster.registration.names import HUB_SECRET
from muster.runtime.client import Forbidden, KubeClient, KubeError, NotFound, Unauthorized, Unreachable
from muster.runtime.client.builtin import DEPLOYMENTS, SERVICE_ACCOUNTS

PODS: Final = "agents' AWS role"
HUB_CONNECTION: Final = "agents' way to the hub"
WITHIN: Final = 20.0
"""Seconds for the hub to answer a request with the agents' token."""
WEB_IDENTITY: Final = "assume_role_with_web_identity"
"""The operation that exchanges a service account's token for a role; later refusals concern that role."""


async def agents_identity(diagnosis: Diagnosis, managed: KubeClient, klusterlet: Klusterlet) -> Findings:
    plan = KlusterletPlan(klusterlet, "")
    try:
        pair = PROFILE.pair(plan.registration)
    except BadField as error:
        yield Finding(
            PROBLEM, PODS, f"Klusterlet {plan.name}: spec.registrationConfiguration.{error}", "run join again with both ARNs"
        )
        return
    wrong = [text for component in components(plan) for text in await _wrong_with_pods(managed, plan, component, pair)]
    for text in wrong:
        yield Finding(PROBLEM, PODS, text, "the operator writes it: does it run? see get klusterlet-info")
    if not wrong:
        yield Finding(OK, PODS, f"pods are given {pair.managed_role_arn} and a token for it")
    stored = await hub_secret(managed, klusterlet)
    if problem := _wrong_with_kubeconfig(plan, stored, pair, diagnosis):
        yield problem
        return
    yield await _connection_problem(diagnosis, managed, klusterlet, pair, stored)


async def _wrong_with_pods(managed: KubeClient, plan: KlusterletPlan, component: Component, pair: RoleNames) -> list[str]:
    """Problems of one of the agents: of its service account, and of its pods' configuration."""
    namespace, wanted = plan.agent_namespace, pair.managed_role_arn
    try:
        account = await managed.get(SERVICE_ACCOUNTS, component.account(plan), namespace)
        deployment = await managed.get(DEPLOYMENTS, component.deployment(plan), namespace)
    except NotFound as error:
        return [str(error)]
    wrong = []
    role_arn = (account["metadata"].get("annotations") or {}).get(ROLE_ARN, "")
    if role_arn != wanted:
        wrong.append(
            f"ServiceAccount {namespace}/{component.account(plan)}: annotation {ROLE_ARN} is {role_arn!r}, expected {wanted!r}"
        )
    where, pod = f"Deployment {namespace}/{component.deployment(plan)}", deployment["spec"]["template"]["spec"]
    variables = {one["name"]: one.get("value", "") for one in pod["containers"][0].get("env") or ()}
    expected = {ROLE_VARIABLE: wanted, TOKEN_VARIABLE: f"{TOKEN_DIRECTORY}/{TOKEN_FILE}"}
    wrong += [
        f"{where}: variable {name} is {variables.get(name, '')!r}, expected {value!r}"
        for name, value in expected.items()
        if variables.get(name) != value
    ]
    if AUDIENCE not in _audiences(pod):
        wrong.append(f"{where}: no volume has a token for {AUDIENCE}")
    return wrong


def _audiences(pod: Object) -> set[str]:
    sources = (source for volume in pod.get("volumes") or () for source in (volume.get("projected") or {}).get("sources") or ())
    return {str((source.get("serviceAccountToken") or {}).get("audience") or "") for source in sources}


def _wrong_with_kubeconfig(
    plan: KlusterletPlan, stored: Mapping[str, bytes], pair: RoleNames, diagnosis: Diagnosis
) -> Finding | None:
    where = f"Secret {plan.agent_namespace}/{HUB_SECRET}"
    kubeconfig = stored.get(plan.endpoints.key)
    if kubeconfig is None:
        text = f"{where} has no kubeconfig: the hub has not accepted the cluster yet, or the agents have not seen it"
        return Finding(
            PROBLEM, HUB_CONNECTION, text, f"run accept --clusters {diagnosis.name} on the hub; then see the agents' log"
        )
    if role_in(kubeconfig, pair.hub) != pair.hub_role_arn:
        text = f"{where}: its kubeconfig does not sign as {pair.hub_role_arn} for {pair.hub}"
        return Finding(PROBLEM, HUB_CONNECTION, text, "the registration agent writes it anew: does it run? see its log")
    return None


async def _connection_problem(
    diagnosis: Diagnosis, managed: KubeClient, klusterlet: Klusterlet, pair: RoleNames, stored: Mapping[str, bytes]
) -> Finding:
    """The first problem on the agents' connection to the hub."""
    issuers: list[str] = []
    token = account_token(managed, klusterlet)

    async def noted(audience: str) -> str:
        made = await token(audience)
        issuers.append(_issuer(made))
        return made

    try:
        signed = await agents_token(pair, noted, diagnosis.process_env)
    except Forbidden as error:
        return Finding(
            NOTE, HUB_CONNECTION, f"not gone: {error}", "run doctor with permission to create serviceaccounts/token there"
        )
    except (Unavailable, Throttled, NoLibrary) as error:
        verdict = NOTE if diagnosis.available else PROBLEM
        return Finding(
            verdict, HUB_CONNECTION, f"AWS cannot be reached from here: {error}", "can it be reached from the agents' pods?"
        )
    except AwsError as error:
        return _refused(error, pair, diagnosis, next(iter(issuers), ""))
    plan = KlusterletPlan(klusterlet, "")
    contents = {**stored, plan.endpoints.key: with_token(stored[plan.endpoints.key], signed)}
    return await _on_the_hub(diagnosis, plan, pair, contents)


def _refused(error: AwsError, pair: RoleNames, diagnosis: Diagnosis, issuer: str) -> Finding:
    apply = (
        f"aws prerequisites managed --hub-cluster-arn {pair.hub} --managed-cluster-arn {pair.managed} "
        f"--oidc-provider {issuer or 'ISSUER'} --apply, with an AWS identity of account {pair.managed.account}"
    )
    if error.operation == WEB_IDENTITY:
        text = f"{pair.managed_role_arn} refused the agents' account: {error}"
        return Finding(
            PROBLEM, HUB_CONNECTION, text, f"run {apply}; is {issuer or 'the issuer'} an identity provider of that account?"
        )
    text = f"{pair.hub_role_arn} refused {pair.managed_role_arn}: {error}"
    remedy = f"is the cluster accepted? run accept --clusters {diagnosis.name} on the hub; are the role's tags right? run {apply}"
    return Finding(PROBLEM, HUB_CONNECTION, text, remedy)


async def _on_the_hub(diagnosis: Diagnosis, plan: KlusterletPlan, pair: RoleNames, contents: Mapping[str, bytes]) -> Finding:
    source = f"Secret {plan.agent_namespace}/{HUB_SECRET}"
    try:
        async with asyncio.timeout(WITHIN), open_secret(plan.endpoints, contents, source, diagnosis.name) as hub:
            missing = await plan.driver.missing_to_serve(hub, diagnosis.name)
    except Unauthorized:
        text = f"AWS accepts the agents, but the hub does not know {pair.hub_role_arn}"
        return Finding(
            PROBLEM, HUB_CONNECTION, text, f"run doctor {diagnosis.name} with an AWS identity of account {pair.hub.account}"
        )
    except (Unreachable, TimeoutError) as error:
        verdict = NOTE if diagnosis.available else PROBLEM
        return Finding(
            verdict, HUB_CONNECTION, f"the hub cannot be reached from here: {error}", "can it be reached from the agents' pods?"
        )
    except (KubeError, EndpointError, OSError) as error:
        return Finding(PROBLEM, HUB_CONNECTION, f"{source}: {error}", "correct what the message names")
    if missing:
        text = f"the hub knows the agents, and they may not {', '.join(missing)}"
        return Finding(
            PROBLEM, HUB_CONNECTION, text, f"the cluster is not accepted (any more): run accept --clusters {diagnosis.name}"
        )
    return Finding(OK, HUB_CONNECTION, f"{pair.managed_role_arn} gets them to {pair.hub_role_arn}, and that one onto the hub")


def _issuer(token: str) -> str:
    """The unverified issuer in a service account's token: used only in the text of a remedy."""
    try:
        payload = token.split(".")[1]
        claims = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (LookupError, ValueError, binascii.Error):
        return ""
    return str(claims.get("iss") or "") if isinstance(claims, dict) else ""
