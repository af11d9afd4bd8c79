"""Random template addons, of which some have what Muster renders otherwise than upstream, each named.

`DIFFERENCES` is the one table of these: a name, the reason, and how an installation is made to have it.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.template_addons import ADDON, CLUSTER

Document = dict[str, Any]
VALUES = ("x", "a-b", "10", "", "with space", "ünïcode", "<&>")
CA = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
GROUP = "addon.open-cluster-management.io"


class RandomTemplate:
    """One installation, by its seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.annotations: dict[str, str] = {}
        self.variables = {name: self.random.choice(VALUES) for name in self.random.sample(("A", "B", "LOG_LEVEL"), 2)}
        self.registration = self._registration()
        self.manifests = [self._manifest(number) for number in range(self.random.randint(1, 5))]
        self.config: Document | None = self._config() if self.random.random() < 0.8 else None
        self.difference = ""
        if self.random.random() < 0.3:
            chosen = self.random.choice(DIFFERENCES)
            self.difference = chosen.name
            chosen.make(self)

    def installation(self) -> Document:
        """In the words of `peers/templates`."""
        spec: Document = {"addonName": ADDON, "agentSpec": {"workload": {"manifests": self.manifests}}}
        if self.registration is not None:
            spec["registration"] = self.registration
        template = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": "t"}, "spec": spec}
        cluster = {"metadata": {"name": CLUSTER, "annotations": self.annotations}, "spec": {}}
        config = None
        if self.config is not None:
            variables = [{"name": name, "value": value} for name, value in self.variables.items()]
            config = {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "AddOnDeploymentConfig",
                "metadata": {"name": "c", "namespace": "default"},
                "spec": {"customizedVariables": variables, **self.config},
            }
        return {"cluster": cluster, "addon": ADDON, "template": template, "config": config}

    def needs_config(self) -> Document:
        if self.config is None:
            self.config = {"agentInstallNamespace": ""}
        return self.config

    def workload(self) -> Document:
        """A Deployment that is there for sure, at the end."""
        made = self._workload("Deployment", "extra")
        self.manifests.append(made)
        return made

    def _registration(self) -> list[Document] | None:
        if self.random.random() < 0.2:
            return None
        signer = {"signerName": "example.com/signer.one", "signingCA": {"name": "ca"}}
        entries: list[Document] = [{"type": "KubeClient"}, {"type": "CustomSigner", "customSigner": signer}]
        return self.random.sample(entries, self.random.randint(0, 2))

    def _text(self) -> str:
        return self.random.choice(
            (
                "plain",
                "{{A}}",
                "{{B}}-{{A}}",
                "{{LOG_LEVEL}}",
                "{{CLUSTER_NAME}}/{{INSTALL_NAMESPACE}}",
                "{{HUB_KUBECONFIG}}",
                "{{NOPE}}",
                "}}{",
            )
        )

    def _manifest(self, number: int) -> Document:
        kind = self.random.choice(("Deployment", "DaemonSet", "ConfigMap", "ClusterRole", "RoleBinding"))
        if kind in ("Deployment", "DaemonSet"):
            return self._workload(kind, f"w{number}")
        namespace = {"namespace": self.random.choice(("one", "two"))}
        if kind == "ConfigMap":
            return {"apiVersion": "v1", "kind": kind, "metadata": {"name": f"c{number}", **namespace}, "data": {"k": self._text()}}
        if kind == "ClusterRole":
            return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": f"r{number}"}, "rules": []}
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": f"b{number}", **namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "one"}],
        }

    def _workload(self, kind: str, name: str) -> Document:
        containers = [
            {
                "name": f"c{number}",
                "image": self.random.choice(("reg.example/team/app:v1", "reg.example/app@sha256:ab", "other.example/x", "plain")),
                "args": [self._text() for _ in range(self.random.randint(0, 2))],
                "env": [{"name": "OWN", "value": self._text()}],
            }
            for number in range(self.random.randint(1, 2))
        ]
        pod: Document = {"containers": containers}
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.random.choice(("one", "two"))},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}},
        }

    def _config(self) -> Document:
        chance = self.random.random
        config: Document = {"agentInstallNamespace": self.random.choice(("", "there", "open-cluster-management-agent-addon"))}
        if chance() < 0.4:
            tolerations = [{"key": "k", "operator": "Exists"}] if chance() < 0.5 else []
            config["nodePlacement"] = {"nodeSelector": {"disk": "ssd"}, "tolerations": tolerations}
        if chance() < 0.4:
            mirrors = ({"source": "reg.example", "mirror": "m.example/x"}, {"source": "reg.example/team", "mirror": "m.example/y/"})
            config["registries"] = self.random.sample(
                [*mirrors, {"source": "", "mirror": "all.example"}], self.random.randint(1, 3)
            )
        if chance() < 0.4:
            config["proxyConfig"] = {"httpProxy": self.random.choice(("", "http://p")), "noProxy": self.random.choice(("", "a,b"))}
            if config["agentInstallNamespace"]:
                config["proxyConfig"]["caBundle"] = self.random.choice(("", CA))
        if chance() < 0.4:
            identifiers = ("*:*:*", "deployments:w0:c0", "daemonsets:*:c[01]", "deployments:w.:*", "*:w1:c1")
            config["resourceRequirements"] = [
                {"containerID": one, "resources": {"limits": {"cpu": str(number + 1)}}}
                for number, one in enumerate(self.random.sample(identifiers, self.random.randint(1, 3)))
            ]
        return config


