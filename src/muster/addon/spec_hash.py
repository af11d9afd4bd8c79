"""The hash by which OCM tells one state of a configuration from another. Follows addon-framework's `utils.GetSpecHash`.

It is taken from the object as the hub serves it: everything but apiVersion, kind, metadata and status, as Go writes it as JSON. A
typed object would not do: writing it adds and drops empty fields.
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
