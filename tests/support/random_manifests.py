"""Random manifests of many kinds, some of them wrong: what random works are made of.

`KINDS` has a maker for each sort: from randomness and a name to an object. Called again with the same name it gives another version
of that object, but for what a server lets nobody change, and for what is wrong with a wrong one: those are decided by the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.support.bad_manifests import BAD_MANIFESTS

Object = dict[str, Any]
SPACE: Final = "space-of-the-life"
"""Stands for the namespace of the objects; names of what is in none begin with it."""
RBAC: Final = "rbac.authorization.k8s.io"
WORDS: Final = ("ash", "birch", "cedar", "elm")


def exported(rng: Random, manifest: Object) -> Object:
    """As somebody read it from another cluster, with what only that cluster could say."""
    metadata = {**manifest["metadata"], "creationTimestamp": None}
    if rng.random() < 0.5:
        metadata["uid"] = "11111111-2222-3333-4444-555555555555"
    read = {**manifest, "metadata": metadata}
    return {**read, "status": {}} if rng.random() < 0.5 else read


def _metadata(rng: Random, name: str, namespace: str | None = SPACE) -> Object:
    metadata: Object = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if rng.random() < 0.5:
        keys = rng.sample(("season", "tier", "example.com/owner"), rng.randint(1, 2))
        metadata["labels"] = {key: rng.choice(WORDS) for key in keys}
    if rng.random() < 0.3:
        metadata["annotations"] = {"example.com/note": rng.choice(WORDS)}
    return metadata


def _config_map(rng: Random, name: str) -> Object:
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(rng, name)}
    if rng.random() < 0.9:
        made["data"] = {key: rng.choice(WORDS) for key in rng.sample("abc", rng.randint(0, 3))}
    if rng.random() < 0.15:
        made["binaryData"] = {"d": rng.choice(("AQI=", "AwQ="))}
    if rng.random() < 0.1:
        made["immutable"] = True
    return made


def _secret(rng: Random, name: str) -> Object:
    made: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": _metadata(rng, name)}
    if rng.random() < 0.6:
        made["data"] = {key: rng.choice(("YXNo", "YmlyY2g=")) for key in rng.sample("ab", rng.randint(0, 2))}
    if rng.random() < 0.5:
        made["stringData"] = {"c": rng.choice(WORDS)}
    if rng.random() < 0.4:
        made["type"] = rng.choice(("Opaque", "example.com/own"))
    return made


def _service(rng: Random, name: str) -> Object:
    ports: list[Object] = [{"name": "web", "port": rng.choice((80, 8080))}]
    if rng.random() < 0.4:
        ports.append({"name": "more", "port": 9090, "targetPort": rng.choice((9090, "metrics")), "protocol": "TCP"})
    spec: Object = {"ports": ports}
    if rng.random() < 0.8:
        spec["selector"] = {key: rng.choice(WORDS) for key in rng.sample(("app", "tier"), rng.randint(1, 2))}
    if rng.random() < 0.4:
        spec["type"] = rng.choice(("ClusterIP", "NodePort"))
    if rng.random() < 0.2:
        spec["sessionAffinity"] = "ClientIP"
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(rng, name), "spec": spec}


def _container(rng: Random) -> Object:
    container: Object = {"name": "main", "image": f"registry.example/{rng.choice(WORDS)}:1"}
    if rng.random() < 0.5:
        names = rng.sample(("ONE", "TWO", "THREE"), rng.randint(1, 3))
        container["env"] = [{"name": name, "value": rng.choice(WORDS)} for name in names]
    if rng.random() < 0.3:
        container["resources"] = {"requests": {"cpu": rng.choice(("100m", "0.5")), "memory": "1024Mi"}}
    if rng.random() < 0.3:
        container["ports"] = [{"containerPort": 8080, **({"name": "web"} if rng.random() < 0.5 else {})}]
    return container


def _pod_spec(rng: Random, **more: Any) -> Object:
    spec: Object = {"containers": [_container(rng)], "automountServiceAccountToken": False, **more}
    if rng.random() < 0.3:
        spec["volumes"] = [{"name": "scratch", rng.choice(("emptyDir", "configMap")): {}}]
        if "configMap" in spec["volumes"][0]:
            spec["volumes"][0]["configMap"] = {"name": "of-nobody"}
    return spec


def _deployment(rng: Random, name: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _pod_spec(rng)}
    spec: Object = {"selector": {"matchLabels": labels}, "template": template}
    if rng.random() < 0.8:
        spec["replicas"] = rng.randint(0, 1)
    if rng.random() < 0.3:
        spec["strategy"] = rng.choice(({"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}))
    if rng.random() < 0.3:
        spec["minReadySeconds"] = rng.randint(1, 3)
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(rng, name), "spec": spec}


def _service_account(rng: Random, name: str) -> Object:
    made: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(rng, name)}
    if rng.random() < 0.3:
        made["automountServiceAccountToken"] = rng.random() < 0.5
    return made


def _rules(rng: Random) -> list[Object]:
    verbs = rng.sample(("get", "list", "watch", "create"), rng.randint(1, 3))
    return [
        {"apiGroups": [""], "resources": [resource], "verbs": verbs, **({"resourceNames": ["one"]} if rng.random() < 0.2 else {})}
        for resource in rng.sample(("configmaps", "secrets", "pods"), rng.randint(0, 2))
    ]


def _role(rng: Random, name: str) -> Object:
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": _metadata(rng, name), "rules": _rules(rng)}


def _cluster_role(rng: Random, name: str) -> Object:
    made = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": _metadata(rng, f"{SPACE}-{name}", None)}
    if rng.random() < 0.2:
        return {**made, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"of-nobody": "true"}}]}}
    return {**made, "rules": _rules(rng)}


def _role_binding(rng: Random, name: str) -> Object:
    # Which role is fixed by the name but for once in a while, because a server lets nobody change it.
    kind = "ClusterRole" if len(name) % 2 or rng.random() < 0.1 else "Role"
    subjects: list[Object] = [
        {"kind": "ServiceAccount", "name": who, "namespace": SPACE} for who in rng.sample(WORDS, rng.randint(0, 2))
    ]
    if rng.random() < 0.3:
        subjects.append({"kind": "Group", "name": "people", "apiGroup": RBAC})
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(rng, name),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": "view"},
        "subjects": subjects,
    }


def _namespace(rng: Random, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _metadata(rng, f"{SPACE}-{name}", None)}


def tree_names(work: str) -> Object:
    return {"kind": f"Tree{work.upper()}", "plural": f"{work}trees"}


def _definition(rng: Random, name: str) -> Object:
    names = tree_names(name.partition("-")[0])
    schema: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: Object = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if rng.random() < 0.5:
        version["additionalPrinterColumns"] = [{"name": "Height", "type": "string", "jsonPath": f".spec.{rng.choice(WORDS)}"}]
    group = f"{SPACE}.example.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": _metadata(rng, f"{names['plural']}.{group}", None),
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def _custom(rng: Random, name: str) -> Object:
    spec: Object = {key: rng.choice(WORDS) for key in rng.sample(WORDS, rng.randint(0, 3))}
    if rng.random() < 0.4:
        spec["branches"] = [{"name": one, "length": rng.randint(1, 9)} for one in rng.sample(WORDS, rng.randint(0, 3))]
    if rng.random() < 0.3:
        spec["empty"] = rng.choice(({}, [], "", 0, False))
    kind = tree_names(name.partition("-")[0])["kind"]
    return {"apiVersion": f"{SPACE}.example.com/v1", "kind": kind, "metadata": _metadata(rng, name), "spec": spec}


def _job(rng: Random, name: str) -> Object:
    spec: Object = {"suspend": True, "template": {"spec": _pod_spec(Random(name), restartPolicy="Never")}}
    if rng.random() < 0.5:
        spec["backoffLimit"] = 3
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(rng, name), "spec": spec}


def _pod(rng: Random, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(rng, name), "spec": _pod_spec(Random(name))}


def _stateful_set(rng: Random, name: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _pod_spec(rng)}
    spec = {"serviceName": "none", "replicas": rng.randint(0, 1), "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": _metadata(rng, name), "spec": spec}


def _daemon_set(rng: Random, name: str) -> Object:
    labels = {"app": name}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": _pod_spec(rng)}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": _metadata(rng, name), "spec": spec}


def _cron_job(rng: Random, name: str) -> Object:
    job = {"spec": {"template": {"spec": _pod_spec(rng, restartPolicy="Never")}}}
    spec = {"schedule": f"{rng.randint(0, 9)} 3 1 1 *", "suspend": True, "jobTemplate": job}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _metadata(rng, name), "spec": spec}


def _network_policy(rng: Random, name: str) -> Object:
    spec: Object = {"podSelector": rng.choice(({}, {"matchLabels": {"app": rng.choice(WORDS)}}))}
    if rng.random() < 0.6:
        spec["ingress"] = [{"ports": [{"port": port} for port in rng.sample((80, 443, 8080), rng.randint(1, 2))]}]
    if rng.random() < 0.4:
        spec["policyTypes"] = rng.choice((["Ingress"], ["Ingress", "Egress"]))
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": _metadata(rng, name), "spec": spec}


def _budget(rng: Random, name: str) -> Object:
    spec = {
        "selector": {"matchLabels": {"app": rng.choice(WORDS)}},
        rng.choice(("minAvailable", "maxUnavailable")): rng.choice((1, "50%")),
    }
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(rng, name), "spec": spec}


def _cluster_role_binding(rng: Random, name: str) -> Object:
    made = _role_binding(rng, name)
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    return {**made, "kind": "ClusterRoleBinding", "metadata": _metadata(rng, f"{SPACE}-{name}", None), "roleRef": reference}


def _webhook(rng: Random, name: str) -> Object:
    hook: Object = {
        "name": "nobody.example.com",
        "clientConfig": {"service": {"name": "none", "namespace": SPACE}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [
            {"apiGroups": ["nobody.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}
        ],
    }
    if rng.random() < 0.5:
        hook["timeoutSeconds"] = rng.randint(1, 5)
    if rng.random() < 0.5:
        hook["failurePolicy"] = "Ignore"
    kind = Random(name).choice(("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"))
    metadata = _metadata(rng, f"{SPACE}-{name}", None)
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": [hook]}


def _shared(_: Random, name: str) -> Object:
    """Always the same, for works that have it in common."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SPACE}, "data": {"a": "shared"}}


