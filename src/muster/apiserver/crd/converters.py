"""Conversion of objects between the versions of a CRD. Follows `k8s.io/apiextensions-apiserver/pkg/apiserver/conversion`.

With strategy None only the apiVersion changes. With strategy Webhook all objects that need conversion are sent in one
ConversionReview, and the response is validated: as many objects as were sent, the desired version, the same kind, name, namespace
and uid. Of the metadata only labels and annotations may change; everything else is restored from the original.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from muster.apiserver.errors import ApiError
from muster.apiserver.webhooks import WebhookFailed, WebhookRoute, WebhookTarget
from muster.kube import names
from muster.kube.fielderrors import FieldError
from muster.machinery.golang import formatting
from muster.machinery.golang.quoting import quote
from muster.machinery.objects import Object

_REVIEW_GROUP: Final = "apiextensions.k8s.io"
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")


class Converter(Protocol):
    """Converts the objects of one CRD."""

    @property
    def remote(self) -> bool:
        """Whether conversion calls a webhook."""

    async def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """The objects in the given version, in order; those already in it are returned unchanged."""


class NopConverter:
    """Strategy None: only the apiVersion changes."""

    remote = False

    async def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        return [obj if obj["apiVersion"] == api_version else {**obj, "apiVersion": api_version} for obj in objects]


class _InvalidResponse(Exception):
    """The response of the webhook is invalid; the text is the reason."""


class WebhookConverter:
    """Strategy Webhook."""

    remote = True

    def __init__(self, target: WebhookTarget, review_versions: Sequence[str]) -> None:
        self._target = target
        self._review_version = next((version for version in review_versions if version in _REVIEW_VERSIONS), "")

    async def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        waiting = [obj for obj in objects if obj["apiVersion"] != api_version]
        if not waiting:
            return list(objects)
        if not self._review_version:
            raise failure("no supported conversion review versions")
        try:
            answers = iter(await self._call(waiting, api_version))
        except (WebhookFailed, _InvalidResponse) as problem:
            raise failure(f"conversion webhook for {_kind_of(waiting[0])} failed: {problem}") from None
        return [obj if obj["apiVersion"] == api_version else next(answers) for obj in objects]

    async def _call(self, waiting: list[Object], api_version: str) -> list[Object]:
        request_id = str(uuid.uuid4())
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_REVIEW_GROUP}/{self._review_version}",
            "request": {"uid": request_id, "desiredAPIVersion": api_version, "objects": waiting},
        }
        reply = await self._target.post(review)
        converted = _converted_objects(reply, request_id, self._review_version)
        if len(converted) != len(waiting):
            text = f"conversion webhook for {_kind_of(waiting[0])} returned {len(converted)} objects, expected {len(waiting)}"
            raise failure(text)
        return [
            _validated(original, answer, api_version, index, len(waiting) > 1)
            for index, (original, answer) in enumerate(zip(waiting, converted, strict=True))
        ]


def converter_for(definition: Mapping[str, Any], route: WebhookRoute) -> Converter:
    conversion = definition["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return NopConverter()
    webhook = conversion["webhook"]
    target = WebhookTarget(webhook["clientConfig"], route)
    return WebhookConverter(target, webhook.get("conversionReviewVersions") or ())


def failure(text: str) -> ApiError:
    """The error for a failed conversion: an internal one without a reason, as upstream."""
    return ApiError(500, "", text)


def _kind_of(obj: Object) -> str:
    return f"{obj['apiVersion']}, Kind={obj['kind']}"


def _converted_objects(reply: Any, request_id: str, review_version: str) -> list[Any]:
    """The objects of a valid, successful response."""
    if not isinstance(reply, dict):
        raise _InvalidResponse("no response provided")
    expected = f"{_REVIEW_GROUP}/{review_version}"
    if review_version == "v1":
        found = f"{reply.get('apiVersion', '')}, Kind={reply.get('kind', '')}"
        if found != f"{expected}, Kind=ConversionReview":
            raise _InvalidResponse(f"expected webhook response of {expected}, Kind=ConversionReview, got {found}")
    response = reply.get("response")
    if not isinstance(response, dict):
        raise _InvalidResponse("no response provided")
    if review_version == "v1" and response.get("uid") != request_id:
        raise _InvalidResponse(f"expected response.uid={quote(request_id)}, got {quote(str(response.get('uid') or ''))}")
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise _InvalidResponse(result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'")
    return response.get("convertedObjects") or []


def _validated(original: Object, answer: Any, api_version: str, index: int, several: bool) -> Object:
    """A converted object, after checking its identity and restoring its metadata."""
    what = f"invalid converted object at index {index}" if several else "invalid object at index 0"
    group_version = answer.get("apiVersion", "") if isinstance(answer, dict) else ""
    problem = ""
    if group_version != api_version:
        problem = f"{what}: invalid groupVersion (expected {api_version}, received {group_version})"
    elif answer.get("kind") != original["kind"]:
        problem = f"{what}: invalid kind (expected {original['kind']}, received {answer.get('kind', '')})"
    else:
        changed = _changed_identity(original, answer)
        if changed:
            problem = f"{what}: {changed}" if several else f"invalid object: {changed}"
    if not problem:
        wrong = _restore_metadata(original, answer)
        where = f"invalid metadata in object at index {index}" if several else "invalid metadata"
        problem = f"{where}: {wrong}" if wrong else ""
    if problem:
        raise failure(f"conversion webhook for {_kind_of(original)} returned {problem}")
    converted: Object = answer
    return converted


def _changed_identity(original: Object, answer: Object) -> str:
    before, after = original["metadata"], answer.get("metadata")
    after = after if isinstance(after, dict) else {}
    for field, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (before.get(field) or "") != (after.get(field) or ""):
            return f"must have the same {word}: {before.get(field) or ''} != {after.get(field) or ''}"
    return ""


def _restore_metadata(original: Object, answer: Object) -> str:
    """Restore the original metadata, with labels and annotations of the converted object; return a problem of these, if any."""
    if "metadata" not in answer:
        return "missing metadata in converted object"
    given = answer["metadata"]
    if not isinstance(given, dict):
        return f"invalid metadata of type {formatting.type_name(given)} in converted object"
    restored = copy.deepcopy(original["metadata"])
    for field, check in (("labels", names.check_labels), ("annotations", names.check_annotations)):
        value = given.get(field)
        if value is None:
            restored.pop(field, None)
            continue
        if not isinstance(value, dict):
            return f"invalid metadata.{field} of type {formatting.type_name(value)} in converted object"
        for key, text in value.items():
            if not isinstance(text, str):
                return f"metadata.{field}[{key}] must be a string, but is {formatting.type_name(text)} in converted object"
        if value != restored.get(field):
            errors: list[FieldError] = check(value, f"metadata.{field}")
            if errors:
                texts = [str(error) for error in errors]
                return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        restored[field] = value
    answer["metadata"] = restored
    return ""
