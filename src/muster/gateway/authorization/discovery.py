"""Paths of a cluster that every user of its gateway may read: discovery, version and health.

They are the paths that Kubernetes grants to everybody on a cluster (`system:discovery`, `system:public-info-viewer`). That grant
is for the verb `get`, not for `<cluster>/get`, so without this exemption kubectl would report that the cluster has no such
resource type instead of a missing permission.
"""

from __future__ import annotations

import re
from typing import Final

from muster.kube.request_info import RequestInfo

PATHS: Final = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
)
METHODS: Final = ("get", "head")
_SEGMENT: Final = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+"
_BELOW: Final = f"(?:/{_SEGMENT})*/?"
_is_discovery: Final = re.compile(f"/(?:healthz|livez|readyz|version/?|(?:apis?|openapi){_BELOW})", re.ASCII).fullmatch


def is_discovery(inner: RequestInfo) -> bool:
    """False for a path with any unusual character: it is not certain that the cluster reads such a path as the gateway does."""
    return not inner.is_resource and inner.verb in METHODS and _is_discovery(inner.path) is not None
