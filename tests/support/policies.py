"""Managed clusters with a policy controller each, `muster policy` as a process, and the hub that their hub templates read.

A `PolicyHub` is played by its administrator: identities are those that the addon gives, certificates included, and so are their
rights. What the addon itself does is `tests/e2e/policy/test_addon.py`'s business. A `ManagedCluster` reaches the hub over a link of
its own, and gets its policies as a GitOps tool brings them: applied by a field manager, without owners.
"""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import yaml

from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import AddonIdentity
from muster.api.cluster.v1 import ManagedCluster as ManagedClusterType
from muster.api.crds import Definition, definitions
from muster.policy.addons.cluster_access import binding, role
from muster.policy.addons.manifests import KINDS
from muster.policy.names import LAST_RESOLVED_KEY, LAST_RESOLVED_SUFFIX, POLICIES_NAMESPACE, STANDALONE_ADDON
from tests.support.administrator import MANAGED_CLUSTERS, RBAC, Document, managed_cluster, wait_for
from tests.support.client import Client, Reply
from tests.support.client_certificates import client_certificate
from tests.support.link import Link
from tests.support.planes import Cluster
from tests.support.processes import Server, free_ports, tail
from tests.support.registration import MUSTER, http_status, http_text

Program = Sequence[str | Path]
GROUP = "policy.open-cluster-management.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GITOPS = "argocd-controller"
PLACES = {
    "ConfigurationPolicy": f"/apis/{GROUP}/v1",
    "OperatorPolicy": f"/apis/{GROUP}/v1beta1",
    "ConfigMap": "/api/v1",
    "Secret": "/api/v1",
    "Role": RBAC,
    "RoleBinding": RBAC,
}
PLURALS = {"ConfigurationPolicy": "configurationpolicies", "OperatorPolicy": "operatorpolicies"}
OURS: Program = (MUSTER, "policy")
_numbers = itertools.count(1)


def path(kind: str, namespace: str, name: str = "") -> str:
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    return f"{PLACES[kind]}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def config_map(name: str, namespace: str, data: Mapping[str, str] | str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def secret(name: str, namespace: str, data: Mapping[str, str] | str, **more: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data, **more}


def template(definition: Document, compliance: str = "musthave", **more: Any) -> Document:
    return {"complianceType": compliance, "objectDefinition": definition, **more}


def established(client: Client, documents: Sequence[Document]) -> None:
    """Definitions of kinds, once they are served."""
    for document in documents:
        name = document["metadata"]["name"]
        client.apply(f"{CRDS}/{name}", document, "test", force=True).expect(200, 201)
    for document in documents:
        spec = document["spec"]
        for version in spec["versions"]:
            at = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            wait_for(lambda at=at: client.get(at).status == 200, f"{at} to be served")  # type: ignore[misc]


def identity(cluster: str) -> AddonIdentity:
    return AddonIdentity(cluster, STANDALONE_ADDON, STANDALONE_ADDON)


def write_certificate(directory: Path, hub: Cluster, own: AddonIdentity) -> None:
    pair = client_certificate(hub, own.user, own.groups, f"addon-{own.cluster}-{next(_numbers)}")
    for file, content in zip(("tls.crt", "tls.key"), pair, strict=True):
        (directory / file).touch(mode=0o600)
        (directory / file).write_bytes(content)


def write_hub_kubeconfig(file: Path, hub: Cluster, server: str, *authorities: bytes) -> None:
    """As the agent writes it: the hub's address and CA inline, certificate and key in files beside."""
    ca = b"".join((hub.ca.read_bytes(), *authorities))
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": server, "certificate-authority-data": encoded(ca)}}],
        "users": [{"name": "agent", "user": {"client-certificate": "tls.crt", "client-key": "tls.key"}}],
        "contexts": [{"name": "default-context", "context": {"cluster": "hub", "user": "agent", "namespace": "configuration"}}],
        "current-context": "default-context",
    }
    beside = file.with_suffix(".new")
    beside.write_text(yaml.safe_dump(document))
    beside.replace(file)


