"""`muster template`: policies tried out with files and with clusters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from muster.api import crds
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.crds import definitions
from muster.apiserver.server import ApiServer
from muster.cli import template
from muster.cli.muster import main
from muster.fleet.in_process import InProcessClient
from muster.kube import yaml
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.runtime.client import served
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES, NODES, ROLE_BINDINGS, ROLES
from muster.runtime.install import await_definitions

ADDONS = served(ManagedClusterAddOn)

POLICY = """\
apiVersion: policy.open-cluster-management.io/v1
kind: ConfigurationPolicy
metadata: {name: colors, namespace: c1}
spec:
  remediationAction: inform
  object-templates:
    - complianceType: musthave
      objectDefinition:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: out, namespace: default}
        data:
          env: '{{hub .ManagedClusterLabels.env hub}}'
          color: '{{hub fromConfigMap "paint" "colors" "wall" hub}}'
          node: '{{ (lookup "v1" "Node" "" "n1").metadata.name }}'
"""
HUB = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: colors, namespace: paint}
data: {wall: red}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1, labels: {env: prod}}
"""
CLUSTER = """\
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Node, metadata: {name: n1}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: out, namespace: default}, data: {env: test, other: kept}}
"""

_POLICY = "kind: ConfigurationPolicy\nmetadata: {name: a, namespace: b}\n"
MISSHAPEN = {
    "just a text": "an object is expected, with apiVersion and kind",
    "{kind: List, items: [1]}": "an object is expected, with apiVersion and kind",
    "{kind: ConfigurationPolicy, metadata: foo}": "metadata: an object is expected, and not a text",
    "{kind: ConfigMap, metadata: {name: 5}}": "metadata.name: a text is expected, and not 5; put it in quotes",
    f"{_POLICY}spec: foo": "spec: an object is expected, and not a text",
    f"{_POLICY}spec: {{object-templates: 7}}": "spec.object-templates: a list is expected, and not 7",
    f"{_POLICY}spec: {{object-templates: [null]}}": "spec.object-templates[0]: an object is expected, and not null",
    f"{_POLICY}spec: {{object-templates: [{{objectDefinition: foo}}]}}": "spec.object-templates[0].objectDefinition: an object is",
    f"{_POLICY}spec: {{object-templates: [{{objectDefinition: {{metadata: {{namespace: y}}}}}}]}}": (
        "spec.object-templates[0].objectDefinition.metadata.namespace: a text is expected, and not true; put it in quotes"
    ),
    f"{_POLICY}spec: {{object-templates-raw: []}}": "spec.object-templates-raw: a text is expected, and not a list",
    "{kind: Policy, spec: {policy-templates: {}}}": "spec.policy-templates: a list is expected, and not an object",
    "{kind: Policy, spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: 1}}]}}": (
        "spec.policy-templates[0].objectDefinition.spec: an object is expected, and not 1"
    ),
}
"""What newcomers write, and what is said of it."""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    for name, text in (("policy", POLICY), ("hub", HUB), ("cluster", CLUSTER)):
        (tmp_path / f"{name}.yaml").write_text(text)

    def invoke(*words: str, code: int = 0, **files: str) -> Result:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        known = {path.stem: str(path) for path in tmp_path.iterdir()}
        result = CliRunner().invoke(main, ["template", *(known.get(word, word) for word in words)])
        assert result.exit_code == code, result.output
        return result

    return invoke


HUB_FILES = ("--hub-resources", "hub", "--cluster-name", "c1")
CLUSTER_FILES = ("--resources", "cluster")


def data(document: Object) -> Object:
    found: Object = document["spec"]["object-templates"][0]["objectDefinition"]["data"]
    return found


