"""Initializes a hub: the operator with its bundle, the bootstrap objects for new clusters, and the ClusterManager.

Everything is written by server-side apply, so a repeated call changes only what differs. The options are validated first, by pure
functions (`check`, `cluster_manager`); an invalid option is refused before any write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from muster.administration.drivers import fitting, installed_driver, refuse_unheard
from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError, Refused
from muster.administration.hub import preflight, tokens
from muster.administration.hub.grpc_server import PublishedServer, published_server
from muster.administration.hub.hub_addons import refuse_collision
from muster.administration.hub.probe import WITHIN as PROBE_WITHIN
from muster.administration.hubs import CLUSTERADM, HubAddress
from muster.administration.progress import SILENT, Progress, wait
from muster.administration.readiness import await_hub
from muster.api import Document, MalformedObject
from muster.api.cluster.v1 import ManagedCluster
from muster.api.operator.v1 import ClusterManager, ResourceRequirement
from muster.api.resource import known_fields
from muster.gateway.apiservice import FEATURE_GATE
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.machinery.clock import SYSTEM, Clock
from muster.operator.applier import Applier, checked
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, BundleOptions, bundle
from muster.operator.cluster_manager.plan import ADDON_MANAGER_GATES, AUTO_APPROVAL, ClusterManagerPlan, registration_arguments
from muster.operator.names import CLUSTER_MANAGER, CLUSTER_MANAGERS
from muster.operator.spec import BadSpec
from muster.placement.hub.options import GATES as PLACEMENT_GATES
from muster.placement.hub.options import UNSUPPORTED_GATES as PLACEMENT_UNSUPPORTED_GATES
from muster.registration.drivers import DEFAULT, find, options_of, profile_of
from muster.registration.drivers.flags import GRPC, INIT_FLAGS
from muster.registration.drivers.interfaces import Driver
from muster.registration.drivers.ownership import owner_of
from muster.registration.drivers.profile import DriverOptions, HubSetup, Profile
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_GATES, HUB_UNSUPPORTED_GATES
from muster.runtime.client import AlreadyExists, Forbidden, KubeClient, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS
from muster.runtime.install import await_definitions
from muster.work.hub.options import GATES as WORK_GATES
from muster.work.hub.options import UNSUPPORTED_GATES as WORK_UNSUPPORTED_GATES

QOS_CLASSES: Final = ("Default", "BestEffort", "ResourceRequirement")
ALL_GATES: Final = (*HUB_GATES, *WORK_GATES, *ADDON_MANAGER_GATES, *PLACEMENT_GATES)
UNSUPPORTED_GATES: Final = (*HUB_UNSUPPORTED_GATES, *WORK_UNSUPPORTED_GATES, *PLACEMENT_UNSUPPORTED_GATES)

UNKNOWN_SERVER: Final = "no readable ClusterManager has the address of the gRPC server: see the administrator of the hub"


@dataclass(frozen=True)
class InitOptions:
    bundle: BundleOptions = field(default_factory=BundleOptions)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    same_machine: bool = False
    """All clusters are on the hub's machine, so that its loopback address is usable for them."""
    drivers: tuple[str, ...] = ()
    """The registration drivers that are enabled; none means the default driver."""
    driver_options: Mapping[str, DriverOptions] = field(default_factory=dict, repr=False)
    """Options by driver."""
    called: str = ""
    """The name of the hub in the administrator's kubeconfig: some drivers derive defaults from it."""
    remove_denied_after: str = ""
    """The time after which the ManagedCluster of a denied cluster is deleted; empty is never."""
    resources: ResourceRequirement | None = None
    sync_labels: bool = False
    use_bootstrap_token: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the ClusterManager."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The spec of the ClusterManager, which overrides all other options."""
    checks: bool = True
    wait: bool = False
    timeout: float = 300.0
    probe_within: float = PROBE_WITHIN

    def chosen(self) -> tuple[Driver, ...]:
        """The selected drivers. Raises AdministrationError."""
        found = (installed_driver(name, "--registration-drivers") for name in self.drivers)
        return tuple({driver.name: driver for driver in found}.values())


@dataclass(frozen=True)
class Initialized:
    """What a cluster needs to join."""

    address: HubAddress
    token: str = field(repr=False)
    drivers: tuple[str, ...] = ()
    join_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The flags of `join`, by driver."""
    grpc: str = ""
    """The driver whose agents use only the hub's gRPC server; empty if there is none."""
    pending: str = ""
    """Why the address of that server is unknown, and the remedy."""
    cluster: str = ""
    """The only cluster for which the token is valid; empty if it is valid for all."""
    checks: tuple[preflight.Check, ...] = ()


