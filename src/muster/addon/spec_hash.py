"""OCM's hash of a configuration object. Follows addon-framework's `utils.GetSpecHash`.

It covers the object as the hub serves it, without apiVersion, kind, metadata and status, in Go's JSON encoding. A typed object
cannot be used: encoding it adds and drops empty fields.
"""

from __future__ import annotations

import hashlib
from typing import Final

from muster.machinery.golang.json import encode_json
from muster.machinery.objects import Object

_NO_CONFIGURATION: Final = frozenset(("apiVersion", "kind", "metadata", "status"))


def spec_hash(document: Object) -> str:
    content = {field: value for field, value in document.items() if field not in _NO_CONFIGURATION}
    return hashlib.sha256(encode_json(content).encode()).hexdigest()
