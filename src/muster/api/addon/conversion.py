"""How addon objects become those of the other version: v1alpha1, which is stored, and v1beta1.

Documents go in and out, so fields that neither type knows are carried along. What v1beta1 has no field for travels in annotations
and in a reserved name, as upstream does it, so that an object read and written as v1beta1 comes back whole. Objects whose parts
are missing, or are nothing like what they should be, are converted as far as they go: a conversion that fails would make not only
that object unreadable for everybody, but every list that it is in. Dropped on the way to v1beta1 are only values that controllers
write anew: the deprecated `status.addOnConfiguration`, and a client driver in a status without a client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from muster.api.addon.v1alpha1 import GROUP
from muster.api.resource import Document

INSTALL_NAMESPACE_ANNOTATION: Final = f"{GROUP}/v1alpha1-install-namespace"
CONFIGURATION_ANNOTATION: Final = f"{GROUP}/v1alpha1-addon-configuration"
NO_DEFAULT_CONFIG: Final = "__reserved_no_default__"
"""The name in v1beta1 for "this kind of configuration is supported, and there is no default"; no object can have it."""
KUBE_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"

Step = Callable[[Document], None]


class ConversionError(ValueError):
    """There is no way from this kind and version to the wanted version."""


def convert(document: Document, api_version: str) -> Document:
    """The object in the wanted version; the given document stays as it is."""
    have, kind = document.get("apiVersion"), document.get("kind")
    if have == api_version:
        return document
    step = _STEPS.get((str(kind), str(have), api_version))
    if step is None:
        raise ConversionError(f"{kind} of {have} cannot be converted to {api_version}")
    converted: Document = json.loads(json.dumps(document))
    step(converted)
    converted["apiVersion"] = api_version
    return converted


def answer_review(review: Document) -> Document:
    """The answer to a ConversionReview: all objects in the wanted version, or which of them there is no way for."""
    request = _part(review, "request")
    response: Document = {"uid": request.get("uid", "")}
    try:
        wanted = str(request.get("desiredAPIVersion"))
        response["convertedObjects"] = [convert(document, wanted) for document in _items(request, "objects")]
        response["result"] = {"status": "Success"}
    except ConversionError as error:
        response["convertedObjects"] = []
        response["result"] = {"status": "Failure", "message": str(error)}
    return {"apiVersion": review.get("apiVersion"), "kind": "ConversionReview", "response": response}


def _part(document: Document, name: str) -> Document:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _items(part: Document, name: str) -> list[Document]:
    items = part.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _move(document: Document, old: str, new: str, change: Callable[[Document], Document] | None = None) -> None:
    if old in document:
        items = document.pop(old)
        if change is None or not isinstance(items, list | None):
            document[new] = items
        else:
            document[new] = [change(item) if isinstance(item, dict) else item for item in items or ()]


def _set_spec(document: Document, name: str, value: object) -> None:
    document["spec"] = {**_part(document, "spec"), name: value}


def _annotate(document: Document, annotation: str, value: str) -> None:
    metadata = document.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), annotation: value}


def _take_annotation(document: Document, annotation: str) -> str | None:
    annotations = _part(_part(document, "metadata"), "annotations")
    value: str | None = annotations.pop(annotation, None)
    if value is not None and not annotations:
        del document["metadata"]["annotations"]
    return value


def _offered_to_beta(document: Document) -> None:
    spec = _part(document, "spec")
    _move(spec, "supportedConfigs", "defaultConfigs", _to_default_config)
    if configuration := spec.pop("addOnConfiguration", None):
        _annotate(document, CONFIGURATION_ANNOTATION, json.dumps(configuration, sort_keys=True))
    _move(_part(document, "status"), "defaultconfigReferences", "defaultConfigReferences")


def _offered_to_alpha(document: Document) -> None:
    spec = _part(document, "spec")
    _move(spec, "defaultConfigs", "supportedConfigs", _to_supported_config)
    if kept := _take_annotation(document, CONFIGURATION_ANNOTATION):
        configuration = _read(kept)
        if configuration is not None:
            _set_spec(document, "addOnConfiguration", configuration)
    _move(_part(document, "status"), "defaultConfigReferences", "defaultconfigReferences")


def _read(text: str) -> Document | None:
    """An annotation's content, unless somebody wrote something else into it."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _to_default_config(config: Document) -> Document:
    rest = {field: value for field, value in config.items() if field != "defaultConfig"}
    return {**rest, **(_part(config, "defaultConfig") or {"name": NO_DEFAULT_CONFIG})}