# What is wrong.


def _unserved(rng: Random, name: str) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": _metadata(rng, name), "spec": {"a": rng.choice(WORDS)}}


def _homeless(rng: Random, name: str) -> Object:
    made = Random(name).choice((_config_map, _deployment, _role))(rng, name)
    del made["metadata"]["namespace"]
    return made


def _lost(rng: Random, name: str) -> Object:
    made = Random(name).choice((_config_map, _secret, _deployment, _job))(rng, name)
    made["metadata"]["namespace"] = f"{SPACE}-of-nobody"
    return made


def _misnamed(rng: Random, name: str) -> Object:
    made = Random(name).choice((_config_map, _secret, _service, _deployment))(rng, name)
    made["metadata"]["name"] = f"{name}_Not_A_Name"
    return made


def _refused(rng: Random, name: str) -> Object:
    bad = Random(name).choice([one for one in BAD_MANIFESTS if one.namespaced and one.kind not in ("ResourceQuota", "LimitRange")])
    made = bad.document(SPACE)
    return {**made, "metadata": {**_metadata(rng, name), "name": name}}


def _mistyped(rng: Random, name: str) -> Object:
    if Random(name).random() < 0.5:
        return {**_config_map(rng, name), "data": {"a": 5}}
    made = _deployment(rng, name)
    made["spec"]["replicas"] = "many"
    return made


