"""Resolves the hub's objects for a cluster to the `Target` of its requests and the data of its ClusterGateway, as pure functions.

Which source is trusted with what:

- The hub decides whether there is a gateway at all: never for a ManagedCluster that is not accepted or is being deleted, whatever
  Secrets there are.
- An administrator's labelled Secret with the cluster's name has precedence over the ManagedServiceAccount. It may set everything:
  addresses, authorities, a proxy, a server name, and that nothing is verified. A credential in it is sent only to the addresses
  in the same Secret, or to the ManagedCluster's if these are verified by authorities in the Secret. Otherwise a cluster's agent
  could have the administrator's token sent to a server of its own choice.
- The cluster's agent writes the ManagedCluster's addresses and the Secret of its account. Of these only https addresses outside
  the gateway's own machine and link, authorities, and a token are used; that token is the agent's own, and is sent to the
  addresses that the same agent has written. An agent cannot create the account itself (the ManagedServiceAccount): without it, a
  Secret of its name is ignored.

An error becomes the target's problem, with the field and the remedy; nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from muster.api.agents import is_cluster_name
from muster.api.proxy.v1alpha1 import MANAGED_SERVICE_ACCOUNT, SERVICE_ACCOUNT_TOKEN, X509_CERTIFICATE
from muster.gateway.inventory import sources
from muster.gateway.inventory.credentials import (
    MAX_AGENT_PEM_LENGTH,
    InvalidCredential,
    read_authorities,
    read_base64,
    read_certificate,
    read_token,
)
from muster.gateway.inventory.endpoints import (
    InvalidEndpoint,
    parse_endpoint,
    parse_host,
    parse_proxy,
    refuse_local,
    split_endpoints,
)
from muster.gateway.inventory.sources import AccountSource, ClusterSource, Metadata, SecretSource
from muster.gateway.names import CLUSTER_PROXY_ANNOTATION, COMPONENT, CREDENTIAL_TYPE, CREDENTIALS_NAMESPACE, ENDPOINT_TYPE
from muster.gateway.target import (
    CREDENTIAL_EXPIRED,
    CREDENTIAL_MISSING,
    CREDENTIAL_UNUSABLE,
    ENDPOINT_MISSING,
    ENDPOINT_UNUSABLE,
    TUNNEL_MISSING,
    Credential,
    Endpoint,
    Problem,
    Target,
    Trust,
)
from muster.gateway.tunnel import wire
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.printable import one_line

CONST: Final = "Const"
TUNNEL: Final = "Tunnel"
CLUSTER_PROXY: Final = "ClusterProxy"
MAX_ENDPOINTS: Final = sources.MAX_CLIENT_CONFIGS
_SYSTEM_TRUST: Final = Trust()


@dataclass(frozen=True, slots=True)
class Sources:
    """The hub's objects for one cluster at one moment."""

    cluster: ClusterSource | None = None
    credential: SecretSource | None = None
    """The labelled Secret of `managed-cluster-credentials`."""
    account: AccountSource | None = None
    token: SecretSource | None = None
    """The Secret of the account."""
    tunnel: str | None = None
    """The base path of the API behind the tunnel that the cluster's agent has opened; None if it has not opened one."""
    cluster_proxy: bool = False
    """Whether upstream's cluster-proxy is configured for this gateway."""


@dataclass(frozen=True, slots=True)
class ResolvedCluster:
    """A cluster with a gateway: the target of its requests, and the other data of its ClusterGateway."""

    target: Target
    metadata: Metadata
    """Metadata of the ManagedCluster, or of the Secret if there is none."""
    provider: str
    credential_type: str
    """One of the API's types; empty if the Secret has another."""
    source: str = ""
    """The uid of the object that the credential belongs to: the administrator's Secret, or the ManagedServiceAccount."""

    @property
    def expires(self) -> datetime | None:
        return None if self.target.credential is None else self.target.credential.expires

    def expired(self, now: datetime) -> bool:
        return self.expires is not None and self.expires <= now


