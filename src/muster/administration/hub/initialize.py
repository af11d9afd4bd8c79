"""Make a cluster a hub: the operator with its bundle, what lets newcomers in, and a ClusterManager that says what runs there.

Everything is applied server-side, so doing it again changes only what is asked for differently. What the options mean is decided
first and purely (`check`, `cluster_manager`); a wrong option is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError
from muster.administration.hub import preflight, tokens
from muster.administration.hub.probe import WITHIN as PROBE_WITHIN
from muster.administration.hubs import CLUSTERADM, HubAddress
from muster.administration.progress import SILENT, Progress, wait
from muster.administration.waiting import await_hub
from muster.api import Document, MalformedObject
from muster.api.operator.v1 import ClusterManager, ResourceRequirement
from muster.api.resource import known_fields
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.machinery.clock import SYSTEM, Clock
from muster.operator.applying import Applier, checked
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, BundleOptions, bundle
from muster.operator.cluster_manager.plan import ADDON_GATES, AUTO_APPROVAL, Plan, identity_creator
from muster.operator.names import CLUSTER_MANAGER, CLUSTER_MANAGERS
from muster.operator.spec import DRIVERS, BadSpec
from muster.registration.names import HUB_GATES, HUB_UNSUPPORTED_GATES
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CRDS
from muster.runtime.client.errors import Forbidden, NotFound
from muster.runtime.install.objects import await_definitions
from muster.work.hub.options import GATES as WORK_GATES
from muster.work.hub.options import UNSUPPORTED_GATES as WORK_UNSUPPORTED_GATES

QOS_CLASSES: Final = ("Default", "BestEffort", "ResourceRequirement")
ENDPOINT_TYPES: Final = ("hostname", "loadBalancer")
ALL_GATES: Final = (*HUB_GATES, *WORK_GATES, *ADDON_GATES)
UNSUPPORTED_GATES: Final = (*HUB_UNSUPPORTED_GATES, *WORK_UNSUPPORTED_GATES)


@dataclass(frozen=True)
class InitOptions:
    bundle: BundleOptions = field(default_factory=BundleOptions)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    drivers: tuple[str, ...] = ()
    """How clusters may register; none: csr."""
    csr_identities: tuple[str, ...] = ()
    arn_patterns: tuple[str, ...] = ()
    grpc_identities: tuple[str, ...] = ()
    hub_cluster_arn: str = ""
    aws_tags: tuple[str, ...] = ()
    grpc_server: str = ""
    grpc_endpoint_type: str = ENDPOINT_TYPES[0]
    resources: ResourceRequirement | None = None
    sync_labels: bool = False
    use_bootstrap_token: bool = False
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Of the ClusterManager, over all that the other options say."""
    checks: bool = True
    wait: bool = False
    timeout: float = 300.0
    probe_within: float = PROBE_WITHIN

    @property
    def driver_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(DRIVERS[name] for name in self.drivers))


@dataclass(frozen=True)
class Initialized:
    """What a cluster needs to join."""

    address: HubAddress
    token: str = field(repr=False)
    drivers: tuple[str, ...] = ()
    hub_cluster_arn: str = ""
    grpc_server: str = ""
    checks: tuple[preflight.Check, ...] = ()


def check(options: InitOptions) -> None:
    """Raises AdministrationError for options that do not fit together, as OCM's own tool words it."""
    if any(name not in DRIVERS for name in options.drivers):
        raise AdministrationError("--registration-drivers: only csr,awsirsa and grpc are valid drivers")
    known = (*ALL_GATES, *UNSUPPORTED_GATES)
    for gate, on in options.feature_gates.items():
        if gate not in known:
            raise AdministrationError(f"--feature-gates: {gate} is no feature gate of the hub; there are {', '.join(ALL_GATES)}")
        if on and gate in UNSUPPORTED_GATES:
            raise AdministrationError(f"--feature-gates: {gate} is not supported")
    _check_identities(options)
    if "awsirsa" in options.driver_names and not options.hub_cluster_arn:
        raise AdministrationError(
            "--hub-cluster-arn is required when awsirsa is one of --registration-drivers",
            "give arn:aws:eks:REGION:ACCOUNT:cluster/NAME of this hub",
        )
    if "grpc" in options.driver_names and options.grpc_endpoint_type == "hostname" and not options.grpc_server:
        raise AdministrationError("--grpc-server: grpc server should not be empty if the grpc endpoint type is hostname")
    try:
        identity_creator(Plan(ClusterManager.decode(cluster_manager(options)), options.bundle.image))
    except BadSpec as error:
        raise AdministrationError(f"--hub-cluster-arn: {error}") from None
    except MalformedObject as error:
        raise AdministrationError(f"--cluster-manager-values-file: clusterManager: {error}") from None


def _check_identities(options: InitOptions) -> None:
    lists = (
        ("--auto-approved-csr-identities", options.csr_identities, "csr", "list of users for csr to auto approve"),
        ("--auto-approved-arn-patterns", options.arn_patterns, "awsirsa", "list of patterns for aws eks arn"),
        (
            "--auto-approved-grpc-identities",
            options.grpc_identities,
            "grpc",
            "list of users or identities for grpc to auto approve",
        ),
    )
    for flag, given, driver, what in lists:
        if given and driver not in options.driver_names:
            raise AdministrationError(f"{flag}: should not provide {what} if not initializing hub with {driver} registration")
        if given and not options.feature_gates.get(AUTO_APPROVAL):
            raise AdministrationError(
                f"{flag}: should enable feature gate {AUTO_APPROVAL} before passing list of identities",
                f"add --feature-gates={AUTO_APPROVAL}=true",
            )


