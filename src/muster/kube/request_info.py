"""The attributes of an API request, parsed from method, path and query exactly as kube-apiserver does.

Follows `k8s.io/apiserver/pkg/endpoints/request.RequestInfoFactory` (Kubernetes 1.35) with the prefixes `api` and `apis`. A proxy
that authorizes requests for an API server must parse each exactly as the server will: a request taken for a `get` here that streams
all Secrets there is a privilege escalation. That includes special cases: the verb in the path (`/api/v1/watch/…`,
`/api/v1/proxy/…`), empty segments, `watch` with any value but a false one, a name in a field selector only. Requests that the
server would refuse, or that server versions parse differently, are a ValueError.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from muster.kube.selectors import FieldTerm, parse_field_selector, parse_label_selector
from muster.machinery.golang.numbers import parse_int
from muster.machinery.golang.urls import decode_path, query_pairs
from muster.machinery.memo import memoized

MAX_PARAMETERS: Final = 10_000
"""Of a query: Go since 1.26 ignores a longer one, former versions parse it completely."""
_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_IN_PATH: Final = frozenset({"proxy", "watch"})
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})
_OF_MANY: Final = {"get": "list", "delete": "deletecollection"}
_MANY: Final = frozenset({"list", "watch", "deletecollection"})


_REMEMBERED: Final = 512
_USUAL_PATH: Final = 192


class RequestInfo(msgspec.Struct, frozen=True, gc=False):
    """Go's `RequestInfo`. `verb` is Kubernetes' for resources (empty for other methods) and the lower-case method otherwise."""

    is_resource: bool
    path: str
    verb: str
    prefix: str = ""
    """`api` or `apis`."""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    parts: tuple[str, ...] = ()
    """The segments from the resource on: resource, name, subresource, and the uninterpreted rest."""
    field_selector: str = ""
    label_selector: str = ""
    verb_in_path: bool = False
    """The path has the verb, before the resource; selectors of such requests are ignored."""


class _Paths:
    """A cache of parsed paths of one method. Paths of collections are few, and most others are one of them followed by a name."""

    __slots__ = ("collections", "method", "parents", "verb")

    def __init__(self, method: str) -> None:
        self.method = method
        self.verb = _VERBS[method]
        self.collections: dict[str, RequestInfo] = {}
        self.parents: dict[str, RequestInfo] = {}
        """Of objects, by their path up to the name, since all objects have the same result."""

    def read(self, raw_path: str) -> RequestInfo:
        found = self.collections.get(raw_path)
        if found is not None:
            return found
        head, _, last = raw_path.rpartition("/")
        parent = self.parents.get(head)
        if parent is None or not last or "%" in last or not last.isprintable():
            info = _read(self.method, raw_path)
            if len(raw_path) <= _USUAL_PATH:
                if not info.name:
                    _remember(self.collections, raw_path, info)
                elif _is_plain(info, raw_path):
                    _remember(self.parents, head, info)
            return info
        resource = parent.resource
        return RequestInfo(
            True,
            raw_path,
            self.verb,
            parent.prefix,
            parent.group,
            parent.version,
            parent.namespace,
            resource,
            "",
            last,
            (resource, last),
        )


def _is_plain(info: RequestInfo, raw_path: str) -> bool:
    """Whether the path ends with an object's name, and would be parsed alike with any other name."""
    written = info.path == raw_path and not raw_path.endswith("/")
    return written and len(info.parts) == 2 and not info.verb_in_path and info.resource != "namespaces"


def _remember(known: dict[str, RequestInfo], path: str, info: RequestInfo) -> None:
    if len(known) >= _REMEMBERED:
        known.clear()
    known[path] = info


_PATHS: Final = {method: _Paths(method) for method in _VERBS}


