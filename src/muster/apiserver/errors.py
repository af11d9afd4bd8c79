"""API errors: every error is a `Status` object whose code, reason, message and details clients depend on. The texts are those of
`k8s.io/apimachinery/pkg/api/errors`.

`ApiError` carries the complete Status; only the functions below compose its texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from muster.kube.fielderrors import MOST, FieldError
from muster.kube.fielderrors import invalid as invalid_field
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes


class ResourceNames(Protocol):
    """The names of a resource that messages use."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def group_resource(self) -> str: ...
    @property
    def group_kind(self) -> str: ...
    @property
    def registry_path(self) -> str: ...


class ApiError(Exception):
    """A request failed with this Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after: int | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.metadata = metadata or {}

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def _named(name: str, group: str, kind: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def not_found(resource: ResourceNames, name: str) -> ApiError:
    return not_found_named(resource.group, resource.plural, name)


def not_found_named(group: str, plural: str, name: str) -> ApiError:
    qualified = f"{plural}.{group}" if group else plural
    return ApiError(404, "NotFound", f'{qualified} "{name}" not found', _named(name, group, plural))


def no_such_cluster(name: str) -> ApiError:
    return not_found_named("muster.internal", "clusters", name)


def no_such_resource() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: ResourceNames, name: str, deleting: bool = False) -> ApiError:
    text = f'{resource.group_resource} "{name}" already exists'
    message = f"object is being deleted: {text}" if deleting else text
    return ApiError(409, "AlreadyExists", message, _named(name, resource.group, resource.plural))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: ResourceNames, name: str, text: str = MODIFIED) -> ApiError:
    return conflict_named(resource.group, resource.plural, name, text)


def conflict_named(group: str, plural: str, name: str, text: str) -> ApiError:
    qualified = f"{plural}.{group}" if group else plural
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {text}'
    return ApiError(409, "Conflict", message, _named(name, group, plural))


def storage_conflict(resource: ResourceNames, namespace: str, name: str, text: str) -> ApiError:
    """A failed precondition of the storage layer, whose message has the key in etcd, as upstream."""
    key = "/".join(part for part in ("/registry", resource.registry_path, namespace, name) if part)
    shown = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
    return conflict(resource, name, shown)


def precondition_failed(resource: ResourceNames, name: str, text: str) -> ApiError:
    """A failed delete precondition. As upstream, the message has the kind, not the plural."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.group_kind} "{name}": {text}',
        _named(name, resource.group, resource.kind),
    )


def aggregated(texts: Iterable[str]) -> str:
    """Several messages as one: without duplicates, in brackets if there is more than one (`utilerrors.Aggregate`)."""
    different = list(dict.fromkeys(texts))
    return different[0] if len(different) == 1 else "[" + ", ".join(different) + "]"


_MAX_NAME_LENGTH = 1024
_MAX_TEXT_LENGTH = 512 * 1024
"""Maximum number of characters of causes. kube-apiserver has no such limit, and its answers can be thousands of times the
request."""


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    causes: list[dict[str, str]] = []
    texts: list[str] = []
    left = _MAX_TEXT_LENGTH
    for error in errors[:MOST]:
        if left <= 0:
            break
        body = error.body
        if len(body) > left:
            body = f"{body[:left]}... (cut)"
        causes.append({"reason": error.reason, "message": body, "field": error.field})
        texts.append(f"{error.field}: {body}" if error.field else body)
        left -= len(texts[-1])
    if len(causes) < len(errors) or len(errors) >= MOST:
        texts.append("there are more errors than these")
    qualified = f"{kind}.{group}" if group else kind
    name = name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}..."
    details = _named(name, group, kind)
    details["causes"] = causes
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {aggregated(texts)}', details)


def invalid_object(resource: ResourceNames, name: str, errors: Sequence[FieldError]) -> ApiError:
    return invalid(resource.group, resource.kind, name, errors)


def invalid_options(kind: str, errors: Sequence[FieldError]) -> ApiError:
    """Invalid query options: `ListOptions.meta.k8s.io "" is invalid: …`."""
    return invalid("meta.k8s.io", kind, "", errors)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def not_registered(kind: str, api_version: str) -> str:
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'


