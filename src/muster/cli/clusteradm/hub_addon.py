"""`clusteradm install|uninstall hub-addon`: optional components of a hub, by name.

The flags are OCM's. Its tool installs charts of many projects from their registries; here a hub add-on is part of Muster and is
enabled in the ClusterManager, so it runs in the namespace and version of the hub's components. Flags for other locations and
versions are accepted and ignored, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from muster.cli.clusteradm.bundle_flags import flat
from muster.cli.connection import Session, administer, connected, write_file
from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.lazy import SuggestingGroup
from muster.cli.output import document, format_option
from muster.cli.values import Names

F = TypeVar("F", bound=Callable[..., Any])

KNOWN = ("managed-serviceaccount", "cluster-gateway", "config-policy-controller", "governance-standalone-hub-templating")
API_VERSIONS = ("v1alpha1", "v1beta1", "v1")
"""The same as in `muster.administration.hub.hub_addons`, whose import is too slow for a help text."""


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in KNOWN if name.startswith(last)]


_NAMES = click.option(
    "--names",
    "--name",
    "names",
    type=Names(),
    multiple=True,
    shell_complete=_complete,
    help=f"Names of the add-ons, separated by commas: {', '.join(KNOWN)}.",
)
_NAMESPACE = click.option(
    "-n", "--namespace", default="", hidden=True, help="Namespace of the add-ons; accepted for compatibility and not used."
)


@click.group("install", cls=SuggestingGroup)
@connected
def install() -> None:
    """Install add-ons on the hub."""


@click.group("uninstall", cls=SuggestingGroup)
@connected
def uninstall() -> None:
    """Uninstall add-ons from the hub."""


INSTALLING = examples(
    "clusteradm install hub-addon --names cluster-gateway",
    "clusteradm install hub-addon --names cluster-gateway --api-version v1beta1 --wait",
    "clusteradm install hub-addon --names config-policy-controller,governance-standalone-hub-templating",
)


@install.command("hub-addon", epilog=INSTALLING)
@_NAMES
@click.option(
    "--api-version",
    type=click.Choice(API_VERSIONS),
    help="Version in which cluster-gateway serves its API, for hubs where another server has v1alpha1.  "
    "[default: unchanged, or v1alpha1]",
)
@click.option(
    "--oam-api/--no-oam-api", default=None, help="Serve upstream's API group cluster.core.oam.dev from cluster-gateway too."
)
@click.option("--force", is_flag=True, help="Skip the check for another server of the gateway's API.")
@click.option("--wait", is_flag=True, help="Wait until the add-ons are ready.")
@click.option(
    "--output-file",
    type=click.Path(dir_okay=False),
    help="File to which the changed fields of the ClusterManager are also written.",
)
@_NAMESPACE
@click.option(
    "--create-namespace",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=False,
    hidden=True,
    help="Create the namespace; accepted for compatibility and not used.",
)
@click.option(
    "--bundle-version", default="default", hidden=True, help="Version of the add-ons; accepted for compatibility and not used."
)
@click.option(
    "--bundle-version-overrides",
    type=click.Path(dir_okay=False),
    hidden=True,
    help="File with versions; accepted for compatibility and not used.",
)
@format_option("text", "json", default="text")
@connected
def install_hub_addon(**given: Any) -> None:
    """Install add-ons on the hub.

    The add-on cluster-gateway proxies requests through the hub to the API of each managed cluster; managed-serviceaccount provides
    tokens of managed clusters' service accounts on the hub; config-policy-controller enforces policies on managed clusters, and
    governance-standalone-hub-templating resolves hub templates in them.
    """
    administer(lambda session: _install(session, given), machine=given["output"] != "text")


async def _install(session: Session, given: dict[str, Any]) -> None:
    from muster.administration.hub import hub_addons
    from muster.kube import yaml

    names = list(dict.fromkeys(flat(given["names"])))
    hub_addons.check_names(names)
    for flag in _without_effect(given):
        session.progress.warn(f"{flag} has no effect: add-ons run where the hub's components do, in their version")
    choice = hub_addons.GatewayChoice(given["api_version"], given["oam_api"])
    new = await hub_addons.install(session.client, names, choice, force=given["force"])
    if given["output_file"]:
        write_file(given["output_file"], yaml.dump(await hub_addons.switches(session.client)), "--output-file")
    if given["wait"]:
        await hub_addons.await_installed(session.client, within=session.timeout, progress=session.progress)
        session.finished("The add-ons of the hub answer.")
    _report(session, given["output"], {name: "installed" if name in new else "installed already" for name in names})


@uninstall.command("hub-addon", epilog=examples("clusteradm uninstall hub-addon --names cluster-gateway --wait"))
@_NAMES
@click.option("--force", is_flag=True, help="Uninstall the add-ons even if they are still enabled on clusters.")
@click.option("--wait", is_flag=True, help="Wait until the add-ons are removed.")
@_NAMESPACE
@format_option("text", "json", default="text")
@connected
def uninstall_hub_addon(**given: Any) -> None:
    """Uninstall add-ons from the hub. Credentials that users created for them are kept."""
    administer(lambda session: _uninstall(session, given), machine=given["output"] != "text")


async def _uninstall(session: Session, given: dict[str, Any]) -> None:
    from muster.administration.hub import hub_addons

    names = list(dict.fromkeys(flat(given["names"])))
    there = await hub_addons.uninstall(session.client, names, force=given["force"])
    if given["wait"]:
        await hub_addons.await_uninstalled(session.client, within=session.timeout, progress=session.progress)
        session.finished("Nothing is left of the add-ons.")
    _report(session, given["output"], {name: "uninstalled" if name in there else "not installed" for name in names})


def _without_effect(given: dict[str, Any]) -> list[str]:
    given_flags = {"--namespace": given["namespace"], "--create-namespace": given["create_namespace"]}
    given_flags |= {"--bundle-version": given["bundle_version"] != "default"}
    given_flags |= {"--bundle-version-overrides": given["bundle_version_overrides"]}
    return [flag for flag, value in given_flags.items() if value]


def _report(session: Session, output: str, states: dict[str, str]) -> None:
    if output == "json":
        echo(document({"hubAddons": [{"name": name, "state": state} for name, state in states.items()]}, output))
        return
    for name, state in states.items():
        session.progress.info(f"{name} add-on of the hub is {state}.")
