"""The `clusteradm` command: the administrator's tool, with OCM's verbs and flags.

There is one module for each verb, imported when it is called; the implementation is in `muster.administration`. A verb parses,
calls and prints.
"""

from __future__ import annotations

import click

from muster.cli.connection import connected
from muster.cli.lazy import Entry, LazyGroup

HERE = "muster.cli.clusteradm"
VERBS = {
    "accept": Entry(f"{HERE}.accept", "Accept clusters that requested to join."),
    "addon": Entry(f"{HERE}.addon", "Create, enable, disable and list add-ons."),
    "aws": Entry(f"{HERE}.aws", "Prepare and clean up AWS for clusters that register with IAM roles.", "aws"),
    "clean": Entry(f"{HERE}.clean", "Remove all hub components from a cluster."),
    "clusterset": Entry(f"{HERE}.clusterset", "Manage cluster sets."),
    "completion": Entry(f"{HERE}.completion", "Print a shell completion script."),
    "create": Entry(HERE, "Create works, placements and cluster sets.", "create"),
    "delete": Entry(HERE, "Delete works, placements, tokens and cluster sets.", "delete"),
    "doctor": Entry(f"{HERE}.doctor", "Diagnose why clusters are not available."),
    "gateway": Entry(f"{HERE}.gateway", "Reach managed clusters through the hub."),
    "get": Entry(f"{HERE}.get", "Show clusters, works, add-ons and other objects of the hub."),
    "init": Entry(f"{HERE}.init", "Initialize a cluster as a hub."),
    "install": Entry(f"{HERE}.hub_addon", "Install hub add-ons.", "install"),
    "join": Entry(f"{HERE}.join", "Join a cluster to a hub."),
    "proxy": Entry(f"{HERE}.proxy", "Run kubectl on managed clusters, and check their health, through the hub."),
    "uninstall": Entry(f"{HERE}.hub_addon", "Uninstall hub add-ons.", "uninstall"),
    "unjoin": Entry(f"{HERE}.unjoin", "Remove a managed cluster from its hub."),
    "upgrade": Entry(f"{HERE}.upgrade", "Upgrade a hub or a managed cluster."),
    "version": Entry(f"{HERE}.version", "Show the versions of this tool and of the hub."),
    "work": Entry(f"{HERE}.work", "Check works before creating them."),
}
CREATED = {
    "clusterset": Entry(f"{HERE}.clusterset", "Create a cluster set.", "create"),
    "placement": Entry(f"{HERE}.placement", "Create a placement, which selects clusters.", "create"),
    "work": Entry(f"{HERE}.work.lifecycle", "Create a work, which applies manifests to clusters.", "create"),
}
DELETED = {
    "clusterset": Entry(f"{HERE}.clusterset", "Delete a cluster set.", "delete"),
    "placement": Entry(f"{HERE}.placement", "Delete a placement.", "delete"),
    "token": Entry(f"{HERE}.delete_token", "Delete the bootstrap tokens of the hub."),
    "work": Entry(f"{HERE}.work.lifecycle", "Delete a work.", "delete"),
}
SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group(cls=LazyGroup, entries=VERBS, context_settings=SETTINGS)
@click.version_option(package_name="muster", prog_name="clusteradm")
@connected
def main() -> None:
    """Administer a hub and its managed clusters."""


@click.group("create", cls=LazyGroup, entries=CREATED)
@connected
def create() -> None:
    """Create works, placements and cluster sets on the hub."""


@click.group("delete", cls=LazyGroup, entries=DELETED)
@connected
def delete() -> None:
    """Delete works, placements, tokens and cluster sets of the hub."""