class TestRender:
    def test_both_kinds_of_templates_are_resolved_with_objects_of_files(self, run: Callable[..., Result]) -> None:
        result = run("render", "policy", *HUB_FILES, *CLUSTER_FILES)
        assert data(yaml.load(result.stdout)) == {"env": "prod", "color": "red", "node": "n1"}

    def test_without_the_managed_cluster_its_templates_stay(self, run: Callable[..., Result]) -> None:
        result = run("render", "policy", *HUB_FILES, "-o", "json")
        assert data(json.loads(result.stdout)) == {
            "env": "prod", "color": "red", "node": '{{ (lookup "v1" "Node" "" "n1").metadata.name }}',
        }  # fmt: skip
        assert "templates of the cluster are not resolved: give --cluster-context or --resources" in result.stderr

    def test_without_the_hub_everything_that_has_hub_templates_stays(self, run: Callable[..., Result]) -> None:
        result = run("render", "policy", *CLUSTER_FILES)
        assert data(yaml.load(result.stdout))["env"] == "{{hub .ManagedClusterLabels.env hub}}"
        assert "templates of the hub are not resolved: give --context or --hub-resources" in result.stderr

    def test_templates_that_need_no_cluster_resolve_without_one(self, run: Callable[..., Result]) -> None:
        raw = {"object-templates-raw": '{{ range list "a" "b" }}\n- objectDefinition: {apiVersion: v1, kind: Namespace, '
               'metadata: {name: {{ . }}}}\n{{ end }}'}  # fmt: skip
        policy = {"apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy", "spec": raw}
        result = run("render", "raw", raw=yaml.dump(policy))
        templates = yaml.load(result.stdout)["spec"]["object-templates"]
        assert [one["objectDefinition"]["metadata"]["name"] for one in templates] == ["a", "b"]

    def test_fields_of_an_operator_policy_are_resolved(self, run: Callable[..., Result]) -> None:
        spec = {"subscription": {"name": "x", "channel": '{{ "A" | lower }}'}, "versions": ['{{ "1.2" }}']}
        policy = {"apiVersion": "policy.open-cluster-management.io/v1beta1", "kind": "OperatorPolicy", "spec": spec}
        result = run("render", "operator", operator=yaml.dump(policy))
        assert yaml.load(result.stdout)["spec"] == {"subscription": {"name": "x", "channel": "a"}, "versions": ["1.2"]}

    def test_policies_in_a_policy_are_shown_one_by_one(self, run: Callable[..., Result]) -> None:
        wrapped = {"kind": "Policy", "spec": {"policy-templates": [{"objectDefinition": yaml.load(POLICY)}] * 2}}
        result = run("render", "wrapped", *HUB_FILES, *CLUSTER_FILES, wrapped=yaml.dump(wrapped))
        assert [data(one)["color"] for one in yaml.load_all(result.stdout)] == ["red", "red"]

    def test_what_does_not_resolve_ends_with_1_and_the_reason(self, run: Callable[..., Result]) -> None:
        result = run(
            "render", "policy", *HUB_FILES, *CLUSTER_FILES, hub=HUB.replace("wall", "floor").replace("colors", "other"), code=1
        )
        assert "Error: ConfigurationPolicy c1/colors: failed to resolve the template" in result.stderr
        assert 'configmaps "colors" not found' in result.stderr

    @pytest.mark.parametrize(
        ("words", "reason"),
        [
            (("render",), "Missing argument"),
            (("render", "nowhere.yaml"), "does not exist"),
            (("render", "policy", "--context", "x", "--hub-resources", "hub"), "--context and --hub-resources exclude each other"),
            (("explain", "policy", "--grant"), "--grant needs --cluster-name"),
        ],
    )  # fmt: skip
    def test_wrong_usage_ends_with_2(self, words: tuple[str, ...], reason: str, run: Callable[..., Result]) -> None:
        assert reason in run(*words, code=2).stderr

    def test_a_cluster_that_templates_ask_for_must_be_named(self, run: Callable[..., Result]) -> None:
        assert "name it (--cluster-name)" in run("render", "policy", "--hub-resources", "hub", code=1).stderr

    def test_a_file_that_is_no_yaml_is_named(self, run: Callable[..., Result]) -> None:
        assert "bad.yaml: " in run("render", "bad", bad="a: [", code=1).stderr

    def test_a_list_may_be_empty(self, run: Callable[..., Result]) -> None:
        assert run("render", "none", none="kind: List").output == ""

    @pytest.mark.parametrize(("text", "problem"), MISSHAPEN.items())
    @pytest.mark.parametrize("command", ["render", "explain"])
    def test_what_has_another_shape_is_named(self, command: str, text: str, problem: str, run: Callable[..., Result]) -> None:
        result = run(command, "odd", odd=text, code=1)
        assert f"odd.yaml: {problem}" in result.stderr
        assert result.stderr.count("\n") == 1

    def test_objects_of_files_are_looked_at_too(self, run: Callable[..., Result]) -> None:
        result = run("render", "policy", "--resources", "odd", odd="{apiVersion: v1, kind: ConfigMap, metadata: foo}", code=1)
        assert "odd.yaml: metadata: an object is expected, and not a text" in result.stderr

    @pytest.mark.parametrize("value", ["true", "True", "t", "1"])
    def test_templates_that_are_switched_off_are_shown_as_they_are(self, value: str, run: Callable[..., Result]) -> None:
        """As the controller reads the annotation."""
        switched_off = {"policy.open-cluster-management.io/disable-templates": value}
        policy = yaml.load(POLICY)
        policy["metadata"]["annotations"] = switched_off
        result = run("render", "policy", *HUB_FILES, *CLUSTER_FILES, policy=yaml.dump(policy))
        assert data(yaml.load(result.stdout))["node"].startswith("{{")


