"""Authentication and RBAC: who may do what, how it is refused, and what may be granted."""

from collections.abc import Mapping
from typing import Any

from tests.differential.dsl import Request, case, configmap, delete, get, merge, post, put, setup, watch

RBAC = "rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}:roles", f"{RBAC}:rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"/apis/{RBAC}/clusterroles", f"/apis/{RBAC}/clusterrolebindings"
CLEAN = [f"{CLUSTER_ROLES}/${{slug}}", f"{CLUSTER_BINDINGS}/${{slug}}"]
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
REVIEWS = "/apis/authentication.k8s.io/v1"


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**made, "resourceNames": names.split()} if names else made


def role(name: str, *rules: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "rules": list(rules)}


def binding(name: str, kind: str, reference: str, *users: str) -> dict[str, Any]:
    subjects = [{"kind": "User", "name": user} for user in users]
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": reference}, "subjects": subjects}


def granted(*rules: Mapping[str, Any], to: str = "alice") -> list[Request]:
    """A role in the case's namespace, bound to a user."""
    return [
        setup(post(ROLES, role("granted", *rules))),
        setup(post(BINDINGS, binding("granted", "Role", "granted", to))),
        effective(rules[-1], user=to),
    ]


def granted_everywhere(*rules: Mapping[str, Any], to: str = "alice") -> list[Request]:
    """A cluster role bound to a user; `CLEAN` removes both."""
    return [
        setup(post(CLUSTER_ROLES, role("${slug}", *rules))),
        setup(post(CLUSTER_BINDINGS, binding("${slug}", "ClusterRole", "${slug}", to))),
        effective(rules[-1], user=to, namespace=""),
    ]


def effective(rule: Mapping[str, Any], namespace: str = "${ns}", **who: Any) -> Request:
    """Waits until a rule counts: the real server learns of roles by watching them."""
    resource, _, subresource = rule["resources"][0].replace("*/", "deployments/").partition("/")
    wanted = {
        "namespace": namespace,
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": rule.get("resourceNames", [""])[0],
    }
    return post(
        f"{AUTHORIZATION}/subjectaccessreviews",
        {"spec": {**who, "resourceAttributes": wanted}},
        until=("status.allowed", True),
        keep=False,
    )


def allowed(body: Any) -> Any:
    return body.get("status", body) if body.get("kind") != "Status" else body


def may(verb: str, resource: str, **attributes: str) -> Request:
    wanted = {"verb": verb, "resource": resource, "namespace": "${ns}", **attributes}
    body = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": wanted}}
    return post(f"{AUTHORIZATION}/selfsubjectaccessreviews", body, user="alice", pick=allowed)


A = setup(post("configmaps", configmap("a")))
B = setup(post("configmaps", configmap("b")))
WHO = f"{REVIEWS}/selfsubjectreviews"


def as_(user: str = "alice", **headers: str) -> Request:
    named = {"Impersonate-" + key.replace("_", "-"): value for key, value in headers.items()}
    return post(WHO, {}, user=user, headers=named, pick=allowed)


