"""The APIServices of groups that this server itself serves. Those of built-in groups are identical in all clusters and use no rows
of their own; those of custom resources are created and deleted with their CRDs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.apiserver.builtin.kinds.extensions import local_condition
from muster.apiserver.builtin.resources import builtin_table
from muster.machinery.objects import Object

API_SERVICES: Final = "apiregistration.k8s.io/apiservices"
AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
CUSTOM_PRIORITIES: Final = (1000, 100)
_OWN_GROUP: Final = "apiregistration.k8s.io"
_PRIORITIES: Final = {
    ("", "v1"): (18000, 1),
    ("apps", "v1"): (17800, 15),
    ("events.k8s.io", "v1"): (17750, 15),
    ("authentication.k8s.io", "v1"): (17700, 15),
    ("authorization.k8s.io", "v1"): (17600, 15),
    ("autoscaling", "v1"): (17500, 15),
    ("autoscaling", "v2"): (17500, 30),
    ("batch", "v1"): (17400, 15),
    ("certificates.k8s.io", "v1"): (17300, 15),
    ("networking.k8s.io", "v1"): (17200, 15),
    ("policy", "v1"): (17100, 15),
    ("rbac.authorization.k8s.io", "v1"): (17000, 15),
    ("storage.k8s.io", "v1"): (16800, 15),
    ("admissionregistration.k8s.io", "v1"): (16700, 15),
    ("apiextensions.k8s.io", "v1"): (16700, 15),
    ("scheduling.k8s.io", "v1"): (16600, 15),
    ("coordination.k8s.io", "v1"): (16500, 15),
    ("node.k8s.io", "v1"): (16300, 15),
    ("discovery.k8s.io", "v1"): (16200, 15),
    ("resource.k8s.io", "v1"): (16200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1"): (16100, 21),
}
"""(groupPriorityMinimum, versionPriority) as in kube-apiserver."""


def local_api_service(group: str, version: str, priorities: tuple[int, int], managed: str) -> Object:
    spec: Object = {"group": group} if group else {}
    spec |= {"version": version, "groupPriorityMinimum": priorities[0], "versionPriority": priorities[1]}
    return {
        "apiVersion": f"{_OWN_GROUP}/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "labels": {AUTOMANAGED: managed}},
        "spec": spec,
    }


def builtin_api_services(created: str) -> list[Object]:
    """The objects for the bootstrap layer, which all clusters share."""
    served: Iterable[tuple[str, str]] = sorted({(row.group, row.version) for row in builtin_table().values()})
    return [
        {
            **local_api_service(group, version, _PRIORITIES.get((group, version), CUSTOM_PRIORITIES), "onstart"),
            "status": {"conditions": [local_condition(created)]},
        }
        for group, version in served
        if group != _OWN_GROUP
    ]
