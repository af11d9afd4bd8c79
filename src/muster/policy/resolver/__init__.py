"""Templates in policies: from a document with templates to the document that is meant. Follows go-template-utils v7."""

from muster.policy.resolver.interfaces import (
    AllowedObject,
    Encryption,
    ObjectSource,
    Resolution,
    ResolveError,
    ResolveOptions,
)
from muster.policy.resolver.resolver import Resolver, has_template

__all__ = [
    "AllowedObject",
    "Encryption",
    "ObjectSource",
    "Resolution",
    "ResolveError",
    "ResolveOptions",
    "Resolver",
    "has_template",
]
