"""A managed cluster seen from outside: its Klusterlets, their agents' Secrets, and their state."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from muster.administration.errors import AdministrationError
from muster.administration.progress import SILENT, Progress, wait
from muster.administration.readiness import deployment_problem, pod_selector
from muster.api import MalformedObject, condition_of
from muster.api.operator.v1 import Klusterlet
from muster.machinery.clock import SYSTEM, Clock
from muster.operator.conditions import APPLIED
from muster.operator.klusterlet.connection import contents_of
from muster.operator.klusterlet.manifests import HUB_CONNECTION, REGISTRATION_DEGRADED, WORK_DEGRADED
from muster.operator.klusterlet.plan import KlusterletPlan, agent_namespace_of
from muster.operator.klusterlet.status import AVAILABLE
from muster.operator.names import KLUSTERLET, KLUSTERLETS, OPERATOR_NAMESPACE
from muster.operator.spec import BadSpec
from muster.registration.agent.state.hub_secret import CLUSTER_NAME
from muster.registration.agent.state.pending_secret import entries
from muster.registration.drivers.certificates.certificate_manager import PENDING_KEY
from muster.registration.drivers.certificates.profile import KEY
from muster.registration.drivers.certificates.requests import key_fingerprint
from muster.registration.drivers.flags import GRPC
from muster.registration.drivers.interfaces import AccountToken
from muster.registration.names import BOOTSTRAP_SECRET, HUB_SECRET, PENDING_SECRET
from muster.runtime.client import Forbidden, KubeClient, NotFound
from muster.runtime.client.builtin import DEPLOYMENTS, PODS, SECRETS, SERVICE_ACCOUNTS
from muster.transport.client.config import ConfigError, parse_config

TOKEN_SECONDS: Final = 600
"""Validity of a token with which the caller connects as the agents do."""


async def list_klusterlets(client: KubeClient) -> list[Klusterlet]:
    """All of them; none if the kind is not served."""
    try:
        found = (await client.list(KLUSTERLETS)).items
    except NotFound:
        return []
    try:
        return [Klusterlet.decode(one) for one in found]
    except MalformedObject as error:
        raise AdministrationError(f"a Klusterlet cannot be read: {error}") from None


async def hub_secret(client: KubeClient, klusterlet: Klusterlet) -> Mapping[str, bytes]:
    """The agents' credential for their hub; empty while they have none."""
    return await _contents(client, klusterlet, HUB_SECRET)


async def pending_secret(client: KubeClient, klusterlet: Klusterlet) -> Mapping[str, bytes]:
    """The agents' pending entries of unfinished registration."""
    return await _contents(client, klusterlet, PENDING_SECRET)


async def _contents(client: KubeClient, klusterlet: Klusterlet, secret: str) -> Mapping[str, bytes]:
    try:
        return contents_of(await client.get(SECRETS, secret, agent_namespace_of(klusterlet)))
    except NotFound:
        return {}


async def bootstrap_secret(client: KubeClient, klusterlet: Klusterlet) -> Mapping[str, bytes]:
    """The agents' bootstrap credential; with several hubs, the first one."""
    return await _contents(client, klusterlet, _bootstrap_secrets(KlusterletPlan(klusterlet, ""))[0])


async def bootstrap_tokens(client: KubeClient, klusterlet: Klusterlet) -> list[str]:
    """The bootstrap tokens of agents that use gRPC."""
    plan, found = KlusterletPlan(klusterlet, ""), []
    for secret in _bootstrap_secrets(plan):
        content = (await _contents(client, klusterlet, secret)).get(plan.endpoints.key)
        with suppress(ConfigError):
            if content and plan.endpoints.name == GRPC:
                found.append(parse_config(content).token)
    return [token for token in found if token]


def account_token(client: KubeClient, klusterlet: Klusterlet) -> AccountToken:
    """A function that requests tokens of the registration agent's service account, for a caller who may create them: the identity
    of the agent's pod.
    """
    plan = KlusterletPlan(klusterlet, "")
    account = f"{plan.name}-{'work' if plan.singleton else 'registration'}-sa"

    async def token(audience: str) -> str:
        review = {"audiences": [audience], "expirationSeconds": TOKEN_SECONDS}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": review}
        answer = await client.create(SERVICE_ACCOUNTS, request, plan.agent_namespace, name=account, subresource="token")
        return str(answer["status"]["token"])

    return token


