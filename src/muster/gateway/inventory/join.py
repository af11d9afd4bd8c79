"""From what the hub has of a cluster to where its requests go, as pure functions: `join` makes a `Target` and what is shown of it.

Whose word counts for what:

- The hub says whether there is a gateway at all: never for a ManagedCluster that is not accepted or is being deleted, whatever
  Secrets there are.
- An administrator's labelled Secret, named like the cluster, wins over the ManagedServiceAccount. It may say everything: addresses,
  authorities, a proxy, a server name, and that nothing is verified. A credential from it goes only where the same Secret vouches
  for: to its own addresses, or to the ManagedCluster's if they prove themselves to the authorities in the Secret. Else a cluster's
  agent could have the administrator's token sent to a server of its own choice.
- The cluster's agent writes the ManagedCluster's addresses and the Secret of its account. Of these only https addresses outside
  the gateway's own machine and link, authorities, and a token count; that token is the agent's own, and goes to the addresses that
  the same agent named. The account itself (the ManagedServiceAccount) an agent cannot make: without it, a Secret of its name means
  nothing.

What is wrong becomes the target's problem, with the field and the remedy; it never raises.
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
    """What the hub has of one cluster at one moment."""

    cluster: ClusterSource | None = None
    credential: SecretSource | None = None
    """The labelled Secret of `managed-cluster-credentials`."""
    account: AccountSource | None = None
    token: SecretSource | None = None
    """The Secret of the account."""
    tunnel: str | None = None
    """Below which path the API is at the end of the tunnel that the cluster's agent has opened; None: it has opened none."""
    cluster_proxy: bool = False
    """Whether this gateway has a way to upstream's cluster-proxy."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A cluster that has a gateway: where its requests go, and what is shown beside that."""

    target: Target
    metadata: Metadata
    """Of the object that the gateway stands for."""
    provider: str
    credential_type: str
    """One of the API's types; empty where the Secret says another."""
    source: str = ""
    """The uid of what the credential is of: the administrator's Secret, or the ManagedServiceAccount."""

    @property
    def expires(self) -> datetime | None:
        return None if self.target.credential is None else self.target.credential.expires

    def expired(self, now: datetime) -> bool:
        return self.expires is not None and self.expires <= now


class _Unfit(Exception):
    """Raised inside this module alone, from where something is read to where it becomes the target's problem."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(cause, message)


@dataclass(frozen=True, slots=True)
class _Way:
    """How a cluster's API server is reached."""

    endpoints: tuple[Endpoint, ...] = ()
    trust: Trust = _SYSTEM_TRUST
    proxy_url: str = ""
    tunnel: bool = False
    cluster_proxy: bool = False


@dataclass(frozen=True, slots=True)
class _Identity:
    """As whom the gateway talks to a cluster."""

    credential: Credential
    account: str


def join(name: str, found: Sources, *, loopback: bool = False) -> Joined | None:
    """None: no gateway for this name. `loopback`: an agent may name the gateway's own machine, where all clusters are."""
    cluster, secret = found.cluster, found.credential if found.credential and found.credential.credential_type else None
    if not is_cluster_name(name) or name == CREDENTIALS_NAMESPACE or (cluster is not None and not cluster.admitted):
        return None
    base = cluster or secret
    if base is None:
        return None
    by_account = secret is None or secret.credential_type == MANAGED_SERVICE_ACCOUNT
    way, identity, problem = _Way(), None, None
    try:
        way = _agent_way(name, found, loopback) if secret is None else _secret_way(name, found, secret, by_account, loopback)
    except _Unfit as unfit:
        problem = unfit.problem
    try:
        identity = _account_identity(name, found) if secret is None or by_account else _secret_identity(secret)
    except _Unfit as unfit:
        problem = unfit.problem
    credential, account = (None, "") if identity is None else (identity.credential, identity.account)
    target = Target(name, way.endpoints, way.trust, credential, way.proxy_url, account, problem, way.tunnel, way.cluster_proxy)
    kind = MANAGED_SERVICE_ACCOUNT if secret is None else secret.credential_type
    source = found.account if secret is None or by_account else secret
    uid = "" if source is None else source.metadata.uid
    return Joined(target, base.metadata, cluster.provider if cluster else "", kind if kind in _TYPES else "", uid)


def withdrawn(before: Joined, now: Joined | None) -> bool:
    """Whether what was begun may not go on: the cluster is gone, or what the gateway went there with is gone or replaced by another
    one's. A new token or certificate in the same place is no such change, and neither is that one has ended by time."""
    if now is None:
        return True
    return before.target.credential is not None and (now.target.credential is None or now.source != before.source)


def expired(joined: Joined) -> Target:
    """The target of a cluster whose credential has ended."""
    ended = "" if joined.expires is None else f" at {format_time(joined.expires)}"
    if joined.credential_type == MANAGED_SERVICE_ACCOUNT:
        remedy = f"see whether the agent of the addon managed-serviceaccount runs on cluster {joined.target.cluster}"
    else:
        remedy = f"put a fresh one into Secret {CREDENTIALS_NAMESPACE}/{joined.target.cluster}"
    return replace(joined.target, problem=Problem(CREDENTIAL_EXPIRED, f"the gateway's credential expired{ended}; {remedy}"))


# As whom.


def _secret_identity(secret: SecretSource) -> _Identity:
    read = _CREDENTIALS.get(secret.credential_type)
    if read is None:
        said = one_line(secret.credential_type)
        raise _Unfit(
            CREDENTIAL_UNUSABLE,
            f"{_named(secret)}: label {CREDENTIAL_TYPE} says {said}, a type that the gateway does not use (it runs no commands); "
            f"expected one of {', '.join(_TYPES)}",
        )
    return read(secret)


def _token_identity(secret: SecretSource) -> _Identity:
    raw = _value(secret, sources.TOKEN, CREDENTIAL_UNUSABLE)
    if not raw.strip():
        raise _Unfit(CREDENTIAL_MISSING, f"{_named(secret)} has no key {sources.TOKEN}; put the account's token there")
    try:
        token = read_token(raw)
    except InvalidCredential as problem:
        raise _Unfit(CREDENTIAL_UNUSABLE, f"{_named(secret)}: key {sources.TOKEN} {problem}") from None
    return _Identity(token.credential, token.account)


def _certificate_identity(secret: SecretSource) -> _Identity:
    certificate, key = (_value(secret, one, CREDENTIAL_UNUSABLE) for one in (sources.CERTIFICATE, sources.KEY))
    for name, raw in ((sources.CERTIFICATE, certificate), (sources.KEY, key)):
        if not raw.strip():
            raise _Unfit(CREDENTIAL_MISSING, f"{_named(secret)} has no key {name}; put the client's PEM there")
    try:
        read = read_certificate(certificate, key)
    except InvalidCredential as problem:
        keys = f"{sources.CERTIFICATE} with {sources.KEY}"
        raise _Unfit(CREDENTIAL_UNUSABLE, f"{_named(secret)}: {keys} {problem}") from None
    return _Identity(read.credential, read.account)


_CREDENTIALS: Final[Mapping[str, Callable[[SecretSource], _Identity]]] = {
    SERVICE_ACCOUNT_TOKEN: _token_identity,
    X509_CERTIFICATE: _certificate_identity,
}
_TYPES: Final = (*_CREDENTIALS, MANAGED_SERVICE_ACCOUNT)


def _account_identity(name: str, found: Sources) -> _Identity:
    account = found.account
    if account is None or account.metadata.deletion_timestamp:
        raise _Unfit(
            CREDENTIAL_MISSING,
            f"there is no ManagedServiceAccount {name}/{COMPONENT}; run `clusteradm addon enable --names {COMPONENT} --clusters "
            f"{name}`, or put a credential into Secret {CREDENTIALS_NAMESPACE}/{name} with label {CREDENTIAL_TYPE}",
        )
    secret = found.token
    if secret is None or sources.TOKEN not in secret.data:
        raise _Unfit(
            CREDENTIAL_MISSING,
            f"ManagedServiceAccount {name}/{COMPONENT} has no token in its Secret yet; see its conditions, and whether the agent "
            f"of the addon managed-serviceaccount runs on the cluster",
        )
    identity = _token_identity(secret)
    if identity.credential.expires is not None:
        return identity
    return replace(identity, credential=replace(identity.credential, expires=_time(account.expires)))


