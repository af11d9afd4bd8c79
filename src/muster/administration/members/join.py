"""Makes a cluster a managed cluster: installs the operator with its bundle, the bootstrap kubeconfig, and a Klusterlet.

Options are validated first, by pure functions (`check`, `klusterlet`). Then the hub is queried with the token that the agents will
use: is it a hub, does it accept the token, is the name of the cluster free? The name of another cluster is not taken over. Only
then objects are written, by server-side apply, so that a repeated call changes only what differs. With a driver that has its own
transport the hub is queried over that, and nothing that is written contains the address of its API server, unless `api` is set.
Joining ends when the hub knows the cluster; the administrator of the hub has to accept it.
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from muster.administration.drivers import fitting, installed_driver, refuse_unheard
from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError, Refused, TookTooLong
from muster.administration.hub.preflight import settle
from muster.administration.hub.tokens import NAME_RULE
from muster.administration.hubs import CLUSTERADM, MADE_BY, HubAddress
from muster.administration.members.hub_trust import Connect, connect_by_http, published_server
from muster.administration.members.join_checks import Introduction, check_hub
from muster.administration.members.klusterlets import (
    await_agents,
    cluster_name_of,
    hub_connection_of,
    hub_secret,
    list_klusterlets,
    operator_problem,
    pending_key,
    pending_secret,
)
from muster.administration.progress import SILENT, Progress, wait
from muster.api import Document
from muster.api.operator.v1 import ADDON_AUTH_TYPES, Klusterlet, ResourceRequirement
from muster.api.resource import known_fields
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.machinery.clock import SYSTEM, Clock
from muster.operator.applier import Applier, Wanted, checked
from muster.operator.bundle import KLUSTERLET_OPERATOR, BundleOptions, bundle
from muster.operator.klusterlet.plan import agent_namespace_of, is_hosted
from muster.operator.names import EXTERNAL_MANAGED_SECRET, KLUSTERLET, KLUSTERLETS, KUBECONFIG_KEY
from muster.operator.pod_namespaces import RUN, allow, on_this_machine
from muster.registration.drivers import DEFAULT, options_of
from muster.registration.drivers.certificates.agents import SHORTEST_EXPIRATION
from muster.registration.drivers.certificates.profile import KEY
from muster.registration.drivers.endpoints import ClientSettings, EndpointError
from muster.registration.drivers.flags import JOIN_FLAGS
from muster.registration.drivers.interfaces import Driver
from muster.registration.drivers.profile import PROXY_CA, PROXY_URL, DriverOptions, MemberSetup
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import (
    AGENT_ANNOTATIONS,
    AGENT_GATES,
    AGENT_NAMESPACE,
    AGENT_UNSUPPORTED_GATES,
    BOOTSTRAP_SECRET,
    is_cluster_name,
    reserved_name_problem,
)
from muster.runtime.client import AuthInfo, ClientConfig, KubeClient, KubeconfigError, NotFound, dump_kubeconfig
from muster.runtime.client.builtin import CRDS, NAMESPACES, SECRETS
from muster.runtime.install import await_definitions, named
from muster.work.names import AGENT_GATES as WORK_GATES

CERTIFICATE_SECONDS: Final = 31_536_000
KEY_WITHIN: Final = 10.0
"""Seconds in which an agent that has introduced itself creates its key."""
_LETTERS: Final = string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class JoinOptions:
    cluster_name: str
    token: str = field(default="", repr=False)
    hosted: bool = False
    singleton: bool = False
    managed: ClientConfig | None = None
    """The connection to the managed cluster in hosted mode."""
    agent_server: str = ""
    """The address of the hub's API server for agents, if it differs from the caller's."""
    api: HubAddress | None = None
    """The hub's API server, if agents are to access it beside their driver's own transport."""
    external_servers: tuple[str, ...] = ()
    """External addresses of the managed cluster's API server; none: those that the cluster publishes."""
    managed_lookup: bool = False
    """Let agents use the address that the managed cluster publishes."""
    proxy_url: str = field(default="", repr=False)
    """The agents' proxy for the hub; may contain a password."""
    proxy_ca: bytes = field(default=b"", repr=False)
    """PEM of the proxy's CA for agents whose driver has a server of its own; others have it in the hub's CA bundle."""
    certificate_seconds: int = CERTIFICATE_SECONDS
    auth: str = DEFAULT
    driver_options: Mapping[str, DriverOptions] = field(default_factory=dict, repr=False)
    """Options by driver."""
    called: str = ""
    """The name of the managed cluster in the administrator's kubeconfig: some drivers derive defaults from it."""
    addon_auth: str = ""
    addon_token_seconds: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    resources: ResourceRequirement | None = None
    bundle: BundleOptions = field(default_factory=BundleOptions)
    keep_operator: bool = True
    """Do not change an operator that works."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The spec of the Klusterlet, which overrides all other options."""
    force: bool = False
    """Use the name even if it is in use, and the cluster even if it is managed already."""
    wait: bool = False
    timeout: float = 300.0

    @property
    def driver(self) -> Driver:
        """Raises AdministrationError."""
        return installed_driver(self.auth, "--registration-auth: invalid registration-Auth type")

    def setup(self, ca: bytes = b"") -> MemberSetup:
        """The driver's setup; `ca` is the CA of the endpoint that agents of this driver use. Raises AdministrationError."""
        driver = self.driver
        options = {**driver.member_defaults(self.called), **options_of(driver, self.driver_options)}
        if driver.grpc_server and self.proxy_url:
            options = {**options, PROXY_URL: (self.proxy_url,), PROXY_CA: (self.proxy_ca.decode(errors="surrogateescape"),)}
        with fitting():
            return driver.member_setup(options, self.token, ca)

    @property
    def addon_driver(self) -> str:
        """The registration driver of addons; empty for the agent's default. Raises AdministrationError."""
        return self.addon_auth or self.driver.addon_driver

    @property
    def mode(self) -> str:
        return ("Singleton" if self.singleton else "") + ("Hosted" if self.hosted else "") or "Default"


