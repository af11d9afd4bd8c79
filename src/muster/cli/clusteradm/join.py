"""`clusteradm join`: makes a cluster a managed cluster of a hub.

The flags are OCM's, with the aliases that its documentation uses, and with hashes that authenticate the hub (`--hub-ca-hash`,
`--grpc-ca-hash`). Over gRPC, whose agents never use the hub's API server, this command does not use it either, unless flags require
it: to read the CA of the gRPC server there, or for a kubeconfig in the bootstrap Secret, which OCM's own tool writes.
`muster.administration.members.join` evaluates and validates the flags together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.clusteradm.bundle_flags import (
    REGISTRY,
    bundle_of,
    flat,
    gates_of,
    installing,
    report_flags,
    resources_of,
    version_of,
)
from muster.cli.connection import Globals, Session, administer, connected, program, write_resources
from muster.cli.console import echo
from muster.cli.driver_flags import content, driver_flags, driver_settings
from muster.cli.examples import examples
from muster.cli.values import Names, Pairs
from muster.registration.drivers.flags import DEFAULT, JOIN_FLAGS

if TYPE_CHECKING:
    from muster.administration.hubs import HubAddress
    from muster.administration.members.hub_trust import HubTrust
    from muster.administration.members.join import Joined, JoinOptions
    from muster.runtime.client import ClientConfig, KubeClient

_FILE = click.Path(dir_okay=False)


@click.command(
    "join",
    epilog=examples(
        "clusteradm join --hub-token TOKEN --hub-apiserver https://hub.example:6443 --cluster-name cluster1 --wait",
        "clusteradm join --hub-token TOKEN --hub-apiserver https://hub.example:6443 --cluster-name cluster1"
        " --registration-auth grpc --grpc-server hub.example:443",
    ),
)
@click.option("--hub-token", "token", default="", help="Bootstrap token of the hub, as shown by clusteradm get token.")
@click.option("--hub-apiserver", "server", default="", help="URL of the hub's API server.")
@click.option("--cluster-name", "cluster", default="", help="Name of this cluster on the hub.")
@click.option("--ca-file", type=_FILE, help="Path to the CA certificate of the hub's API server.")
@click.option(
    "--hub-ca-hash", "--ca-hash", "hashes", type=Names(), multiple=True, help="Hashes (sha256:…) of the public key of the hub's CA."
)
@click.option(
    "--insecure-skip-ca-verification", "unverified", is_flag=True, help="Trust the hub's CA certificate without verifying it."
)
@click.option(
    "--force-internal-endpoint-lookup",
    "lookup",
    is_flag=True,
    help="Use the API server endpoint of the hub's cluster-info ConfigMap for the agents.",
)
@click.option("--proxy-url", default="", help="URL of the proxy that the agents use to reach the hub.")
@click.option("--proxy-ca-file", type=_FILE, help="Path to the CA certificate of that proxy.")
@click.option(
    "-m",
    "--mode",
    type=click.Choice(["default", "hosted"], case_sensitive=False),
    default="default",
    show_default=True,
    help="Install mode of the Klusterlet.",
)
@click.option("--singleton", is_flag=True, help="Run registration and work agent in one Deployment.")
@click.option(
    "--managed-cluster-kubeconfig", "managed", type=_FILE, help="Path to the kubeconfig file of the managed cluster (hosted mode)."
)
@click.option(
    "--force-internal-endpoint-lookup-managed",
    "managed_lookup",
    is_flag=True,
    help="Use the API server endpoint of the managed cluster's cluster-info ConfigMap (hosted mode).",
)
@click.option("--force", is_flag=True, help="Skip the preflight checks on the hub, and join even if another cluster uses the name.")
@click.option("--wait", is_flag=True, help="Wait until the hub has a ManagedCluster for this cluster.")
@click.option(
    "--client-cert-expiration-seconds",
    "seconds",
    type=int,
    default=31_536_000,
    show_default=True,
    help="Requested lifetime of client certificates in seconds.",
)
@click.option(
    "--registration-auth",
    "auth",
    default=DEFAULT,
    show_default=True,
    help="Registration driver by which the agent authenticates to the hub.",
)
@driver_flags(JOIN_FLAGS)
@click.option(
    "--bootstrap-kubeconfig", is_flag=True, help="Give the agents a kubeconfig for --hub-apiserver too, as OCM does (grpc)."
)
@click.option(
    "--addon-kubeclient-registration-auth",
    "addon_auth",
    default="",
    help="Authentication method of the add-ons' agents: csr or token.",
)
@click.option(
    "--addon-token-expiration-seconds",
    "addon_seconds",
    type=int,
    default=0,
    help="Requested lifetime of the add-ons' tokens in seconds.",
)
@click.option(
    "--klusterlet-annotation",
    "annotations",
    type=Pairs(),
    multiple=True,
    help="Annotations of the ManagedCluster on the hub, as key=value pairs.",
)
@click.option("--klusterlet-values-file", "values", type=_FILE, help="Values file of OCM's klusterlet Helm chart.")
@click.option("--capi-import", is_flag=True, help="Import a cluster that Cluster API manages from this cluster.")
@click.option("--capi-cluster-name", "capi_name", default="", help="Name of the Cluster API object to import, as [namespace/]name.")
@click.option("--output-file", type=_FILE, help="File to which all applied objects are also written.")
@installing
@connected
def command(**given: Any) -> None:
    """Join a cluster to a hub: install the operator and agents, which request registration.

    An administrator of the hub then accepts the cluster with clusteradm accept.
    """
    report_flags()
    _report(administer(lambda session: _join(session, given)))


async def _join(session: Session, given: dict[str, Any]) -> Joined:
    from dataclasses import replace

    from muster.administration.members.hub_trust import find_hub
    from muster.administration.members.join import check, join

    options = _options(given)
    called = (options.managed or session.config).cluster
    options = replace(options, timeout=session.timeout, called=called)
    check(options)
    trust = _trust(given)
    if options.setup().server:
        hub, options = await _over_grpc(session, given, trust, options)
    else:
        hub = await find_hub(trust, options.token, session.progress)
    if given["lookup"] and (api := options.api if options.setup().server else hub) is not None:
        options = replace(options, agent_server=await _internal(trust, api.ca))
    async with _target(session, given) as client:
        result = await join(client, hub, options, session.progress)
    if given["output_file"]:
        write_resources(given["output_file"], session.journal)
    return result


async def _over_grpc(
    session: Session, given: dict[str, Any], trust: HubTrust, options: JoinOptions
) -> tuple[HubAddress, JoinOptions]:
    """The hub's address for agents; its API server is used only if flags require it."""
    from dataclasses import replace

    from muster.administration.errors import AdministrationError
    from muster.administration.members.grpc_trust import GrpcTrust, find_grpc_server
    from muster.administration.members.hub_trust import find_hub
    from muster.transport.client.config import ProxySettings

    options_given = options.setup()
    server = GrpcTrust(
        options_given.server, options_given.ca, options_given.hashes, ProxySettings(trust.proxy_url, trust.proxy_ca or None)
    )
    if given["bootstrap_kubeconfig"] and not trust.server:
        raise AdministrationError("--bootstrap-kubeconfig: needs --hub-apiserver", "give the hub's https URL")
    wanted = trust.server and (given["bootstrap_kubeconfig"] or not server.provable)
    api = await find_hub(trust, options.token, session.progress) if wanted else None
    hub = await find_grpc_server(server, options.token, api)
    return hub, replace(options, api=api if given["bootstrap_kubeconfig"] else None)


