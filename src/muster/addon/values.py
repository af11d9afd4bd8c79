"""Values of an addon's Helm chart: built-in ones, and those of annotations of its ManagedClusterAddOn.

Later sources override earlier ones; maps are merged, anything else is replaced. Names are those of OCM's charts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from muster.addon.agent_addon import AddonError, Installation
from muster.api.addons import HOSTING_CLUSTER_ANNOTATION, VALUES_ANNOTATION, hub_kubeconfig_secret

Values = Mapping[str, Any]


def builtin_values(installation: Installation, namespace: str) -> dict[str, Any]:
    """`namespace` is that of the agent."""
    addon = installation.addon.metadata
    return {
        "clusterName": installation.cluster.metadata.name,
        "addonInstallNamespace": namespace,
        "hubKubeConfigSecret": hub_kubeconfig_secret(addon.name),
        "managedKubeConfigSecret": f"{addon.name}-managed-kubeconfig",
        "installMode": "Hosted" if addon.annotations.get(HOSTING_CLUSTER_ANNOTATION) else "Default",
    }


def annotation_values(installation: Installation) -> dict[str, Any]:
    """Raises AddonError if the annotation is no JSON object."""
    text = installation.addon.metadata.annotations.get(VALUES_ANNOTATION, "")
    if not text:
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AddonError(f"annotation {VALUES_ANNOTATION} must be a JSON object: {error}") from error
    if not isinstance(values, dict):
        raise AddonError(f"annotation {VALUES_ANNOTATION} must be a JSON object")
    return values


def merge_values(*sources: Values) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items():
            known = merged.get(name)
            merged[name] = merge_values(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged
