"""The attacks that got through once, each by its name, and their nearest relatives."""

from __future__ import annotations

from typing import Any

from tests.fuzz.cost.case import (
    DRY,
    HOLE,
    Asked,
    Case,
    around,
    filled,
    in_list,
    in_map,
    meta,
    names,
    namespaced,
    posted,
    repeated,
)
from tests.fuzz.cost.things import ENUMERATED, THINGS, thing
from tests.support.client import Client

MAPS = namespaced("/api/v1", "configmaps")
ROLES = namespaced("/apis/rbac.authorization.k8s.io/v1", "roles")
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def owner(number: int) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","name":"o%d","uid":"u%d","controller":true}' % (number, number)


def managed_entry(number: int) -> bytes:
    return (
        b'{"manager":"m%d","operation":"Update","apiVersion":"v1","time":"2026-11-15T10:00:00Z",'
        b'"fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k%d":{}}}}' % (number, number)
    )


def _cubic_role(size: int) -> Asked:
    """A rule of n verbs, n groups and n resources; a few kilobytes are a million combinations."""
    count = max(8, min(400, size // 64))
    rule = {key: [f"{key[0]}{number}" for number in range(count)] for key in ("verbs", "apiGroups", "resources")}
    return Asked("POST", ROLES, around({"metadata": meta(), "rules": [rule]}, b""), query=DRY)


def _may_write_roles(client: Client, size: int) -> None:
    """Mallory may write roles, so that only what she would grant can be refused."""
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update", "patch", "get"]}
    everyone = [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cost"}
    path = "/apis/rbac.authorization.k8s.io/v1"
    client.post(f"{path}/clusterroles", {"metadata": {"name": "cost"}, "rules": [rule]}).expect(201, 409)
    body = {"metadata": {"name": "cost"}, "subjects": everyone, "roleRef": reference}
    client.post(f"{path}/clusterrolebindings", body).expect(201, 409)


def _condemned(client: Client, size: int) -> None:
    """An object that is being deleted and waits for a finalizer."""
    client.post(MAPS, {"metadata": {"name": "condemned", "finalizers": ["example.com/wait"]}}).expect(201, 409)
    client.delete(f"{MAPS}/condemned").expect(200, 202)


def _new_finalizers(size: int) -> Asked:
    finalizers = in_list(filled(names("example.com/f"), size))
    return Asked("PUT", f"{MAPS}/condemned", around({"metadata": meta("condemned", finalizers=HOLE)}, finalizers))


def rules(number: int) -> bytes:
    return b'{"verbs":["get"],"apiGroups":["g%d"],"resources":["r%d"]}' % (number, number)


def _yaml(size: int, item: bytes, opening: bytes = b"") -> bytes:
    head = b"apiVersion: cost.example.com/v1\nkind: Thing\nmetadata:\n  name: grown\nspec:\n  free:\n    l:\n"
    return head + opening + repeated(item, size, b"")


def _yaml_case(name: str, item: bytes, opening: bytes = b"") -> Case:
    return Case(
        f"create a Thing from YAML: {name}",
        lambda size: Asked("POST", THINGS, _yaml(size, item, opening), "application/yaml", DRY),
    )


def _csr(usage: Any) -> Any:
    spec = {"request": "AAAA", "signerName": "example.com/s", "usages": HOLE}
    return posted(REQUESTS, {"metadata": meta(), "spec": spec}, lambda size: in_list(usage(size)))


def _listed_scopes(size: int) -> bytes:
    return in_list(repeated(b'"x"', size))


NAMED: list[Case] = [
    Case(
        "owner references that all are the controller",
        posted(MAPS, {"metadata": meta(ownerReferences=HOLE)}, lambda size: in_list(filled(owner, size))),
    ),
    Case(
        "a Role of n verbs, groups and resources, granted by somebody without them",
        _cubic_role,
        limit=400 * 64,
        user="mallory",
        before=_may_write_roles,
    ),
    Case(
        "a Role of many rules, granted by somebody without them",
        posted(ROLES, {"metadata": meta(), "rules": HOLE}, lambda size: in_list(filled(rules, size))),
        user="mallory",
        before=_may_write_roles,
    ),
    Case("a certificate request with many unknown usages", _csr(lambda size: filled(names("u"), size))),
    Case("a certificate request with the same usage again and again", _csr(lambda size: repeated(b'"any"', size))),
    Case(
        "a ResourceQuota with many unknown scopes",
        posted(namespaced("/api/v1", "resourcequotas"), {"metadata": meta(), "spec": {"scopes": HOLE}}, _listed_scopes),
    ),
    Case("new finalizers of a deleted object", _new_finalizers, before=_condemned),
    Case(
        "managed fields of many managers",
        posted(MAPS, {"metadata": meta(managedFields=HOLE)}, lambda size: in_list(filled(managed_entry, size))),
    ),
    _yaml_case("a list of short items", b"    - a\n"),
    _yaml_case("a list of short items in brackets", b"a,", b"    - [a,"[:0] + b"    - ["),
    _yaml_case("a list of empty maps", b"    - {}\n"),
    _yaml_case("a list of numbers", b"    - 1\n"),
    _yaml_case("a list of aliases", b"    - *a\n", b"    - &a x\n"),
    _yaml_case("a list of anchors", b"    - &a x\n"),
    _yaml_case("comments", b"# x\n"),
    _yaml_case("merged maps", b"    - <<: *a\n", b"    - &a {x: y}\n"),
    Case(
        "values that are not in a large enumeration",
        lambda size: Asked("POST", ENUMERATED, thing({"list": HOLE}, in_list(repeated(b'"x"', size)), "Listed"), query=DRY),
    ),
    Case(
        "values of a wrong type by a schema",
        lambda size: Asked("POST", THINGS, thing({"texts": HOLE}, in_list(repeated(b"1", size))), query=DRY),
    ),
    Case(
        "values too short by a schema",
        lambda size: Asked("POST", THINGS, thing({"texts": HOLE}, in_list(repeated(b'""', size))), query=DRY),
    ),
    Case(
        "items of a set, all different",
        lambda size: Asked("POST", THINGS, thing({"set": HOLE}, in_list(filled(names("s"), size))), query=DRY),
    ),
    Case(
        "items of a set, all the same",
        lambda size: Asked("POST", THINGS, thing({"set": HOLE}, in_list(repeated(b'"s"', size))), query=DRY),
    ),
    Case(
        "items of a map list, all different",
        lambda size: Asked(
            "POST", THINGS, thing({"list": HOLE}, in_list(filled(lambda n: b'{"name":"n%d"}' % n, size))), query=DRY
        ),
    ),
    Case(
        "items of a map list, all the same",
        lambda size: Asked("POST", THINGS, thing({"list": HOLE}, in_list(repeated(b'{"name":"n"}', size))), query=DRY),
    ),
    Case(
        "keys of a map whose values break a rule each",
        lambda size: Asked("POST", THINGS, thing({"map": HOLE}, in_map(filled(lambda n: b'"k%d":1' % n, size))), query=DRY),
    ),
    Case(
        "unknown fields of a custom resource",
        lambda size: Asked("POST", THINGS, thing(HOLE, in_map(filled(lambda n: b'"u%d":1' % n, size))), query=DRY),
    ),
    Case(
        "unknown fields of a custom resource, strictly",
        lambda size: Asked(
            "POST",
            THINGS,
            thing(HOLE, in_map(filled(lambda n: b'"u%d":1' % n, size))),
            query={**DRY, "fieldValidation": "Strict"},
        ),
    ),
    Case(
        "free content of a custom resource",
        lambda size: Asked("POST", THINGS, thing({"free": HOLE}, in_map(filled(lambda n: b'"u%d":{}' % n, size))), query=DRY),
    ),
    Case(
        "free content of a custom resource, stored",
        lambda size: Asked("POST", THINGS, thing({"free": HOLE}, in_map(filled(lambda n: b'"u%d":[]' % n, size)))),
        after=lambda client: client.delete(f"{THINGS}/grown"),
    ),
    Case(
        "a list of empty maps in free content",
        lambda size: Asked("POST", THINGS, thing({"free": {"l": HOLE}}, in_list(repeated(b"{}", size))), query=DRY),
    ),
]
