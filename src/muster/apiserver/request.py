"""Parsing of request targets: path segments to `AccessAttributes`, the query to typed options.

Paths are parsed by `muster.kube.request_info`; those with an empty segment are non-resource paths here. Requests to a logical
cluster have the prefix `/clusters/{name}`; without it they are for the default cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from muster.apiserver.errors import bad_request, bad_revision, invalid_options
from muster.kube import fielderrors
from muster.kube.fielderrors import FieldError
from muster.kube.request_info import is_true, request_info
from muster.machinery.authorization import AccessAttributes
from muster.machinery.golang.text import well_formed
from muster.machinery.golang.urls import query_pairs
from muster.machinery.memo import memoized

CLUSTER_PREFIX = "/clusters/"


def split_cluster(raw_path: str) -> tuple[str | None, str]:
    """(`cluster name` or None, path within the cluster)."""
    if not raw_path.startswith(CLUSTER_PREFIX):
        return None, raw_path
    name, slash, rest = raw_path[len(CLUSTER_PREFIX) :].partition("/")
    return unquote(name), "/" + rest if slash else "/"


def parse_target(method: str, raw_path: str, query: Query) -> tuple[AccessAttributes, str]:
    """The attributes for authorization, and the tail of the path after the subresource (`proxy/…`). Never fails: anything unknown
    is a non-resource path. If the verb is in the path (`watch/pods`), the tail is the whole path and begins with a slash; such
    paths are not served."""
    try:
        info = request_info(method, raw_path, query.raw)
    except ValueError:
        return AccessAttributes(method.lower(), path=unquote(raw_path)), ""
    path, parts = info.path, info.parts
    if not parts or "//" in path:
        return AccessAttributes(method.lower(), path=path), ""
    attributes = AccessAttributes(
        info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, info.name, path
    )
    if info.verb_in_path:
        return attributes, "/" + "/".join(parts)
    return attributes, "/".join(parts[3:]) if len(parts) > 3 else ""


class Query:
    """Query parameters; the first value of a repeated one counts, except for `getall`. Shared, and so never changed."""

    __slots__ = ("pairs", "raw", "values")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        # Of what authorization has read, nothing may be read otherwise when it is served: both read as Go does.
        self.pairs = [(well_formed(key), well_formed(value)) for key, value in query_pairs(raw)]
        self.values: dict[str, str] = {}
        for key, value in self.pairs:
            self.values.setdefault(key, value)

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)

    def getall(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def flag(self, name: str) -> bool:
        value = self.values.get(name)
        return value is not None and is_true(value)

    def integer(self, name: str) -> int | None:
        text = self.values.get(name)
        if text is None:
            return None
        problem = number_problem(text.removeprefix("-").removeprefix("+") if text[1:2].isdigit() else text, 63)
        if problem:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": {problem}')
        return int(text)


@memoized(256, 128)
def parse_query(raw: str) -> Query:
    """Clients ask with the same few options all the time; the long queries are those that differ."""
    return Query(raw)


def number_problem(text: str, bits: int) -> str:
    """Why a text is no decimal number of so many bits, in Go's words; empty if it is one."""
    if not (text.isascii() and text.isdigit()):
        return "invalid syntax"
    return "" if len(text) <= 20 and int(text) < 1 << bits else "value out of range"


