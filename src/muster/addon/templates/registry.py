"""The registry of template addons: those whose ClusterManagementAddOn supports AddOnTemplates as configurations.

An addon without its ClusterManagementAddOn stays in the registry until its last ManagedClusterAddOn is gone, so that its objects on
clusters can be removed. That needs no state: without the ClusterManagementAddOn, a ManagedClusterAddOn with a template among its
configurations is sufficient. Agents can write that too, and only get an addon without plans.
"""

from __future__ import annotations

from typing import Final

from muster.addon.templates.addon import TEMPLATES, TemplateAddon
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ConfigGroupResource, ManagedClusterAddOn
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Informers

_LEFT: Final = "template-addons-by-name"


class TemplateAddons:
    """An `AddonRegistry`; the owner of the informers runs them."""

    def __init__(self, informers: Informers) -> None:
        self._offered = informers.of(ClusterManagementAddOn)
        self._installed = informers.of(ManagedClusterAddOn)
        self._installed.cache.add_index(_LEFT, lambda addon: (addon.metadata.name,) if _names_template(addon) else ())

    def find(self, addon: str) -> TemplateAddon | None:
        offered = self._offered.cache.get(ObjectKey("", addon))
        if offered is not None:
            is_template = any(_is_template(kind) for kind in offered.spec.supported_configs)
        else:
            is_template = addon in self._installed.cache.index_values(_LEFT)
        return TemplateAddon(addon) if is_template else None


def _is_template(kind: ConfigGroupResource) -> bool:
    return (kind.group, kind.resource) == (TEMPLATES.group, TEMPLATES.resource)


def _names_template(addon: ManagedClusterAddOn) -> bool:
    status = addon.status
    return any(_is_template(kind) for kind in (*addon.spec.configs, *status.config_references, *status.supported_configs))
