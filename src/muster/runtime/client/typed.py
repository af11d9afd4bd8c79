"""Where objects of typed kinds (`muster.api`) are served."""

from __future__ import annotations

from muster.api import resource as api
from muster.machinery.objects import GVR


def served(kind: type[api.Resource]) -> GVR:
    place = kind.resource
    return GVR(place.api_version, place.plural, place.kind, namespaced=place.scope == "Namespaced")