def invalid_patch_result(patched: str, problem: str) -> ApiError:
    """The result of a patch is not an object of the type of the resource; the message shows the result."""
    return invalid("", "", "", [invalid_field("patch", patched, problem)])


class CannotDecode(ApiError):
    """The body is not an object of its type; `problem` is the reason."""

    def __init__(self, resource: ResourceNames, problem: str) -> None:
        kind = resource.kind
        super().__init__(400, "BadRequest", f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {problem}')
        self.problem = problem


def cannot_decode(resource: ResourceNames, problem: str) -> ApiError:
    return CannotDecode(resource, problem)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, text: str, causes: list[dict[str, str]] | None = None) -> ApiError:
    qualified = f"{plural}.{group}" if group else plural
    subject = f'{qualified} "{name}"' if name else qualified
    details = _named(name, group, plural)
    if causes:
        details["causes"] = causes
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {text}", details)


def forbidden_path(user: str, verb: str, path: str) -> ApiError:
    return ApiError(403, "Forbidden", f'forbidden: User "{user}" cannot {verb} path "{path}"', {})


def access_denied(user: UserInfo, attributes: AccessAttributes, reason: str = "") -> ApiError:
    """The authorizer has denied the request."""
    if not attributes.is_resource:
        return forbidden_path(user.name, attributes.verb, attributes.path)
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    what = f'resource "{attributes.full_resource}" in API group "{attributes.group}"'
    text = f'User "{user.name}" cannot {attributes.verb} {what} {where}'
    if reason:
        text = f"{text}: {reason}"
    return forbidden(attributes.group, attributes.resource, attributes.name, text)


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(media_types: str) -> ApiError:
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {media_types}")


def not_produced(media_types: str) -> ApiError:
    """The Accept header has no media type of the route. go-restful checks this before parameters are compared."""
    return ApiError(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {media_types}", {})


def wrong_transform(requested: str, shown: str, is_list: bool) -> ApiError:
    """PartialObjectMetadata was requested for a list, or PartialObjectMetadataList for an object."""
    found = "a list" if is_list else "not a list"
    return ApiError(406, "NotAcceptable", f"you requested {requested}, but the requested object is {found} (*{shown})")


def unknown_include_object(value: str) -> ApiError:
    text = f"includeObject: Invalid value: {value!r}".replace("'", '"')
    return bad_request(f"Unable to convert to Table as requested: {text}: must be 'Metadata', 'Object', 'None', or empty")


def bad_revision(text: str, problem: str, verb: str) -> ApiError:
    """An invalid resourceVersion. As upstream, only lists answer with a client error."""
    message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {problem}'
    return bad_request(f"invalid resource version: {message}") if verb == "list" else ApiError(500, "", message)


def bad_continue(problem: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid: {problem}")


def unsupported_patch() -> ApiError:
    """An unsupported patch type of a built-in resource. Custom resources answer with `unsupported_media_type`."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def unsupported_media_type(media_types: str) -> ApiError:
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {media_types}",
    )


def too_large(text: str = "limit is 3145728") -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")


def too_large_to_store() -> ApiError:
    """etcd's message, which clients look for."""
    return ApiError(500, "", "etcdserver: request is too large")


def unreadable_body(status: int, message: str) -> ApiError:
    """The HTTP layer has not read the body, or not completely."""
    if status == 413:
        return too_large()
    return too_many_requests() if status == 429 else ApiError(status, "BadRequest" if status == 400 else "", message)


def too_many_requests(retry_after: int = 1) -> ApiError:
    return ApiError(
        429,
        "TooManyRequests",
        "too many requests, please try again later.",
        {"retryAfterSeconds": retry_after},
        retry_after=retry_after,
    )


def expired(message: str, continuation: str = "") -> ApiError:
    return ApiError(410, "Expired", message, metadata={"continue": continuation} if continuation else None)


def too_large_resource_version(requested: int, current: int) -> ApiError:
    text = f"Too large resource version: {requested}, current: {current}"
    return ApiError(
        504,
        "Timeout",
        f"Timeout: {text}",
        {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1},
        retry_after=1,
    )


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)