def cluster_manager(options: InitOptions) -> Document:
    registration: Document = {"autoApproveUsers": list(tokens.BOOTSTRAP_USERS)}
    if gates := _gates(options, (*HUB_GATES, *HUB_UNSUPPORTED_GATES)):
        registration["featureGates"] = gates
    if options.drivers:
        registration["registrationDrivers"] = [_driver(name, options) for name in options.driver_names]
    spec: Document = {"deployOption": {"mode": "Default"}, "registrationConfiguration": registration}
    if gates := _gates(options, (*WORK_GATES, *WORK_UNSUPPORTED_GATES)):
        spec["workConfiguration"] = {"featureGates": gates}
    if gates := _gates(options, ADDON_GATES):
        spec["addOnManagerConfiguration"] = {"featureGates": gates}
    if options.resources is not None:
        spec["resourceRequirement"] = known_fields(options.resources)
    if "grpc" in options.driver_names:
        spec["serverConfiguration"] = {"endpointsExposure": [_endpoint(options)]}
    return {"metadata": {"name": CLUSTER_MANAGER}, "spec": apply_merge_patch(spec, dict(options.spec))}


def _gates(options: InitOptions, names: Sequence[str]) -> list[Document]:
    return [{"feature": gate, "mode": "Enable" if on else "Disable"} for gate, on in options.feature_gates.items() if gate in names]


def _driver(name: str, options: InitOptions) -> Document:
    own: dict[str, Document] = {
        "csr": {"autoApprovedIdentities": list(options.csr_identities)} if options.csr_identities else {},
        "awsirsa": {
            "hubClusterArn": options.hub_cluster_arn,
            **({"autoApprovedIdentities": list(options.arn_patterns)} if options.arn_patterns else {}),
            **({"tags": list(options.aws_tags)} if options.aws_tags else {}),
        },
        "grpc": {"autoApprovedIdentities": list(options.grpc_identities)} if options.grpc_identities else {},
    }
    return {"authType": name, **({name: own[name]} if own[name] else {})}


def _endpoint(options: InitOptions) -> Document:
    kind = options.grpc_endpoint_type
    exposure: Document = {"type": kind}
    if options.grpc_server:
        exposure[kind] = {"host": options.grpc_server}
    return {"protocol": "grpc", "grpc": exposure}


async def initialize(
    client: KubeClient, address: HubAddress, options: InitOptions, progress: Progress = SILENT, clock: Clock = SYSTEM
) -> Initialized:
    """Raises AdministrationError, ApplyFailed, and what the client raises."""
    check(options)
    checks: list[preflight.Check] = []
    if options.checks:
        signing = not options.drivers or "csr" in options.driver_names
        checks = await preflight.run_checks(
            client, address, progress, signing=signing, probe_within=options.probe_within, clock=clock
        )
    await install_operator(client, options.bundle, clock)
    await tokens.ensure_bootstrap(client)
    if options.use_bootstrap_token:
        await tokens.ensure_bootstrap_token(client)
    await _let_the_old_one_go(client, options.timeout, progress, clock)
    await client.apply(CLUSTER_MANAGERS, cluster_manager(options), manager=CLUSTERADM)
    if options.wait and not is_dry_run(client):
        await await_hub(client, within=options.timeout, progress=progress, clock=clock)
    token = await tokens.issue(client, use_bootstrap_token=options.use_bootstrap_token)
    return Initialized(address, token, options.driver_names, options.hub_cluster_arn, options.grpc_server, checks=tuple(checks))


async def _let_the_old_one_go(client: KubeClient, within: float, progress: Progress, clock: Clock) -> None:
    """What is applied to a ClusterManager that is being deleted goes with it."""

    async def look() -> str:
        try:
            found = await client.get(CLUSTER_MANAGERS, CLUSTER_MANAGER)
        except NotFound:
            return ""
        return "it is being deleted" if found["metadata"].get("deletionTimestamp") else ""

    if not is_dry_run(client):
        await wait(f"an earlier ClusterManager {CLUSTER_MANAGER}", look, within=within, progress=progress, clock=clock)


async def access(client: KubeClient, address: HubAddress, *, use_bootstrap_token: bool = False) -> Initialized:
    """What a cluster needs to join a hub that is there. What the ClusterManager says of drivers is told where it may be read."""
    token = await tokens.issue(client, use_bootstrap_token=use_bootstrap_token)
    try:
        manager = await client.get(ClusterManager, CLUSTER_MANAGER)
    except (NotFound, Forbidden, MalformedObject):
        return Initialized(address, token)
    configured = manager.spec.registration_configuration
    drivers = configured.registration_drivers if configured else ()
    arn = next((one.awsirsa.hub_cluster_arn for one in drivers if one.awsirsa is not None), "")
    return Initialized(address, token, tuple(DRIVERS[one.auth_type] for one in drivers), arn, _grpc_server(manager))


def _grpc_server(manager: ClusterManager) -> str:
    server = manager.spec.server_configuration
    for endpoint in server.endpoints_exposure if server else ():
        exposure = endpoint.grpc
        found = (exposure.hostname or exposure.load_balancer or exposure.route) if exposure else None
        if found is not None and found.host:
            return found.host
    return ""


async def install_operator(client: KubeClient, options: BundleOptions, clock: Clock = SYSTEM) -> None:
    wanted = bundle(CLUSTER_MANAGER_OPERATOR, options)
    checked(await Applier(client, CLUSTERADM).apply(wanted))
    if not is_dry_run(client):
        names = [document["metadata"]["name"] for resource, document in wanted if resource is CRDS]
        await await_definitions(client, names, clock)
