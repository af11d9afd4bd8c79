"""The manifest configurations of an addon's works, with feedback rules.

Every Deployment and DaemonSet reports its well-known status, from which the hub computes the addon's health. The template's
configuration of the same manifest is merged with that. If manifests move to another namespace, their configurations move along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from muster.addon.templates.namespaces import metadata_of, namespace_of
from muster.addon.templates.workloads import GROUP, plural_of
from muster.api.work.v1 import FeedbackRule, ManifestConfig, ResourceIdentifier
from muster.machinery.objects import Object

_WELL_KNOWN: Final = FeedbackRule(type="WellKnownStatus")


def moved_configs(configs: Sequence[ManifestConfig], before: Sequence[Object], namespace: str) -> tuple[ManifestConfig, ...]:
    """For manifests that were in other namespaces `before`, and are all in this one; unchanged if none is given."""
    left = {namespace_of(manifest) for manifest in before} - {""}
    return tuple(
        _at(config, namespace) if namespace and config.resource_identifier.namespace in left else config for config in configs
    )


def with_workload_feedback(configs: Sequence[ManifestConfig], manifests: Sequence[Object]) -> tuple[ManifestConfig, ...]:
    """Workloads first, each once; then the template's other configurations, in order."""
    merged = {
        identifier: ManifestConfig(resource_identifier=identifier, feedback_rules=(_WELL_KNOWN,))
        for identifier in (_identifier(manifest) for manifest in manifests if plural_of(manifest))
    }
    for config in configs:
        identifier = config.resource_identifier
        merged[identifier] = _merged(merged[identifier], config) if identifier in merged else config
    return tuple(merged.values())


def _merged(known: ManifestConfig, config: ManifestConfig) -> ManifestConfig:
    rules = tuple(dict.fromkeys((*known.feedback_rules, *config.feedback_rules)))
    return msgspec.structs.replace(config, feedback_rules=rules)


def _identifier(manifest: Object) -> ResourceIdentifier:
    name = str(metadata_of(manifest).get("name") or "")
    return ResourceIdentifier(group=GROUP, resource=plural_of(manifest), namespace=namespace_of(manifest), name=name)


def _at(config: ManifestConfig, namespace: str) -> ManifestConfig:
    identifier = msgspec.structs.replace(config.resource_identifier, namespace=namespace)
    return msgspec.structs.replace(config, resource_identifier=identifier)
