"""RBAC against its definition written as plainly as possible, on random roles, bindings and requests."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.apiserver.auth.grants import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from muster.apiserver.auth.rbac import Rbac
from muster.apiserver.cluster import Cluster
from muster.apiserver.registry.table import ResourceTable
from muster.kube.rbac import Rule, uncovered
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.store import MemoryStore

VERBS = ["get", "list", "create", "*"]
GROUPS = ["", "apps", "*"]
RESOURCES = ["pods", "pods/log", "*", "*/log", "deployments"]
NAMES = ["a", "b"]
NAMESPACES = ["n1", "n2"]
USERS = ["alice", "bob", "system:serviceaccount:n1:robot"]
TEAMS = ["team", "system:authenticated"]

rules = st.fixed_dictionaries(
    {
        "verbs": st.lists(st.sampled_from(VERBS), min_size=1, max_size=2),
        "apiGroups": st.lists(st.sampled_from(GROUPS), min_size=1, max_size=2),
        "resources": st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=2),
    },
    optional={"resourceNames": st.lists(st.sampled_from(NAMES), max_size=2)},
)
subjects = st.one_of(
    st.builds(lambda n: {"kind": "User", "name": n}, st.sampled_from(USERS)),
    st.builds(lambda n: {"kind": "Group", "name": n}, st.sampled_from(TEAMS)),
    st.just({"kind": "ServiceAccount", "name": "robot", "namespace": "n1"}),
)
bindings = st.builds(
    lambda namespace, ref, who: {"namespace": namespace, "ref": ref, "subjects": who},
    st.sampled_from(["", *NAMESPACES]),
    st.sampled_from([("ClusterRole", "r"), ("Role", "r"), ("ClusterRole", "missing")]),
    st.lists(subjects, max_size=3),
)
requests = st.builds(
    AccessAttributes,
    st.sampled_from(["get", "list", "create", "delete"]),
    group=st.sampled_from(["", "apps"]),
    resource=st.sampled_from(["pods", "deployments"]),
    subresource=st.sampled_from(["", "log"]),
    namespace=st.sampled_from(["", *NAMESPACES]),
    name=st.sampled_from(["", *NAMES]),
)


def rule_allows(rule: dict[str, Any], request: AccessAttributes) -> bool:
    full = request.resource + ("/" + request.subresource if request.subresource else "")
    verb = "*" in rule["verbs"] or request.verb in rule["verbs"]
    group = "*" in rule["apiGroups"] or request.group in rule["apiGroups"]
    resource = any(r == "*" or r == full or (r.startswith("*/") and r[2:] == request.subresource != "") for r in rule["resources"])
    names = rule.get("resourceNames") or []
    return verb and group and resource and (not names or request.name in names)


def is_meant(subject: dict[str, str], user: UserInfo) -> bool:
    if subject["kind"] == "User":
        return subject["name"] == user.name
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    return user.name == f"system:serviceaccount:{subject['namespace']}:{subject['name']}"


async def put(cluster: Cluster, resource: str, key: str, obj: dict[str, Any]) -> None:
    import orjson

    await cluster.store.commit(cluster.name, resource, key, lambda revision: orjson.dumps(obj))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(rules, max_size=3),
    st.lists(rules, max_size=3),
    st.lists(bindings, max_size=4),
    st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from(TEAMS), requests), min_size=1, max_size=8),
)
async def test_decisions_follow_the_definition(
    cluster_rules: list[dict[str, Any]],
    namespaced_rules: list[dict[str, Any]],
    bound: list[dict[str, Any]],
    asked: list[tuple[str, str, AccessAttributes]],
) -> None:
    store = MemoryStore()
    await store.start()
    store.add_cluster("c")
    cluster = Cluster("c", "", store, ResourceTable({}))
    await put(cluster, CLUSTER_ROLES, "r", {"metadata": {"name": "r"}, "rules": cluster_rules})
    await put(cluster, ROLES, "n1/r", {"metadata": {"name": "r", "namespace": "n1"}, "rules": namespaced_rules})
    for index, binding in enumerate(bound):
        kind, role = binding["ref"]
        namespace = binding["namespace"]
        meta = {"name": f"b{index}"} | ({"namespace": namespace} if namespace else {})
        obj = {"metadata": meta, "roleRef": {"kind": kind, "name": role}, "subjects": binding["subjects"]}
        resource = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
        await put(cluster, resource, f"{namespace}/b{index}" if namespace else f"b{index}", obj)
    rbac = Rbac(cluster)
    for name, team, request in asked:
        user = UserInfo(name, groups=(team,))
        expected = False
        for binding in bound:
            kind, role = binding["ref"]
            namespace = binding["namespace"]
            if role != "r" or (namespace and namespace != request.namespace):
                continue
            if kind == "Role":
                granted = namespaced_rules if namespace == "n1" else []
            else:
                granted = cluster_rules
            if any(is_meant(s, user) for s in binding["subjects"]):
                expected = expected or any(rule_allows(rule, request) for rule in granted)
        assert rbac.authorize(user, request).allowed is expected


@given(st.lists(rules, max_size=4), rules, requests)
def test_a_covered_rule_grants_nothing_the_owner_lacks(
    owned: list[dict[str, Any]], wanted: dict[str, Any], request: AccessAttributes
) -> None:
    if not uncovered([Rule(rule) for rule in owned], wanted) and rule_allows(wanted, request):
        assert any(rule_allows(rule, request) for rule in owned)


changes = st.one_of(
    st.tuples(st.just(CLUSTER_ROLES), st.sampled_from(["r", "missing"]), st.none() | st.lists(rules, max_size=2)),
    st.tuples(st.just(ROLES), st.sampled_from(["n1/r", "n2/r"]), st.none() | st.lists(rules, max_size=2)),
    st.tuples(st.just(""), st.sampled_from(["b0", "b1"]), st.none() | bindings),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(changes, min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from(TEAMS), requests), min_size=1, max_size=3),
)
async def test_an_index_that_followed_every_change_answers_like_a_fresh_one(
    written: list[tuple[str, str, Any]], asked: list[tuple[str, str, AccessAttributes]]
) -> None:
    store = MemoryStore()
    await store.start()
    store.add_cluster("c")
    cluster = Cluster("c", "", store, ResourceTable({}))
    followed = Rbac(cluster)
    for resource, key, content in written:
        obj = None
        namespace, _, name = key.rpartition("/")
        if resource:
            obj = None if content is None else {"metadata": {"name": name, "namespace": namespace}, "rules": content}
        else:
            namespace = content["namespace"] if content is not None else "n1"
            resource, key = (ROLE_BINDINGS, f"{namespace}/{name}") if namespace else (CLUSTER_ROLE_BINDINGS, name)
            if content is not None:
                ref = {"kind": content["ref"][0], "name": content["ref"][1]}
                meta = {"name": name, "namespace": namespace}
                obj = {"metadata": meta, "roleRef": ref, "subjects": content["subjects"]}
        if obj is not None:
            await put(cluster, resource, key, obj)
        elif store.get("c", resource, key) is not None:
            await store.commit("c", resource, key, lambda revision: b"{}", delete=True)
        for user_name, team, request in asked:
            user = UserInfo(user_name, groups=(team,))
            assert followed.authorize(user, request).allowed is Rbac(cluster).authorize(user, request).allowed
