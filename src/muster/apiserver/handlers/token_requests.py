"""TokenRequest: issues a token of a service account, optionally bound to a pod, Secret or node."""

from __future__ import annotations

from datetime import timedelta

from muster.apiserver import errors
from muster.apiserver.admission.chain import AdmissionChain
from muster.apiserver.auth.access import Access
from muster.apiserver.auth.serviceaccounts import BoundObject
from muster.apiserver.bodies import decode_body
from muster.apiserver.builtin.strategy import request_type
from muster.apiserver.context import Context
from muster.apiserver.handlers.managed_fields import track_managed_fields
from muster.apiserver.objects import object_key
from muster.apiserver.presentation.negotiation import negotiate_object
from muster.apiserver.presentation.responses import respond_object
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import write_options
from muster.http import Response
from muster.kube.fielderrors import invalid
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object

_DEFAULT_SECONDS = 3600
_MIN_SECONDS = 600
_MAX_SECONDS = 1 << 32
_BOUND_KINDS = {"Pod": "/pods", "Secret": "/secrets", "Node": "/nodes"}


async def create_token(ctx: Context, resource: ServedResource, name: str) -> Response:
    format = negotiate_object(ctx.accept)
    options = write_options(ctx.query, "CreateOptions")
    row = request_type("authentication.k8s.io", "v1", "TokenRequest")
    request = await decode_body(ctx, row, options)
    namespace = ctx.attributes.namespace
    account = ctx.cluster.read("/serviceaccounts", object_key(namespace, name))
    if account is None:
        raise errors.not_found(resource, name)
    given = request["metadata"]
    if given.get("namespace", namespace) != namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if given.get("name", name) != name:
        problem = invalid("metadata.name", given["name"], "must match the service account name if specified")
        raise errors.invalid_object(row, name, [problem])
    spec = request.setdefault("spec", {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _DEFAULT_SECONDS
    seconds = spec["expirationSeconds"]
    track_managed_fields(ctx, row, None, request, options)
    request = await ctx.cluster.part(AdmissionChain).admit_request(ctx, resource, request, options.dry_run)
    if seconds < _MIN_SECONDS:
        problem = invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        raise errors.invalid_object(row, "", [problem])
    if seconds > _MAX_SECONDS:
        problem = invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        raise errors.invalid_object(row, "", [problem])
    issuer = await ctx.cluster.part(Access).token_issuer()
    audiences = spec.get("audiences") or list(issuer.audiences)
    bound = _bound_object(ctx, spec.get("boundObjectRef"), namespace, account)
    now = ctx.cluster.clock()
    expires = now + timedelta(seconds=seconds)
    token = "" if options.dry_run else issuer.issue(namespace, name, account["metadata"]["uid"], audiences, now, expires, bound)
    answer = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": account["metadata"]["uid"],
            "creationTimestamp": format_time(now),
            "managedFields": request["metadata"].get("managedFields") or [],
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")},
        "status": {"token": token, "expirationTimestamp": format_time(expires)},
    }
    return respond_object(ctx, None, answer, 201, format)


def _bound_object(ctx: Context, reference: Object | None, namespace: str, account: Object) -> BoundObject | None:
    if not reference:
        return None
    kind, name, uid = reference.get("kind", ""), reference.get("name", ""), reference.get("uid", "")
    storage = _BOUND_KINDS.get(kind)
    if storage is None or reference.get("apiVersion") not in ("v1", ""):
        group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
        raise errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    found = ctx.cluster.read(storage, name if kind == "Node" else object_key(namespace, name))
    if found is None:
        raise errors.not_found_named("", storage[1:], name)
    if uid and uid != found["metadata"]["uid"]:
        text = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict_named("", kind, name, text)
    if kind == "Pod" and found.get("spec", {}).get("serviceAccountName") != account["metadata"]["name"]:
        raise errors.bad_request(f"cannot bind token to pod {name} running with different service account name.")
    return BoundObject(kind, name, found["metadata"]["uid"])
