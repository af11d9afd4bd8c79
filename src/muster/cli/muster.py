"""The `muster` command: one subcommand for each component, and those of the local fleet.

A component with many options has a module of its own, named in `PARTS`, which is imported when its command is called; heavy imports
are inside the commands, so that `--help` is fast.
"""

from __future__ import annotations

import click

from muster.cli.examples import examples
from muster.cli.lazy import Entry, LazyGroup
from muster.cli.log_options import log_options

PARTS = {
    "addon-manager": "Run the hub's add-on manager.",
    "agent": "Run a managed cluster's registration agent.",
    "aws-token": "Print an authentication token for an EKS cluster.",
    "gateway": "Run the cluster gateway, which proxies requests to managed clusters.",
    "gateway-agent": "Run a managed cluster's gateway agent.",
    "grpc-server": "Run the hub's gRPC server for agents.",
    "hub": "Run the hub's registration controllers.",
    "hub-addons": "Run the managers of Muster's built-in add-ons.",
    "managed-serviceaccount-agent": "Run a managed cluster's ManagedServiceAccount agent.",
    "node": "Run Muster's pods on a cluster without kubelets.",
    "operator": "Run the ClusterManager or the Klusterlet operator.",
    "placement": "Run the hub's placement controller.",
    "policy": "Run a managed cluster's policy controller.",
    "policy-addon": "Run the managers of the policy add-ons.",
    "sim": "Simulate a fleet of managed clusters on one hub.",
    "template": "Render, explain and check policy templates.",
    "work-agent": "Run a managed cluster's work agent.",
    "work-hub": "Run the hub's work controllers and webhooks.",
}
"""Command name to short help; the module of that name here has the command as `command`."""


FLEET = {
    "cluster": "Add or remove managed clusters of the local fleet.",
    "down": "Stop the local fleet.",
    "env": "Print environment variables for using the local fleet.",
    "logs": "Print the logs of the local fleet's components.",
    "status": "Show the status of the local fleet.",
    "up": "Start a local fleet: a hub and managed clusters on this machine.",
}
"""The local fleet's commands: attributes of `muster.cli.fleet.commands`."""

ENTRIES = {name: Entry(f"muster.cli.{name.replace('-', '_')}", text) for name, text in PARTS.items()}
ENTRIES |= {
    "backup": Entry("muster.cli.fleet.backup", "Back up the local fleet to a file.", "backup"),
    "restore": Entry("muster.cli.fleet.backup", "Restore a local fleet from a backup.", "restore"),
    "completion": Entry("muster.cli.fleet.version", "Print a shell completion script.", "completion"),
    "version": Entry("muster.cli.fleet.version", "Show the versions of this program and of the local fleet.", "show"),
}
ENTRIES |= {name: Entry("muster.cli.fleet.commands", text, name) for name, text in FLEET.items()}


@click.group(cls=LazyGroup, entries=ENTRIES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="muster", prog_name="muster")
def main() -> None:
    """Run the components of Muster, which manages a fleet of Kubernetes clusters from one hub."""


@main.command(
    "apiserver",
    short_help="Run embedded Kubernetes control planes.",
    epilog=examples(
        "muster apiserver --data-dir .muster --cluster hub --cluster cluster1",
        "muster apiserver --ephemeral --port 0",
    ),
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    default=".muster",
    show_default=True,
    help="Directory of the stored objects and the kubeconfig.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve the API on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="Port to serve the API on; 0 picks a free one."
)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    help="Name of a logical cluster to serve. Repeatable.  [default: default]",
)
@click.option(
    "--store", default="sqlite", show_default=True, metavar="sqlite|memory|postgresql://…", help="Storage backend of the objects."
)
@click.option(
    "--token-auth-file",
    type=click.Path(exists=True, dir_okay=False),
    help="File with static tokens, one token,user,uid[,groups] per line.",
)
@click.option(
    "--token-webhook-config",
    "token_webhook_configs",
    multiple=True,
    metavar="[CLUSTER=]FILE",
    help="Kubeconfig of a token authentication webhook, for one logical cluster or for all without their own. Repeatable.",
)
@click.option("--audit-log", type=click.Path(dir_okay=False), help="File to which one JSON line is written per request.")
@click.option("--ephemeral", is_flag=True, help="Keep objects in memory and write no files but the kubeconfig.")
@log_options
def apiserver(**options: object) -> None:
    """Run embedded Kubernetes control planes, one per logical cluster, in this process.

    Writes DATA_DIR/kubeconfig with one context per cluster.
    """
    from muster.cli.apiserver import run

    run(**options)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