def _to_supported_config(config: Document) -> Document:
    config = dict(config)
    referent = {field: config.pop(field) for field in ("name", "namespace") if field in config}
    if referent.get("name") and referent["name"] != NO_DEFAULT_CONFIG:
        config["defaultConfig"] = referent
    return config


def _installed_to_beta(document: Document) -> None:
    namespace = _part(document, "spec").pop("installNamespace", None)
    if namespace and isinstance(namespace, str):
        _annotate(document, INSTALL_NAMESPACE_ANNOTATION, namespace)
    status = _part(document, "status")
    status.pop("addOnConfiguration", None)
    driver = status.pop("kubeClientDriver", None)
    _move(status, "registrations", "registrations", lambda registration: _registration_to_beta(registration, driver))
    for reference in _items(status, "configReferences"):
        for field in ("name", "namespace"):
            reference.pop(field, None)


def _installed_to_alpha(document: Document) -> None:
    if namespace := _take_annotation(document, INSTALL_NAMESPACE_ANNOTATION):
        _set_spec(document, "installNamespace", namespace)
    status = _part(document, "status")
    clients = [_part(item, "kubeClient") for item in _items(status, "registrations") if item.get("type") == "kubeClient"]
    if clients and (driver := clients[0].get("driver")):
        status["kubeClientDriver"] = driver
    _move(status, "registrations", "registrations", _registration_to_alpha)
    for reference in _items(status, "configReferences"):
        desired = _part(reference, "desiredConfig")
        reference["name"] = desired.get("name", "")
        if desired.get("namespace"):
            reference["namespace"] = desired["namespace"]


def _registration_to_beta(registration: Document, driver: str | None) -> Document:
    subject = dict(_part(registration, "subject"))
    units = subject.pop("organizationUnit", None)
    if registration.get("signerName") == KUBE_CLIENT_SIGNER:
        client: Document = {"subject": subject, **({"driver": driver} if driver else {})}
        return {"type": "kubeClient", "kubeClient": client}
    signer: Document = {"signerName": registration.get("signerName", ""), "subject": subject}
    if units is not None:
        subject["organizationUnits"] = units
    return {"type": "customSigner", "customSigner": signer}


def _registration_to_alpha(registration: Document) -> Document:
    if registration.get("type") == "kubeClient":
        return {"signerName": KUBE_CLIENT_SIGNER, "subject": _part(_part(registration, "kubeClient"), "subject")}
    signer = _part(registration, "customSigner")
    subject: dict[str, Any] = dict(_part(signer, "subject"))
    if (units := subject.pop("organizationUnits", None)) is not None:
        subject["organizationUnit"] = units
    return {"signerName": signer.get("signerName", ""), "subject": subject}


def _unchanged(document: Document) -> None:
    """Both versions have the same fields."""


_ALPHA: Final = f"{GROUP}/v1alpha1"
_BETA: Final = f"{GROUP}/v1beta1"
_STEPS: Final[dict[tuple[str, str, str], Step]] = {
    ("ClusterManagementAddOn", _ALPHA, _BETA): _offered_to_beta,
    ("ClusterManagementAddOn", _BETA, _ALPHA): _offered_to_alpha,
    ("ManagedClusterAddOn", _ALPHA, _BETA): _installed_to_beta,
    ("ManagedClusterAddOn", _BETA, _ALPHA): _installed_to_alpha,
    ("AddOnDeploymentConfig", _ALPHA, _BETA): _unchanged,
    ("AddOnDeploymentConfig", _BETA, _ALPHA): _unchanged,
}