class PolicyHub:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admin = cluster.client()
        established(self.admin, definitions([Definition((ManagedClusterType,), "v1")]))

    def accept(self, name: str, **labels: str) -> None:
        """A managed cluster, and the rights that its user for hub templates has from the start."""
        body = managed_cluster(name, accepted=True)
        body["metadata"]["labels"] = labels
        self.admin.post(MANAGED_CLUSTERS, body).expect(201)
        addon = ManagedClusterAddOn.decode({"metadata": {"name": STANDALONE_ADDON, "namespace": name}, "spec": {}})
        for kind, document in (("clusterroles", role(name).document()), ("clusterrolebindings", binding(addon).document())):
            self.admin.post(f"{RBAC}/{kind}", document).expect(201)

    def label(self, name: str, **labels: str | None) -> None:
        self.admin.patch(f"{MANAGED_CLUSTERS}/{name}", {"metadata": {"labels": labels}}).expect(200)

    def namespace(self, name: str = "") -> str:
        name = name or f"shop{next(_numbers)}-{os.getpid()}"
        self.admin.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201, 409)
        return name

    def put(self, document: Document) -> None:
        """As it is given, whatever it was."""
        metadata = document["metadata"]
        place = path(document["kind"], metadata["namespace"], metadata["name"])
        self.admin.apply(place, document, "administrator", force=True).expect(200, 201)

    def settings(self, namespace: str, name: str = "settings", /, **data: str) -> None:
        self.put(config_map(name, namespace, data))

    def remove(self, kind: str, namespace: str, name: str) -> None:
        self.admin.delete(path(kind, namespace, name)).expect(200)

    def grant(
        self,
        cluster: str,
        namespace: str,
        resources: Sequence[str] = ("configmaps",),
        names: Sequence[str] = (),
        verbs: Sequence[str] = ("list", "watch"),
        called: str = "",
    ) -> str:
        """To the cluster's hub templates; gives the name by which it is taken back."""
        called = called or f"for-{cluster}"
        group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": identity(cluster).groups[0]}
        rules = [{"apiGroups": [""], "resources": list(resources), "verbs": list(verbs), "resourceNames": list(names)}]
        kinds = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": called, "namespace": namespace}}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": called}
        self.put({**kinds, "kind": "Role", "rules": rules})
        self.put({**kinds, "kind": "RoleBinding", "roleRef": reference, "subjects": [group]})
        return called

    def revoke(self, namespace: str, called: str) -> None:
        self.remove("RoleBinding", namespace, called)


class PolicyController:
    """`muster policy` on one cluster, or another program with its flags; without `hub_templates` as if the addon were disabled."""

    def __init__(
        self, name: str, cluster: Cluster, directory: Path, hub_templates: Path | None, *flags: str, program: Program = OURS
    ) -> None:
        self.health_port, self.metrics_port = free_ports(2)
        self.hub_templates = hub_templates
        self._own: list[str | Path] = [
            *program,
            f"--kubeconfig={cluster.kubeconfig}",
            f"--cluster-name={name}",
            "--leader-elect=false",
            "--enable-operator-policy=true",
            "--evaluation-backoff=0",
            f"--health-probe-bind-address=127.0.0.1:{self.health_port}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
            *flags,
        ]
        log = directory / f"policy-{name}-{self.health_port}.log"
        self.process = Server(f"{Path(program[0]).name} of {name}", self._own, log, {"WATCH_NAMESPACE": name})

    def start(self) -> PolicyController:
        enabled = self.hub_templates
        flag = [] if enabled is None else [f"--standalone-hub-templates-kubeconfig-path={enabled}"]
        self.process.command = [str(part) for part in (*self._own, *flag)]
        self.process.start()
        self.process.wait_until(lambda: http_status(self.health_port, "/readyz") == 200, 30)
        return self

    def stop(self, *, kill: bool = False) -> None:
        self.process.stop(kill=kill, timeout=10)

    def restart(self, *, kill: bool = True) -> None:
        self.stop(kill=kill)
        self.start()

    @property
    def metrics(self) -> str:
        return http_text(self.metrics_port, "/metrics")


