"""Our resource types, one module per API group and version, and what is made from them.

Read an object with `Kind.decode(data)`, change it with `msgspec.structs.replace`, and write the change with `merge_patch(before,
after)`; fields that are unknown to the types survive. The CustomResourceDefinitions come from the same types
(`muster.api.crds.definitions`). This room knows no server and no client.
"""

from muster.api.meta import Condition, condition_of, is_true, with_condition
from muster.api.patches import changed_document, merge_patch
from muster.api.resource import Document, MalformedObject, ObjectMeta, OwnerReference, Record, ResourceType, TypedObject

__all__ = [
    "Condition",
    "Document",
    "MalformedObject",
    "ObjectMeta",
    "OwnerReference",
    "Record",
    "ResourceType",
    "TypedObject",
    "changed_document",
    "condition_of",
    "is_true",
    "merge_patch",
    "with_condition",
]
