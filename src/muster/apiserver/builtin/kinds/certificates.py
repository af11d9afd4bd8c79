"""CertificateSigningRequest: the server sets the requester, the request is one signed PKCS#10 in PEM, and each endpoint may only
change its part: /approval the approval conditions, /status the certificate and other conditions, the main endpoint neither."""

from __future__ import annotations

import base64
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from muster.apiserver.builtin.kinds.checks import Errors, repeated, spec_of, status_of
from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import duplicate, forbidden, invalid, not_supported, required
from muster.machinery.golang.quoting import quote
from muster.machinery.objects import Object

USAGES: Final = sorted(
    (
        "signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment", "cert sign",
        "crl sign", "encipher only", "decipher only", "any", "server auth", "client auth", "code signing", "email protection",
        "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing", "microsoft sgc", "netscape sgc",
    )
)  # fmt: skip
_APPROVAL_CONDITIONS: Final = ("Approved", "Denied")
_ALWAYS_TRUE: Final = ("Approved", "Denied", "Failed")
_LEGACY: Final = "kubernetes.io/legacy-unknown"


def prepare(ctx: HookContext, obj: Object, old: Object | None) -> None:
    if old is None:
        spec = obj.setdefault("spec", {})
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
        spec.update(ctx.user.document())
        obj["status"] = {}
        return
    obj["spec"] = old.get("spec") or {}
    status, old_status = obj.get("status") or {}, status_of(old)
    if ctx.subresource == "approval":
        conditions = _with_times(status.get("conditions"), old_status, ctx.now())
        obj["status"] = {**old_status, "conditions": conditions} if conditions else _without(old_status, "conditions")
    elif ctx.subresource == "status":
        for kind in _APPROVAL_CONDITIONS:
            _keep_conditions(status, old_status, kind)
        conditions = _with_times(status.get("conditions"), old_status, ctx.now())
        obj["status"] = {**status, "conditions": conditions} if conditions else _without(status, "conditions")
    else:
        obj["status"] = old_status


def _without(holder: Object, field: str) -> Object:
    return {key: value for key, value in holder.items() if key != field}


def _of_type(status: Object, kind: str) -> list[Object]:
    return [condition for condition in status.get("conditions") or () if condition.get("type") == kind]


def _keep_conditions(status: Object, old_status: Object, kind: str) -> None:
    """Restore approval conditions that /status may not change, if their number is unchanged."""
    kept = _of_type(old_status, kind)
    conditions = status.get("conditions") or []
    indexes = [index for index, condition in enumerate(conditions) if condition.get("type") == kind]
    if len(indexes) == len(kept):
        for index, condition in zip(indexes, kept, strict=True):
            conditions[index] = condition


def _with_times(conditions: list[Object] | None, old_status: Object, now: str) -> list[Object]:
    for condition in conditions or ():
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = [c for c in _of_type(old_status, condition.get("type", "")) if c.get("status") == condition.get("status")]
            condition["lastTransitionTime"] = next((c["lastTransitionTime"] for c in same if c.get("lastTransitionTime")), now)
    return conditions or []


def _request_problem(encoded: Any) -> str:
    try:
        pem = base64.b64decode(encoded or "")
    except ValueError:
        pem = b""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        request = x509.load_pem_x509_csr(pem)
        return "" if request.is_signature_valid else "x509: invalid signature"
    except (ValueError, UnsupportedAlgorithm) as error:
        return f"x509: malformed certificate request: {error}"


def _certificate_problem(encoded: str) -> str:
    pem = base64.b64decode(encoded)
    if b"-----BEGIN " not in pem:
        return "must contain at least one CERTIFICATE PEM block"
    kind = pem.partition(b"-----BEGIN ")[2].partition(b"-----")[0].decode("utf-8", "replace")
    if kind != "CERTIFICATE":
        return f"only CERTIFICATE PEM blocks are allowed, found {quote(kind)}"
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        return f"x509: malformed certificate: {error}"
    return ""