class _Unusable(Exception):
    """Raised only inside this module; it becomes the target's problem."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(cause, message)


@dataclass(frozen=True, slots=True)
class _Route:
    """How a cluster's API server is reached."""

    endpoints: tuple[Endpoint, ...] = ()
    trust: Trust = _SYSTEM_TRUST
    proxy_url: str = ""
    tunnel: bool = False
    cluster_proxy: bool = False


@dataclass(frozen=True, slots=True)
class _Identity:
    """The gateway's identity on a cluster."""

    credential: Credential
    account: str


def resolve_cluster(name: str, found: Sources, *, loopback: bool = False) -> ResolvedCluster | None:
    """None if this name has no gateway. `loopback`: an agent may name the gateway's own machine, where all clusters are."""
    cluster, secret = found.cluster, found.credential if found.credential and found.credential.credential_type else None
    if not is_cluster_name(name) or name == CREDENTIALS_NAMESPACE or (cluster is not None and not cluster.admitted):
        return None
    base = cluster or secret
    if base is None:
        return None
    by_account = secret is None or secret.credential_type == MANAGED_SERVICE_ACCOUNT
    route, identity, problem = _Route(), None, None
    try:
        route = _agent_route(name, found, loopback) if secret is None else _secret_route(name, found, secret, by_account, loopback)
    except _Unusable as unusable:
        problem = unusable.problem
    try:
        identity = _account_identity(name, found) if secret is None or by_account else _secret_identity(secret)
    except _Unusable as unusable:
        problem = unusable.problem
    credential, account = (None, "") if identity is None else (identity.credential, identity.account)
    target = Target(
        name, route.endpoints, route.trust, credential, route.proxy_url, account, problem, route.tunnel, route.cluster_proxy
    )
    kind = MANAGED_SERVICE_ACCOUNT if secret is None else secret.credential_type
    source = found.account if secret is None or by_account else secret
    uid = "" if source is None else source.metadata.uid
    return ResolvedCluster(target, base.metadata, cluster.provider if cluster else "", kind if kind in _TYPES else "", uid)


def is_withdrawn(before: ResolvedCluster, now: ResolvedCluster | None) -> bool:
    """Whether requests in flight must be aborted: the cluster was removed, or its credential was removed or replaced by that of
    another object. A new token or certificate of the same object is no such change, nor is the expiry of one."""
    if now is None:
        return True
    return before.target.credential is not None and (now.target.credential is None or now.source != before.source)


def expired(resolved: ResolvedCluster) -> Target:
    """The target of a cluster whose credential has expired."""
    ended = "" if resolved.expires is None else f" at {format_time(resolved.expires)}"
    if resolved.credential_type == MANAGED_SERVICE_ACCOUNT:
        remedy = f"see whether the agent of the addon managed-serviceaccount runs on cluster {resolved.target.cluster}"
    else:
        remedy = f"put a fresh one into Secret {CREDENTIALS_NAMESPACE}/{resolved.target.cluster}"
    return replace(resolved.target, problem=Problem(CREDENTIAL_EXPIRED, f"the gateway's credential expired{ended}; {remedy}"))


# Identity


def _secret_identity(secret: SecretSource) -> _Identity:
    read = _CREDENTIALS.get(secret.credential_type)
    if read is None:
        label = one_line(secret.credential_type)
        raise _Unusable(
            CREDENTIAL_UNUSABLE,
            f"{_secret_name(secret)}: label {CREDENTIAL_TYPE} says {label}, which is not supported (the gateway runs no commands); "
            f"expected one of {', '.join(_TYPES)}",
        )
    return read(secret)


def _token_identity(secret: SecretSource) -> _Identity:
    raw = _value(secret, sources.TOKEN, CREDENTIAL_UNUSABLE)
    if not raw.strip():
        raise _Unusable(CREDENTIAL_MISSING, f"{_secret_name(secret)} has no key {sources.TOKEN}; put the account's token there")
    try:
        token = read_token(raw)
    except InvalidCredential as problem:
        raise _Unusable(CREDENTIAL_UNUSABLE, f"{_secret_name(secret)}: key {sources.TOKEN} {problem}") from None
    return _Identity(token.credential, token.account)


