"""The policy controller of a cluster as an addon controller deploys it there, hub templates included: ours, and upstream's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import yaml

from muster.addon.agent_addon import Installation
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, ManagedClusterAddOn
from muster.api.addons import hub_kubeconfig_secret
from muster.api.cluster.v1 import ManagedCluster
from muster.policy.addons import CONFIG_POLICY
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON, UNINSTALLING_ANNOTATION
from tests.support.administrator import Document
from tests.support.peers import own_program

SOURCE: Final = os.environ.get("MUSTER_POLICY_ADDON_SOURCE", "")
"""A checkout of upstream's policy addon controller, which no registry serves; empty where there is none."""


def rendered_by_us(cluster: str) -> list[Document]:
    """All manifests."""

    def addon(name: str) -> ManagedClusterAddOn:
        return ManagedClusterAddOn.decode({"metadata": {"name": name, "namespace": cluster}, "spec": {}})

    own = ManagedCluster.decode({"metadata": {"name": cluster}, "spec": {}})
    installation = Installation(own, addon(CONFIG_POLICY_ADDON), (), {STANDALONE_ADDON: addon(STANDALONE_ADDON)})
    return list(CONFIG_POLICY.make("muster:test").agent(installation).manifests)


def rendered_by_upstream(cluster: str, *, secure_metrics: bool = False) -> Document:
    """The Deployment that its policy addon controller makes of both addons without any setting (d9b3d8f, of August 2026), or with
    metrics as on OpenShift and the oldest TLS version 1.3."""
    args = [
        "controller",
        "--enable-lease=true",
        f"--cluster-name={cluster}",
        "--leader-elect=false",
        "--log-encoder=console",
        "--log-level=0",
        "--v=0",
        "--evaluation-concurrency=2",
        "--client-max-qps=30",
        "--client-burst=45",
        "--health-probe-bind-address=:8081",
        "--enable-operator-policy=true",
        "--standalone-hub-templates-kubeconfig-path=/var/run/standalone-hub-templating/kubeconfig",
    ]
    if secure_metrics:
        args[11:11] = ["--secure-metrics=true", "--metrics-bind-address=0.0.0.0:8443"]
        args[10:10] = ["--tls-min-version=VersionTLS13"]
    env = [
        {"name": "WATCH_NAMESPACE", "value": cluster},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "OPERATOR_NAME", "value": CONFIG_POLICY_ADDON},
    ]
    volumes = [
        ("klusterlet-config", hub_kubeconfig_secret(CONFIG_POLICY_ADDON), "/var/run/klusterlet"),
        ("standalone-hub-templating-kubeconfig", hub_kubeconfig_secret(STANDALONE_ADDON), "/var/run/standalone-hub-templating"),
    ]
    if secure_metrics:
        volumes.append(("metrics-cert", f"{CONFIG_POLICY_ADDON}-metrics", "/var/run/metrics-cert"))
    container = {
        "name": CONFIG_POLICY_ADDON,
        "image": "quay.io/open-cluster-management/config-policy-controller:latest",
        "command": ["config-policy-controller"],
        "args": args,
        "env": env,
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8081}},
        "volumeMounts": [{"name": name, "mountPath": place} for name, _, place in volumes],
    }
    pod = {
        "serviceAccount": f"{CONFIG_POLICY_ADDON}-sa",
        "containers": [container],
        "volumes": [{"name": name, "secret": {"secretName": secret}} for name, secret, _ in volumes],
    }
    labels = {"app": CONFIG_POLICY_ADDON, "release": CONFIG_POLICY_ADDON}
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    annotations = {UNINSTALLING_ANNOTATION: "false"}
    metadata = {"name": CONFIG_POLICY_ADDON, "namespace": DEFAULT_NAMESPACE, "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def rendered_by_chart(cluster: str) -> list[Document]:
    """All manifests, of upstream's own chart in `SOURCE`, as its addon controller fills it in where there is no OpenShift."""
    values = {
        "clusterName": cluster,
        "installMode": "Default",
        "standaloneHubTemplatingSecret": hub_kubeconfig_secret(STANDALONE_ADDON),
        "kubernetesDistribution": "Other",
        "hostingKubernetesDistribution": "Other",
        "hostingClusterCapabilities.KubeVersion.Version": "1.35.0",
        "global.networkPolicies.enabled": "false",
    }
    chart = Path(SOURCE) / "pkg/addon/configpolicy/manifests/managedclusterchart"
    command: list[str | Path] = [own_program("helm"), "template", CONFIG_POLICY_ADDON, chart, "--namespace", DEFAULT_NAMESPACE]
    command += ["--set", ",".join(f"{name}={value}" for name, value in values.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [one for one in yaml.safe_load_all(done.stdout) if one]