@dataclass(frozen=True)
class Joined:
    cluster: str
    klusterlet: str
    namespace: str
    """Namespace of the agents."""
    driver: str
    introduced: bool = False
    """Whether the ManagedCluster is known to exist on the hub."""
    key: str = ""
    """The fingerprint of the key in its agent's signing request, if known."""


def check(options: JoinOptions) -> None:
    """Raises AdministrationError for invalid or conflicting options, with the messages of upstream's clusteradm."""
    if not options.token:
        raise AdministrationError("--hub-token: token is missing", "get one with get token on the hub")
    if not options.cluster_name:
        raise AdministrationError("--cluster-name: cluster-name is missing")
    if not is_cluster_name(options.cluster_name):
        raise AdministrationError(
            f"--cluster-name: {options.cluster_name!r} cannot name a cluster",
            NAME_RULE,
        )
    if problem := reserved_name_problem(options.cluster_name):
        raise AdministrationError(f"--cluster-name: {problem}")
    if options.hosted != (options.managed is not None):
        raise AdministrationError("--managed-cluster-kubeconfig: needed with --mode hosted, and with no other mode")
    if 0 != options.certificate_seconds < SHORTEST_EXPIRATION:
        raise AdministrationError(f"--client-cert-expiration-seconds: must be {SHORTEST_EXPIRATION} or more")
    _check_drivers(options)
    known = (*AGENT_GATES, *WORK_GATES)
    for gate, on in options.feature_gates.items():
        if gate not in (*known, *AGENT_UNSUPPORTED_GATES):
            raise AdministrationError(f"--feature-gates: {gate} is no feature gate of agents; there are {', '.join(known)}")
        if on and gate in AGENT_UNSUPPORTED_GATES:
            raise AdministrationError(f"--feature-gates: {gate} is not supported")