def _certificate_identity(secret: SecretSource) -> _Identity:
    certificate, key = (_value(secret, one, CREDENTIAL_UNUSABLE) for one in (sources.CERTIFICATE, sources.KEY))
    for name, raw in ((sources.CERTIFICATE, certificate), (sources.KEY, key)):
        if not raw.strip():
            raise _Unusable(CREDENTIAL_MISSING, f"{_secret_name(secret)} has no key {name}; put the client's PEM there")
    try:
        read = read_certificate(certificate, key)
    except InvalidCredential as problem:
        keys = f"{sources.CERTIFICATE} with {sources.KEY}"
        raise _Unusable(CREDENTIAL_UNUSABLE, f"{_secret_name(secret)}: {keys} {problem}") from None
    return _Identity(read.credential, read.account)


_CREDENTIALS: Final[Mapping[str, Callable[[SecretSource], _Identity]]] = {
    SERVICE_ACCOUNT_TOKEN: _token_identity,
    X509_CERTIFICATE: _certificate_identity,
}
_TYPES: Final = (*_CREDENTIALS, MANAGED_SERVICE_ACCOUNT)


def _account_identity(name: str, found: Sources) -> _Identity:
    account = found.account
    if account is None or account.metadata.deletion_timestamp:
        raise _Unusable(
            CREDENTIAL_MISSING,
            f"there is no ManagedServiceAccount {name}/{COMPONENT}; run `clusteradm addon enable --names {COMPONENT} --clusters "
            f"{name}`, or put a credential into Secret {CREDENTIALS_NAMESPACE}/{name} with label {CREDENTIAL_TYPE}",
        )
    secret = found.token
    if secret is None or sources.TOKEN not in secret.data:
        raise _Unusable(
            CREDENTIAL_MISSING,
            f"ManagedServiceAccount {name}/{COMPONENT} has no token in its Secret yet; see its conditions, and whether the agent "
            f"of the addon managed-serviceaccount runs on the cluster",
        )
    identity = _token_identity(secret)
    if identity.credential.expires is not None:
        return identity
    return replace(identity, credential=replace(identity.credential, expires=_time(account.expires)))


# Route


def _secret_route(name: str, found: Sources, secret: SecretSource, by_account: bool, loopback: bool) -> _Route:
    kind = secret.endpoint_type or CONST
    read = _ENDPOINTS.get(kind)
    if read is None:
        raise _Unusable(
            ENDPOINT_UNUSABLE,
            f"{_secret_name(secret)}: label {ENDPOINT_TYPE} says {one_line(kind)}, which this gateway does not support; "
            f"expected {', '.join(_ENDPOINTS)}",
        )
    return read(name, found, secret, by_account, loopback)


def _const_route(name: str, found: Sources, secret: SecretSource, by_account: bool, loopback: bool) -> _Route:
    """The addresses of an administrator's Secret, and the agent's data for what it leaves out, as far as they may be used."""
    addresses = split_endpoints(_text(secret, sources.ENDPOINT))
    authorities = _authorities(secret)
    insecure = _text(secret, sources.INSECURE)
    proxy, server_name = _text(secret, sources.PROXY_URL), _text(secret, sources.SERVER_NAME)
    if insecure not in ("", "true", "false"):
        raise _Unusable(ENDPOINT_UNUSABLE, f'{_secret_name(secret)}: key {sources.INSECURE} must be "true" or "false"')
    if insecure == "true" and authorities:
        raise _Unusable(
            ENDPOINT_UNUSABLE, f"{_secret_name(secret)} has both {sources.INSECURE} and {sources.CA}; remove one of them"
        )
    if addresses:
        endpoints = tuple(_secret_endpoint(secret, one) for one in addresses[:MAX_ENDPOINTS])
        if not authorities and by_account and insecure != "true":
            authorities = _account_authorities(found)
    elif insecure == "true" or not (authorities or by_account):
        raise _Unusable(
            ENDPOINT_MISSING,
            f"{_secret_name(secret)} has neither key {sources.ENDPOINT} nor {sources.CA}: to an address from the cluster's agent, "
            f"its credential is sent only if that server is verified by authorities in the Secret; add either key",
        )
    else:
        route = _agent_route(name, found, loopback)
        endpoints, authorities = route.endpoints, authorities or route.trust.authorities
    try:
        trust = Trust(authorities, parse_host(server_name) if server_name else "", insecure == "true")
        return _Route(endpoints, trust, parse_proxy(proxy) if proxy else "")
    except InvalidEndpoint as problem:
        raise _Unusable(
            ENDPOINT_UNUSABLE, f"{_secret_name(secret)}: key {sources.PROXY_URL} or {sources.SERVER_NAME}: {problem}"
        ) from None