CASES = [
    case(
        "a role grants its verbs and no more",
        A,
        *granted(rule("get list", "configmaps")),
        get("configmaps/a", user="alice"),
        get("configmaps", user="alice", pick=lambda body: body["kind"]),
        delete("configmaps/a", user="alice"),
        get("secrets", user="alice"),
        get("configmaps/a", user="bob"),
        watch("configmaps", user="alice", query={"timeoutSeconds": "1"}),
    ),
    case(
        "a role can be limited to names",
        A,
        B,
        *granted(rule("get list watch update delete", "configmaps", names="a")),
        get("configmaps/a", user="alice"),
        get("configmaps/b", user="alice"),
        get("configmaps", user="alice"),
        get("configmaps", user="alice", query={"fieldSelector": "metadata.name=a"}, pick=lambda body: body["kind"]),
        get("configmaps", user="alice", query={"fieldSelector": "metadata.name=b"}),
        delete("configmaps/b", user="alice"),
    ),
    case(
        "names do not limit creation",
        *granted(rule("create", "configmaps", names="a")),
        post("configmaps", configmap("a"), user="alice"),
    ),
    case(
        "subresources are granted apart",
        *granted(rule("get", "deployments", "apps")),
        get("apps/v1:deployments/w/scale", user="alice"),
        get("apps/v1:deployments/w/status", user="alice"),
        get("apps/v1:deployments/w", user="alice"),
    ),
    case(
        "wildcards in rules",
        *granted({"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["*"]}),
        get("apps/v1:deployments/w/scale", user="alice"),
        get("apps/v1:deployments/w", user="alice"),
    ),
    case(
        "a rule for one group does not reach another",
        *granted(rule("get", "events", "")),
        get("events/x", user="alice"),
        get("events.k8s.io/v1:events/x", user="alice"),
    ),
    case(
        "a cluster role bound in a namespace counts there only",
        A,
        setup(post(CLUSTER_ROLES, role("${slug}", rule("get", "configmaps")))),
        setup(post(BINDINGS, binding("b", "ClusterRole", "${slug}", "alice"))),
        effective(rule("get", "configmaps"), user="alice"),
        get("configmaps/a", user="alice"),
        get("/api/v1/namespaces/default/configmaps/a", user="alice"),
        get("/api/v1/configmaps", user="alice"),
        cleanup=CLEAN,
    ),
    case(
        "a cluster role bound everywhere",
        *granted_everywhere({"nonResourceURLs": ["/metrics", "/custom/*"], "verbs": ["get"]}, rule("get", "nodes"), to="bob"),
        get("/api/v1/nodes/none", user="bob"),
        get("/custom/x", user="bob"),
        get("/custom", user="bob"),
        get("/metrics", user="bob", pick=lambda body: isinstance(body, str)),
        cleanup=CLEAN,
    ),
    case(
        "groups and service accounts are subjects",
        A,
        setup(post(ROLES, role("r", rule("get", "configmaps")))),
        setup(
            post(
                BINDINGS,
                {
                    "metadata": {"name": "g"},
                    "roleRef": {"kind": "Role", "name": "r"},
                    "subjects": [
                        {"kind": "Group", "name": "operators"},
                        {"kind": "ServiceAccount", "name": "default", "namespace": "${ns}"},
                    ],
                },
            )
        ),
        effective(rule("get", "configmaps"), user="x", groups=["operators"]),
        get("configmaps/a", user="bob"),
        get("configmaps/a", user="alice"),
        setup(post("serviceaccounts/default/token", {"spec": {}}, save={"token": "status.token"})),
        get("configmaps/a", user="${token}"),
        get("secrets", user="${token}"),
    ),
    case(
        "a binding to a role that is not there grants nothing",
        A,
        setup(post(BINDINGS, binding("b", "Role", "none", "alice"))),
        post(
            "authorization.k8s.io/v1:localsubjectaccessreviews",
            {"spec": {"user": "alice", "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "${ns}"}}},
            present="status.reason",
            pick=allowed,
        ),
        get("configmaps/a", user="alice"),
    ),
    case(
        "bindings are defaulted",
        post(BINDINGS, binding("b", "Role", "r", "alice")),
        post(
            BINDINGS,
            {
                "metadata": {"name": "s"},
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "name": "x"}],
            },
        ),
        post(ROLES, role("r", rule("get", "pods"))),
    ),
    case(
        "the role of a binding is immutable",
        setup(post(BINDINGS, binding("b", "Role", "r", "alice"))),
        put(f"{BINDINGS}/b", binding("b", "Role", "other", "alice")),
        merge(f"{BINDINGS}/b", {"subjects": None}),
    ),
    case(
        "bindings are checked",
        post(BINDINGS, {"metadata": {"name": "b"}, "roleRef": {"kind": "Frob", "name": "r"}}),
        post(BINDINGS, {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": ""}}),
        post(
            BINDINGS,
            {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Robot", "name": "x"}]},
        ),
        post(CLUSTER_BINDINGS, {"metadata": {"name": "${slug}"}, "roleRef": {"kind": "Role", "name": "r"}}),
        post(
            CLUSTER_BINDINGS,
            {
                "metadata": {"name": "${slug}"},
                "roleRef": {"kind": "ClusterRole", "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "name": "x"}],
            },
        ),
        cleanup=CLEAN,
    ),
    case(
        "roles are checked",
        post(ROLES, role("r", {"apiGroups": [""], "resources": ["pods"]})),
        post(ROLES, role("r", {"verbs": ["get"]})),
        post(ROLES, role("r", {"verbs": ["get"], "nonResourceURLs": ["/x"]})),
        post(ROLES, role("r", {"verbs": ["get"], "resources": ["pods"]})),
        post(
            CLUSTER_ROLES, role("${slug}", {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/x"]})
        ),
        post(CLUSTER_ROLES, role("${slug}", {"verbs": ["get"], "nonResourceURLs": ["x*y"]})),
        cleanup=CLEAN,
    ),
    case(
        "nobody grants more than they have",
        *granted(rule("create update patch", "roles rolebindings", "rbac.authorization.k8s.io"), rule("get", "pods")),
        post(ROLES, role("more", rule("get list", "pods"), rule("get", "secrets", names="x")), user="alice"),
        post(ROLES, role("same", rule("get", "pods")), user="alice"),
        merge(f"{ROLES}/same", {"rules": [rule("delete", "pods")]}, user="alice"),
        merge(f"{ROLES}/same", {"metadata": {"labels": {"a": "b"}}}, user="alice"),
    ),
    case(
        "nobody binds more than they have",
        setup(post(ROLES, role("less", rule("get", "pods")))),
        setup(post(ROLES, role("more", rule("get", "secrets")))),
        *granted(rule("create", "rolebindings", "rbac.authorization.k8s.io"), rule("get", "pods")),
        post(BINDINGS, binding("a", "Role", "less", "bob"), user="alice"),
        post(BINDINGS, binding("b", "Role", "more", "bob"), user="alice"),
        post(BINDINGS, binding("c", "Role", "none", "bob"), user="alice"),
        post(BINDINGS, binding("e", "ClusterRole", "cluster-admin", "bob"), user="alice"),
    ),
    case(
        "escalate and bind lift the limits",
        *granted(
            rule("create escalate", "roles", "rbac.authorization.k8s.io"),
            rule("create", "rolebindings", "rbac.authorization.k8s.io"),
            rule("bind", "roles", "rbac.authorization.k8s.io", names="more"),
        ),
        post(ROLES, role("more", rule("get", "secrets")), user="alice"),
        post(BINDINGS, binding("b", "Role", "more", "bob"), user="alice"),
        post(BINDINGS, binding("c", "ClusterRole", "view", "bob"), user="alice"),
    ),
    case(
        "aggregated roles collect rules",
        setup(
            post(
                CLUSTER_ROLES,
                {
                    "metadata": {"name": "${slug}"},
                    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"collect": "${slug}"}}]},
                    "rules": [],
                },
            )
        ),
        setup(post(CLUSTER_ROLES, role("${slug}-part", rule("get", "pods"), labels={"collect": "${slug}"}))),
        get(
            f"{CLUSTER_ROLES}/${{slug}}",
            until=("rules.0.verbs.0", "get"),
            pick=lambda body: [body["rules"], body["aggregationRule"]],
        ),
        setup(delete(f"{CLUSTER_ROLES}/${{slug}}-part")),
        get(f"{CLUSTER_ROLES}/${{slug}}", until=("rules", None), pick=lambda body: body["rules"]),
        cleanup=CLEAN,
    ),
    case(
        "self access reviews",
        *granted(rule("get", "configmaps", names="a"), rule("*", "deployments", "apps")),
        may("get", "configmaps", name="a"),
        may("get", "configmaps"),
        may("delete", "deployments", group="apps"),
        may("get", "deployments"),
        may("get", "nodes", namespace=""),
        may("get", "deployments", group="apps", subresource="scale"),
    ),
    case(
        "access reviews of paths",
        *(
            post(
                f"{AUTHORIZATION}/selfsubjectaccessreviews",
                {"spec": {"nonResourceAttributes": {"verb": "get", "path": path}}},
                user="alice",
                pick=lambda body: body["status"]["allowed"],
            )
            for path in ("/healthz", "/api", "/nope", "/metrics")
        ),
    ),
    case(
        "access reviews are checked",
        post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}}),
        post(f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get"}}}),
        post(
            f"{AUTHORIZATION}/subjectaccessreviews",
            {"spec": {"user": "x", "resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/"}}},
        ),
        post(
            f"{AUTHORIZATION}/subjectaccessreviews",
            {"metadata": {"name": "x"}, "spec": {"user": "x", "nonResourceAttributes": {"path": "/"}}},
        ),
    ),
    case(
        "access reviews about others",
        *granted(rule("get", "configmaps"), to="bob"),
        *(
            post(
                f"{AUTHORIZATION}/subjectaccessreviews",
                {"spec": {**who, "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "${ns}"}}},
            )
            for who in ({"user": "bob"}, {"user": "eve"}, {"user": "eve", "groups": ["system:masters"]})
        ),
        post(
            f"{AUTHORIZATION}/subjectaccessreviews",
            {"spec": {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
            user="alice",
        ),
    ),
    case(
        "local access reviews belong to a namespace",
        post(
            "authorization.k8s.io/v1:localsubjectaccessreviews",
            {"spec": {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "${ns}"}}},
            pick=allowed,
        ),
        post(
            "authorization.k8s.io/v1:localsubjectaccessreviews",
            {"spec": {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}},
        ),
    ),
    case(
        "rules reviews list what is granted",
        *granted(rule("get", "configmaps", names="a")),
        post(
            f"{AUTHORIZATION}/selfsubjectrulesreviews",
            {"spec": {"namespace": "${ns}"}},
            user="alice",
            pick=lambda body: body["status"]["resourceRules"],
        ),
        post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}}, user="alice"),
    ),
    case(
        "token reviews",
        *(
            post(f"{REVIEWS}/tokenreviews", {"spec": {"token": token}}, pick=allowed)
            for token in ("alice-static-token", "nonsense", "")
        ),
        post(f"{REVIEWS}/tokenreviews", {"spec": {"token": "carol-static-token", "audiences": ["other"]}}, pick=allowed),
    ),
    case(
        "token reviews of service accounts",
        setup(post("serviceaccounts/default/token", {"spec": {"audiences": ["one", "two"]}}, save={"token": "status.token"})),
        post(f"{REVIEWS}/tokenreviews", {"spec": {"token": "${token}"}}, pick=allowed),
        post(f"{REVIEWS}/tokenreviews", {"spec": {"token": "${token}", "audiences": ["two", "three"]}}, pick=allowed),
        get("configmaps", user="${token}"),
    ),
    case(
        "a token dies with its account",
        setup(post("serviceaccounts", {"metadata": {"name": "robot"}})),
        setup(post("serviceaccounts/robot/token", {"spec": {}}, save={"token": "status.token"})),
        post(WHO, {}, user="${token}", pick=allowed),
        setup(delete("serviceaccounts/robot")),
        get(WHO, user="${token}", until=("code", 401), keep=False),
        post(WHO, {}, user="${token}"),
    ),
    case("who am I", *(post(WHO, {}, user=user, pick=allowed) for user in ("admin", "alice", "mallory", ""))),
    case(
        "impersonation by an administrator",
        as_("admin", User="eve"),
        as_("admin", User="eve", Group="friends"),
        as_("admin", User="eve", Uid="u1", Extra_scopes="a"),
        as_("admin", User="system:serviceaccount:${ns}:default"),
        as_("admin", Group="friends"),
        as_("admin", User="system:anonymous"),
    ),
    case(
        "impersonation needs a right",
        as_("alice", User="bob"),
        as_("alice", User="system:serviceaccount:${ns}:default"),
        as_("alice", User="alice", Group="system:masters"),
    ),
    case(
        "impersonation can be granted",
        *granted_everywhere(rule("impersonate", "users", names="bob"), rule("impersonate", "groups", names="operators")),
        as_("alice", User="bob"),
        as_("alice", User="bob", Group="operators"),
        as_("alice", User="carol"),
        as_("alice", User="bob", Group="other"),
        as_("alice", User="bob", Uid="x"),
        as_("alice", User="bob", Extra_a="b"),
        cleanup=CLEAN,
    ),
    *(
        case(
            f"the bootstrap role {name}",
            get(
                f"{CLUSTER_ROLES}/{name}",
                pick=lambda body: [body["metadata"].get("labels"), body["metadata"].get("annotations"), body["rules"]],
            ),
        )
        for name in (
            "cluster-admin",
            "system:discovery",
            "system:basic-user",
            "system:public-info-viewer",
            "system:auth-delegator",
            "system:service-account-issuer-discovery",
            "system:node-bootstrapper",
        )
    ),
    *(
        case(
            f"the bootstrap binding {name}",
            get(f"{CLUSTER_BINDINGS}/{name}", pick=lambda body: [body["subjects"], body["roleRef"]]),
        )
        for name in ("cluster-admin", "system:discovery", "system:basic-user", "system:public-info-viewer")
    ),
    case(
        "view edit and admin on what everybody uses",
        setup(post(BINDINGS, binding("v", "ClusterRole", "view", "alice"))),
        setup(post(BINDINGS, binding("e", "ClusterRole", "edit", "bob"))),
        setup(post(BINDINGS, binding("a", "ClusterRole", "admin", "mallory"))),
        effective(rule("create", "roles", "rbac.authorization.k8s.io"), user="mallory"),
        *(
            post(
                f"{AUTHORIZATION}/subjectaccessreviews",
                {
                    "spec": {
                        "user": user,
                        "resourceAttributes": {"namespace": "${ns}", "verb": verb, "group": group, "resource": resource},
                    }
                },
                pick=lambda body: body["status"].get("allowed"),
            )
            for user in ("alice", "bob", "mallory")
            for verb in ("get", "create", "delete")
            for group, resource in (
                ("", "configmaps"),
                ("", "secrets"),
                ("apps", "deployments"),
                ("rbac.authorization.k8s.io", "roles"),
                ("", "resourcequotas"),
                ("coordination.k8s.io", "leases"),
            )
        ),
    ),
    case(
        "an authentication header in odd forms",
        *(
            get("configmaps", user="", headers={"Authorization": value}, pick=lambda body: body["kind"])
            for value in ("bearer admin-static-token", "Bearer  admin-static-token", "Bearer admin-static-token extra", "Token x")
        ),
    ),
]
