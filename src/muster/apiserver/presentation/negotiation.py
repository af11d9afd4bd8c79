"""Content negotiation: JSON, YAML, Table or metadata only, from the Accept header; and the media type of a body.

Parsing an Accept header costs more than serving a small object, and a fleet sends few different ones, so results are cached by
text.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.apiserver.errors import not_acceptable, not_produced
from muster.machinery.memo import memoized

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
WATCHED = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
LISTED = f"{ACCEPTED}, {WATCHED}"
"""The media types of a collection: lists and watches share one route."""
_TRANSFORMS = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})


@dataclass(frozen=True, slots=True)
class Format:
    """A negotiated format. `transform` is "", Table, PartialObjectMetadata or PartialObjectMetadataList; `version` that of
    meta.k8s.io."""

    media: str = JSON
    transform: str = ""
    version: str = "v1"

    @property
    def content_type(self) -> str:
        return self.media


PLAIN_JSON = Format()


@dataclass(frozen=True, slots=True)
class Clause:
    media: str
    parameters: tuple[tuple[str, str], ...]
    quality: float

    def get(self, name: str) -> str:
        return next((value for key, value in self.parameters if key == name), "")


@memoized(512, 1024)
def accept_clauses(header: str) -> tuple[Clause, ...]:
    """The clauses of an Accept header by quality, in the order of the header if equal."""
    clauses = []
    for part in header.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        if not media:
            continue
        parameters = []
        quality = 1.0
        for piece in rest:
            key, _, value = piece.partition("=")
            value = value.strip().strip('"')
            if key.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
            else:
                parameters.append((key.strip(), value))
        if quality > 0:
            clauses.append(Clause(media, tuple(parameters), quality))
    return tuple(sorted(clauses, key=lambda clause: -clause.quality))


@memoized(512, 1024)
def negotiate(header: str) -> Format:
    """The best format for an Accept header, for endpoints that support Table and PartialObjectMetadata."""
    return _best(header, _TRANSFORMS)


@memoized(512, 1024)
def negotiate_object(header: str) -> Format:
    """The best format for an Accept header, for endpoints that only answer the object itself."""
    return _best(header, frozenset())


def _best(header: str, transforms: frozenset[str]) -> Format:
    if not header or header == "*/*":
        return PLAIN_JSON
    for clause in accept_clauses(header):
        media = JSON if clause.media in ("*/*", "application/*") else clause.media
        if clause.media == "application/*" or media not in (JSON, YAML):
            continue
        requested = clause.get("as")
        if not requested:
            return Format(media)
        if requested not in transforms or clause.get("g") != "meta.k8s.io":
            continue
        version = clause.get("v")
        if version not in ("v1", "v1beta1"):
            continue
        return Format(media, requested, version)
    raise not_acceptable(ACCEPTED)


@memoized(512, 1024)
def check_object(header: str) -> None:
    """`check_produced` for routes of one object."""
    check_produced(header, ACCEPTED)


@memoized(512, 1024)
def check_collection(header: str) -> None:
    """`check_produced` for routes of a collection."""
    check_produced(header, LISTED)


def check_produced(header: str, produced: str) -> None:
    """Check the Accept header for one of the media types `produced` without parameters, as go-restful does first."""
    known = {"*/*", *produced.split(", ")}
    if header and known.isdisjoint(part.partition(";")[0].strip() for part in header.split(",")):
        raise not_produced(produced)


@memoized(512, 1024)
def error_media(header: str) -> str:
    """JSON or YAML for an error; JSON if the client accepts neither."""
    requested = (clause.media for clause in accept_clauses(header))
    return next((YAML if media == YAML else JSON for media in requested if media in (JSON, YAML, "*/*")), JSON)


@memoized(256, 1024)
def media_type(content_type: str) -> str:
    """The media type of a Content-Type header without parameters; JSON if it is empty."""
    return content_type.partition(";")[0].strip().lower() or JSON
