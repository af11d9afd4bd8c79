"""`clusteradm install|uninstall hub-addon`: what a hub has beside its own components, by name.

The flags are OCM's. Its tool installs charts of many projects from their registries; here an add-on is part of Muster and is
switched in the ClusterManager, so it runs where the hub's components do and in their version. Flags that say otherwise are accepted
and have no effect, which is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from muster.cli.clusteradm.bundling import flat
from muster.cli.connection import Session, administer, connected, write_file
from muster.cli.console import echo
from muster.cli.output import document, format_option
from muster.cli.values import Names

F = TypeVar("F", bound=Callable[..., Any])

KNOWN = ("managed-serviceaccount", "cluster-gateway", "config-policy-controller", "governance-standalone-hub-templating")
API_VERSIONS = ("v1alpha1", "v1beta1", "v1")
"""As `muster.administration.hub.hub_addons` has them, which is too much to import for a help text."""


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
    help=f"Names of add-ons: {', '.join(KNOWN)}.",
)
_NAMESPACE = click.option("-n", "--namespace", default="", hidden=True)


@click.group("install")
@connected
def install() -> None:
    """Install add-ons of the hub itself."""


@click.group("uninstall")
@connected
def uninstall() -> None:
    """Uninstall add-ons of the hub itself."""


INSTALLING = """\b
Examples:
  clusteradm install hub-addon --names cluster-gateway
  clusteradm install hub-addon --names cluster-gateway --api-version v1beta1 --wait
  clusteradm install hub-addon --names config-policy-controller,governance-standalone-hub-templating"""


@install.command("hub-addon", epilog=INSTALLING)
@_NAMES
@click.option(
    "--api-version",
    type=click.Choice(API_VERSIONS),
    help="Version in which cluster-gateway serves its API, if another API has the usual one.  [default: as it is, or v1alpha1]",
)
@click.option("--oam-api/--no-oam-api", default=None, help="Have cluster-gateway serve upstream's API group too.")
@click.option("--force", is_flag=True, help="Skip the check whether another API is in the way.")
@click.option("--wait", is_flag=True, help="Wait until the add-ons answer.")
@click.option("--output-file", type=click.Path(dir_okay=False), help="Also write what is set in the ClusterManager to this file.")
@_NAMESPACE
@click.option("--create-namespace", type=bool, is_flag=False, flag_value=True, default=False, hidden=True)
@click.option("--bundle-version", default="default", hidden=True)
@click.option("--bundle-version-overrides", type=click.Path(dir_okay=False), hidden=True)
@format_option("text", "json", default="text")
@connected
def install_hub_addon(**given: Any) -> None:
    """Install add-ons of the hub: cluster-gateway, a way through the hub to the API of each managed cluster;
    managed-serviceaccount, accounts of managed clusters with their tokens on the hub; config-policy-controller, policies of
    managed clusters; governance-standalone-hub-templating, hub templates in them."""
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


@uninstall.command("hub-addon")
@_NAMES
@click.option("--force", is_flag=True, help="Uninstall add-ons even while they are enabled on clusters.")
@click.option("--wait", is_flag=True, help="Wait until nothing is left of them.")
@_NAMESPACE
@format_option("text", "json", default="text")
@connected
def uninstall_hub_addon(**given: Any) -> None:
    """Uninstall add-ons of the hub. Credentials that somebody has put there for them stay."""
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
    told = {"--namespace": given["namespace"], "--create-namespace": given["create_namespace"]}
    told |= {"--bundle-version": given["bundle_version"] != "default"}
    told |= {"--bundle-version-overrides": given["bundle_version_overrides"]}
    return [flag for flag, value in told.items() if value]


def _report(session: Session, output: str, states: dict[str, str]) -> None:
    if output == "json":
        echo(document({"hubAddons": [{"name": name, "state": state} for name, state in states.items()]}, output))
        return
    for name, state in states.items():
        session.progress.say(f"{name} add-on of the hub is {state}.")
