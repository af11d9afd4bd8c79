"""`clusteradm upgrade`: upgrades a hub or a managed cluster to another version."""

from __future__ import annotations

from typing import Any

import click

from muster.cli.clusteradm.bundle_flags import image_of, versioned
from muster.cli.connection import Session, administer, connected
from muster.cli.examples import examples
from muster.cli.lazy import SuggestingGroup


@click.group("upgrade", cls=SuggestingGroup)
@connected
def command() -> None:
    """Upgrade the components of a hub or a managed cluster."""


@command.command("clustermanager", epilog=examples("clusteradm upgrade clustermanager --bundle-version 0.1.1 --wait"))
@click.option("--wait", is_flag=True, help="Wait until the new version is running.")
@versioned
@connected
def cluster_manager(**given: Any) -> None:
    """Upgrade the ClusterManager of a hub."""
    administer(lambda session: _upgrade(session, "cluster-manager", given))


@command.command("klusterlet", epilog=examples("clusteradm upgrade klusterlet --bundle-version 0.1.1 --wait"))
@click.option("--wait", is_flag=True, help="Wait until the new version is running.")
@versioned
@connected
def klusterlet(**given: Any) -> None:
    """Upgrade the Klusterlet of a managed cluster."""
    administer(lambda session: _upgrade(session, "klusterlet", given))


async def _upgrade(session: Session, name: str, given: dict[str, Any]) -> None:
    from muster.administration.upgrade import upgrade
    from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR

    operator = next(one for one in (CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR) if one.name == name)
    image = image_of(given)
    before = await upgrade(session.client, operator, image, wait=given["wait"], timeout=session.timeout, progress=session.progress)
    if session.dry_run:
        session.progress.info(f"{name} would go from {before} to {image}")
    elif before == image:
        session.progress.info(f"{name} is at {image} already; its objects were applied again")
    else:
        session.progress.info(f"{name} goes from {before} to {image}")
    if given["wait"]:
        session.finished(f"{name} and its components run {image}")