def request_info(method: str, raw_path: str, query: str) -> RequestInfo:
    """`raw_path` and `query` are as received in the target. ValueError: servers refuse it, or parse it differently."""
    paths = _PATHS.get(method)
    info = paths.read(raw_path) if paths is not None else _read(method, raw_path)
    if not query:
        return info
    if not query.isprintable():
        _refuse_control_characters(query)
    if info.verb not in _MANY or info.verb_in_path:
        return info
    watch, pinned, field_selector, label_selector = _options(query)
    verb, name = info.verb, info.name
    if verb == "list":
        name = pinned
        if watch:
            verb = "watch"
    return RequestInfo(
        True,
        info.path,
        verb,
        info.prefix,
        info.group,
        info.version,
        info.namespace,
        info.resource,
        info.subresource,
        name,
        info.parts,
        field_selector,
        label_selector,
    )


def _read(method: str, raw_path: str) -> RequestInfo:
    """The attributes of a request without a query."""
    if not raw_path.isprintable():
        _refuse_control_characters(raw_path)
    path = decode_path(raw_path) if "%" in raw_path else raw_path
    parts = path.split("/")
    if len(parts) < 2 or parts[0]:
        if path not in ("", "*"):
            raise ValueError("the request path must begin with a slash")
        return RequestInfo(False, path, method.lower())
    if not (parts[-1] and parts[1]):
        parts = ["", *path.strip("/").split("/")]
    count = len(parts)
    prefix = parts[1]
    if prefix == "api" and count > 3:
        group, version, at = "", parts[2], 3
    elif prefix == "apis" and count > 4:
        group, version, at = parts[2], parts[3], 4
    else:
        return RequestInfo(False, path, method.lower(), prefix if prefix == "apis" and count > 3 else "")
    verb = parts[at]
    in_path = verb in _IN_PATH
    if in_path:
        at += 1
        if at == count:
            raise ValueError(f"the request path ends after the verb {verb!r}: expected a resource")
    else:
        verb = _VERBS.get(method, "")
    namespace = ""
    if parts[at] == "namespaces" and count > at + 1:
        namespace = parts[at + 1]
        if count > at + 2 and parts[at + 2] not in _OF_NAMESPACES:
            at += 2
    below = tuple(parts[at:])
    name = below[1] if len(below) > 1 else ""
    subresource = below[2] if len(below) > 2 and verb != "proxy" else ""
    if not name:
        verb = _OF_MANY.get(verb, verb)
    return RequestInfo(
        True, path, verb, prefix, group, version, namespace, below[0], subresource, name, below, verb_in_path=in_path
    )


class _Options(NamedTuple):
    """The query options that affect the meaning of a request for many objects."""

    watch: bool
    name: str
    field_selector: str
    label_selector: str


@memoized(512, 256)
def _options(query: str) -> _Options:
    """Cached, since clients use the same few options. If one option is invalid, the server ignores all but `watch`."""
    if query.count("&") >= MAX_PARAMETERS:
        raise ValueError(f"the query has more than {MAX_PARAMETERS} parameters")
    first: dict[str, str] = {}
    for key, value in query_pairs(query):
        first.setdefault(key, value)
    field_selector, label_selector = (_text(first, key) for key in ("fieldSelector", "labelSelector"))
    watch = first.get("watch")
    try:
        for key in ("timeoutSeconds", "limit"):
            if key in first:
                parse_int(first[key])
        parse_label_selector(label_selector)
        name = _pinned_name(parse_field_selector(field_selector))
    except ValueError:
        return _Options(watch is not None and watch.lower() not in ("0", "false"), "", field_selector, label_selector)
    return _Options(watch is not None and is_true(watch), name, field_selector, label_selector)


def is_true(value: str) -> bool:
    """How an API server parses a boolean parameter: everything but 0 and false, including the empty text, is true."""
    return value != "0" and value.casefold() != "false"


def _text(values: dict[str, str], key: str) -> str:
    value = values.get(key, "")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the parameter {key} is not UTF-8") from None
    return value


def _pinned_name(terms: tuple[FieldTerm, ...]) -> str:
    """The name that a field selector requires, if it could be one in a path."""
    for term in terms:
        if term.path == "metadata.name" and term.operator == "=":
            fits = term.value not in (".", "..") and "/" not in term.value and "%" not in term.value
            return term.value if fits else ""
    return ""


def _refuse_control_characters(target: str) -> None:
    if any(character < " " or character == "\x7f" for character in target):
        raise ValueError("the request target has a control character")