def _tunnel_route(name: str, found: Sources, secret: SecretSource, by_account: bool, loopback: bool) -> _Route:
    """Through the agent's tunnel only: the Secret has the authorities that verify the server at its end."""
    _refuse_keys(secret, TUNNEL, sources.ENDPOINT, sources.PROXY_URL, sources.INSECURE)
    trust = _inner_trust(found, secret, by_account)
    if found.tunnel is None:
        raise _Unusable(
            TUNNEL_MISSING,
            f"the agent of cluster {name} has opened no tunnel to this gateway; see whether `muster gateway-agent` runs there "
            f"(addon {COMPONENT}), and what it logs",
        )
    return _tunnel(found.tunnel, trust)


def _cluster_proxy_route(name: str, found: Sources, secret: SecretSource, by_account: bool, loopback: bool) -> _Route:
    """Through upstream's cluster-proxy only. Upstream's Secrets may contain an address too, which is ignored."""
    _refuse_keys(secret, CLUSTER_PROXY, sources.PROXY_URL, sources.INSECURE)
    trust = _inner_trust(found, secret, by_account)
    if not found.cluster_proxy:
        raise _Unusable(
            ENDPOINT_UNUSABLE,
            f"{_secret_name(secret)}: label {ENDPOINT_TYPE} says {CLUSTER_PROXY}, but this gateway has no address for it; "
            f"start it with --proxy-host, --proxy-ca-cert, --proxy-cert and --proxy-key, or annotate the ClusterManager with "
            f"{CLUSTER_PROXY_ANNOTATION}: HOST",
        )
    return _Route((Endpoint(wire.HOST, wire.PORT),), trust, cluster_proxy=True)


def _refuse_keys(secret: SecretSource, kind: str, *keys: str) -> None:
    for key in keys:
        if _text(secret, key) not in ("", "false"):
            raise _Unusable(
                ENDPOINT_UNUSABLE, f"{_secret_name(secret)}: key {key} is not for label {ENDPOINT_TYPE}: {kind}; remove it"
            )


def _inner_trust(found: Sources, secret: SecretSource, by_account: bool) -> Trust:
    """The trust in a server that is reached through a tunnel or proxy."""
    authorities = _authorities(secret) or (_account_authorities(found) if by_account else b"")
    if not authorities:
        # Otherwise any server that the system's CAs trust could receive the credential.
        raise _Unusable(
            ENDPOINT_UNUSABLE, f"{_secret_name(secret)} has no key {sources.CA}: put the authorities of the cluster there"
        )
    server_name = _text(secret, sources.SERVER_NAME)
    try:
        return Trust(authorities, parse_host(server_name) if server_name else "")
    except InvalidEndpoint as problem:
        raise _Unusable(ENDPOINT_UNUSABLE, f"{_secret_name(secret)}: key {sources.SERVER_NAME}: {problem}") from None


def _tunnel(base_path: str, trust: Trust) -> _Route:
    return _Route((Endpoint(wire.HOST, wire.PORT, base_path),), trust, tunnel=True)