def _trust(given: dict[str, Any]) -> HubTrust:
    from muster.administration.members.hub_trust import HubTrust

    return HubTrust(
        given["server"].rstrip("/"),
        content(given["ca_file"], "--ca-file"),
        flat(given["hashes"]),
        given["unverified"],
        given["proxy_url"],
        content(given["proxy_ca_file"], "--proxy-ca-file"),
    )


async def _internal(trust: HubTrust, ca: bytes) -> str:
    from muster.administration.members.hub_trust import connect_by_http, published_server
    from muster.runtime.client import ClientConfig

    client = connect_by_http(ClientConfig(trust.server, ca or None, proxy_url=trust.proxy_url))
    try:
        return await published_server(client, "--force-internal-endpoint-lookup")
    finally:
        await client.close()


@asynccontextmanager
async def _target(session: Session, given: dict[str, Any]) -> AsyncIterator[KubeClient]:
    """The cluster that runs the agents: that of the context, or one that Cluster API has created."""
    if not given["capi_import"]:
        yield session.client
        return
    from muster.administration.dryrun import JournalingClient
    from muster.administration.members.capi import find_workload_cluster
    from muster.administration.members.hub_trust import connect_by_http

    config = await find_workload_cluster(session.client, given["capi_name"] or given["cluster"])
    client = JournalingClient(connect_by_http(config), session.journal, dry_run=session.dry_run)
    try:
        yield client
    finally:
        await client.close()


def _options(given: dict[str, Any]) -> JoinOptions:
    from muster.administration.chartvalues import KLUSTERLET_CHART, with_values
    from muster.administration.images import read_mapping
    from muster.administration.members.join import JoinOptions

    options = JoinOptions(
        given["cluster"],
        given["token"],
        hosted=given["mode"] == "hosted",
        singleton=given["singleton"],
        managed=_managed(given["managed"]),
        managed_lookup=given["managed_lookup"],
        proxy_url=given["proxy_url"],
        proxy_ca=content(given["proxy_ca_file"], "--proxy-ca-file"),
        certificate_seconds=given["seconds"],
        auth=given["auth"],
        driver_options=driver_settings(JOIN_FLAGS, given),
        addon_auth=given["addon_auth"],
        addon_token_seconds=given["addon_seconds"],
        annotations=dict(flat(given["annotations"])),
        feature_gates=gates_of(given),
        resources=resources_of(given),
        bundle=bundle_of(given),
        keep_operator=given["registry"] == REGISTRY and version_of(given) == "default" and not given["credential"],
        force=given["force"],
        wait=given["wait"],
    )
    if given["values"]:
        values = read_mapping(Path(given["values"]), KLUSTERLET_CHART.flag)
        options = with_values(options, values, given["registry"], version_of(given), KLUSTERLET_CHART)
    return options


def _managed(path: str | None) -> ClientConfig | None:
    from muster.runtime.client import KubeconfigError, load_kubeconfig

    if not path:
        return None
    try:
        return load_kubeconfig(path)
    except KubeconfigError as error:
        raise click.ClickException(f"--managed-cluster-kubeconfig: {error}") from None


def _report(joined: Joined) -> None:
    if Globals.current().dry_run:
        return
    how = "" if joined.driver == DEFAULT else f" by {joined.driver}"
    state = "is known to the hub" if joined.introduced else "introduces itself to the hub"
    echo(f"Cluster {joined.cluster} {state}{how}; its Klusterlet is {joined.klusterlet}, its agents are in {joined.namespace}.\n")
    echo("Please log onto the hub cluster and run the following command:\n")
    chosen = f" --fingerprint {joined.key}" if joined.key else ""
    echo(f"    {program()} accept --clusters {joined.cluster}{chosen}\n")
    echo("This is not needed when the ManagedClusterAutoApproval feature is enabled")