def _check_drivers(options: JoinOptions) -> None:
    refuse_unheard(options.driver_options, (options.driver,), JOIN_FLAGS, "--registration-auth")
    options.setup()
    if options.addon_auth and options.addon_auth not in ADDON_AUTH_TYPES:
        raise AdministrationError(f"--addon-kubeclient-registration-auth: {' or '.join(ADDON_AUTH_TYPES)}")
    if options.addon_token_seconds and options.addon_driver != "token":
        raise AdministrationError("--addon-token-expiration-seconds: only with --addon-kubeclient-registration-auth=token")


def klusterlet(name: str, options: JoinOptions, existing: Klusterlet | None = None) -> Document:
    registration: Document = {"registrationDriver": {"authType": options.driver.name, **options.setup().entry}}
    if options.certificate_seconds:
        registration["clientCertExpirationSeconds"] = options.certificate_seconds
    if gates := _gates(options, (*AGENT_GATES, *AGENT_UNSUPPORTED_GATES)):
        registration["featureGates"] = gates
    if options.annotations:
        registration["clusterAnnotations"] = {_annotation(key): value for key, value in options.annotations.items()}
    if options.addon_driver:
        token = {"token": {"expirationSeconds": options.addon_token_seconds}} if options.addon_token_seconds else {}
        registration["addOnKubeClientRegistrationDriver"] = {"authType": options.addon_driver, **token}
    spec: Document = {
        "clusterName": options.cluster_name,
        "deployOption": {"mode": options.mode},
        "namespace": (existing.spec.namespace if existing else "") or _namespace(name, options),
        "registrationConfiguration": registration,
    }
    if options.external_servers:
        spec["externalServerURLs"] = [{"url": url} for url in options.external_servers]
    if gates := _gates(options, WORK_GATES):
        spec["workConfiguration"] = {"featureGates": gates}
    if options.resources is not None:
        spec["resourceRequirement"] = known_fields(options.resources)
    return {"metadata": {"name": name}, "spec": apply_merge_patch(spec, dict(options.spec))}


def _namespace(name: str, options: JoinOptions) -> str:
    return f"open-cluster-management-{name}" if options.hosted else AGENT_NAMESPACE


def _gates(options: JoinOptions, names: tuple[str, ...]) -> list[Document]:
    return [{"feature": gate, "mode": "Enable" if on else "Disable"} for gate, on in options.feature_gates.items() if gate in names]


def _annotation(key: str) -> str:
    return key if key.startswith(f"{AGENT_ANNOTATIONS}/") else f"{AGENT_ANNOTATIONS}/{key}"


async def join(
    client: KubeClient,
    hub: HubAddress,
    options: JoinOptions,
    progress: Progress = SILENT,
    clock: Clock = SYSTEM,
    connect: Connect = connect_by_http,
) -> Joined:
    """`client` is for the cluster that runs the agents, `hub` the hub's address for them.

    Raises AdministrationError, ApplyFailed, and the clients' errors.
    """
    check(options)
    async with _hub(hub, options, connect) as hub_client, _managed(client, options, connect) as managed:
        existing = await _existing(client, options)
        options = await _with_external_servers(managed, await _with_lookup(managed, options), progress)
        if not options.force:
            introduction = Introduction(
                options.cluster_name, options.driver.name, options.token, options.setup().identity, hub.server, existing
            )
            settle(await check_hub(client, managed, hub_client, introduction), progress)
        name = existing.metadata.name if existing is not None else _new_name(options)
        wanted = klusterlet(name, options, existing)
        namespace = name if options.hosted else str(wanted["spec"]["namespace"])
        await _prepare(client, namespace, hub, options, progress, clock)
        await client.apply(KLUSTERLETS, wanted, manager=CLUSTERADM)
        introduced, key = False, ""
        if options.wait and not is_dry_run(client):
            await await_agents(client, name, within=options.timeout, progress=progress, clock=clock)
            await _await_introduced(client, hub_client, name, options, progress, clock)
            introduced = True
            key = await _await_key(client, name, options, progress, clock)
    return Joined(options.cluster_name, name, namespace, options.driver.name, introduced, key)