@dataclass(slots=True)
class ListOptions:
    """Options of list and watch; `revision` is None where resourceVersion was not given."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continuation: str = ""
    resource_version: str = ""
    match: str = ""
    bookmarks: bool = False
    timeout: int | None = None
    send_initial_events: bool | None = None

    @property
    def revision(self) -> int | None:
        return int(self.resource_version) if self.resource_version else None


def list_options(query: Query, watch: bool) -> ListOptions:
    send_initial = query.get("sendInitialEvents")
    options = ListOptions(
        label_selector=query.get("labelSelector"),
        field_selector=query.get("fieldSelector"),
        limit=max(query.integer("limit") or 0, 0),
        continuation=query.get("continue"),
        resource_version=query.get("resourceVersion"),
        match=query.get("resourceVersionMatch"),
        bookmarks=query.flag("allowWatchBookmarks"),
        timeout=query.integer("timeoutSeconds"),
        send_initial_events=query.flag("sendInitialEvents") if send_initial else None,
    )
    _check_list_options(options, watch)
    version = options.resource_version
    if version and (problem := number_problem(version, 64)):
        raise bad_revision(version, problem, "watch" if watch else "list")
    return options


_MATCH = "resourceVersionMatch"
_NEWER = "NotOlderThan"


def _check_list_options(options: ListOptions, watch: bool) -> None:
    """The rules on resourceVersionMatch and sendInitialEvents, in the order and words clients know."""
    problems = _watch_problems(options) if watch else _list_problems(options)
    if problems:
        raise invalid_options("ListOptions", problems)


def _watch_problems(options: ListOptions) -> list[FieldError]:
    match, initial = options.match, options.send_initial_events
    if initial is None and not match and options.resource_version in ("", "0"):
        match, initial = _NEWER, True  # What a watch from the current state amounts to.
    problems = []
    if initial is not None and match != _NEWER:
        problems.append(fielderrors.forbidden(_MATCH, f"sendInitialEvents requires setting resourceVersionMatch to {_NEWER}"))
    if match and initial is None:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        problems.append(fielderrors.forbidden(_MATCH, text))
    if match and match != _NEWER:
        problems.append(fielderrors.not_supported(_MATCH, match, [_NEWER]))
    if match and options.continuation:
        problems.append(fielderrors.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    return problems


def _list_problems(options: ListOptions) -> list[FieldError]:
    match, version = options.match, options.resource_version
    problems = []
    if match and not version:
        problems.append(fielderrors.forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if match and options.continuation:
        problems.append(fielderrors.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    if match not in ("", "Exact", _NEWER):
        problems.append(fielderrors.not_supported(_MATCH, match, ["Exact", _NEWER, ""]))
    if match == "Exact" and version == "0":
        problems.append(fielderrors.forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        problems.append(fielderrors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return problems


@dataclass(slots=True)
class WriteOptions:
    """Options of create, update, patch and delete."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None


_MAX_DRY_RUN_VALUES = 100
_VALIDATIONS = ("Ignore", "Strict", "Warn")


def write_options(query: Query, kind: str, apply: bool = False) -> WriteOptions:
    """`kind` is the options type named in errors: CreateOptions, UpdateOptions, PatchOptions, DeleteOptions."""
    errors = []
    dry_run = query.getall("dryRun")
    for value in dry_run[:_MAX_DRY_RUN_VALUES]:
        if value != "All":
            errors.append(fielderrors.not_supported("dryRun", dry_run, ["All"]))
    manager = query.get("fieldManager")
    force = query.flag("force") if "force" in query.values else None
    if kind == "PatchOptions":
        if apply and not manager:
            errors.append(fielderrors.required("fieldManager", "is required for apply patch"))
        if not apply and force is not None:
            errors.append(fielderrors.forbidden("force", "may not be specified for non-apply patch"))
    if len(manager.encode()) > 128:
        errors.append(fielderrors.too_long("fieldManager", 128))
    elif not manager.isprintable():
        position = next(i for i, char in enumerate(manager) if not char.isprintable())
        errors.append(
            fielderrors.invalid(
                "fieldManager", manager, f"invalid character U+{ord(manager[position]):04X} (at position {position})"
            )
        )
    validation = query.get("fieldValidation")
    if validation and validation not in _VALIDATIONS:
        errors.append(fielderrors.not_supported("fieldValidation", validation, ["", *_VALIDATIONS]))
    if errors:
        raise invalid_options(kind, errors)
    return WriteOptions(bool(dry_run), manager, validation or "Warn", force)
