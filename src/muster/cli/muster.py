"""The `muster` command: one process each for the control plane's parts.

A part with many options lives in a module of its own, named in `PARTS`, which is imported when its command is asked for; heavier
imports happen inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import click

from muster.cli.lazy import Entry, LazyGroup

PARTS = {
    "addon-manager": "Manage addons of clusters.",
    "agent": "Run a managed cluster's registration agent.",
    "aws-token": "Print a token by which an EKS cluster knows an AWS identity.",
    "gateway": "Serve the way to every managed cluster.",
    "gateway-agent": "Lead the hub's gateway to a managed cluster.",
    "grpc-server": "Serve a hub's agents over gRPC.",
    "hub": "Run the hub's registration controllers.",
    "hub-addons": "Serve the addons that Muster brings itself.",
    "managed-serviceaccount-agent": "Keep a managed cluster's accounts for its hub.",
    "node": "Run Muster's pods on a cluster without kubelets.",
    "operator": "Run the operator of hubs or of managed clusters.",
    "placement": "Choose clusters for placements.",
    "policy": "Enforce policies on a managed cluster.",
    "policy-addon": "Serve the addons of policies.",
    "sim": "Simulate a fleet of managed clusters on one hub.",
    "template": "Try out the templates of policies.",
    "work-agent": "Run a managed cluster's work agent.",
    "work-hub": "Run the hub's side of works.",
}
"""Command name to short help; the module of that name here has it as `command`."""


FLEET = {
    "cluster": "Add a managed cluster to the fleet, or remove one.",
    "down": "Stop the fleet that muster up started.",
    "env": "Print what a shell exports to use the fleet.",
    "logs": "Show what the fleet's components log.",
    "status": "Show how the fleet is.",
    "up": "Start a hub and managed clusters on this machine.",
}
"""The local fleet's commands: attributes of `muster.cli.fleet.commands`."""

ENTRIES = {name: Entry(f"muster.cli.{name.replace('-', '_')}", text) for name, text in PARTS.items()}
ENTRIES |= {name: Entry("muster.cli.fleet.commands", text, name) for name, text in FLEET.items()}


@click.group(cls=LazyGroup, entries=ENTRIES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="muster", prog_name="muster")
def main() -> None:
    """Muster: one hub manages a fleet of Kubernetes clusters."""


@main.command("apiserver", short_help="Run embedded Kubernetes control planes.")
@click.option(
    "--data-dir", type=click.Path(file_okay=False), default=".muster", show_default=True, help="Where state and kubeconfig live."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="Port to listen on; 0 picks a free one."
)
@click.option(
    "--cluster", "clusters", multiple=True, metavar="NAME", help="A logical cluster to serve (repeatable).  [default: default]"
)
@click.option(
    "--store", default="sqlite", show_default=True, metavar="sqlite|memory|postgresql://…", help="Where objects are kept."
)
@click.option(
    "--token-auth-file", type=click.Path(exists=True, dir_okay=False), help="Static tokens: token,user,uid[,groups] per line."
)
@click.option(
    "--token-webhook-config",
    "token_webhook_configs",
    multiple=True,
    metavar="[CLUSTER=]FILE",
    help="Kubeconfig of a token review webhook, for one cluster or for all that have none of their own. Repeatable.",
)
@click.option("--audit-log", type=click.Path(dir_okay=False), help="Write one JSON line per request to this file.")
@click.option("--ephemeral", is_flag=True, help="Keep nothing: memory store, no files but the kubeconfig.")
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def apiserver(**options: object) -> None:
    """Run embedded Kubernetes control planes, one per logical cluster, in this process.

    Writes DATA_DIR/kubeconfig with one context per cluster.
    """
    from muster.cli.apiserver import run

    run(**options)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
