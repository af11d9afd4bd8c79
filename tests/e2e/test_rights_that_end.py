"""An open watch ends with the right to it, whatever took the right away; those of others go on and miss nothing.

The embedded server only: kube-apiserver admits a watch once and lets it run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.administrator import service_account_token
from tests.support.client import Client, Watch
from tests.support.planes import USERS, EmbeddedPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PROMPTLY = 3.0
"""Seconds, on a machine where other tests run too."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlane]:
    plane = EmbeddedPlane(tmp_path_factory.mktemp("rights"), clusters=())
    plane.start()
    yield plane
    plane.stop(kill=True)


class Place:
    """A namespace in which people are given rights."""

    def __init__(self, server: EmbeddedPlane) -> None:
        self.server = server
        self.admin = server.client()
        self.name = f"place{next(_numbers)}"
        self.maps = f"/api/v1/namespaces/{self.name}/configmaps"
        self.roles = f"{RBAC}/namespaces/{self.name}/roles"
        self.bindings = f"{RBAC}/namespaces/{self.name}/rolebindings"
        self.admin.post("/api/v1/namespaces", {"metadata": {"name": self.name}}).expect(201)
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        self.admin.post(self.roles, {"metadata": {"name": "reader"}, "rules": [rule]}).expect(201)

    def bind(self, *users: str, account: str = "") -> None:
        subjects: list[dict[str, Any]] = [{"kind": "User", "name": user} for user in users]
        if account:
            subjects = [{"kind": "ServiceAccount", "name": account, "namespace": self.name}]
        for subject in subjects:
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
            body = {"metadata": {"name": subject["name"]}, "roleRef": ref, "subjects": [subject]}
            self.admin.post(self.bindings, body).expect(201)

    def account(self, name: str) -> None:
        self.admin.post(f"/api/v1/namespaces/{self.name}/serviceaccounts", {"metadata": {"name": name}}).expect(201)
        self.bind(account=name)

    def watch(self, user: str = "", token: str = "", headers: dict[str, str] | None = None) -> Watch:
        client = Client(self.server.url, ca=self.server.ca, token=token or USERS[user].token)
        connection = client.connect(PROMPTLY + 10)
        wire = client.headers(accept="application/json", content_type=None, user=None, extra=headers)
        connection.request("GET", f"{client.prefix}{self.maps}?watch=true&timeoutSeconds=600", headers=wire)
        sock = connection.sock
        opened = Watch(sock, connection, connection.getresponse(), PROMPTLY)
        assert opened.status == 200
        assert self.seen(opened) == "kube-root-ca.crt"
        return opened

    def write(self, name: str) -> None:
        self.admin.post(self.maps, {"metadata": {"name": name}, "data": {"k": "v"}}).expect(201)

    @staticmethod
    def seen(watch: Watch) -> str:
        return str(watch.take(1)[0]["object"]["metadata"]["name"])


@pytest.fixture
def place(server: EmbeddedPlane) -> Iterator[Place]:
    made = Place(server)
    made.admin.get(made.maps).expect(200)
    # The first thing every watch sees is what the server puts into new namespaces.
    with made.admin.watch(made.maps) as first:
        assert first.take(1)
    yield made
    made.admin.close()


def ends(watch: Watch) -> list[str]:
    """What a watch still shows until the server ends it; fails if it goes on."""
    shown = [event["object"]["metadata"]["name"] for event in watch]
    assert watch.ended_by_server, "the watch is still open"
    return shown


def test_a_deleted_binding_ends_the_watch_of_its_subject_and_of_nobody_else(place: Place) -> None:
    place.bind("alice", "bob")
    with place.watch("alice") as gone, place.watch("bob") as stays:
        place.admin.delete(f"{place.bindings}/alice").expect(200)
        assert ends(gone) == []
        place.write("later")
        assert place.seen(stays) == "later"


def test_a_role_that_no_longer_says_watch_ends_watches(place: Place) -> None:
    place.bind("alice")
    with place.watch("alice") as gone:
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
        place.admin.patch(f"{place.roles}/reader", {"rules": rules}).expect(200)
        assert ends(gone) == []


def test_a_role_that_changes_otherwise_ends_no_watch(place: Place) -> None:
    place.bind("alice")
    with place.watch("alice") as stays:
        rules = [{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["watch"]}]
        place.admin.patch(f"{place.roles}/reader", {"rules": rules}).expect(200)
        place.write("later")
        assert place.seen(stays) == "later"
        assert stays.take(1) == []
        assert not stays.ended_by_server


def test_a_watch_ends_with_the_account_of_its_token(place: Place) -> None:
    place.account("robot")
    place.account("other")
    mine = [service_account_token(place.admin, place.name, name) for name in ("robot", "other")]
    with place.watch(token=mine[0]) as gone, place.watch(token=mine[1]) as stays:
        place.admin.delete(f"/api/v1/namespaces/{place.name}/serviceaccounts/robot").expect(200)
        assert ends(gone) == []
        place.write("later")
        assert place.seen(stays) == "later"


def test_a_watch_ends_with_the_pod_that_its_token_is_bound_to(place: Place) -> None:
    place.account("robot")
    pods = f"/api/v1/namespaces/{place.name}/pods"
    spec = {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}
    uid = place.admin.post(pods, {"metadata": {"name": "p"}, "spec": spec}).expect(201)["metadata"]["uid"]
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}}
    path = f"/api/v1/namespaces/{place.name}/serviceaccounts/robot/token"
    token = place.admin.post(path, {"spec": bound}).expect(201)["status"]["token"]
    with place.watch(token=token) as gone:
        place.admin.delete(f"{pods}/p", {"gracePeriodSeconds": 0}).expect(200)
        assert ends(gone) == []


def test_a_watch_in_somebody_elses_name_ends_with_the_right_to_speak_for_them(place: Place) -> None:
    place.bind("bob")
    rule = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["bob"]}
    name = f"speaks-for-bob-{place.name}"
    place.admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]}).expect(201)
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": [{"kind": "User", "name": "mallory"}]}
    place.admin.post(f"{RBAC}/clusterrolebindings", body).expect(201)
    with place.watch("mallory", headers={"Impersonate-User": "bob"}) as gone:
        place.admin.delete(f"{RBAC}/clusterrolebindings/{name}").expect(200)
        assert ends(gone) == []


def test_a_watch_ends_with_the_secret_of_its_bootstrap_token(place: Place) -> None:
    secrets = "/api/v1/namespaces/kube-system/secrets"
    identifier = f"abc{next(_numbers):03d}"
    data = {"token-id": identifier, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
    secret = {"metadata": {"name": f"bootstrap-token-{identifier}"}, "type": "bootstrap.kubernetes.io/token", "stringData": data}
    place.admin.post(secrets, secret).expect(201)
    place.bind(f"system:bootstrap:{identifier}")
    with place.watch(token=f"{identifier}.0123456789abcdef") as gone:
        place.admin.delete(f"{secrets}/bootstrap-token-{identifier}").expect(200)
        assert ends(gone) == []


def test_what_a_watcher_is_given_is_as_it_was_after_many_changes_of_rights(place: Place, tmp_path: Path) -> None:
    """Reviews of rights go on beside a watch that keeps its own: it misses nothing."""
    place.bind("alice", "bob")
    with place.watch("alice") as stays:
        for number in range(30):
            place.write(f"n{number}")
            place.admin.patch(f"{place.bindings}/bob", {"metadata": {"labels": {"n": str(number)}}}).expect(200)
        assert [event["object"]["metadata"]["name"] for event in stays.take(30)] == [f"n{number}" for number in range(30)]
