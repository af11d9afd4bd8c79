"""Addons by placement: the Placements in the install strategy of a ClusterManagementAddOn.

When a Placement is removed from it, the hub removes the addon from the clusters that only this one selected; the install strategy
stays of type Placements, because Manual would leave the addon installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from muster.administration.content.addons import CLUSTER_ADDONS, apply_configs, missing_of, require_addon
from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError
from muster.administration.hubs import CLUSTERADM
from muster.administration.progress import SILENT, Progress, wait
from muster.api import Document, condition_of
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.addons import MANUAL_ANNOTATION
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1beta1 import PLACEMENT_LABEL, SATISFIED, Placement, PlacementDecision
from muster.machinery.objects import ObjectKey
from muster.placement.candidates import candidate_of
from muster.placement.filters.taints import Taints
from muster.placement.misconfiguration import Misconfigured
from muster.registration.names import UNAVAILABLE_TAINT, UNREACHABLE_TAINT
from muster.runtime.client import Conflict, Forbidden, KubeClient, NotFound

BY_PLACEMENTS: Final = "Placements"
ATTEMPTS: Final = 5


def parse_reference(text: str, flag: str) -> ObjectKey:
    """`namespace/name`. Raises AdministrationError."""
    namespace, separator, name = (part.strip() for part in text.partition("/"))
    if not separator or "/" in name:
        raise AdministrationError(f"{flag}: {text!r}: placement-ref must be in the format 'namespace/name'")
    if not namespace or not name:
        raise AdministrationError(f"{flag}: {text!r}: placement-ref namespace and name cannot be empty")
    return ObjectKey(namespace, name)


async def enable_by_placement(
    client: KubeClient, names: Sequence[str], placement: ObjectKey, configs: Sequence[Document] = ()
) -> list[bool]:
    """Install each addon on the clusters of a Placement, with these configurations; returns for each whether that is new.

    Raises AdministrationError before any write if an addon or the placement does not exist.
    """
    for name in names:
        await require_addon(client, name)
    try:
        await client.get(Placement, placement.name, placement.namespace)
    except NotFound:
        remedy = f"make it with create placement {placement.name} --namespace {placement.namespace}"
        raise AdministrationError(f"--placement: there is no Placement {placement}", remedy) from None
    references = await apply_configs(client, configs)
    return [await _change(client, name, placement, _with(placement, references)) for name in names]


async def disable_by_placement(client: KubeClient, names: Sequence[str], placement: ObjectKey) -> list[bool]:
    """Returns for each addon whether the placement had installed it."""
    return [await _change(client, name, placement, None) for name in names]


def _with(placement: ObjectKey, references: Sequence[Document]) -> Document:
    entry: Document = {"namespace": placement.namespace, "name": placement.name}
    return {**entry, "configs": list(references)} if references else entry


async def _change(client: KubeClient, name: str, placement: ObjectKey, entry: Document | None) -> bool:
    """Add a placement to an addon's install strategy, or remove it; returns whether anything changed."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            found = await client.get(CLUSTER_ADDONS, name)
        except NotFound:
            return False
        strategy = (found.get("spec") or {}).get("installStrategy") or {}
        wanted = _strategy(strategy, placement, entry)
        if wanted == strategy:
            return False
        changed = {**found, "spec": {**found["spec"], "installStrategy": wanted}}
        try:
            await client.update(CLUSTER_ADDONS, changed, manager=CLUSTERADM)
        except Conflict:
            if attempt == ATTEMPTS:
                raise
            continue
        return True
    raise AssertionError("unreachable")


def _strategy(strategy: Document, placement: ObjectKey, entry: Document | None) -> Document:
    listed = list(strategy.get("placements") or ()) if strategy.get("type") == BY_PLACEMENTS else []
    at = next((number for number, one in enumerate(listed) if ObjectKey(one["namespace"], one["name"]) == placement), None)
    if entry is None:
        return strategy if at is None else {**strategy, "placements": [*listed[:at], *listed[at + 1 :]]}
    if at is None:
        return {**strategy, "type": BY_PLACEMENTS, "placements": [*listed, entry]}
    # Its other fields stay: the rollout strategy, and the configurations unless new ones are given.
    return {**strategy, "placements": [*listed[:at], {**listed[at], **entry}, *listed[at + 1 :]]}


