"""Decoding of request bodies: strict JSON, Kubernetes protobuf, and the conversion to typed objects."""

from .errors import DecodeError, Unrecognized

__all__ = ["DecodeError", "Unrecognized"]
