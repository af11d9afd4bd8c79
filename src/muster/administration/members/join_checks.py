"""Checks before a cluster joins: is it a hub, is the token valid there, is the name free?

A name is in use if its cluster is available, or is known to be another one: by the id that both clusters claim, or by
the identity that the registration driver has for them. A name is free for a cluster that joins again, for one that an administrator
has created beforehand, and for one whose agents already use it and change the driver or address of the same hub: their credentials
refer to the very same ManagedCluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.administration.errors import NotAHub
from muster.administration.hub.preflight import Check
from muster.administration.hub.tokens import claims_of
from muster.administration.hubs import require_hub
from muster.administration.members.klusterlets import hub_secret
from muster.api import MalformedObject
from muster.api.cluster.v1 import ManagedCluster
from muster.api.operator.v1 import Klusterlet
from muster.operator.klusterlet.connection import ForeignCredential, open_secret
from muster.operator.klusterlet.plan import KlusterletPlan
from muster.registration.agent.failover import denied
from muster.registration.agent.state.hub_secret import CLUSTER_NAME
from muster.registration.drivers import DEFAULT, endpoints_of, find
from muster.registration.drivers.certificates.approval import is_in_use
from muster.registration.drivers.endpoints import EndpointError
from muster.registration.drivers.ownership import owner_of
from muster.registration.kinds import CLUSTER_CLAIMS
from muster.registration.names import HUB_SECRET
from muster.runtime.client import KubeClient, KubeError, NotFound, Unauthorized, Untrusted

ID_CLAIM: Final = "id.k8s.io"
WITHIN: Final = 30.0
"""Seconds for all checks together."""
ANOTHER: Final = "choose another --cluster-name; if it is the same cluster, go on with --force"


@dataclass(frozen=True)
class Introduction:
    """The cluster that joins, and its settings."""

    cluster: str
    driver: str
    token: str = field(repr=False)
    identity: str
    """Its name at its driver's identity provider."""
    server: str
    """The address of the hub for its agents."""
    existing: Klusterlet | None
    """The Klusterlet by which the cluster is managed already."""


async def check_hub(here: KubeClient, managed: KubeClient, hub: KubeClient, who: Introduction) -> list[Check]:
    connection = await _connection(hub, who)
    if connection.errors:
        return [connection]
    return [connection, await _name(here, managed, hub, who)]


async def _connection(hub: KubeClient, who: Introduction) -> Check:
    driver = find(who.driver)
    name, flag = ("GRPCServer check", "--grpc-server") if driver.grpc_server else ("HubKubeconfig check", "--hub-apiserver")
    try:
        async with asyncio.timeout(WITHIN):
            if not driver.grpc_server:
                await require_hub(hub)
            missing = await driver.missing_to_register(hub, who.cluster)
    except TimeoutError:
        return Check(name, errors=(f"{flag}: {who.server} has not answered within {WITHIN:g} s",))
    except Untrusted as error:
        return Check(name, errors=(f"--ca-file, --hub-ca-hash: this authority does not vouch for the hub: {error.reason}",))
    except Unauthorized:
        return Check(name, errors=(f"--hub-token: {token_problem(who.token)}; get a fresh one with get token on the hub",))
    except (NotAHub, KubeError) as error:
        return Check(name, errors=(f"{flag}: {error}",))
    if missing and driver.grpc_server:
        text = f"--hub-token: its holder may not introduce {who.cluster}; use one that get token --cluster-name {who.cluster} gives"
        return Check(name, errors=(text,))
    if missing:
        text = f"--hub-token: its holder may not {', '.join(missing)} on the hub; use one that get token gives"
        return Check(name, errors=(text,))
    return Check(name)


def token_problem(token: str, now: datetime | None = None) -> str:
    """Why a hub may have refused a token, as far as the token's own content shows."""
    expires = token_expiry(token)
    if expires is None:
        return "the hub does not accept this token: it has expired, was deleted, or is another hub's"
    if expires <= (now or datetime.now(UTC)):
        return f"this token has expired at {expires:%Y-%m-%dT%H:%M:%SZ}"
    return "the hub does not accept this token: it was revoked, or is another hub's"


