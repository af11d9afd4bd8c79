"""`muster policy-addon`: runs only the two policy addons, for hubs that do not use the others.

It is `muster hub-addons --names config-policy-controller,governance-standalone-hub-templating`: the same process under the name
that OCM's policy addon controller suggests, with the same service account and the same Lease, so that only one of the two leads on
a hub.
"""

from __future__ import annotations

from typing import Any

import click

from muster.cli import hub_addons
from muster.cli.component import cluster_options, controller_options
from muster.cli.examples import examples
from muster.cli.hub_addons import Settings, serve
from muster.cli.process import PROCESS, ProcessEnv, run_until_stopped

__all__ = ["command", "serve", "settings"]


@click.command(
    "policy-addon",
    short_help="Run the managers of the policy add-ons.",
    epilog=examples("muster policy-addon --kubeconfig hub.kubeconfig"),
)
@cluster_options
@click.option("--agent-image", default="", help="Image of the policy controller.  [default: Muster's image of this version]")
@controller_options
def command(**options: Any) -> None:
    """Run the managers of the policy add-ons: config-policy-controller and governance-standalone-hub-templating."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    from muster.policy.addons import POLICY_ADDONS

    return hub_addons.settings({**given, "names": [[one.name for one in POLICY_ADDONS]]}, here)