class TestExplain:
    def test_it_says_what_was_read_and_what_would_change(self, run: Callable[..., Result]) -> None:
        result = run("explain", "policy", *HUB_FILES, *CLUSTER_FILES, "--diff")
        lines = [line.split() for line in result.stdout.splitlines()]
        assert lines[0] == ["ConfigurationPolicy", "c1/colors", "resolves"]
        assert ["hub", "ConfigMap", "paint", "colors", "yes", "unknown"] in lines
        assert ["cluster", "Node", "n1", "yes"] in lines
        assert ["ConfigMap", "default/out:", "update"] in lines
        assert ["-", "env:", "test"] in lines
        assert ["+", "env:", "prod"] in lines

    def test_it_is_to_be_had_for_programs(self, run: Callable[..., Result]) -> None:
        (found,) = json.loads(run("explain", "policy", *HUB_FILES, "-o", "json").stdout)
        assert found["unresolved"] == ["cluster"]
        assert not found["resolved"]
        assert [(read["kind"], read["name"], read["found"]) for read in found["reads"]] == [
            ("ManagedCluster", "c1", ["c1"]), ("ConfigMap", "colors", ["paint/colors"]),
        ]  # fmt: skip

    def test_rights_to_grant_are_those_of_the_addons_group_and_no_more(self, run: Callable[..., Result]) -> None:
        granted = list(yaml.load_all(run("explain", "policy", *HUB_FILES, "--grant").stdout))
        assert [(one["kind"], one["metadata"].get("namespace")) for one in granted] == [
            ("ClusterRole", None), ("ClusterRoleBinding", None), ("Role", "paint"), ("RoleBinding", "paint"),
        ]  # fmt: skip
        assert granted[2]["rules"] == [
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["colors"], "verbs": ["list", "watch"]}
        ]
        group = "system:open-cluster-management:cluster:c1:addon:governance-standalone-hub-templating"
        assert granted[3]["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]

    def test_differences_of_secrets_are_not_shown(self, run: Callable[..., Result]) -> None:
        policy = POLICY.replace("kind: ConfigMap", "kind: Secret")
        result = run("explain", "policy", *HUB_FILES, *CLUSTER_FILES, "--diff",
                     policy=policy, cluster=CLUSTER.replace("kind: ConfigMap", "kind: Secret"))  # fmt: skip
        assert "Secret default/out: update\n# The difference is not shown" in result.stdout
        assert "prod" not in result.stdout


class TestLive:
    """The hub is its own managed cluster here."""

    CONTEXTS = ("--context", "default", "--cluster-context", "default", "--cluster-name", "c1")
    LIVE_POLICY = POLICY.replace(".ManagedClusterLabels.env", ".ManagedClusterName")

    @pytest.fixture
    async def admin(self, server: ApiServer) -> InProcessClient:
        client = InProcessClient(server.client(server.clusters["default"]))
        await client.create(NAMESPACES, {"metadata": {"name": "paint"}})
        for one in [*yaml.load_all(HUB)][:1] + yaml.load(CLUSTER)["items"]:
            await client.create(NODES if one["kind"] == "Node" else CONFIG_MAPS, one)
        return client

    async def test_templates_are_resolved_with_objects_of_the_clusters(
        self, admin: InProcessClient, admin_kubeconfig: Path, run: Callable[..., Result]
    ) -> None:
        words = ("render", "policy", "--kubeconfig", str(admin_kubeconfig), *self.CONTEXTS)
        result = await asyncio.to_thread(run, *words, policy=self.LIVE_POLICY)
        assert data(yaml.load(result.stdout)) == {"env": "c1", "color": "red", "node": "n1"}

    async def test_rights_are_missing_until_what_it_says_is_granted(
        self, admin: InProcessClient, admin_kubeconfig: Path, run: Callable[..., Result]
    ) -> None:
        words = ("explain", "policy", "--kubeconfig", str(admin_kubeconfig), *self.CONTEXTS)

        async def rights() -> list[str]:
            (found,) = json.loads((await asyncio.to_thread(run, *words, "-o", "json", policy=self.LIVE_POLICY)).stdout)
            return [read["rights"] for read in found["reads"] if read["of"] == "hub"]

        assert await rights() == ["missing"]
        for one in yaml.load_all((await asyncio.to_thread(run, *words, "--grant")).stdout):
            await admin.create(ROLES if one["kind"] == "Role" else ROLE_BINDINGS, one)
        assert await rights() == ["granted"]
        assert (await asyncio.to_thread(run, *words, "--grant")).stdout == ""

    async def test_where_the_credential_is_a_token_its_user_is_granted(
        self, admin: InProcessClient, admin_kubeconfig: Path, run: Callable[..., Result]
    ) -> None:
        """It is in no group of the cluster's."""
        kinds = [kind for kind in crds.ALL if kind.name.startswith("managedclusteraddons.")]
        for document in definitions(kinds):
            await admin.create(CRDS, document)
        await await_definitions(admin, [kind.name for kind in kinds], SYSTEM)
        await admin.create(NAMESPACES, {"metadata": {"name": "c1"}})
        name = "governance-standalone-hub-templating"
        addon = {"apiVersion": ADDONS.api_version, "kind": ADDONS.kind, "metadata": {"name": name}, "spec": {}}
        await admin.create(ADDONS, addon, "c1")
        await admin.patch(ADDONS, name, {"status": {"kubeClientDriver": "token"}}, "c1", subresource="status")
        words = ("explain", "policy", "--kubeconfig", str(admin_kubeconfig), *self.CONTEXTS, "--grant")
        granted = list(yaml.load_all((await asyncio.to_thread(run, *words, policy=self.LIVE_POLICY)).stdout))
        user = f"system:serviceaccount:c1:{name}-agent"
        assert granted[-1]["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]

    async def test_a_cluster_that_cannot_be_reached_is_an_error_that_says_so(
        self, kubeconfig: Path, run: Callable[..., Result]
    ) -> None:
        words = ("render", "policy", "--kubeconfig", str(kubeconfig), "--context", "c", "--cluster-name", "c1")
        result = await asyncio.to_thread(run, *words, code=1)
        assert "Error: ConfigurationPolicy c1/colors: " in result.stderr
        assert "127.0.0.1:1" in result.stderr

    async def test_what_is_granted_for_one_policy_takes_nothing_from_another(
        self, admin: InProcessClient, admin_kubeconfig: Path, run: Callable[..., Result]
    ) -> None:
        """By kubectl apply, which gives a Role the rules that it is told, whatever it had."""
        await admin.create(CONFIG_MAPS, {"metadata": {"name": "other", "namespace": "paint"}, "data": {"wall": "blue"}})
        policies = {"policy": self.LIVE_POLICY, "second": self.LIVE_POLICY.replace('"colors"', '"other"')}
        words = ("--kubeconfig", str(admin_kubeconfig), *self.CONTEXTS)
        for name in policies:
            granted = await asyncio.to_thread(run, "explain", name, *words, "--grant", **policies)
            for one in yaml.load_all(granted.stdout):
                await admin.apply(ROLES if one["kind"] == "Role" else ROLE_BINDINGS, one, manager="kubectl", force=True)
        found = json.loads((await asyncio.to_thread(run, "explain", *policies, *words, "-o", "json", **policies)).stdout)
        assert [read["rights"] for one in found for read in one["reads"] if read["of"] == "hub"] == ["granted", "granted"]


class TestLint:
    def test_a_file_that_cannot_be_read_hides_no_other(self, run: Callable[..., Result]) -> None:
        odd, broken = (yaml.dump(policy_with({"v": text})) for text in ("{{ now }}", "{{ if }}"))
        result = run("lint", "bad", "odd", "broken", bad="a: [", odd=odd, broken=broken, code=1)
        assert [line.split("/")[-1].split(": ")[:2] for line in result.stdout.splitlines()] == [
            ["bad.yaml", "error"], ["odd.yaml", "warning"], ["broken.yaml", "error"],
        ]  # fmt: skip

    @pytest.mark.parametrize(("text", "problem"), MISSHAPEN.items())
    def test_what_has_another_shape_is_an_error(self, text: str, problem: str, run: Callable[..., Result]) -> None:
        assert f"odd.yaml: error: {problem}" in run("lint", "odd", odd=text, code=1).stdout

    def test_good_templates_are_passed_over(self, run: Callable[..., Result]) -> None:
        assert run("lint", "policy").output == ""

    @pytest.mark.parametrize(
        ("text", "where", "message"),
        [
            ("{{ if }}", "", "missing value for if"),
            ("{{ nosuch }}", "", 'function "nosuch" not defined'),
            ('{{ env "HOME" }}', "", "env is denied"),
        ],
    )
    def test_what_cannot_resolve_is_an_error(self, text: str, where: str, message: str, run: Callable[..., Result]) -> None:
        result = run("lint", "bad", bad=yaml.dump(policy_with({"v": text})), code=1)
        assert ": error: spec.object-templates[0].objectDefinition: " in result.stdout
        assert message in result.stdout

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("{{ now }}", "now returns another value each time"),
            ('{{ getHostByName "localhost" }}', "getHostByName asks the controller's DNS"),
            (['{{ "6" | toInt }}'], "in an item of a list the result stays a string"),
            ('{{ "6" | toInt }}px', "leaves a quote in the value"),
        ],
    )
    def test_what_is_seldom_meant_is_a_warning(self, value: Any, message: str, run: Callable[..., Result]) -> None:
        text = yaml.dump(policy_with({"v": value}))
        result = run("lint", "odd", odd=text)
        assert ": warning: " in result.stdout
        assert message in result.stdout
        run("lint", "odd", "--strict", code=1)

    def test_hub_templates_in_labels_are_not_resolved(self, run: Callable[..., Result]) -> None:
        policy = policy_with({"v": "x"})
        policy["metadata"] = {"labels": {"a": "{{hub .ManagedClusterName hub}}"}}
        (found,) = json.loads(run("lint", "odd", "-o", "json", odd=yaml.dump(policy)).stdout)
        assert (found["level"], found["where"]) == ("warning", "metadata.labels")


def policy_with(data: Object) -> Object:
    definition = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": data}
    spec = {"object-templates": [{"complianceType": "musthave", "objectDefinition": definition}]}
    return {"apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy", "spec": spec}


def test_every_command_says_what_it_is_for() -> None:
    for name, entry in template.ENTRIES.items():
        result = CliRunner().invoke(main, ["template", name, "--help"])
        assert result.exit_code == 0
        assert entry.help.endswith(".")
        for option in entry.load().params:
            assert not isinstance(option, click.Option) or option.help, f"{name} {option.name}"
