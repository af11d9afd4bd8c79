"""Values of OCM's Helm charts, as far as they apply to Muster; other values are refused by name.

There is a chart for hubs and one for managed clusters. They differ in the section for the ClusterManager or the Klusterlet; the
rest is about the operator, and the same. Values override flags, as with OCM's tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from muster.administration.errors import AdministrationError
from muster.administration.images import ImageChoice, decoded_credential

if TYPE_CHECKING:
    from muster.administration.hub.initialize import InitOptions
    from muster.administration.members.join import JoinOptions

Options = TypeVar("Options", "InitOptions", "JoinOptions")

HUB_SPEC: Final = (
    "registrationConfiguration",
    "workConfiguration",
    "addOnManagerConfiguration",
    "placementConfiguration",
    "serverConfiguration",
    "resourceRequirement",
    "nodePlacement",
)
"""Fields of `clusterManager` that are the same in the ClusterManager's spec."""
KLUSTERLET_SPEC: Final = (
    "externalServerURLs",
    "hubApiServerHostAlias",
    "namespace",
    "nodePlacement",
    "priorityClassName",
    "registrationConfiguration",
    "resourceRequirement",
    "workConfiguration",
)
_FIXED: Final = frozenset(("podSecurityContext", "securityContext", "affinity", "createBootstrapSA"))
"""Values that are fixed here, in a restricted form; the chart's defaults may stay in a file."""


class _BadValue(Exception):
    """`remedy` may be empty."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.remedy = remedy


@dataclass(frozen=True)
class Chart:
    """`section` is the one of the object for the operator; `readers` handle all keys that a file may have."""

    flag: str
    readers: Mapping[str, Callable[[Any, Any], Any]]


def with_values(options: Options, values: Mapping[str, Any], registry: str, version: str, chart: Chart) -> Options:
    """Raises AdministrationError."""
    try:
        for key, value in values.items():
            if key in _FIXED:
                continue
            if key not in chart.readers:
                raise _BadValue(f"{key} is not supported", f"there are {', '.join(sorted(chart.readers))}")
            options = chart.readers[key](options, value)
    except _BadValue as bad:
        raise AdministrationError(f"{chart.flag}: {bad}", bad.remedy) from None
    images = values.get("images") or {}
    if images:
        chosen = ImageChoice(images.get("registry") or registry, images.get("tag") or version).image()
        chosen = (images.get("overrides") or {}).get("operatorImage") or chosen
        options = replace(options, bundle=replace(options.bundle, image=chosen))
    return options


def _cluster_manager(options: InitOptions, value: Any) -> InitOptions:
    section = _mapping("clusterManager", value)
    if section.get("mode", "Default") != "Default":
        raise _BadValue(f"clusterManager.mode: {section['mode']} is not supported by init", "make a ClusterManager")
    _refuse_others("clusterManager", section, (*HUB_SPEC, "create", "mode"))
    return replace(options, spec={key: section[key] for key in HUB_SPEC if section.get(key)})


def _klusterlet(options: JoinOptions, value: Any) -> JoinOptions:
    """The name of the cluster and the mode of the agents come from flags alone."""
    section = _mapping("klusterlet", value)
    _refuse_others("klusterlet", section, (*KLUSTERLET_SPEC, "create", "name", "clusterName", "mode"))
    for key, option in (("clusterName", options.cluster_name), ("mode", options.mode)):
        if section.get(key) not in (None, "", option):
            raise _BadValue(f"klusterlet.{key}: {section[key]!r} contradicts the flags: {option}")
    return replace(options, spec={key: section[key] for key in KLUSTERLET_SPEC if section.get(key)})


def _refuse_others(name: str, section: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = set(section) - set(known)
    if unknown:
        raise _BadValue(f"{name}.{sorted(unknown)[0]} is not supported")


def _images(options: Options, value: Any) -> Options:
    credentials = _mapping("images", value).get("imageCredentials") or {}
    if credentials.get("dockerConfigJson"):
        credential = decoded_credential(credentials["dockerConfigJson"])
        return replace(options, bundle=replace(options.bundle, pull_credential=credential))
    return options


def _replicas(options: Options, value: Any) -> Options:
    if not isinstance(value, int) or value < 0:
        raise _BadValue("replicaCount: expected a number")
    return replace(options, bundle=replace(options.bundle, replicas=value))


def _resources(options: Options, value: Any) -> Options:
    from muster.api.meta import ResourceRequirements
    from muster.api.operator.v1 import ResourceRequirement

    section = _mapping("resources", value)
    wanted = ResourceRequirements(limits=section.get("limits") or {}, requests=section.get("requests") or {})
    requirement = ResourceRequirement(type="ResourceRequirement", resource_requirements=wanted)
    return replace(options, bundle=replace(options.bundle, resources=requirement))


def _nodes(options: Options, value: Any) -> Options:
    if value:
        raise _BadValue("nodeSelector and tolerations are not supported", "use nodePlacement")
    return options


def _sync_labels(options: Options, value: Any) -> Options:
    args = tuple(dict.fromkeys((*options.bundle.args, *(("--enable-sync-labels",) if value else ()))))
    return replace(options, bundle=replace(options.bundle, args=args))


def _bootstrap_token(options: InitOptions, value: Any) -> InitOptions:
    return replace(options, use_bootstrap_token=options.use_bootstrap_token or bool(value))


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping | None):
        raise _BadValue(f"{name}: expected a map")
    return value or {}


_OPERATOR: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "images": _images,
    "replicaCount": _replicas,
    "resources": _resources,
    "nodeSelector": _nodes,
    "tolerations": _nodes,
    "enableSyncLabels": _sync_labels,
}
HUB_CHART: Final = Chart(
    "--cluster-manager-values-file", {**_OPERATOR, "clusterManager": _cluster_manager, "createBootstrapToken": _bootstrap_token}
)
KLUSTERLET_CHART: Final = Chart("--klusterlet-values-file", {**_OPERATOR, "klusterlet": _klusterlet})
