"""The index from subjects to rules, over roles and bindings that a test keeps."""

from collections.abc import Mapping
from typing import Any

from muster.kube.rbac import Grants, RbacRef
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes

READ = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
GET = AccessAttributes("get", resource="configmaps", namespace="ns", name="a")


class Kept:
    def __init__(self) -> None:
        self.objects: dict[RbacRef, Mapping[str, Any]] = {}
        self.grants = Grants(self.objects.get)
        self.put("Role", "reader", rules=[READ])

    def put(self, kind: str, name: str, **content: Any) -> set[tuple[str, str]]:
        self.objects[RbacRef(kind, "ns", name)] = {"metadata": {"name": name, "namespace": "ns"}, **content}
        return self.grants.changed(RbacRef(kind, "ns", name))

    def bind(self, name: str, *users: str, role: str = "reader") -> set[tuple[str, str]]:
        subjects = [{"kind": "User", "name": user} for user in users]
        return self.put("RoleBinding", name, roleRef={"kind": "Role", "name": role}, subjects=subjects)

    def drop(self, kind: str, name: str) -> set[tuple[str, str]]:
        del self.objects[RbacRef(kind, "ns", name)]
        return self.grants.changed(RbacRef(kind, "ns", name))

    def may(self, user: str) -> bool:
        return self.grants.decide(UserInfo(user), GET).allowed


def test_a_binding_to_nobody_that_goes_takes_nothing_from_others() -> None:
    kept = Kept()
    kept.bind("first", "alice")
    kept.bind("empty")
    kept.drop("RoleBinding", "first")
    kept.bind("second", "alice")
    assert kept.drop("RoleBinding", "empty") == set()
    assert kept.may("alice")


def test_a_change_tells_who_gained_and_who_lost() -> None:
    kept = Kept()
    assert kept.bind("b", "alice", "bob") == {("User", "alice"), ("User", "bob")}
    assert kept.bind("b", "bob", "carol") == {("User", "alice"), ("User", "carol")}
    assert kept.bind("b", "bob", "carol") == set()
    assert kept.put("Role", "reader", rules=[READ]) == set()
    assert kept.put("Role", "reader", rules=[]) == {("User", "bob"), ("User", "carol")}
    assert kept.drop("Role", "reader") == set()
    assert kept.grants.decide(UserInfo("bob"), GET).reason == 'RBAC: role.rbac.authorization.k8s.io "reader" not found'


def test_a_role_that_comes_after_its_binding_counts() -> None:
    kept = Kept()
    kept.bind("b", "alice", role="later")
    assert not kept.may("alice")
    assert kept.put("Role", "later", rules=[READ]) == {("User", "alice")}
    assert kept.may("alice")


def test_a_namespace_whose_last_subject_goes_is_forgotten() -> None:
    kept = Kept()
    kept.bind("b", "alice")
    kept.drop("RoleBinding", "b")
    assert not kept.grants._namespaced
    assert not kept.grants._bound
