"""The `clusteradm` command: the administrator's tool, with OCM's verbs and flags.

One module for each verb, imported when it is asked for; what the verbs do is in `muster.administration`. A verb parses,
calls and prints.
"""

from __future__ import annotations

import click

from muster.cli.connection import connected
from muster.cli.lazy import Entry, LazyGroup

HERE = "muster.cli.clusteradm"
VERBS = {
    "accept": Entry(f"{HERE}.accept", "Let clusters in that have asked."),
    "addon": Entry(f"{HERE}.addon", "Switch addons of clusters on and off."),
    "aws": Entry(f"{HERE}.aws", "Prepare AWS for clusters that register by it, and clean up.", "aws"),
    "clean": Entry(f"{HERE}.clean", "Make a hub an ordinary cluster again."),
    "clusterset": Entry(f"{HERE}.clusterset", "Manage cluster sets."),
    "completion": Entry(f"{HERE}.completion", "Print a script for your shell."),
    "create": Entry(HERE, "Create works, placements and cluster sets.", "create"),
    "delete": Entry(HERE, "Delete works, placements, tokens and cluster sets.", "delete"),
    "doctor": Entry(f"{HERE}.doctor", "Explain why clusters are not available."),
    "gateway": Entry(f"{HERE}.gateway", "Reach managed clusters through the hub."),
    "get": Entry(f"{HERE}.get", "Show what the hub has."),
    "init": Entry(f"{HERE}.init", "Make a cluster a hub."),
    "install": Entry(f"{HERE}.hub_addon", "Install add-ons of the hub itself.", "install"),
    "join": Entry(f"{HERE}.join", "Make a cluster a managed one of a hub."),
    "proxy": Entry(f"{HERE}.proxy", "Use managed clusters, and see whether they answer, through the hub."),
    "uninstall": Entry(f"{HERE}.hub_addon", "Uninstall add-ons of the hub itself.", "uninstall"),
    "unjoin": Entry(f"{HERE}.unjoin", "Let a managed cluster leave its hub."),
    "upgrade": Entry(f"{HERE}.upgrade", "Upgrade a hub or a managed cluster."),
    "version": Entry(f"{HERE}.version", "Show the versions of this tool and of the hub."),
    "work": Entry(f"{HERE}.work", "Ask about works before making them."),
}
CREATED = {
    "clusterset": Entry(f"{HERE}.clusterset", "A cluster set.", "create"),
    "placement": Entry(f"{HERE}.placement", "A placement, which chooses clusters.", "create"),
    "work": Entry(f"{HERE}.work.changing", "Manifests for clusters.", "create"),
}
DELETED = {
    "clusterset": Entry(f"{HERE}.clusterset", "A cluster set.", "delete"),
    "placement": Entry(f"{HERE}.placement", "A placement.", "delete"),
    "token": Entry(f"{HERE}.delete_token", "All that clusters join with."),
    "work": Entry(f"{HERE}.work.changing", "Manifests for clusters.", "delete"),
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
    """Create things on the hub."""


@click.group("delete", cls=LazyGroup, entries=DELETED)
@connected
def delete() -> None:
    """Delete things of the hub."""