async def await_enabled_by_placement(
    client: KubeClient, names: Sequence[str], placement: ObjectKey, *, within: float, progress: Progress = SILENT
) -> None:
    """Wait until the addons are available on every cluster of the placement. Raises TookTooLong, which names what is missing."""
    if is_dry_run(client):
        return

    async def remaining() -> str:
        found = await client.get(Placement, placement.name, placement.namespace)
        if condition_of(found.status.conditions, SATISFIED) is None:
            return f"Placement {placement} has not been scheduled yet"
        problems = [await missing_of(client, name, one) for name in names for one in sorted(await _chosen(client, placement))]
        return "; ".join(filter(None, problems))

    await wait("addons", remaining, within=within, progress=progress)


async def await_disabled_by_placement(
    client: KubeClient, names: Sequence[str], placement: ObjectKey, *, within: float, progress: Progress = SILENT
) -> None:
    """Wait until the addons are removed from the clusters of the placement that no other placement selects."""
    if is_dry_run(client):
        return

    async def remaining() -> str:
        chosen = await _chosen(client, placement)
        left = []
        for name in names:
            wanted = await _wanted(client, name)
            for one in (await client.list(ManagedClusterAddOn, field_selector=f"metadata.name={name}")).items:
                cluster, by_hand = one.metadata.namespace, MANUAL_ANNOTATION in one.metadata.annotations
                if cluster in chosen - wanted and not by_hand:
                    left.append(f"{name} on {cluster}")
        return f"still there: {', '.join(sorted(left))}" if left else ""

    await wait("addons", remaining, within=within, progress=progress)


async def _chosen(client: KubeClient, placement: ObjectKey) -> frozenset[str]:
    """The clusters in the placement's decisions."""
    label = f"{PLACEMENT_LABEL}={placement.name}"
    decisions = (await client.list(PlacementDecision, placement.namespace, label_selector=label)).items
    return frozenset(one.cluster_name for decision in decisions for one in decision.status.decisions)


async def _wanted(client: KubeClient, name: str) -> frozenset[str]:
    """Clusters to which another placement still installs the addon."""
    try:
        strategy = (await client.get(ClusterManagementAddOn, name)).spec.install_strategy
    except NotFound:
        return frozenset()
    chosen = [await _chosen(client, ObjectKey(placement.namespace, placement.name)) for placement in strategy.placements]
    return frozenset().union(*chosen)


async def chooses_by_placement(client: KubeClient, name: str) -> bool:
    """Whether the addon is installed by placements; manual changes on single clusters are then reverted."""
    try:
        found = await client.get(CLUSTER_ADDONS, name)
    except (NotFound, Forbidden):
        return False
    return ((found.get("spec") or {}).get("installStrategy") or {}).get("type") == BY_PLACEMENTS


async def offline_warning(client: KubeClient, placement: ObjectKey) -> str:
    """A warning that clusters lose the addons of a placement as soon as they are offline; empty if they do not."""
    try:
        found = await client.get(Placement, placement.name, placement.namespace)
    except (NotFound, Forbidden):
        return ""
    lost = [key for key in (UNREACHABLE_TAINT, UNAVAILABLE_TAINT) if not _tolerates(found, key)]
    if not lost:
        return ""
    tolerations = ", ".join(f"{{key: {key}, operator: Exists}}" for key in lost)
    text = f"Placement {placement} drops clusters that are offline, and the addon is removed there"
    return f"{text}; add tolerations: [{tolerations}]"


def _tolerates(placement: Placement, taint: str) -> bool:
    cluster = ManagedCluster.decode({"metadata": {"name": "any"}, "spec": {"taints": [{"key": taint, "effect": "NoSelect"}]}})
    try:
        filtered = Taints(placement.spec.tolerations, (), datetime.now(UTC))
        return bool(filtered.left([candidate_of(cluster)]))
    except Misconfigured:
        return False
