"""Validation of `spec.conversion` of a CRD: strategy, webhook client configuration and review versions."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from muster.kube import names
from muster.kube.fielderrors import FieldError, forbidden, invalid, not_supported, required

Raw = Mapping[str, Any]
_STRATEGIES: Final = ["None", "Webhook"]
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"


def check_conversion(spec: Raw, established: bool) -> Iterator[FieldError]:
    conversion = spec.get("conversion")
    if conversion is None:
        return
    path, strategy = "spec.conversion", conversion.get("strategy") or ""
    webhook = conversion.get("webhook") or {}
    if strategy != "None" and spec.get("preserveUnknownFields"):
        yield invalid(f"{path}.strategy", strategy, "must be None if spec.preserveUnknownFields is true")
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported(f"{path}.strategy", strategy, _STRATEGIES)
    if strategy == "Webhook":
        yield from _check_client(webhook.get("clientConfig"), f"{path}.webhookClientConfig", established)
        yield from _check_review_versions(webhook.get("conversionReviewVersions") or [], f"{path}.conversionReviewVersions")
        return
    detail = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        yield forbidden(f"{path}.webhookClientConfig", detail)
    if webhook.get("conversionReviewVersions"):
        yield forbidden(f"{path}.conversionReviewVersions", detail)


def _check_client(config: Raw | None, path: str, established: bool) -> Iterator[FieldError]:
    if config is None:
        yield required(path, "required when strategy is set to Webhook")
        return
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from check_url(url, f"{path}.url")
    elif service is not None:
        yield from check_service(service, f"{path}.service")
    if config.get("caBundle") and established:
        yield from _check_bundle(config["caBundle"], f"{path}.caBundle")


def check_url(url: str, field: str) -> Iterator[FieldError]:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError as problem:
        yield required(field, f"url must be a valid URL: {problem}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield invalid(field, "", f"host must be specified{_FORM}")
    if "@" in parts.netloc:
        yield invalid(field, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(field, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(field, parts.query, "query parameters are not permitted in the URL")


def check_service(service: Raw, field: str) -> Iterator[FieldError]:
    """As kube-apiserver, which confuses the two: a missing namespace is reported for the name, and a missing name for the
    namespace."""
    if not service.get("namespace"):
        yield required(f"{field}.name")
    if not service.get("name"):
        yield required(f"{field}.namespace")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield invalid(f"{field}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    yield from _check_path(service.get("path") or "", f"{field}.path")


def _check_path(path: str, field: str) -> Iterator[FieldError]:
    if path in ("", "/"):
        return
    if path == "//":
        yield invalid(field, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(field, path, "must start with a '/'")
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(field, path, f"segment[{index}] may not be empty")
            continue
        for problem in names.dns1123_subdomain(step):
            yield invalid(field, path, f"segment[{index}]: {problem}")


def _check_bundle(bundle: str, field: str) -> Iterator[FieldError]:
    try:
        ssl.create_default_context(cadata=base64.b64decode(bundle, validate=True).decode())
    except (ValueError, binascii.Error, ssl.SSLError):
        detail = "unable to load root certificates: unable to parse bytes as PEM block"
        yield invalid(field, bundle, detail)


def _check_review_versions(versions: list[str], field: str) -> Iterator[FieldError]:
    if not versions:
        yield required(field)
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid(f"{field}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        for problem in names.dns1035_label(version):
            yield invalid(f"{field}[{index}]", version, problem)
    if not any(version in _REVIEW_VERSIONS for version in versions):
        yield invalid(field, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")