@asynccontextmanager
async def _hub(hub: HubAddress, options: JoinOptions, connect: Connect) -> AsyncIterator[KubeClient]:
    """The hub as agents with this token access it."""
    if not options.setup().server:
        async with _open(_api_config(hub, options), connect) as client:
            yield client
        return
    endpoints, files = options.driver.endpoints, options.setup(hub.ca).files
    try:
        way = endpoints.read(Path(endpoints.key), files[endpoints.key].encode())
        reached = way.connect(ClientSettings(CLUSTERADM, cluster=options.cluster_name))
    except EndpointError as error:
        raise AdministrationError(f"the way to the hub that is to be given to agents is unusable: {error.problem}") from None
    try:
        yield reached
    finally:
        await reached.close()


def _api_config(api: HubAddress, options: JoinOptions) -> ClientConfig:
    token = AuthInfo(token=options.token)
    return ClientConfig(api.server, api.ca or None, proxy_url=options.proxy_url, namespace="default", identity=token)


@asynccontextmanager
async def _open(config: ClientConfig, connect: Connect) -> AsyncIterator[KubeClient]:
    client = connect(config)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def _managed(client: KubeClient, options: JoinOptions, connect: Connect) -> AsyncIterator[KubeClient]:
    """A client of the managed cluster, which runs the agents unless they are hosted."""
    if options.managed is None:
        yield client
        return
    async with _open(options.managed, connect) as managed:
        yield managed


async def _existing(client: KubeClient, options: JoinOptions) -> Klusterlet | None:
    """The Klusterlet to change, if any. Raises Refused if the existing one is for another cluster."""
    for one in await list_klusterlets(client):
        name, cluster = one.metadata.name, await cluster_name_of(client, one)
        if one.metadata.deletion_timestamp and (cluster == options.cluster_name or not options.hosted):
            raise Refused(f"Klusterlet {name} is being deleted", "try again when it is gone")
        if cluster == options.cluster_name and is_hosted(one) == options.hosted:
            return one
        clash = name == KLUSTERLET or agent_namespace_of(one) == AGENT_NAMESPACE
        if clash and not options.hosted and not is_hosted(one) and not options.force:
            raise Refused(
                f"this cluster is managed already, as {cluster or 'a cluster without a name so far'}, by Klusterlet {name}",
                f"let it leave with unjoin --cluster-name {cluster}, choose another --context, or rename it with --force",
            )
    return None


def _new_name(options: JoinOptions) -> str:
    return f"klusterlet-hosted-{''.join(secrets.choice(_LETTERS) for _ in range(6))}" if options.hosted else KLUSTERLET


async def _with_lookup(managed: KubeClient, options: JoinOptions) -> JoinOptions:
    if not options.managed_lookup or options.managed is None:
        return options
    server = await published_server(managed, "--force-internal-endpoint-lookup-managed")
    return replace(options, managed=replace(options.managed, server=server))


async def _with_external_servers(managed: KubeClient, options: JoinOptions, progress: Progress) -> JoinOptions:
    """As OCM's own tool: the addresses that the managed cluster publishes, and none if it publishes none."""
    if options.external_servers:
        return options
    try:
        return replace(options, external_servers=(await published_server(managed, "externalServerURLs"),))
    except AdministrationError as error:
        progress.warn(f"the hub is not told where this cluster's API server is reached, for its gateway or others: {error}")
        return options


async def _prepare(
    client: KubeClient, namespace: str, hub: HubAddress, options: JoinOptions, progress: Progress, clock: Clock
) -> None:
    if options.keep_operator and not await operator_problem(client):
        progress.info("The klusterlet operator is there already, and works")
    else:
        await install_operator(client, options.bundle, clock)
    if options.bundle.create_namespace and not await _exists(client, namespace):
        metadata = {**named(namespace), "labels": {MADE_BY: CLUSTERADM, **RUN}}
        checked(await Applier(client, CLUSTERADM).apply([(NAMESPACES, {"metadata": metadata})]))
    # Pods cannot connect to their own machine unless an administrator allows it; joining allows it.
    if options.bundle.create_namespace:
        places = on_this_machine(_dialled(hub, options))
        for one in (options.bundle.namespace, namespace):
            await allow(client, one, places)
    checked(await Applier(client, CLUSTERADM).apply(_secrets(namespace, hub, options)))