_Reader = Callable[[str, Sources, SecretSource, bool, bool], _Route]
_ENDPOINTS: Final[Mapping[str, _Reader]] = {CONST: _const_route, TUNNEL: _tunnel_route, CLUSTER_PROXY: _cluster_proxy_route}
"""Routes by the value of the endpoint label; a new kind needs one more entry."""


def _secret_endpoint(secret: SecretSource, address: str) -> Endpoint:
    try:
        return parse_endpoint(address)
    except InvalidEndpoint as problem:
        raise _Unusable(ENDPOINT_UNUSABLE, f"{_secret_name(secret)}: key {sources.ENDPOINT}: {problem}") from None


def _agent_route(name: str, found: Sources, loopback: bool) -> _Route:
    """The addresses that the cluster's agent has written; invalid ones are skipped as long as a valid one remains."""
    configs = found.cluster.configs if found.cluster else ()
    endpoints: list[Endpoint] = []
    bundles = [_account_authorities(found)]
    field, refusal = f"ManagedCluster {name}: spec.managedClusterClientConfigs", ""
    for number, config in enumerate(configs):
        try:
            endpoint = parse_endpoint(config.url)
            refuse_local(endpoint, loopback=loopback)
            bundle = read_authorities(read_base64(config.ca), MAX_AGENT_PEM_LENGTH) if config.ca else b""
        except InvalidEndpoint as problem:
            refusal = refusal or f"{field}[{number}].url: {problem}"
        except InvalidCredential as problem:
            refusal = refusal or f"{field}[{number}].caBundle {problem}"
        else:
            endpoints.append(endpoint)
            bundles.append(bundle)
    if not endpoints and refusal:
        raise _Unusable(ENDPOINT_UNUSABLE, refusal)
    if not endpoints and found.tunnel is not None:
        authorities = _account_authorities(found)
        if not authorities:
            raise _Unusable(ENDPOINT_UNUSABLE, f"Secret {name}/{COMPONENT} has no authorities of the cluster in key {sources.CA}")
        return _tunnel(found.tunnel, Trust(authorities))
    if not endpoints:
        raise _Unusable(
            ENDPOINT_MISSING,
            f"{field} is empty, and no agent of the addon {COMPONENT} has opened a tunnel; join the cluster with its external URL, "
            f"see what that agent logs, or put key {sources.ENDPOINT} into Secret {CREDENTIALS_NAMESPACE}/{name} with label "
            f"{CREDENTIAL_TYPE}: {MANAGED_SERVICE_ACCOUNT}",
        )
    return _Route(tuple(endpoints), Trust(b"".join(dict.fromkeys(bundles))))


def _account_authorities(found: Sources) -> bytes:
    """The CA bundle in the agent's Secret. One that cannot be parsed counts as absent: the other bundles are used then."""
    if found.token is None or not found.token.data.get(sources.CA):
        return b""
    try:
        return read_authorities(read_base64(found.token.data[sources.CA]), MAX_AGENT_PEM_LENGTH)
    except InvalidCredential:
        return b""


def _authorities(secret: SecretSource) -> bytes:
    for key in (sources.CA, sources.CA_SHORT):
        if raw := _value(secret, key, ENDPOINT_UNUSABLE).strip():
            try:
                return read_authorities(raw)
            except InvalidCredential as problem:
                raise _Unusable(ENDPOINT_UNUSABLE, f"{_secret_name(secret)}: key {key} {problem}") from None
    return b""


def _text(secret: SecretSource, key: str) -> str:
    return _value(secret, key, ENDPOINT_UNUSABLE).decode("utf-8", "replace").strip()


def _value(secret: SecretSource, key: str, cause: str) -> bytes:
    try:
        return read_base64(secret.data.get(key, ""))
    except InvalidCredential as problem:
        raise _Unusable(cause, f"{_secret_name(secret)}: key {key} {problem}") from None


def _secret_name(secret: SecretSource) -> str:
    return f"Secret {secret.metadata.namespace}/{secret.metadata.name}"


def _time(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except GoError:
        return None
