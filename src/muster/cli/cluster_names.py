"""Names of clusters as options and arguments; shells complete them by asking the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli.connection import Globals
from muster.cli.values import Names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from muster.runtime.client import ClientConfig

COMPLETION_SECONDS = 3.0
"""How long a shell may be kept waiting."""


class ClusterNames(Names):
    """Names of ManagedClusters with commas between them."""

    name = "clusters"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, begun = incomplete.rpartition(",")
        taken = before.split(",")
        options = ctx.find_object(Globals) or Globals()
        return [CompletionItem(f"{before}{comma}{one}") for one in _known(options) if one.startswith(begun) and one not in taken]


def _known(options: Globals) -> list[str]:
    """As far as the hub says so in time: a shell is not to be told why not."""
    from muster.cli.loop import run_loop
    from muster.cli.process import find_cluster

    try:
        return run_loop(_listed(find_cluster(options.kubeconfig, options.context).config))
    except Exception:
        return []


async def _listed(config: ClientConfig) -> list[str]:
    import asyncio

    from muster.registration.kinds import MANAGED_CLUSTERS
    from muster.runtime.client import HttpClient

    client = HttpClient(config, agent="clusteradm")
    try:
        async with asyncio.timeout(COMPLETION_SECONDS):
            return sorted(one["metadata"]["name"] for one in (await client.list(MANAGED_CLUSTERS)).items)
    finally:
        await client.close()