class Difference(NamedTuple):
    name: str
    reason: str
    make: Callable[[RandomTemplate], None]


def _argument(text: str, value: str = "v") -> Callable[[RandomTemplate], None]:
    def make(one: RandomTemplate) -> None:
        one.needs_config()
        one.variables["V"] = value
        one.workload()["spec"]["template"]["spec"]["containers"][0]["args"] = [text]

    return make


def _tolerations(one: RandomTemplate) -> None:
    one.workload()
    one.needs_config()["nodePlacement"] = {"tolerations": [{"key": "k", "operator": "Exists"}]}


def _boundary(one: RandomTemplate) -> None:
    one.workload()["spec"]["template"]["spec"]["containers"][0]["image"] = "reg.example/teams/app"
    one.needs_config()["registries"] = [{"source": "reg.example/team", "mirror": "m.example"}]


def _environment(one: RandomTemplate) -> None:
    one.workload()["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "CLUSTER_NAME", "value": "mine"}]


def _namespace(one: RandomTemplate) -> None:
    one.manifests.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one"}})


def _init(one: RandomTemplate) -> None:
    one.workload()["spec"]["template"]["spec"]["initContainers"] = [{"name": "i", "image": "reg.example/team/init"}]
    one.needs_config()["registries"] = [{"source": "reg.example", "mirror": "m.example"}]


def _user(one: RandomTemplate) -> None:
    one.needs_config()["agentInstallNamespace"] = "there"
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "u"}}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
    one.manifests.append({**binding, "roleRef": reference, "subjects": [{"kind": "User", "name": "u"}]})


def _authority(one: RandomTemplate) -> None:
    one.manifests.insert(0, one._workload("Deployment", "first"))
    one.needs_config()["agentInstallNamespace"] = ""
    one.needs_config()["proxyConfig"] = {"httpProxy": "http://p", "caBundle": CA}


def _alternatives(one: RandomTemplate) -> None:
    one.workload()
    one.needs_config()["resourceRequirements"] = [{"containerID": "deployments:x|y:c9", "resources": {"limits": {"cpu": "9"}}}]
    one.manifests.append(one._workload("Deployment", "x"))


def _twice(one: RandomTemplate) -> None:
    one.workload()
    one.registration = [{"type": "KubeClient"}, {"type": "KubeClient"}]


def _replicas(one: RandomTemplate) -> None:
    one.needs_config()
    one.variables["V"] = "3"
    one.workload()["spec"]["replicas"] = "{{V}}"


DIFFERENCES = (
    Difference("blanks around a variable", "upstream's becomes empty", _argument("{{ V }}")),
    Difference("a quote in a value", "upstream's is no JSON any more, and the addon fails", _argument("{{V}}", 'a"b')),
    Difference("a field in a value", "upstream's gets the field", _argument("{{V}}", 'v"],"command":["evil')),
    Difference("a brace that is not closed", "upstream panics", _argument("{{V")),
    Difference("tolerations without a node selector", "upstream drops them", _tolerations),
    Difference("a registry whose source ends within a name", "upstream rewrites names that merely begin so", _boundary),
    Difference(
        "a variable that the template sets itself", "upstream adds it once more, which server-side apply refuses", _environment
    ),
    Difference("a namespace", "ours has the label by which the agent may keep credentials there", _namespace),
    Difference("an image of an init container", "upstream leaves it where clusters behind a mirror cannot get it", _init),
    Difference("a user in a binding", "upstream gives users a namespace", _user),
    Difference("a proxy's authority without a namespace", "upstream's is not where the pods are that mount it", _authority),
    Difference("alternatives in a container's identifier", "upstream's are not bound to their part", _alternatives),
    Difference("two clients", "upstream mounts the Secret twice, which no API server takes", _twice),
    Difference("replicas from a variable", "upstream's stay text, and the Deployment is not set up", _replicas),
)
