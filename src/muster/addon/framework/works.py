"""The works of an addon's agent, on its cluster and on the hosting one: desired state and ownership.

Works are identified by name: `addon-<a>-deploy-<n>` on the addon's own cluster, `addon-<a>-deploy-hosting-<c>-<n>` on the hosting
one, and hooks accordingly. On the own cluster the ManagedClusterAddOn owns them; across namespaces a label has the owner. Every
work has all manifest configurations of the addon, so they need not move with a manifest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from muster.addon.agent_addon import Agent, HealthMode
from muster.addon.framework.configuration import config_hashes
from muster.addon.framework.manifests import ManifestKey, manifest_key, plural_of, stays
from muster.addon.framework.role_bindings import owner_reference
from muster.addon.framework.split import split
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import ADDON_LABEL, ADDON_NAMESPACE_LABEL, CONFIG_HASH_ANNOTATION
from muster.api.resource import OwnerReference, known_fields
from muster.api.work.v1 import (
    DeleteOption,
    FeedbackRule,
    ManifestConfig,
    ManifestWork,
    OrphaningRule,
    ResourceIdentifier,
    SelectivelyOrphan,
)
from muster.machinery.objects import Object, ObjectKey

WORKLOADS: Final[Mapping[tuple[str, str], str]] = {("apps", "Deployment"): "deployments", ("apps", "DaemonSet"): "daemonsets"}
HOOKS: Final[Mapping[tuple[str, str], str]] = {("batch", "Job"): "jobs", ("", "Pod"): "pods"}
_WELL_KNOWN: Final = FeedbackRule(type="WellKnownStatus")


@dataclass(frozen=True)
class WorkNamespace:
    """The namespace of works of an addon: of its own cluster, or of the hosting one."""

    addon: str
    cluster: str
    hosting: str = ""
    """The hosting cluster."""

    @property
    def namespace(self) -> str:
        return self.hosting or self.cluster

    @property
    def deploy_prefix(self) -> str:
        return f"addon-{self.addon}-deploy-" + (f"hosting-{self.cluster}-" if self.hosting else "")

    @property
    def hook_name(self) -> str:
        return f"addon-{self.addon}-pre-delete" + (f"-hosting-{self.cluster}" if self.hosting else "")

    def number(self, work: ManifestWork) -> int | None:
        """The number of a deploy work of this site; None for any other."""
        metadata = work.metadata
        if metadata.namespace != self.namespace or not metadata.name.startswith(self.deploy_prefix):
            return None
        rest = metadata.name.removeprefix(self.deploy_prefix)
        return int(rest) if re.fullmatch("0|[1-9][0-9]{0,5}", rest, re.ASCII) else None

    def is_hook(self, work: ManifestWork) -> bool:
        return (work.metadata.namespace, work.metadata.name) == (self.namespace, self.hook_name)

    def has(self, work: ManifestWork) -> bool:
        return self.number(work) is not None or self.is_hook(work)


@dataclass(frozen=True)
class WorkRules:
    """The fields that all works of an addon share."""

    configs: tuple[ManifestConfig, ...] = ()
    deletion: DeleteOption | None = None


@dataclass(frozen=True)
class WantedWork:
    """The desired state of a work, without fields that others may add."""

    key: ObjectKey
    labels: Mapping[str, str]
    hashes: str
    """The hashes of its configurations; empty if it has none."""
    owner: OwnerReference | None
    manifests: tuple[Object, ...]
    rules: WorkRules

    def document(self) -> Object:
        kind = {"apiVersion": ManifestWork.resource.api_version, "kind": ManifestWork.resource.kind}
        return self._laid_over({**kind, "metadata": {"namespace": self.key.namespace, "name": self.key.name}})

    def changed(self, work: ManifestWork) -> Object | None:
        """The existing work with the desired fields; None if it has them. Other labels, annotations and fields stay."""
        metadata = work.metadata
        as_wanted = (
            self.labels.items() <= metadata.labels.items()
            and metadata.annotations.get(CONFIG_HASH_ANNOTATION, "") == self.hashes
            and (self.owner is None or self.owner in metadata.owner_references)
            # Compared decoded, not as bytes: servers add defaults.
            and (work.spec.manifest_configs, work.spec.delete_option) == (self.rules.configs, self.rules.deletion)
            and manifests_of(work) == list(self.manifests)
        )
        return None if as_wanted else self._laid_over(work.document())

    def _laid_over(self, current: Object) -> Object:
        metadata = dict(current["metadata"])
        metadata["labels"] = {**(metadata.get("labels") or {}), **self.labels}
        annotations = {**(metadata.get("annotations") or {}), CONFIG_HASH_ANNOTATION: self.hashes}
        metadata["annotations"] = {name: value for name, value in annotations.items() if value or name != CONFIG_HASH_ANNOTATION}
        if self.owner is not None:
            others = [one for one in metadata.get("ownerReferences") or () if one.get("kind") != self.owner.kind]
            metadata["ownerReferences"] = [*others, known_fields(self.owner)]
        spec = {name: value for name, value in (current.get("spec") or {}).items() if name not in _OURS}
        spec["workload"] = {"manifests": list(self.manifests)}
        if self.rules.deletion is not None:
            spec["deleteOption"] = known_fields(self.rules.deletion)
        if self.rules.configs:
            spec["manifestConfigs"] = [known_fields(config) for config in self.rules.configs]
        return {**current, "metadata": metadata, "spec": spec}


_OURS: Final = frozenset(("workload", "deleteOption", "manifestConfigs"))


def work_rules(agent: Agent, manifests: Sequence[Object], served: Mapping[tuple[str, str], str]) -> WorkRules:
    configs = list(agent.manifest_configs)
    if agent.health.mode is HealthMode.WORKLOADS:
        configs = with_feedback(configs, manifests, WORKLOADS)
    orphans = tuple(_orphan(manifest_key(manifest), manifests, served) for manifest in manifests if stays(manifest))
    rules = SelectivelyOrphan(orphaning_rules=orphans)
    deletion = DeleteOption(propagation_policy="SelectivelyOrphan", selectively_orphans=rules) if orphans else None
    return WorkRules(tuple(configs), deletion)


def with_feedback(
    configs: Sequence[ManifestConfig], manifests: Sequence[Object], kinds: Mapping[tuple[str, str], str]
) -> list[ManifestConfig]:
    """The manifest configurations, with feedback rules for these kinds."""
    found = list(configs)
    for manifest in manifests:
        key = manifest_key(manifest)
        if (resource := kinds.get((key.group, key.kind))) is None:
            continue
        which = ResourceIdentifier(group=key.group, resource=resource, namespace=key.namespace, name=key.name)
        position = next((index for index, one in enumerate(found) if one.resource_identifier == which), None)
        if position is None:
            found.append(ManifestConfig(resource_identifier=which, feedback_rules=(_WELL_KNOWN,)))
        elif _WELL_KNOWN not in (rules := found[position].feedback_rules):
            found[position] = msgspec.structs.replace(found[position], feedback_rules=(*rules, _WELL_KNOWN))
    return found


def _orphan(key: ManifestKey, manifests: Sequence[Object], served: Mapping[tuple[str, str], str]) -> OrphaningRule:
    return OrphaningRule(group=key.group, resource=plural_of(key, manifests, served), namespace=key.namespace, name=key.name)


def deploy_works(
    site: WorkNamespace, addon: ManagedClusterAddOn, manifests: Sequence[Object], rules: WorkRules, present: Sequence[ManifestWork]
) -> list[WantedWork]:
    """The desired deploy works; other deploy works of the site must be deleted."""
    by_key = {manifest_key(manifest): manifest for manifest in manifests}
    sizes = {key: len(orjson.dumps(one)) for key, one in by_key.items()}
    held = {number: manifest_keys(work) for work in present if (number := site.number(work)) is not None}
    return [
        _wanted(site, addon, f"{site.deploy_prefix}{number}", [by_key[key] for key in keys], rules)
        for number, keys in split(sizes, held).items()
    ]


def hook_work(site: WorkNamespace, addon: ManagedClusterAddOn, hooks: Sequence[Object]) -> WantedWork:
    return _wanted(site, addon, site.hook_name, hooks, WorkRules(tuple(with_feedback((), hooks, HOOKS))))


def _wanted(
    site: WorkNamespace, addon: ManagedClusterAddOn, name: str, manifests: Sequence[Object], rules: WorkRules
) -> WantedWork:
    hashes = config_hashes(addon.status.config_references)
    return WantedWork(
        ObjectKey(site.namespace, name),
        {ADDON_LABEL: site.addon, **({ADDON_NAMESPACE_LABEL: site.cluster} if site.hosting else {})},
        orjson.dumps(hashes, option=orjson.OPT_SORT_KEYS).decode() if hashes else "",
        None if site.hosting else owner_reference(addon),
        tuple(manifests),
        rules,
    )


def manifests_of(work: ManifestWork) -> list[Object]:
    found = (orjson.loads(bytes(raw)) for raw in work.spec.workload.manifests)
    return [one for one in found if isinstance(one, dict)]


def manifest_keys(work: ManifestWork) -> list[ManifestKey]:
    return [manifest_key(one) for one in manifests_of(work)]


def work_hashes(work: ManifestWork) -> Mapping[str, Any] | None:
    """The hashes of the configurations that a work was rendered with; None if they cannot be decoded."""
    text = work.metadata.annotations.get(CONFIG_HASH_ANNOTATION, "")
    if not text:
        return {}
    try:
        hashes = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return hashes if isinstance(hashes, dict) else None


def owner_of(work: ManifestWork) -> ObjectKey | None:
    """Its ManagedClusterAddOn, by its labels."""
    labels = work.metadata.labels
    addon = labels.get(ADDON_LABEL, "")
    return ObjectKey(labels.get(ADDON_NAMESPACE_LABEL) or work.metadata.namespace, addon) if addon else None
