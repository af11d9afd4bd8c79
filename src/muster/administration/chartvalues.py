"""Values of OCM's Helm charts, read as far as they say something about Muster's hub; what they say otherwise is refused by name.

Values win over flags, as with OCM's tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from muster.administration.errors import AdministrationError
from muster.administration.images import ImageChoice, decoded_credential

if TYPE_CHECKING:
    from muster.administration.initialize import InitOptions

FLAG: Final = "--cluster-manager-values-file"
SPEC: Final = (
    "registrationConfiguration",
    "workConfiguration",
    "addOnManagerConfiguration",
    "serverConfiguration",
    "resourceRequirement",
    "nodePlacement",
)
"""Of `clusterManager`: what is the same in the ClusterManager's spec."""
_FIXED: Final = frozenset(("podSecurityContext", "securityContext", "affinity", "createBootstrapSA"))
"""What ours has in a fixed, restricted form; the chart's defaults may stay in a file."""


def with_values(options: InitOptions, values: Mapping[str, Any], registry: str, version: str) -> InitOptions:
    for key, value in values.items():
        if key in _FIXED:
            continue
        if key not in _READERS:
            raise AdministrationError(f"{FLAG}: {key} is not supported", f"there are {', '.join(sorted(_READERS))}")
        options = _READERS[key](options, value)
    images = values.get("images") or {}
    if images:
        chosen = ImageChoice(images.get("registry") or registry, images.get("tag") or version).image()
        chosen = (images.get("overrides") or {}).get("operatorImage") or chosen
        options = replace(options, bundle=replace(options.bundle, image=chosen))
    return options


def _cluster_manager(options: InitOptions, value: Any) -> InitOptions:
    section = _mapping("clusterManager", value)
    if section.get("mode", "Default") != "Default":
        raise AdministrationError(
            f"{FLAG}: clusterManager.mode: {section['mode']} is not supported by init", "make a ClusterManager"
        )
    unknown = set(section) - {*SPEC, "create", "mode", "placementConfiguration"}
    if unknown:
        raise AdministrationError(f"{FLAG}: clusterManager.{sorted(unknown)[0]} is not supported")
    return replace(options, spec={key: section[key] for key in SPEC if section.get(key)})


def _images(options: InitOptions, value: Any) -> InitOptions:
    credentials = _mapping("images", value).get("imageCredentials") or {}
    if credentials.get("dockerConfigJson"):
        credential = decoded_credential(credentials["dockerConfigJson"])
        return replace(options, bundle=replace(options.bundle, pull_credential=credential))
    return options


def _replicas(options: InitOptions, value: Any) -> InitOptions:
    if not isinstance(value, int) or value < 0:
        raise AdministrationError(f"{FLAG}: replicaCount: expected a number")
    return replace(options, bundle=replace(options.bundle, replicas=value))


def _resources(options: InitOptions, value: Any) -> InitOptions:
    from muster.api.meta import ResourceRequirements
    from muster.api.operator.v1 import ResourceRequirement

    section = _mapping("resources", value)
    wanted = ResourceRequirements(limits=section.get("limits") or {}, requests=section.get("requests") or {})
    requirement = ResourceRequirement(type="ResourceRequirement", resource_requirements=wanted)
    return replace(options, bundle=replace(options.bundle, resources=requirement))


def _nodes(options: InitOptions, value: Any) -> InitOptions:
    if value:
        raise AdministrationError(f"{FLAG}: nodeSelector and tolerations are not supported", "use clusterManager.nodePlacement")
    return options


def _sync_labels(options: InitOptions, value: Any) -> InitOptions:
    args = tuple(dict.fromkeys((*options.bundle.args, *(("--enable-sync-labels",) if value else ()))))
    return replace(options, bundle=replace(options.bundle, args=args))


def _bootstrap_token(options: InitOptions, value: Any) -> InitOptions:
    return replace(options, use_bootstrap_token=options.use_bootstrap_token or bool(value))


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping | None):
        raise AdministrationError(f"{FLAG}: {name}: expected a map")
    return value or {}


_READERS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "clusterManager": _cluster_manager,
    "images": _images,
    "replicaCount": _replicas,
    "resources": _resources,
    "nodeSelector": _nodes,
    "tolerations": _nodes,
    "enableSyncLabels": _sync_labels,
    "createBootstrapToken": _bootstrap_token,
}
