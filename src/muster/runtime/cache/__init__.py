"""Objects of a cluster, kept current by watches: reflectors, informers, and caches of encoded objects."""

from muster.runtime.cache.dynamic import DynamicCache
from muster.runtime.cache.informer import Informer, Informers
from muster.runtime.cache.mutation_cache import MutationCache
from muster.runtime.cache.observed import UNKNOWN, Metadata, ObservedObject, Presence, older
from muster.runtime.cache.restmapper import DynamicRESTMapper, FollowedDefinition, followed_definitions
from muster.runtime.cache.selections import FollowedSelections, Selection
from muster.runtime.cache.store import Cache, Snapshot, label_index

__all__ = [
    "UNKNOWN",
    "Cache",
    "DynamicCache",
    "DynamicRESTMapper",
    "FollowedDefinition",
    "FollowedSelections",
    "Informer",
    "Informers",
    "Metadata",
    "MutationCache",
    "ObservedObject",
    "Presence",
    "Selection",
    "Snapshot",
    "followed_definitions",
    "label_index",
    "older",
]