def token_expiry(token: str) -> datetime | None:
    """The expiry in a token, unverified; None if it has none."""
    try:
        return datetime.fromtimestamp(claims_of(token)["exp"], UTC)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


async def _name(here: KubeClient, managed: KubeClient, hub: KubeClient, who: Introduction) -> Check:
    title = "ClusterName check"
    if await _is_ours(here, who):
        return Check(title)
    try:
        found = await hub.get(ManagedCluster, who.cluster)
        if found.metadata.uid and found.metadata.uid == await _known_as(here, who):
            return Check(title)
    except NotFound:
        return Check(title)
    except MalformedObject as error:
        return Check(title, errors=(f"ManagedCluster {who.cluster} on the hub cannot be read: {error}",))
    if taken := name_problem(found, await _identifier(managed), who.identity):
        return Check(title, errors=(f"--cluster-name: {taken}; {ANOTHER}",))
    return Check(title, ((f"the hub has denied {who.cluster} before: it must be accepted anew",) if denied(found) else ()))


async def _is_ours(here: KubeClient, who: Introduction) -> bool:
    """Whether the agents here use that name on that hub already."""
    if who.existing is None:
        return False
    known, endpoints = await hub_secret(here, who.existing), endpoints_of(who.driver)
    if known.get(CLUSTER_NAME, b"").decode(errors="replace") != who.cluster or endpoints.key not in known:
        return False
    try:
        endpoint = endpoints.read(Path(endpoints.key), known[endpoints.key], siblings=known)
    except EndpointError:
        return False
    return endpoint.address.server == who.server.rstrip("/")


async def _known_as(here: KubeClient, who: Introduction) -> str:
    """The uid of the ManagedCluster of the agents here, if their credential can read it; empty otherwise."""
    if who.existing is None:
        return ""
    known = await hub_secret(here, who.existing)
    # A Klusterlet may already have the configuration to which its agents are to change.
    formats = (KlusterletPlan(who.existing, "").endpoints, endpoints_of(DEFAULT), endpoints_of(who.driver))
    endpoints = next((one for one in formats if known.get(one.key)), None)
    if endpoints is None:
        return ""
    try:
        async with asyncio.timeout(WITHIN), open_secret(endpoints, known, HUB_SECRET, who.cluster) as hub:
            return (await hub.get(ManagedCluster, who.cluster)).metadata.uid
    except (KubeError, EndpointError, ForeignCredential, MalformedObject, TimeoutError, OSError):
        return ""


async def _identifier(managed: KubeClient) -> str:
    """The id that the cluster claims; most have none."""
    try:
        claim = await managed.get(CLUSTER_CLAIMS, ID_CLAIM)
    except KubeError:
        return ""
    return str((claim.get("spec") or {}).get("value") or "")


def name_problem(cluster: ManagedCluster, identifier: str = "", identity: str = "") -> str:
    """Why a new cluster cannot have the name of this cluster; empty if it can."""
    name = cluster.metadata.name
    if cluster.metadata.deletion_timestamp:
        return f"{name} is being deleted on the hub"
    claimed = next((claim.value for claim in cluster.status.cluster_claims if claim.name == ID_CLAIM), "")
    if identifier and claimed:
        return "" if identifier == claimed else f"{name} is another cluster on the hub: its {ID_CLAIM} is {claimed}"
    theirs = _identity_of(cluster) if identity else ""
    if theirs:
        return "" if identity == theirs else f"{name} is another cluster on the hub: {theirs}"
    return f"{name} has joined the hub and is alive" if is_in_use(cluster) else ""


def _identity_of(cluster: ManagedCluster) -> str:
    owner = owner_of(cluster)
    return owner.identity_of(cluster) if owner is not None else ""