def _dialled(hub: HubAddress, options: JoinOptions) -> list[str]:
    """The endpoints that the agents and their operator have to reach."""
    managed = [options.managed.server, options.managed.proxy_url] if options.managed is not None else []
    api = _api(hub, options)
    ours = [options.agent_server or api.server] if api is not None else []
    return [*ours, options.proxy_url, *options.setup().dialled, *managed]


def _api(hub: HubAddress, options: JoinOptions) -> HubAddress | None:
    """The kubeconfig for the hub's API server, if agents need one."""
    return options.api if options.setup().server else hub


async def _exists(client: KubeClient, namespace: str) -> bool:
    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        return False
    return True


async def install_operator(client: KubeClient, options: BundleOptions, clock: Clock = SYSTEM) -> None:
    wanted = bundle(KLUSTERLET_OPERATOR, options)
    checked(await Applier(client, CLUSTERADM).apply(wanted))
    if not is_dry_run(client):
        definitions = [document["metadata"]["name"] for resource, document in wanted if resource is CRDS]
        await await_definitions(client, definitions, clock)


def _secrets(namespace: str, hub: HubAddress, options: JoinOptions) -> list[Wanted]:
    """The Secrets with the bootstrap kubeconfig and, in hosted mode, with the kubeconfig of the managed cluster."""
    content, api = dict(options.setup(hub.ca).files), _api(hub, options)
    if api is not None:
        reached = _api_config(replace(api, server=options.agent_server or api.server), options)
        content[KUBECONFIG_KEY] = dump_kubeconfig(reached, cluster="hub", user="bootstrap", context="bootstrap")
    made = [_secret(BOOTSTRAP_SECRET, namespace, content)]
    if options.managed is not None:
        try:
            way = dump_kubeconfig(options.managed)
        except KubeconfigError as error:
            raise AdministrationError(f"--managed-cluster-kubeconfig: {error}") from None
        made.append(_secret(EXTERNAL_MANAGED_SECRET, namespace, {KUBECONFIG_KEY: way}))
    return made


def _secret(name: str, namespace: str, content: Mapping[str, str]) -> Wanted:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in content.items()}
    return SECRETS, {"metadata": named(name, namespace), "type": "Opaque", "data": data}


async def _await_introduced(
    client: KubeClient, hub: KubeClient, name: str, options: JoinOptions, progress: Progress, clock: Clock
) -> None:
    async def look() -> str:
        try:
            await hub.get(MANAGED_CLUSTERS, options.cluster_name)
        except NotFound:
            known = hub_connection_of(await client.get(Klusterlet, name))
            return f"its agent has not introduced it to the hub yet{f' ({known})' if known else ''}"
        return ""

    await wait(f"managed cluster {options.cluster_name}", look, within=options.timeout, progress=progress, clock=clock)


async def _await_key(client: KubeClient, name: str, options: JoinOptions, progress: Progress, clock: Clock) -> str:
    """The fingerprint of the key in the agent's signing request.

    Empty if it has a certificate already, or publishes no key soon: upstream's agents never do.
    """
    if not options.driver.certificates:
        return ""
    asked = ""

    async def look() -> str:
        nonlocal asked
        klusterlet = await client.get(Klusterlet, name)
        asked = pending_key(await pending_secret(client, klusterlet))
        return "" if asked or KEY in await hub_secret(client, klusterlet) else "its agent has not made its key yet"

    with suppress(TookTooLong):
        within = min(options.timeout, KEY_WITHIN)
        await wait(f"managed cluster {options.cluster_name}", look, within=within, progress=progress, clock=clock)
    return asked