def check(options: InitOptions) -> None:
    """Raises AdministrationError for options that conflict, in the words of OCM's tool."""
    drivers = options.chosen()
    refuse_unheard(options.driver_options, drivers, INIT_FLAGS, "--registration-drivers")
    known = (*ALL_GATES, *UNSUPPORTED_GATES)
    for gate, on in options.feature_gates.items():
        if gate not in known:
            raise AdministrationError(f"--feature-gates: {gate} is no feature gate of the hub; there are {', '.join(ALL_GATES)}")
        if on and gate in UNSUPPORTED_GATES:
            raise AdministrationError(f"--feature-gates: {gate} is not supported")
    _check_approvals(options, {driver.name for driver in drivers})
    try:
        manager = ClusterManager.decode(cluster_manager(options))
        registration_arguments(ClusterManagerPlan(manager, options.bundle.image))
    except (BadSpec, MalformedObject) as error:
        # Values of flags were checked before, so the error is in the file.
        raise AdministrationError(f"--cluster-manager-values-file: clusterManager: {error}") from None


def _check_approvals(options: InitOptions, names: Collection[str]) -> None:
    for flag in INIT_FLAGS:
        if not flag.approves or not options.driver_options.get(flag.driver, {}).get(flag.option):
            continue
        if flag.driver not in names:
            text = f"should not provide {flag.approves} if not initializing hub with {flag.driver} registration"
            raise AdministrationError(f"--{flag.option}: {text}")
        if not options.feature_gates.get(AUTO_APPROVAL):
            raise AdministrationError(
                f"--{flag.option}: should enable feature gate {AUTO_APPROVAL} before passing list of identities",
                f"add --feature-gates={AUTO_APPROVAL}=true",
            )


def cluster_manager(options: InitOptions) -> Document:
    """Raises AdministrationError."""
    registration: Document = {"autoApproveUsers": list(tokens.BOOTSTRAP_USERS)}
    if gates := _gates(options, (*HUB_GATES, *HUB_UNSUPPORTED_GATES)):
        registration["featureGates"] = gates
    setups = {driver.name: _setup(driver, options) for driver in options.chosen()}
    if options.remove_denied_after:
        registration["removeDeniedAfter"] = options.remove_denied_after
    if setups:
        registration["registrationDrivers"] = [{"authType": name, **setup.entry} for name, setup in setups.items()]
    spec: Document = {"deployOption": {"mode": "Default"}, "registrationConfiguration": registration}
    if gates := _gates(options, (*WORK_GATES, *WORK_UNSUPPORTED_GATES)):
        spec["workConfiguration"] = {"featureGates": gates}
    if gates := _gates(options, ADDON_MANAGER_GATES):
        spec["addOnManagerConfiguration"] = {"featureGates": gates}
    if gates := _gates(options, (*PLACEMENT_GATES, *PLACEMENT_UNSUPPORTED_GATES)):
        spec["placementConfiguration"] = {"featureGates": gates}
    if options.resources is not None:
        spec["resourceRequirement"] = known_fields(options.resources)
    for setup in setups.values():
        spec |= setup.spec
    metadata: Document = {"name": CLUSTER_MANAGER, **({"annotations": dict(options.annotations)} if options.annotations else {})}
    return {"metadata": metadata, "spec": apply_merge_patch(spec, dict(options.spec))}


def _gates(options: InitOptions, names: Sequence[str]) -> list[Document]:
    return [{"feature": gate, "mode": "Enable" if on else "Disable"} for gate, on in options.feature_gates.items() if gate in names]


def _setup(driver: Driver, options: InitOptions) -> HubSetup:
    with fitting():
        return driver.hub_setup({**driver.hub_defaults(options.called), **options_of(driver, options.driver_options)})


