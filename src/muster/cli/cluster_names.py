"""Options and arguments with names of clusters; shell completion queries the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli.connection import Globals
from muster.cli.values import Names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from muster.runtime.client import ClientConfig

COMPLETION_SECONDS = 3.0
"""The longest time that a shell waits for completions."""


class ClusterNames(Names):
    """Comma-separated names of ManagedClusters."""

    name = "clusters"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, begun = incomplete.rpartition(",")
        taken = before.split(",")
        options = ctx.find_object(Globals) or Globals()
        return [CompletionItem(f"{before}{comma}{one}") for one in _known(options) if one.startswith(begun) and one not in taken]


def _known(options: Globals) -> list[str]:
    """The names that the hub returns in time; completion shows no errors."""
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