class ManagedCluster:
    """`link` is its way to the hub."""

    def __init__(self, name: str, cluster: Cluster, hub: PolicyHub, directory: Path, program: Program = OURS) -> None:
        self.name = name
        self.cluster = cluster
        self.hub = hub
        self.admin = cluster.client()
        self.directory = directory / f"{name}-files"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.link = Link(hub.cluster.url)
        established(self.admin, definitions(KINDS))
        for namespace in (name, POLICIES_NAMESPACE):
            self.admin.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).expect(201, 409)
        self._certificate()
        self.write_kubeconfig(self.link.url(hub.cluster.url))
        self.controller = PolicyController(name, cluster, directory, self.kubeconfig, program=program)

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def _certificate(self) -> None:
        write_certificate(self.directory, self.hub.cluster, identity(self.name))

    def rotate(self) -> None:
        """Another certificate of the same identity."""
        self._certificate()

    def write_kubeconfig(self, server: str, *authorities: bytes) -> None:
        write_hub_kubeconfig(self.kubeconfig, self.hub.cluster, server, *authorities)

    def hub_client(self) -> Client:
        """The hub as somebody on this cluster sees it who has taken the addon's credential."""
        pair = (self.directory / "tls.crt", self.directory / "tls.key")
        return Client(self.hub.cluster.url, ca=self.hub.cluster.ca, certificate=pair)

    # What a GitOps tool brings

    def bring(self, name: str, *templates: Document, namespace: str = "", action: str = "enforce", **spec: Any) -> Document:
        """A ConfigurationPolicy."""
        raw = spec.pop("raw", None)
        annotations = spec.pop("annotations", {})
        content: Document = {"object-templates": list(templates)} if raw is None else {"object-templates-raw": raw}
        metadata = {"name": name, "namespace": namespace or self.name, "annotations": annotations}
        kind = {"apiVersion": f"{GROUP}/v1", "kind": "ConfigurationPolicy"}
        return self.sync({**kind, "metadata": metadata, "spec": {"remediationAction": action, **content, **spec}})

    def bring_value(self, name: str, text: str, namespace: str = "", **spec: Any) -> Document:
        """A policy for the ConfigMap `name` in `default`, which says `text`."""
        return self.bring(name, template(config_map(name, "default", {"value": text})), namespace=namespace, **spec)

    def bring_operator(self, name: str, subscription_namespace: str, **metadata: Any) -> Document:
        kind = {"apiVersion": f"{GROUP}/v1beta1", "kind": "OperatorPolicy"}
        spec = {
            "remediationAction": "inform",
            "complianceType": "musthave",
            "upgradeApproval": "None",
            "subscription": {
                "name": "argocd-operator",
                "namespace": subscription_namespace,
                "channel": "alpha",
                "source": "operatorhubio-catalog",
                "sourceNamespace": "olm",
            },
        }
        return self.sync({**kind, "metadata": {"name": name, "namespace": self.name, **metadata}, "spec": spec})

    def sync(self, document: Document) -> Document:
        metadata = document["metadata"]
        place = path(document["kind"], metadata["namespace"], metadata["name"])
        return dict(self.admin.apply(place, document, GITOPS).expect(200, 201))

    def drop(self, policy: Document) -> None:
        metadata = policy["metadata"]
        self.admin.delete(path(policy["kind"], metadata["namespace"], metadata["name"])).expect(200)

    # What there is

    def read(self, place: str) -> Document | None:
        reply = self.admin.get(place)
        return None if reply.status == 404 else dict(reply.expect(200))

    def find(self, policy: Document) -> Document | None:
        metadata = policy["metadata"]
        return self.read(path(policy["kind"], metadata["namespace"], metadata["name"]))

    def wait_status(self, policy: Document, compliant: str, says: str = "", timeout: float = 30) -> Document:
        """The policy's status once it is so and its last message says so."""
        seen: list[Document | None] = [None]

        def look() -> Document | None:
            seen[0] = self.find(policy)
            status = (seen[0] or {}).get("status") or {}
            fits = status.get("compliant") == compliant and status.get("history") and says in status["history"][0]["message"]
            return dict(status) if fits else None

        name = policy["metadata"]["name"]
        try:
            return self.wait(look, f"{name} {compliant}: {says}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{yaml.safe_dump((seen[0] or {}).get('status'))}\n{error}") from None

    def message(self, policy: Document) -> str:
        status = (self.find(policy) or {}).get("status") or {}
        return str((status.get("history") or [{"message": ""}])[0]["message"])

    def value(self, name: str, key: str = "value", namespace: str = "default") -> str | None:
        found = self.read(path("ConfigMap", namespace, name))
        return None if found is None else (found.get("data") or {}).get(key)

    def wait_value(self, name: str, expected: str, timeout: float = 30) -> None:
        self.wait(lambda: self.value(name) == expected, f"{name} to say {expected}", timeout)

    def saved_secret(self, policy: Document) -> Document | None:
        metadata = policy["metadata"]
        return self.read(path("Secret", metadata["namespace"], metadata["uid"] + LAST_RESOLVED_SUFFIX))

    def saved(self, policy: Document) -> Document | None:
        found = self.saved_secret(policy)
        return None if found is None else orjson.loads(base64.b64decode(found["data"][LAST_RESOLVED_KEY]))

    def events(self, about: str) -> list[Document]:
        """Of the policy of this name, in both of Kubernetes' kinds of events."""
        found = []
        for place in ("/api/v1/events", "/apis/events.k8s.io/v1/events"):
            for event in self.admin.get(place).expect(200)["items"]:
                subject = event.get("involvedObject") or event.get("regarding") or {}
                if subject.get("name") == about:
                    found.append(event)
        return found

    def wait(self, look: Any, what: str, timeout: float = 30) -> Any:
        return wait_for(look, what, timeout=timeout, servers=[self.controller.process])

    def settled(self, policy: Document) -> Document:
        """The policy, once the controller has nothing to write any more: twice the same in a row."""
        before: list[Document | None] = [None]

        def look() -> bool:
            last, before[0] = before[0], self.find(policy)
            return last is not None and last == before[0]

        wait_for(look, "the policy to settle", poll=0.3)
        assert before[0] is not None
        return before[0]

    @contextmanager
    def restarted(self, *, kill: bool = True) -> Any:
        """What is done while the controller is not there."""
        self.controller.stop(kill=kill)
        yield
        self.controller.start()

    def log(self) -> str:
        return tail(self.controller.process.log, 100_000)


def written_by(document: Document) -> dict[str, set[str]]:
    """By field manager: the subresource and the top-level fields that it has written of an object."""
    managers: dict[str, set[str]] = {}
    for entry in document["metadata"].get("managedFields") or ():
        fields = {key.removeprefix("f:") for key in entry["fieldsV1"]}
        if "f:metadata" in entry["fieldsV1"]:
            fields |= {f"metadata.{key.removeprefix('f:')}" for key in entry["fieldsV1"]["f:metadata"]}
            fields.discard("metadata")
        managers.setdefault(f"{entry['manager']}/{entry.get('subresource', '')}", set()).update(fields)
    return managers


def refused(reply: Reply) -> bool:
    return reply.status == 403
