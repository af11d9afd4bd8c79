"""Shell completion of names: contexts of the kubeconfig, objects of the hub, clusters of the local fleet.

The hub is queried with the kubeconfig and context on the line so far, and with a short timeout: one that does not answer, or
refuses, gives no completions and no output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from muster.machinery.printable import is_printable

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
COMPLETION_TIMEOUT: Final = 2.0
"""Seconds for all requests to a hub."""
CLUSTERS, SETS, WORKS, PLACEMENTS, ADDONS = "clusters", "clustersets", "works", "placements", "addons"


def objects(kind: str, *, namespaced: bool = False) -> Complete:
    """Names of one kind; in a comma-separated list the last is completed. `namespaced`: as namespace/name."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, _ = incomplete.rpartition(",")
        used = set(before.split(","))
        names = (name for name in _listed(context, kind, namespaced=namespaced) if name not in used)
        return _items((before + comma + name for name in names), incomplete)

    return complete


def contexts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from muster.runtime.client import KubeconfigError, context_names

    with suppress(KubeconfigError, OSError):
        return _items(context_names(_options(context)[0]), incomplete)
    return []


def members(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Clusters of the local fleet."""
    from muster.fleet.local.directory import FleetDirectory, FleetError

    with suppress(FleetError, OSError):
        fleet = FleetDirectory(Path(context.params.get("data_dir") or ".muster")).existing()
        return _items((record.name for record in fleet.clusters), incomplete)
    return []


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Names with control characters are left out."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and is_printable(name)]


def _options(context: click.Context) -> tuple[str | None, str]:
    from muster.cli.connection import Globals

    options = context.ensure_object(Globals)
    return options.kubeconfig, options.context


def _listed(context: click.Context, kind: str, *, namespaced: bool) -> list[str]:
    from muster.administration.content.addons import CLUSTER_ADDONS
    from muster.administration.content.works import PLACEMENTS as PLACED
    from muster.cli.process import find_cluster
    from muster.registration.kinds import CLUSTER_SETS, MANAGED_CLUSTERS, MANIFEST_WORKS
    from muster.runtime.client import HttpClient, KubeError

    kinds = {CLUSTERS: MANAGED_CLUSTERS, SETS: CLUSTER_SETS, WORKS: MANIFEST_WORKS, PLACEMENTS: PLACED, ADDONS: CLUSTER_ADDONS}

    async def read() -> list[str]:
        client = HttpClient(config, agent="clusteradm", timeout=COMPLETION_TIMEOUT)
        try:
            async with asyncio.timeout(COMPLETION_TIMEOUT):
                found = [one["metadata"] for one in (await client.list(kinds[kind])).items]
        finally:
            await client.close()
        return sorted({f"{one['namespace']}/{one['name']}" if namespaced else str(one["name"]) for one in found})

    with suppress(click.ClickException, KubeError, OSError, TimeoutError):
        config = find_cluster(*_options(context)).config
        return asyncio.run(read())
    return []
