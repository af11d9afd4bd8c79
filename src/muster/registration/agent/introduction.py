"""Creation of the ManagedCluster by the agent, and what the agent keeps up to date in it.

It is created during bootstrap, without a read: AlreadyExists is as good. A bootstrap identity cannot change an existing one; once
registered, the agent adds what is missing in it: client configurations, and what its driver needs. Annotations of the command line
are for a new ManagedCluster only, since they may have been changed on the hub.

An agent that has its credential before the hub has accepted the cluster may not read its ManagedCluster with it. The bootstrap
identity may, and so acceptance is noticed at once, not when the refused watch is retried.
"""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import Mapping

from muster.api import is_true
from muster.api.cluster.v1 import ACCEPTED, ManagedCluster
from muster.api.resource import Document
from muster.machinery.logs import get_logger
from muster.machinery.tasks import race
from muster.registration.agent.context import AgentContext
from muster.registration.agent.options import AgentOptions
from muster.registration.drivers.interfaces import SpokeDriver
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_ANNOTATIONS, reserved_name_problem
from muster.runtime.cache import Informer
from muster.runtime.client import AlreadyExists, Forbidden, KubeClient, KubeError, NotFound

log = get_logger("muster.registration.agent")


def allowed_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those that an agent may set."""
    return {key: value for key, value in annotations.items() if key.startswith(AGENT_ANNOTATIONS)}


def new_cluster(name: str, options: AgentOptions, driver: SpokeDriver) -> Document:
    document: Document = {
        "apiVersion": MANAGED_CLUSTERS.api_version,
        "kind": MANAGED_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {"hubAcceptsClient": False},
    }
    if annotations := allowed_annotations(options.cluster_annotations):
        document["metadata"]["annotations"] = annotations
    return kept_right(document, options, driver)


def kept_right(cluster: Document, options: AgentOptions, driver: SpokeDriver) -> Document:
    """The ManagedCluster with everything in it that the agent answers for; equal to what was given when nothing is missing."""
    document = copy.deepcopy(cluster)
    configs = list((document.get("spec") or {}).get("managedClusterClientConfigs") or ())
    known = {config.get("url") for config in configs}
    missing = [url for url in options.external_server_urls if url not in known]
    if missing:
        bundle = {"caBundle": base64.b64encode(options.external_ca).decode()} if options.external_ca else {}
        document.setdefault("spec", {})["managedClusterClientConfigs"] = [*configs, *({"url": url, **bundle} for url in missing)]
    return driver.decorate(document)


class ReservedName(KubeError):
    """The cluster has a name under which no new one may be introduced."""


async def introduce(hub: KubeClient, context: AgentContext) -> None:
    """See to it that the hub knows of this cluster. Raises KubeError."""
    problem = reserved_name_problem(context.cluster)
    if problem and not await _is_known(hub, context.cluster):
        raise ReservedName(problem)
    try:
        await hub.create(MANAGED_CLUSTERS, new_cluster(context.cluster, context.options, context.driver))
    except AlreadyExists:
        log.debug("the hub knows this cluster already", cluster=context.cluster)
    except Forbidden as error:
        # An administrator may have made it for us; if not, nothing that follows will be accepted.
        log.warning("may not create the ManagedCluster; going on", cluster=context.cluster, error=str(error))
    else:
        log.info("introduced this cluster to the hub", cluster=context.cluster, hub=hub.server)


async def _is_known(hub: KubeClient, cluster: str) -> bool:
    try:
        await hub.get(MANAGED_CLUSTERS, cluster)
    except NotFound:
        return False
    return True


async def accepted(hub: KubeClient, context: AgentContext) -> None:
    """Until the hub accepts this cluster, seen with whatever identity `hub` has."""
    seen = asyncio.Event()

    def on_change(old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if new is not None and is_true(new.status.conditions, ACCEPTED):
            seen.set()

    clusters = own_cluster(hub, context)
    clusters.on_change(on_change)
    await race(seen.wait(), clusters.run())


def own_cluster(hub: KubeClient, context: AgentContext) -> Informer[ManagedCluster]:
    """A watch of this cluster's ManagedCluster and no other: more an agent may not see."""
    return Informer(
        hub,
        MANAGED_CLUSTERS,
        field_selector=f"metadata.name={context.cluster}",
        decode=ManagedCluster.decode,
        clock=context.clock,
        random=context.random,
    )
