"""Which paths of a cluster whoever may use its gateway may read: what it serves, which version it is, and whether it is well.

They are those that Kubernetes grants to everybody on a cluster (`system:discovery`, `system:public-info-viewer`). The grant is of
the verb `get`, not of `<cluster>/get`, so without this exemption kubectl would say that the cluster has no such resource type where
it means that the user may not read it.
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
    """A path with anything unusual in it is none: whether a cluster reads it as we do is then not certain."""
    return not inner.is_resource and inner.verb in METHODS and _is_discovery(inner.path) is not None
