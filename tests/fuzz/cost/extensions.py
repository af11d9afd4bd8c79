"""Definitions, rules, policies, webhooks and reviews that grow."""

from __future__ import annotations

from typing import Any

from tests.fuzz.cost.case import (
    DRY,
    HOLE,
    NAMESPACE,
    Asked,
    Case,
    around,
    filled,
    in_list,
    in_map,
    meta,
    names,
    posted,
    repeated,
)
from tests.fuzz.cost.things import DEFINITIONS, THINGS, thing

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_AUTHORIZATION = "/apis/authorization.k8s.io/v1"


def _defined(schema: Any, grow: Any, **version: Any) -> Any:
    """A definition with the part that grows in its schema."""
    whole = {"type": "object", "properties": {"spec": schema}}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}, **version}
    spec = {
        "group": "grown.example.com",
        "scope": "Namespaced",
        "names": {"plural": "grown", "kind": "Grown"},
        "versions": [served],
    }
    document = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    return posted(DEFINITIONS, {**document, "metadata": {"name": "grown.grown.example.com"}}, grow)


def _deep(opening: bytes, closing: bytes, inner: bytes) -> Any:
    """Nested as deep as an object may be, and beside that as wide as the size wants."""
    one = opening * 40 + inner + closing * 40
    return lambda size: in_map(filled(lambda n: b'"p%d":%b' % (n, one), size))


_STRING = b'{"type":"string"}'
_FREE: dict[str, Any] = {"type": "object"}

