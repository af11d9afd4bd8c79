"""Image registries: mirrors of an AddOnDeploymentConfig, or of an annotation of the cluster.

A source matches itself and everything below it: it must end where the image's name has a `/`, a tag or a digest. The last matching
source is used. An empty source matches every image, of which then only the last part is appended to the mirror.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from muster.addon.agent_addon import AddonError
from muster.api import Record
from muster.api.addon.v1alpha1 import ImageMirror
from muster.api.cluster.v1 import ManagedCluster

REGISTRIES_ANNOTATION: Final = "open-cluster-management.io/image-registries"
_BOUNDARIES: Final = ("/", ":", "@")


class _Registries(Record):
    registries: tuple[ImageMirror, ...] = ()


def registries_of(cluster: ManagedCluster, configured: Sequence[ImageMirror]) -> tuple[ImageMirror, ...]:
    """The configured mirrors, else those of the cluster's annotation. Raises AddonError."""
    annotation = cluster.metadata.annotations.get(REGISTRIES_ANNOTATION)
    if configured or not annotation:
        return tuple(configured)
    try:
        return msgspec.json.decode(annotation, type=_Registries).registries
    except (msgspec.MsgspecError, UnicodeError) as error:
        where = f"ManagedCluster {cluster.metadata.name}: annotation {REGISTRIES_ANNOTATION}"
        raise AddonError(f'{where}: expected JSON such as {{"registries":[{{"source":"…","mirror":"…"}}]}}: {error}') from None


def mirrored(image: str, registries: Sequence[ImageMirror]) -> str:
    """The image with its registry replaced by the mirror."""
    for registry in reversed(registries):
        found = _at_mirror(image, registry.source.removesuffix("/"), registry.mirror.removesuffix("/"))
        if found is not None:
            return found
    return image


def _at_mirror(image: str, source: str, mirror: str) -> str | None:
    if not source:
        name = image.rpartition("/")[2]
        return f"{mirror}/{name}" if mirror else name
    rest = image.removeprefix(source)
    if rest == image or (rest and not rest.startswith(_BOUNDARIES)):
        return None
    return f"{mirror}{rest}" if mirror else rest.removeprefix("/")