def signer_name(value: str, path: str) -> Errors:
    if not value:
        return [required(path)]
    parts = value.split("/")
    if len(parts) != 2:
        return [invalid(path, value, "must be a fully qualified domain and path of the form 'example.com/signer-name'")]
    errors: Errors = []
    for part, rule in ((parts[0], names.dns1123_label), (parts[1], names.dns1123_subdomain)):
        for label in part.split("."):
            problems = rule(label)
            if problems:
                errors += [invalid(path, part, f"validating label {quote(label)}: {text}") for text in problems]
                break
        if part is parts[0] and "." not in part:
            errors.append(invalid(path, part, "should be a domain with at least two segments separated by dots"))
    return errors


def _validate_spec(spec: Object, old: Object | None) -> Errors:
    errors: Errors = []
    problem = _request_problem(spec.get("request"))
    if problem:
        errors.append(invalid("spec.request", spec.get("request"), problem))
    usages = spec.get("usages") or []
    if not usages:
        errors.append(required("spec.usages"))
    errors += [not_supported(f"spec.usages[{i}]", usage, USAGES) for i, usage in enumerate(usages) if usage not in USAGES]
    errors += [duplicate(f"spec.usages[{i}]", usages[i]) for i in repeated(usages)]
    signer = spec.get("signerName", "")
    if signer == _LEGACY and old is None:
        errors.append(invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version"))
    else:
        errors += signer_name(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        errors.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"))
    return errors


def _validate_conditions(conditions: list[Object], old: Object | None) -> Errors:
    path = "status.conditions"
    errors: Errors = []
    seen: set[str] = set()
    both_before = old is not None and all(_of_type(status_of(old), kind) for kind in _APPROVAL_CONDITIONS)
    for index, condition in enumerate(conditions):
        kind, state = condition.get("type", ""), condition.get("status", "")
        if not kind:
            errors.append(required(f"{path}[{index}].type"))
        allowed = ["True"] if kind in _ALWAYS_TRUE else ["False", "True", "Unknown"]
        if not state:
            errors.append(required(f"{path}[{index}].status"))
        elif state not in allowed:
            errors.append(not_supported(f"{path}[{index}].status", state, allowed))
        other = {"Approved": "Denied", "Denied": "Approved"}.get(kind)
        if other in seen and not both_before:
            errors.append(invalid(path, kind, "Approved and Denied conditions are mutually exclusive"))
        if kind in seen:
            errors.append(duplicate(f"{path}[{index}].type", kind))
        seen.add(kind)
    return errors


def validate(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    status = status_of(obj)
    errors = _validate_spec(spec_of(obj), old) if old is None else []
    errors += _validate_conditions(status.get("conditions") or [], old)
    certificate = status.get("certificate")
    old_status = status_of(old) if old is not None else {}
    if certificate and certificate != old_status.get("certificate"):
        problem = _certificate_problem(certificate)
        if problem:
            errors.append(invalid("status.certificate", "<certificate data>", problem))
    return errors if old is None else errors + _validate_update(ctx, status, old_status)


def _validate_update(ctx: HookContext, status: Object, old_status: Object) -> Errors:
    errors: Errors = []
    for kind in _ALWAYS_TRUE:
        new, old = _of_type(status, kind), _of_type(old_status, kind)
        if len(new) < len(old):
            errors.append(forbidden("status.conditions", f"updates may not remove a condition of type {quote(kind)}"))
        elif kind in _APPROVAL_CONDITIONS and ctx.subresource != "approval" and len(new) > len(old):
            errors.append(forbidden("status.conditions", f"updates may not add a condition of type {quote(kind)}"))
    certificate, held = status.get("certificate"), old_status.get("certificate")
    if certificate != held:
        if ctx.subresource != "status":
            errors.append(forbidden("status.certificate", "updates may not set certificate content"))
        elif held:
            errors.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
    return errors