# How to get there.


def _secret_way(name: str, found: Sources, secret: SecretSource, by_account: bool, loopback: bool) -> _Way:
    kind = secret.endpoint_type or CONST
    read = _ENDPOINTS.get(kind)
    if read is None:
        raise _Unfit(
            ENDPOINT_UNUSABLE,
            f"{_named(secret)}: label {ENDPOINT_TYPE} says {one_line(kind)}, a way to clusters that this gateway does not have; "
            f"expected {', '.join(_ENDPOINTS)}",
        )
    return read(name, found, secret, by_account, loopback)


def _const_way(name: str, found: Sources, secret: SecretSource, by_account: bool, loopback: bool) -> _Way:
    """What an administrator's Secret says, and for what it does not say, the agent's word as far as that may count."""
    addresses = split_endpoints(_text(secret, sources.ENDPOINT))
    authorities = _authorities(secret)
    insecure = _text(secret, sources.INSECURE)
    proxy, server_name = _text(secret, sources.PROXY_URL), _text(secret, sources.SERVER_NAME)
    if insecure not in ("", "true", "false"):
        raise _Unfit(ENDPOINT_UNUSABLE, f'{_named(secret)}: key {sources.INSECURE} must be "true" or "false"')
    if insecure == "true" and authorities:
        raise _Unfit(ENDPOINT_UNUSABLE, f"{_named(secret)} has both {sources.INSECURE} and {sources.CA}; remove one of them")
    if addresses:
        endpoints = tuple(_administrators(secret, one) for one in addresses[:MAX_ENDPOINTS])
        if not authorities and by_account and insecure != "true":
            authorities = _account_authorities(found)
    elif insecure == "true" or not (authorities or by_account):
        raise _Unfit(
            ENDPOINT_MISSING,
            f"{_named(secret)} has neither key {sources.ENDPOINT} nor {sources.CA}: to an address that the cluster's agent names, "
            f"its credential is sent only if that proves itself to authorities in the Secret; put either there",
        )
    else:
        way = _agent_way(name, found, loopback)
        endpoints, authorities = way.endpoints, authorities or way.trust.authorities
    try:
        trust = Trust(authorities, parse_host(server_name) if server_name else "", insecure == "true")
        return _Way(endpoints, trust, parse_proxy(proxy) if proxy else "")
    except InvalidEndpoint as problem:
        raise _Unfit(ENDPOINT_UNUSABLE, f"{_named(secret)}: key {sources.PROXY_URL} or {sources.SERVER_NAME}: {problem}") from None


def _tunnel_way(name: str, found: Sources, secret: SecretSource, by_account: bool, loopback: bool) -> _Way:
    """By the agent's tunnel and in no other way: the Secret says who vouches for what is at its end."""
    _refuse_keys(secret, TUNNEL, sources.ENDPOINT, sources.PROXY_URL, sources.INSECURE)
    trust = _inner_trust(found, secret, by_account)
    if found.tunnel is None:
        raise _Unfit(
            TUNNEL_MISSING,
            f"the agent of cluster {name} has opened no tunnel to this gateway; see whether `muster gateway-agent` runs there "
            f"(addon {COMPONENT}), and what it logs",
        )
    return _tunnel(found.tunnel, trust)


def _cluster_proxy_way(name: str, found: Sources, secret: SecretSource, by_account: bool, loopback: bool) -> _Way:
    """By upstream's cluster-proxy and in no other way. Upstream's Secrets may have an address beside it, which says nothing."""
    _refuse_keys(secret, CLUSTER_PROXY, sources.PROXY_URL, sources.INSECURE)
    trust = _inner_trust(found, secret, by_account)
    if not found.cluster_proxy:
        raise _Unfit(
            ENDPOINT_UNUSABLE,
            f"{_named(secret)}: label {ENDPOINT_TYPE} says {CLUSTER_PROXY}, and this gateway was not told where cluster-proxy is; "
            f"start it with --proxy-host, --proxy-ca-cert, --proxy-cert and --proxy-key, or annotate the ClusterManager with "
            f"{CLUSTER_PROXY_ANNOTATION}: HOST",
        )
    return _Way((Endpoint(wire.HOST, wire.PORT),), trust, cluster_proxy=True)


