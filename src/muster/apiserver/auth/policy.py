"""The RBAC bootstrap policy: the roles and bindings of a fresh kube-apiserver, kept as data (see `tools/bootstrap_policy.py`), so
that bindings to `view`, `edit` or `system:auth-delegator`, OCM's among them, mean the same as upstream.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import cast

import orjson

from muster.machinery.objects import Object

_DATA = Path(__file__).parent / "data" / "policy.json.gz"


def bootstrap_policy() -> list[Object]:
    """Fresh copies of all bootstrap roles and bindings."""
    return cast(list[Object], orjson.loads(gzip.decompress(_DATA.read_bytes())))