def _bootstrap_secrets(plan: KlusterletPlan) -> tuple[str, ...]:
    try:
        return plan.bootstrap_secrets
    except BadSpec:
        return (BOOTSTRAP_SECRET,)


async def agent_key(client: KubeClient, klusterlet: Klusterlet) -> str:
    """The fingerprint of the key in the agent's signing request, or else in its certificate. Empty if unknown."""
    try:
        fingerprint = pending_key(await pending_secret(client, klusterlet))
        return fingerprint or key_fingerprint((await hub_secret(client, klusterlet)).get(KEY, b""))
    except Forbidden:
        return ""


def pending_key(pending: Mapping[str, bytes]) -> str:
    """The fingerprint of the key in an agent's pending request; empty if there is none, or if there are several hubs."""
    fingerprints = {key_fingerprint(key) for key in entries(pending, PENDING_KEY)}
    return fingerprints.pop() if len(fingerprints) == 1 else ""


async def cluster_name_of(client: KubeClient, klusterlet: Klusterlet) -> str:
    """The cluster's name in the Klusterlet; without one, the name that the agents selected."""
    if klusterlet.spec.cluster_name:
        return klusterlet.spec.cluster_name
    known = await hub_secret(client, klusterlet)
    chosen = known.get(CLUSTER_NAME) or (await pending_secret(client, klusterlet)).get(CLUSTER_NAME, b"")
    return chosen.decode(errors="replace")


async def find_klusterlets(client: KubeClient, cluster: str) -> list[Klusterlet]:
    """The Klusterlets for a managed cluster of this name, including hosted ones."""
    return [one for one in await list_klusterlets(client) if await cluster_name_of(client, one) == cluster]


def klusterlet_problem(klusterlet: Klusterlet) -> str:
    """Why the agents of a Klusterlet do not run as configured; empty if they do."""
    if klusterlet.status.observed_generation < klusterlet.metadata.generation:
        return "the operator has not seen the Klusterlet yet"
    wanted = ((APPLIED, "True"), (AVAILABLE, "True"), (REGISTRATION_DEGRADED, "False"), (WORK_DEGRADED, "False"))
    for kind, status in wanted:
        found = condition_of(klusterlet.status.conditions, kind)
        if found is None:
            return f"Klusterlet {klusterlet.metadata.name} has no condition {kind} yet"
        if found.status != status:
            return f"{kind} is {found.status}: {found.reason}: {found.message}"
    return ""


def hub_connection_of(klusterlet: Klusterlet) -> str:
    """The operator's report about the agents' connection to the hub."""
    found = condition_of(klusterlet.status.conditions, HUB_CONNECTION)
    return f"{found.reason}: {found.message}" if found is not None and found.status == "True" else ""


async def operator_problem(client: KubeClient) -> str:
    try:
        return deployment_problem(await client.get(DEPLOYMENTS, KLUSTERLET, OPERATOR_NAMESPACE))
    except NotFound:
        return f"there is no operator: Deployment {OPERATOR_NAMESPACE}/{KLUSTERLET} is missing"


async def former_agents_problem(client: KubeClient, cluster: str) -> str:
    """Whether agents of a Klusterlet's previous configuration still run; empty if none does."""
    for klusterlet in await find_klusterlets(client, cluster):
        if klusterlet.status.observed_generation < klusterlet.metadata.generation:
            return "the operator has not seen the Klusterlet yet"
        for generation in klusterlet.status.generations:
            if generation.resource != DEPLOYMENTS.plural:
                continue
            try:
                deployment = await client.get(DEPLOYMENTS, generation.name, generation.namespace)
            except NotFound as error:
                return str(error)
            if problem := deployment_problem(deployment):
                return problem
            pods = (await client.list(PODS, generation.namespace, label_selector=pod_selector(deployment))).items
            if ending := [pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")]:
                return f"pod {ending[0]} of before still ends"
    return ""


async def await_agents(client: KubeClient, name: str, *, within: float, progress: Progress = SILENT, clock: Clock = SYSTEM) -> None:
    """Wait until the agents of a Klusterlet run."""

    async def remaining() -> str:
        if problem := await operator_problem(client):
            return problem
        try:
            return klusterlet_problem(await client.get(Klusterlet, name))
        except NotFound as error:
            return str(error)

    await wait(f"Klusterlet {name}", remaining, within=within, progress=progress, clock=clock)