def _forbidden(rng: Random, name: str) -> Object:
    """Of a kind that agents have no right to."""
    spec = {"hard": {"pods": str(rng.randint(5, 9))}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": _metadata(rng, name), "spec": spec}


def plural_of(manifest: Object) -> str:
    kind = manifest["kind"].lower()
    if kind.startswith("treew"):
        return f"{kind.removeprefix('tree')}trees"
    return f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"


@dataclass(frozen=True)
class Kind:
    make: Callable[[Random, str], Object]
    weight: float = 1.0


KINDS: Final[Mapping[str, Kind]] = {
    "cm": Kind(_config_map, 3),
    "secret": Kind(_secret, 2),
    "svc": Kind(_service, 1.5),
    "deploy": Kind(_deployment, 2),
    "sa": Kind(_service_account),
    "role": Kind(_role),
    "bind": Kind(_role_binding),
    "crole": Kind(_cluster_role),
    "ns": Kind(_namespace, 0.5),
    "job": Kind(_job, 0.7),
    "pod": Kind(_pod, 1.2),
    "tree": Kind(_custom, 1.2),
    "sts": Kind(_stateful_set, 0.4),
    "ds": Kind(_daemon_set, 0.4),
    "cron": Kind(_cron_job, 0.4),
    "np": Kind(_network_policy, 0.4),
    "pdb": Kind(_budget, 0.4),
    "cbind": Kind(_cluster_role_binding, 0.4),
    "hook": Kind(_webhook, 0.3),
    "odd": Kind(_unserved, 0.4),
    "homeless": Kind(_homeless, 0.3),
    "lost": Kind(_lost, 0.3),
    "misnamed": Kind(_misnamed, 0.3),
    "refused": Kind(_refused, 0.6),
    "mistyped": Kind(_mistyped, 0.4),
    "forbidden": Kind(_forbidden, 0.3),
}
DEFINITION: Final = Kind(_definition)
SHARED: Final = Kind(_shared)
