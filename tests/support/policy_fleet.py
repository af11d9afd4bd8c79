"""A local fleet on which policies are looked at, and their addons handled, as an administrator does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.support.local_fleet import Fleet
from tests.support.peers import ROOT

SAMPLES: Final = ROOT / "examples" / "policy"
CLUSTERADM: Final = str(Path(sys.executable).parent / "clusteradm")
CONTROLLER, STANDALONE = "config-policy-controller", "governance-standalone-hub-templating"
AGENTS, POLICIES = "open-cluster-management-agent-addon", "open-cluster-management-policies"


class PolicyFleet(Fleet):
    def clusteradm(self, *words: str, code: int = 0) -> str:
        environ = {**os.environ, "KUBECONFIG": str(self.directory / "kubeconfig")}
        done = subprocess.run([CLUSTERADM, *words], capture_output=True, text=True, timeout=120, env=environ, check=False)
        assert done.returncode == code, f"clusteradm {words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def enable(self, names: str, clusters: str) -> None:
        self.clusteradm("addon", "enable", "--names", names, "--clusters", clusters, "--wait", "--timeout", "60s")

    def disable(self, names: str, clusters: str) -> None:
        self.clusteradm("addon", "disable", "--names", names, "--clusters", clusters, "--wait", "--timeout", "60s")

    def apply(self, sample: str, context: str = "hub") -> None:
        self.kubectl("apply", "-f", str(SAMPLES / sample), context=context)

    def found(self, kind: str, *words: str, context: str = "hub") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-o", "json", *words, context=context))["items"]
        return items

    def names(self, kind: str, *words: str, context: str = "hub") -> set[str]:
        return {one["metadata"]["name"] for one in self.found(kind, *words, context=context)}

    def said(self, policy: str, context: str) -> tuple[str, str]:
        """Whether it is compliant, and its last message."""
        found = next(
            one for one in self.found("configurationpolicies", "-n", POLICIES, context=context) if one["metadata"]["name"] == policy
        )
        status = found.get("status") or {}
        return status.get("compliant", ""), (status.get("history") or [{"message": ""}])[0]["message"]

    def settings(self, context: str) -> dict[str, str]:
        found = {one["metadata"]["name"]: one for one in self.found("configmaps", "-n", "default", context=context)}
        return dict((found.get("shop-settings") or {}).get("data") or {})

    def flags(self, context: str) -> list[str]:
        (deployment,) = [
            one for one in self.found("deployments", "-n", AGENTS, context=context) if one["metadata"]["name"] == CONTROLLER
        ]
        return [flag for flag in deployment["spec"]["template"]["spec"]["containers"][0]["args"] if "standalone" in flag]

    def of_hub_templates(self, cluster: str) -> set[str]:
        """What of them is on the hub and on the cluster."""
        hub = {
            one
            for kind in ("clusterroles", "clusterrolebindings", "csr")
            for one in self.names(kind)
            if STANDALONE in one and cluster in one
        }
        there = {one for one in self.names("secrets", "-A", context=cluster) if STANDALONE in one or one.endswith("-last-resolved")}
        return hub | there
