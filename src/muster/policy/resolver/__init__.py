"""The resolver of templates in policies. Follows go-template-utils v7."""

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
