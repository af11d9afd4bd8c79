"""One admission webhook: whether it matches an operation, the AdmissionReview it is sent, and the meaning of its response.

A `Hook` is compiled from one entry of a webhook configuration and kept while the configuration is unchanged. Responses are
validated as in kube-apiserver (`webhook/request.VerifyAdmissionResponse`): the right type and uid, a patch only from mutating
webhooks and only together with its patchType. A call ends in a response, a rejection (`ApiError`), or `CallFailed`, for which the
failure policy decides.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from muster.apiserver import errors
from muster.apiserver.admission.attributes import AdmissionAttributes
from muster.apiserver.admission.expressions import MatchConditions, activation
from muster.apiserver.admission.matcher import Matcher
from muster.apiserver.cel_environment import environment
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.webhooks import WebhookFailed, WebhookRoute, WebhookTarget
from muster.cel import EvaluationError
from muster.machinery.golang.quoting import quote

_DRY_RUN_SAFE: Final = ("None", "NoneOnDryRun")
_REVIEW: Final = "AdmissionReview"
_VERSIONS: Final = ("v1", "v1beta1")
_REVIEWS: Final = tuple(f"admission.k8s.io/{version}" for version in _VERSIONS)


class CallFailed(Exception):
    """The webhook could not be called or gave no valid response; the text is shown if the failure policy is Fail."""


class Hook:
    def __init__(self, configuration: str, raw: Mapping[str, Any], route: WebhookRoute, mutating: bool) -> None:
        self.name: str = raw["name"]
        self.key = f"{configuration}/{self.name}"
        self.ignores_failure = raw.get("failurePolicy") == "Ignore"
        self.reinvoked_if_needed = raw.get("reinvocationPolicy") == "IfNeeded"
        self._mutating = mutating
        self._seconds: int = raw.get("timeoutSeconds") or 10
        self._side_effects = raw.get("sideEffects")
        self._target = WebhookTarget(raw.get("clientConfig") or {}, route)
        versions: Sequence[str] = raw.get("admissionReviewVersions") or ()
        self._version = next((version for version in versions if version in _VERSIONS), "")
        self._matcher = Matcher(
            raw.get("rules") or (), raw.get("matchPolicy") or "", raw.get("namespaceSelector"), raw.get("objectSelector")
        )
        conditions = raw.get("matchConditions")
        self._conditions = MatchConditions(conditions, environment(), not self.ignores_failure) if conditions else None

    async def matches(self, attributes: AdmissionAttributes) -> ServedResource | None:
        """The row in whose version the webhook gets the object; None if the webhook does not match."""
        row = self._matcher.match(attributes)
        if row is not None and self._conditions is not None:
            try:
                if not self._conditions.match(await activation(attributes, row)):
                    return None
            except EvaluationError as error:
                resource = attributes.resource
                raise errors.forbidden(resource.group, resource.plural, attributes.name, str(error)) from None
        return row

    async def call(self, attributes: AdmissionAttributes, row: ServedResource) -> list[Any] | None:
        """Call the webhook; return the patch of a response that allows, None if it has none. Raises ApiError if the webhook denies
        and CallFailed if the call fails."""
        if attributes.dry_run and self._side_effects not in _DRY_RUN_SAFE:
            raise errors.bad_request(f"admission webhook {quote(self.name)} does not support dry run")
        if not self._version:
            raise self._failed(
                "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            )
        request_id = str(uuid.uuid4())
        try:
            reply = await self._target.post(await self._review(attributes, row, request_id), self._seconds)
        except WebhookFailed as problem:
            raise self._failed(f"failed to call webhook: {problem}") from None
        response = self._valid_response(reply, request_id)
        for warning in response.get("warnings") or ():
            attributes.ctx.warn(str(warning))
        if not response.get("allowed"):
            raise _denial(self.name, response.get("status"))
        return self._patch(response) if self._mutating else None

    async def _review(self, attributes: AdmissionAttributes, row: ServedResource, request_id: str) -> dict[str, Any]:
        new, old = await attributes.objects(row)
        request = {"uid": request_id, **attributes.request(row), "object": new, "oldObject": old}
        return {"kind": _REVIEW, "apiVersion": f"admission.k8s.io/{self._version}", "request": request}

    def _failed(self, text: str) -> CallFailed:
        return CallFailed(f"failed calling webhook {quote(self.name)}: {text}")

    def _valid_response(self, reply: Any, request_id: str) -> dict[str, Any]:
        """The `response` of a valid AdmissionReview."""
        reply = reply if isinstance(reply, dict) else {}
        if reply.get("kind") != _REVIEW or reply.get("apiVersion") not in _REVIEWS:
            kind, version = quote(str(reply.get("kind") or "")), quote(str(reply.get("apiVersion") or ""))
            text = f'no kind {kind} is registered for version {version} in scheme "pkg/runtime/scheme.go:111"'
            raise self._failed(f"failed to call webhook: {text}")
        response = reply.get("response")
        problem = ""
        if not isinstance(response, dict):
            problem = "webhook response was absent"
        elif self._version == "v1":
            expected, found = (
                f"admission.k8s.io/v1, Kind={_REVIEW}",
                f"{reply.get('apiVersion') or ''}, Kind={reply.get('kind') or ''}",
            )
            if response.get("uid", "") != request_id:
                problem = f"expected response.uid={quote(request_id)}, got {quote(str(response.get('uid') or ''))}"
            elif found != expected:
                problem = f"expected webhook response of {expected}, got {found}"
            else:
                problem = self._patch_problem(response)
        if problem:
            raise self._failed(f"received invalid webhook response: {problem}")
        assert isinstance(response, dict)
        return response

    def _patch_problem(self, response: Mapping[str, Any]) -> str:
        patch, kind = response.get("patch"), response.get("patchType")
        if not self._mutating:
            if patch:
                return "validating webhook may not return response.patch"
            return "validating webhook may not return response.patchType" if kind is not None else ""
        if patch and kind is None:
            return "webhook returned response.patch but not response.patchType"
        if not patch and kind is not None:
            return "webhook returned response.patchType but not response.patch"
        return 'webhook returned invalid response.patchType of ""' if kind == "" else ""

    def _patch(self, response: Mapping[str, Any]) -> list[Any] | None:
        encoded = response.get("patch")
        if not encoded:
            return None
        try:
            patch = orjson.loads(base64.b64decode(encoded, validate=True))
        except (binascii.Error, ValueError, TypeError) as problem:
            raise self._failed(f"received undecodable patch in webhook response: {problem}") from None
        if not isinstance(patch, list):
            text = "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
            raise self._failed(f"received undecodable patch in webhook response: {text}")
        if patch and self._version == "v1" and response.get("patchType") != "JSONPatch":
            raise self._failed(f"unsupported patch type {quote(str(response.get('patchType')))}")
        return patch or None


def _denial(name: str, result: Any) -> errors.ApiError:
    """The error for a denied request, with the status that the webhook returned (`webhook/errors.ToStatusErr`)."""
    result = result if isinstance(result, dict) else {}
    explanation = result.get("message") or result.get("reason")
    text = f"admission webhook {quote(name)} denied the request"
    text = f"{text}: {explanation}" if explanation else f"{text} without explanation"
    code = result.get("code") or 0
    return errors.ApiError(
        code if isinstance(code, int) and code >= 400 else 400,
        result.get("reason") or "",
        text,
        result.get("details"),
        metadata=result.get("metadata"),
    )