DEFINED: list[Case] = [
    Case("a definition with many properties", _defined(
        {**_FREE, "properties": HOLE}, lambda s: in_map(filled(lambda n: b'"p%d":%b' % (n, _STRING), s)))),
    Case("a definition with many wrong properties", _defined(
        {**_FREE, "properties": HOLE}, lambda s: in_map(filled(lambda n: b'"p%d":{}' % n, s)))),
    Case("a definition with deep properties", _defined(
        {**_FREE, "properties": HOLE}, _deep(b'{"type":"object","properties":{"a":', b"}}", _STRING))),
    Case("a definition with a long enumeration", _defined(
        {**_FREE, "properties": {"e": {"type": "string", "enum": HOLE}}}, lambda s: in_list(filled(names("e"), s)))),
    Case("a definition with an enumeration and a wrong default", _defined(
        {**_FREE, "properties": {"e": {"type": "string", "default": "x", "enum": HOLE}}},
        lambda s: in_list(filled(names("e"), s)))),
    Case("a definition with a large default", _defined(
        {**_FREE, "properties": {"d": {"type": "array", "items": {"type": "string"}, "default": HOLE}}},
        lambda s: in_list(filled(names("d"), s)))),
    Case("a definition that requires much", _defined({**_FREE, "required": HOLE}, lambda s: in_list(filled(names("r"), s)))),
    Case("a definition with many alternatives", _defined(
        {**_FREE, "properties": {"a": {"type": "string", "anyOf": HOLE}}},
        lambda s: in_list(filled(lambda n: b'{"minLength":%d}' % n, s)))),
    Case("a definition with many list keys", _defined(
        {**_FREE, "properties": {"l": {"type": "array", "items": _FREE, "x-kubernetes-list-type": "map",
                                       "x-kubernetes-list-map-keys": HOLE}}},
        lambda s: in_list(filled(names("k"), s)))),
    Case("a definition with many rules", _defined(
        {**_FREE, "properties": {"a": {"type": "string", "maxLength": 9}}, "x-kubernetes-validations": HOLE},
        lambda s: in_list(filled(lambda n: b'{"rule":"self.a != \'%d\'"}' % n, s)))),
    Case("a definition with many wrong rules", _defined(
        {**_FREE, "x-kubernetes-validations": HOLE}, lambda s: in_list(repeated(b'{"rule":"self.b"}', s)))),
    Case("a definition with one long rule", _defined(
        {**_FREE, "properties": {"a": {"type": "boolean"}}, "x-kubernetes-validations": [{"rule": HOLE}]},
        lambda s: b'"' + b" || ".join([b"self.a"] * (s // 10)) + b'"')),
    Case("a definition with one rule of brackets", _defined(
        {**_FREE, "x-kubernetes-validations": [{"rule": HOLE}]}, lambda s: b'"' + b"(" * (s - 4000) + b'"')),
    Case("a definition with many columns", _defined(
        _FREE, lambda s: in_list(filled(
            lambda n: b'{"name":"c%d","type":"string","jsonPath":".spec.a"}' % n, s)), additionalPrinterColumns=HOLE)),
    Case("a definition with many selectable fields", _defined(
        _FREE, lambda s: in_list(filled(lambda n: b'{"jsonPath":".spec.a%d"}' % n, s)), selectableFields=HOLE)),
    Case("a definition with a long pattern", _defined(
        {**_FREE, "properties": {"a": {"type": "string", "pattern": HOLE}}}, lambda s: b'"' + b"(a|b)*" * (s // 6 - 700) + b'"')),
    Case("a definition with many short names", lambda s: Asked("POST", DEFINITIONS, around({
        "metadata": {"name": "grown.grown.example.com"},
        "spec": {"group": "grown.example.com", "scope": "Namespaced",
                 "names": {"plural": "grown", "kind": "Grown", "shortNames": HOLE},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _FREE}}]}},
        in_list(filled(names("s"), s))), query=DRY)),
    Case("a definition with many versions", lambda s: Asked("POST", DEFINITIONS, around({
        "metadata": {"name": "grown.grown.example.com"},
        "spec": {"group": "grown.example.com", "scope": "Namespaced", "names": {"plural": "grown", "kind": "Grown"},
                 "versions": HOLE}},
        in_list(filled(lambda n: b'{"name":"v%d","served":true,"storage":false,"schema":{"openAPIV3Schema":'
                                 b'{"type":"object"}}}' % n, s))), query=DRY)),
]  # fmt: skip

_POLICY: dict[str, Any] = {
    "matchConstraints": {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    },
    "validations": [{"expression": "true"}],
}


def _policy(grow: Any, **spec: Any) -> Any:
    return posted(f"{_ADMISSION}/validatingadmissionpolicies", {"metadata": meta(), "spec": {**_POLICY, **spec}}, grow)


def _hook(number: int) -> bytes:
    return (
        b'{"name":"h%d.example.com","sideEffects":"None","admissionReviewVersions":["v1"],'
        b'"clientConfig":{"url":"https://x.example/"}}' % number
    )


POLICIES: list[Case] = [
    Case("a policy with many validations", _policy(
        lambda s: in_list(filled(lambda n: b'{"expression":"object.metadata.name != \'%d\'"}' % n, s)),
        validations=HOLE)),
    Case("a policy with many variables", _policy(
        lambda s: in_list(filled(lambda n: b'{"name":"v%d","expression":"%d"}' % (n, n), s)), variables=HOLE)),
    Case("a policy whose variables use each other", _policy(
        lambda s: in_list(filled(
            lambda n: b'{"name":"v%d","expression":"variables.v%d + variables.v%d"}' % (n, n - 1, n - 1) if n
            else b'{"name":"v0","expression":"1"}', s)), variables=HOLE)),
    Case("a policy with many conditions", _policy(
        lambda s: in_list(filled(lambda n: b'{"name":"c%d","expression":"true"}' % n, s)), matchConditions=HOLE)),
    Case("webhooks with many hooks", posted(
        f"{_ADMISSION}/validatingwebhookconfigurations", {"metadata": meta(), "webhooks": HOLE},
        lambda s: in_list(filled(_hook, s)))),
    Case("webhooks with many review versions", posted(
        f"{_ADMISSION}/validatingwebhookconfigurations",
        {"metadata": meta(), "webhooks": [{"name": "h.example.com", "sideEffects": "None", "admissionReviewVersions": HOLE,
                                           "clientConfig": {"url": "https://x.example/"}}]},
        lambda s: in_list(filled(names("v"), s)))),
    Case("webhooks with many conditions", posted(
        f"{_ADMISSION}/validatingwebhookconfigurations",
        {"metadata": meta(), "webhooks": [{"name": "h.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                                           "clientConfig": {"url": "https://x.example/"}, "matchConditions": HOLE}]},
        lambda s: in_list(filled(lambda n: b'{"name":"c%d","expression":"true"}' % n, s)))),
]  # fmt: skip


def _review(path: str, spec: Any, grow: Any) -> Any:
    return lambda size: Asked("POST", path, around({"spec": spec}, grow(size)))


_PODS = {"verb": "get", "resource": "pods"}
REVIEWS: list[Case] = [
    Case("a review of many groups", _review(
        f"{_AUTHORIZATION}/subjectaccessreviews", {"user": "x", "groups": HOLE, "resourceAttributes": _PODS},
        lambda s: in_list(filled(names("g"), s)))),
    Case("a review of many extras", _review(
        f"{_AUTHORIZATION}/subjectaccessreviews", {"user": "x", "extra": HOLE, "resourceAttributes": _PODS},
        lambda s: in_map(filled(lambda n: b'"k%d":["v"]' % n, s)))),
    Case("a review by a selector of many requirements", _review(
        f"{_AUTHORIZATION}/selfsubjectaccessreviews",
        {"resourceAttributes": {**_PODS, "verb": "list", "labelSelector": {"requirements": HOLE}}},
        lambda s: in_list(filled(lambda n: b'{"key":"k%d","operator":"In","values":["v"]}' % n, s)))),
    Case("a review of a long path", _review(
        f"{_AUTHORIZATION}/selfsubjectaccessreviews", {"nonResourceAttributes": {"verb": "get", "path": HOLE}},
        lambda s: b'"/' + b"a/" * (s // 2 - 2000) + b'"')),
    Case("a review of rules", _review(
        f"{_AUTHORIZATION}/selfsubjectrulesreviews", {"namespace": NAMESPACE, "x": HOLE},
        lambda s: in_list(repeated(b'""', s)))),
    Case("a review of a long token", _review(
        "/apis/authentication.k8s.io/v1/tokenreviews", {"token": HOLE}, lambda s: b'"' + b"a." * (s // 2 - 2000) + b'"')),
    Case("a review of a token for many audiences", _review(
        "/apis/authentication.k8s.io/v1/tokenreviews", {"token": "admin-static-token", "audiences": HOLE},
        lambda s: in_list(filled(names("a"), s)))),
    Case("a token for many audiences", _review(
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default/token", {"audiences": HOLE},
        lambda s: in_list(filled(names("a"), s)))),
]  # fmt: skip

THING_CASES: list[Case] = [
    Case(f"{field} of a custom resource", lambda size, field=field, piece=piece: Asked(  # type: ignore[misc]
        "POST", THINGS, thing({field: HOLE}, in_list(repeated(piece, size))), query=DRY))
    for field, piece in {
        "pattern": b'"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"',
        "numbers": b"9",
        "times": b'"x"',
        "defaults": b"{}",
        "either": b'"ccc"',
        "embedded": b"{}",
        "ruled": b'"x"',
    }.items()
]  # fmt: skip

EXTENSIONS: list[Case] = [*DEFINED, *POLICIES, *REVIEWS, *THING_CASES]