def _refuse_keys(secret: SecretSource, kind: str, *keys: str) -> None:
    for key in keys:
        if _text(secret, key) not in ("", "false"):
            raise _Unfit(ENDPOINT_UNUSABLE, f"{_named(secret)}: key {key} is not for label {ENDPOINT_TYPE}: {kind}; remove it")


def _inner_trust(found: Sources, secret: SecretSource, by_account: bool) -> Trust:
    """Of what is at the end of a way through others."""
    authorities = _authorities(secret) or (_account_authorities(found) if by_account else b"")
    if not authorities:
        # Else whatever the system trusts could stand at the end of the way, and be given the credential.
        raise _Unfit(ENDPOINT_UNUSABLE, f"{_named(secret)} has no key {sources.CA}: put the authorities of the cluster there")
    server_name = _text(secret, sources.SERVER_NAME)
    try:
        return Trust(authorities, parse_host(server_name) if server_name else "")
    except InvalidEndpoint as problem:
        raise _Unfit(ENDPOINT_UNUSABLE, f"{_named(secret)}: key {sources.SERVER_NAME}: {problem}") from None


def _tunnel(base_path: str, trust: Trust) -> _Way:
    return _Way((Endpoint(wire.HOST, wire.PORT, base_path),), trust, tunnel=True)


_Reader = Callable[[str, Sources, SecretSource, bool, bool], _Way]
_ENDPOINTS: Final[Mapping[str, _Reader]] = {CONST: _const_way, TUNNEL: _tunnel_way, CLUSTER_PROXY: _cluster_proxy_way}
"""Ways to a cluster by what the label of the endpoint says: another one is one more row."""


def _administrators(secret: SecretSource, address: str) -> Endpoint:
    try:
        return parse_endpoint(address)
    except InvalidEndpoint as problem:
        raise _Unfit(ENDPOINT_UNUSABLE, f"{_named(secret)}: key {sources.ENDPOINT}: {problem}") from None


def _agent_way(name: str, found: Sources, loopback: bool) -> _Way:
    """Where the cluster's agent says it is: what may not be is passed over as long as something remains."""
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
        raise _Unfit(ENDPOINT_UNUSABLE, refusal)
    if not endpoints and found.tunnel is not None:
        authorities = _account_authorities(found)
        if not authorities:
            raise _Unfit(ENDPOINT_UNUSABLE, f"Secret {name}/{COMPONENT} has no authorities of the cluster in key {sources.CA}")
        return _tunnel(found.tunnel, Trust(authorities))
    if not endpoints:
        raise _Unfit(
            ENDPOINT_MISSING,
            f"{field} is empty, and no agent of the addon {COMPONENT} has opened a tunnel; join the cluster with its external URL, "
            f"see what that agent logs, or put key {sources.ENDPOINT} into Secret {CREDENTIALS_NAMESPACE}/{name} with label "
            f"{CREDENTIAL_TYPE}: {MANAGED_SERVICE_ACCOUNT}",
        )
    return _Way(tuple(endpoints), Trust(b"".join(dict.fromkeys(bundles))))


def _account_authorities(found: Sources) -> bytes:
    """What the agent took for its own cluster's authorities. What cannot be read is as good as absent: others are asked then."""
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
                raise _Unfit(ENDPOINT_UNUSABLE, f"{_named(secret)}: key {key} {problem}") from None
    return b""


def _text(secret: SecretSource, key: str) -> str:
    return _value(secret, key, ENDPOINT_UNUSABLE).decode("utf-8", "replace").strip()


def _value(secret: SecretSource, key: str, cause: str) -> bytes:
    try:
        return read_base64(secret.data.get(key, ""))
    except InvalidCredential as problem:
        raise _Unfit(cause, f"{_named(secret)}: key {key} {problem}") from None


def _named(secret: SecretSource) -> str:
    return f"Secret {secret.metadata.namespace}/{secret.metadata.name}"


def _time(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except GoError:
        return None
