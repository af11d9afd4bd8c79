"""The `clusteradm` command: the administrator's tool. Its verbs arrive with the registration parts."""

from __future__ import annotations

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="muster", prog_name="clusteradm")
def main() -> None:
    """Administer a hub and its managed clusters."""
