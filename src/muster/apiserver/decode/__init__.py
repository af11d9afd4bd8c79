"""Request bodies to objects: JSON with strict checks, Kubernetes protobuf, and the typed decode both end in."""

from .errors import DecodeError, Unrecognized

__all__ = ["DecodeError", "Unrecognized"]