async def initialize(
    client: KubeClient, address: HubAddress, options: InitOptions, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> Initialized:
    """Raises AdministrationError, ApplyFailed, and the client's errors."""
    check(options)
    checks: list[preflight.Check] = []
    if options.checks:
        signing = any(driver.kubernetes_signs for driver in options.chosen() or (find(DEFAULT),))
        checks = await preflight.run_checks(
            client,
            address,
            progress,
            signing=signing,
            same_machine=options.same_machine,
            probe_within=options.probe_within,
            clock=clock,
        )
        if options.feature_gates.get(FEATURE_GATE):
            await _refuse_collision(client, options)
    await install_operator(client, options.bundle, clock)
    await tokens.ensure_bootstrap(client)
    if options.use_bootstrap_token:
        await tokens.ensure_bootstrap_token(client)
    await _await_old_cluster_manager(client, options.timeout, progress, clock)
    wanted = cluster_manager(options)
    if options.checks:
        await _refuse_orphans(client, ClusterManager.decode(wanted))
    for driver in options.chosen():
        await _set_up(client, _setup(driver, options), options, progress)
    await client.apply(CLUSTER_MANAGERS, wanted, manager=CLUSTERADM)
    if options.wait and not is_dry_run(client):
        await await_hub(client, within=options.timeout, progress=progress, clock=clock)
    token = await tokens.issue(client, use_bootstrap_token=options.use_bootstrap_token)
    return await _initialized(client, address, token, ClusterManager.decode(wanted), checks)


async def _refuse_collision(client: KubeClient, options: InitOptions) -> None:
    """Raises Refused if another API has the gateway's group and the version that was selected for it."""
    wanted = ClusterManager.decode(cluster_manager(options))
    try:
        before = (await client.get(ClusterManager, CLUSTER_MANAGER)).metadata.annotations
    except (NotFound, MalformedObject):
        before = {}
    annotations = {**before, **wanted.metadata.annotations}
    await refuse_collision(client, replace(wanted, metadata=replace(wanted.metadata, annotations=annotations)))


async def _set_up(client: KubeClient, setup: HubSetup, options: InitOptions, progress: Progress) -> None:
    for document in setup.objects:
        with suppress(AlreadyExists):
            await client.create(CONFIG_MAPS, dict(document))
    if options.feature_gates.get(AUTO_APPROVAL):
        for remark in setup.remarks:
            progress.warn(remark)


async def _refuse_orphans(client: KubeClient, wanted: ClusterManager) -> None:
    """Raises Refused if accepted clusters would have no enabled driver any more."""
    try:
        before = _enabled(await client.get(ClusterManager, CLUSTER_MANAGER))
        clusters = (await client.list(MANAGED_CLUSTERS)).items
    except (NotFound, MalformedObject):
        return
    dropped = before - _enabled(wanted)
    held: dict[str, list[str]] = {}
    for document in clusters if dropped else ():
        with suppress(MalformedObject):
            cluster = ManagedCluster.decode(document)
            owner = owner_of(cluster)
            if cluster.spec.hub_accepts_client and owner is not None and owner.name in dropped:
                held.setdefault(owner.name, []).append(cluster.metadata.name)
    if held:
        text = "; ".join(f"{name}: {', '.join(sorted(found)[:5])}" for name, found in sorted(held.items()))
        raise Refused(
            f"--registration-drivers: accepted clusters register by drivers that the hub would have no longer ({text})",
            "keep these drivers, deny the clusters first, or give --force",
        )


async def _await_old_cluster_manager(client: KubeClient, within: float, progress: Progress, clock: Clock) -> None:
    """An apply to a ClusterManager that is being deleted would be lost."""

    async def remaining() -> str:
        try:
            found = await client.get(CLUSTER_MANAGERS, CLUSTER_MANAGER)
        except NotFound:
            return ""
        return "it is being deleted" if found["metadata"].get("deletionTimestamp") else ""

    if not is_dry_run(client):
        await wait(f"an earlier ClusterManager {CLUSTER_MANAGER}", remaining, within=within, progress=progress, clock=clock)


async def access(client: KubeClient, address: HubAddress, *, use_bootstrap_token: bool = False, cluster: str = "") -> Initialized:
    """What a cluster needs to join an existing hub; `cluster` is the only one for which the token is to be valid.

    The drivers' settings in the ClusterManager are included if it is readable. Raises AdministrationError and the client's errors.
    """
    try:
        manager = await client.get(ClusterManager, CLUSTER_MANAGER)
    except (NotFound, Forbidden, MalformedObject):
        token = await tokens.issue(client, use_bootstrap_token=use_bootstrap_token, cluster=cluster)
        return Initialized(address, token, grpc=GRPC if cluster else "", pending=UNKNOWN_SERVER if cluster else "", cluster=cluster)
    if cluster and not grpc_driver_of(manager):
        raise AdministrationError(
            "--cluster-name: only tokens for a gRPC server are bound to a cluster, and this hub has none",
            "run init --registration-drivers grpc,csr --grpc-server HOST:PORT, or leave --cluster-name out",
        )
    token = await tokens.issue(client, use_bootstrap_token=use_bootstrap_token, cluster=cluster)
    return await _initialized(client, address, token, manager, cluster=cluster)


def _enabled(manager: ClusterManager) -> set[str]:
    return {name for name, _ in drivers_of(manager)} or {DEFAULT}


def drivers_of(manager: ClusterManager) -> list[tuple[str, Profile | None]]:
    """The drivers of the hub, with None for those that are not installed here."""
    configured = manager.spec.registration_configuration
    found = (
        [
            (registration_driver.auth_type, profile_of(registration_driver.auth_type))
            for registration_driver in configured.registration_drivers
        ]
        if configured
        else []
    )
    return [(profile.name if profile else auth_type, profile) for auth_type, profile in found]


def grpc_driver_of(manager: ClusterManager) -> str:
    return next((name for name, profile in drivers_of(manager) if profile is not None and profile.grpc_server), "")


async def _initialized(
    client: KubeClient,
    address: HubAddress,
    token: str,
    manager: ClusterManager,
    checks: Sequence[preflight.Check] = (),
    cluster: str = "",
) -> Initialized:
    drivers, grpc = drivers_of(manager), grpc_driver_of(manager)
    server = await published_server(client, manager) if grpc else PublishedServer(manager.spec)
    flags = {name: profile.join_flags(server.spec, server.authority) for name, profile in drivers if profile is not None}
    return Initialized(address, token, tuple(name for name, _ in drivers), flags, grpc, server.pending, cluster, tuple(checks))


async def install_operator(client: KubeClient, options: BundleOptions, clock: Clock = SYSTEM) -> None:
    wanted = bundle(CLUSTER_MANAGER_OPERATOR, options)
    checked(await Applier(client, CLUSTERADM).apply(wanted))
    if not is_dry_run(client):
        names = [document["metadata"]["name"] for resource, document in wanted if resource is CRDS]
        await await_definitions(client, names, clock)
