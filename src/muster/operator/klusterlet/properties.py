"""The CRD of ClusterProperty, which Kubernetes defines (KEP 2149) but no API server serves by itself.

Agents with the feature gate of the same name read such objects, so the CRD is installed for them.
"""

from __future__ import annotations

from typing import Final

from muster.api import Document
from muster.registration.agent.reports.claims import PROPERTIES

DEFINITION: Final = f"{PROPERTIES.plural}.{PROPERTIES.group}"

_TEXT: Final = {"type": "string"}
_SCHEMA: Final[Document] = {
    "type": "object",
    "description": "A property of a cluster, named by the object.",
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": {"type": "object"},
        "spec": {"type": "object", "required": ["value"], "properties": {"value": {**_TEXT, "minLength": 1}}},
        "status": {"type": "object"},
    },
}


def definition() -> Document:
    columns = [
        {"name": "value", "type": "string", "jsonPath": ".spec.value"},
        {"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {
        "name": PROPERTIES.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": _SCHEMA},
        "subresources": {"status": {}},
    }
    approval = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/3084"}
    return {
        "metadata": {"name": DEFINITION, "annotations": approval},
        "spec": {
            "group": PROPERTIES.group,
            "scope": "Cluster",
            "names": {
                "kind": PROPERTIES.kind,
                "listKind": f"{PROPERTIES.kind}List",
                "plural": PROPERTIES.plural,
                "singular": PROPERTIES.kind.lower(),
            },
            "versions": [version],
        },
    }
