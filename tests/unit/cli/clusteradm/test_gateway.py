"""`clusteradm gateway` and `proxy`: clusters through the hub, with nothing but the hub's credentials."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.https_server import Answer
from tests.support.stub_kubectl import write_stub
from tests.unit.cli.clusteradm.gateway_hub import GROUP, TOKEN, GatewayHub, status

PREFIX = f"/apis/{GROUP}/v1alpha1/clustergateways"
CLUSTERS = {"bad-one": {"env": "dev"}, "good-one": {"env": "prod"}, "good-two": {"env": "prod"}}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayHub]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("PATH", f"{write_stub(tmp_path / 'bin')}:{os.environ['PATH']}")
    with GatewayHub(tmp_path, CLUSTERS) as running:
        yield running


def contexts(document: dict[str, Any]) -> dict[str, str]:
    servers = {one["name"]: one["cluster"]["server"] for one in document["clusters"]}
    return {one["name"]: servers[one["context"]["cluster"]] for one in document["contexts"]}


# kubeconfig ------------------------------------------------------------------------------------------------------------------


def test_all_clusters_become_contexts_with_the_hubs_user(hub: GatewayHub, tmp_path: Path) -> None:
    found = yaml.safe_load(hub.ok("gateway", "kubeconfig"))
    assert contexts(found) == {name: f"{hub.server.url}{PREFIX}/{name}/proxy" for name in CLUSTERS}
    assert found["users"] == [{"name": "admin", "user": {"token": TOKEN}}]
    assert {one["cluster"]["certificate-authority"] for one in found["clusters"]} == {str(tmp_path / "ca.crt")}


def test_clusters_can_be_chosen_by_name_and_by_label(hub: GatewayHub) -> None:
    assert list(contexts(yaml.safe_load(hub.ok("gateway", "kubeconfig", "good-two", "bad-one")))) == ["good-two", "bad-one"]
    assert list(contexts(yaml.safe_load(hub.ok("gateway", "kubeconfig", "-l", "env=prod", "--prefix", "p-")))) == [
        "p-good-one",
        "p-good-two",
    ]
    assert "the gateway knows no cluster nobody" in hub.fails("gateway", "kubeconfig", "nobody")
    assert "no cluster has the labels env=none" in hub.fails("gateway", "kubeconfig", "-l", "env=none")
    assert "--selector" in hub.fails("gateway", "kubeconfig", "good-one", "-l", "env=prod", code=2)
    assert "--selector" in hub.fails("gateway", "kubeconfig", "-l", "a in", code=2)


def test_who_may_not_look_at_gateways_names_clusters_and_is_believed(hub: GatewayHub) -> None:
    hub.may_look = False
    assert "good-one" in hub.ok("gateway", "kubeconfig", "good-one")
    assert "permission" in hub.fails("gateway", "kubeconfig")


def test_a_file_is_the_owners_alone_and_is_not_replaced_unasked(hub: GatewayHub, tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    words = ("gateway", "kubeconfig", "good-one", "--output", str(path))
    assert hub.ok(*words) == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_text()
    assert "--merge" in hub.fails("gateway", "kubeconfig", "good-two", "--output", str(path))
    assert path.read_text() == before
    hub.ok("gateway", "kubeconfig", "good-two", "--output", str(path), "--merge")
    assert list(contexts(yaml.safe_load(path.read_text()))) == ["good-one", "good-two"]
    hub.ok("gateway", "kubeconfig", "good-two", "--output-file", str(path), "--overwrite")
    assert list(contexts(yaml.safe_load(path.read_text()))) == ["good-two"]
    assert "--merge" in hub.fails("gateway", "kubeconfig", "--merge", code=2)


def test_a_merge_keeps_what_leads_elsewhere(hub: GatewayHub, tmp_path: Path) -> None:
    path = tmp_path / "config"
    other = {
        "clusters": [{"name": "good-one", "cluster": {"server": "https://elsewhere"}}],
        "users": [{"name": "me", "user": {"token": "mine"}}],
        "contexts": [{"name": "work", "context": {"cluster": "good-one", "user": "me"}}],
        "current-context": "work",
        "preferences": {"colors": True},
    }
    path.write_text(yaml.safe_dump(other))
    words = ("gateway", "kubeconfig", "--output", str(path), "--merge")
    assert "cluster good-one for another server" in hub.fails(*words)
    assert yaml.safe_load(path.read_text()) == other
    hub.ok(*words, "--prefix", "hub-")
    merged = yaml.safe_load(path.read_text())
    assert contexts(merged)["work"] == "https://elsewhere"
    assert (merged["current-context"], merged["preferences"]) == ("work", {"colors": True})
    hub.ok(*words, "--prefix", "hub-", "--hub-server", "https://public.example.com")
    again = yaml.safe_load(path.read_text())
    assert contexts(again)["hub-good-one"] == f"https://public.example.com{PREFIX}/good-one/proxy", "earlier ones of ours change"
    hub.ok(*words, "--overwrite")
    assert contexts(yaml.safe_load(path.read_text()))["good-one"].startswith(hub.server.url)


def test_a_user_of_others_is_not_replaced(hub: GatewayHub, tmp_path: Path) -> None:
    path = tmp_path / "config"
    other = {
        "clusters": [{"name": "c", "cluster": {"server": "https://elsewhere"}}],
        "users": [{"name": "admin", "user": {"token": "another"}}],
        "contexts": [{"name": "work", "context": {"cluster": "c", "user": "admin"}}],
    }
    path.write_text(yaml.safe_dump(other))
    assert "user admin for another server" in hub.fails("gateway", "kubeconfig", "--output", str(path), "--merge")


@pytest.mark.parametrize("content", ["[]", "clusters: {}", "a: ["])
def test_what_is_no_kubeconfig_is_not_merged_with(hub: GatewayHub, tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    assert str(path) in hub.fails("gateway", "kubeconfig", "--output", str(path), "--merge")
    assert path.read_text() == content


def test_a_dry_run_writes_no_file(hub: GatewayHub, tmp_path: Path) -> None:
    assert "would write 3 contexts" in hub.ok("gateway", "kubeconfig", "--output", str(tmp_path / "new"), "--dry-run")
    assert not (tmp_path / "new").exists()


def test_an_address_that_is_none_is_wrong_usage(hub: GatewayHub) -> None:
    assert "--hub-server" in hub.fails("gateway", "kubeconfig", "--hub-server", "hub", code=2)


def test_another_version_of_the_api_is_found(hub: GatewayHub) -> None:
    hub.version = "v1beta1"
    found = yaml.safe_load(hub.ok("gateway", "kubeconfig", "good-one"))
    assert contexts(found)["good-one"].endswith(f"/apis/{GROUP}/v1beta1/clustergateways/good-one/proxy")


# exec ------------------------------------------------------------------------------------------------------------------------


def told(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_a_command_runs_on_every_cluster_with_a_kubeconfig_of_its_own(hub: GatewayHub) -> None:
    output = hub.ok("gateway", "exec", "--all", "--", "kubectl", "get", "pods", "-A")
    assert [line for line in output.splitlines() if line.startswith("==>")] == [f"==> {name}" for name in CLUSTERS]
    ran = told(output)
    assert [(one["cluster"], one["words"]) for one in ran] == [(name, ["get", "pods", "-A"]) for name in CLUSTERS]
    assert {one["mode"] for one in ran} == {0o600}
    assert not any(Path(one["path"]).exists() for one in ran), "gone afterwards"
    assert all(TOKEN in one["kubeconfig"] for one in ran)


def test_clusters_are_chosen_by_name_or_label(hub: GatewayHub) -> None:
    for words in (("--clusters", "good-two,good-one"), ("-c", "good-two", "-c", "good-one")):
        assert [one["cluster"] for one in told(hub.ok("gateway", "exec", *words, "get", "pods"))] == ["good-two", "good-one"]
    assert [one["cluster"] for one in told(hub.ok("gateway", "exec", "-l", "env=dev", "--", "version"))] == ["bad-one"]
    for wrong in ((), ("--all", "--clusters", "good-one"), ("--all", "-l", "a=b")):
        assert "give one of them" in hub.fails("gateway", "exec", *wrong, "--", "version", code=2)
    assert "nobody" in hub.fails("gateway", "exec", "--clusters", "nobody", "--", "version")


def test_failures_of_some_are_shown_and_decide_the_end(hub: GatewayHub) -> None:
    done = hub.run("gateway", "exec", "--all", "-o", "prefix", "--", "fail")
    assert done.exit_code == 1
    assert "good-one: {" in done.stdout
    assert "bad-one: no such thing" in done.stderr
    assert "1 of 3 clusters failed: bad-one (exit code 3)" in done.stderr


def test_one_that_hangs_is_ended_and_holds_up_nobody(hub: GatewayHub) -> None:
    began = time.monotonic()
    done = hub.run("gateway", "exec", "--all", "--parallel", "1", "--timeout", "2s", "-o", "json", "--", "hang")
    assert time.monotonic() - began < 30
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert report["failed"] == ["bad-one"]
    assert [(one["cluster"], one["exitCode"]) for one in report["results"]] == [("bad-one", None), ("good-one", 0), ("good-two", 0)]
    assert "timed out" in report["results"][0]["error"]
    assert json.loads(report["results"][1]["stdout"])["cluster"] == "good-one"


def test_manifests_on_standard_input_go_to_all(hub: GatewayHub) -> None:
    ran = told(hub.ok("gateway", "exec", "--all", "--", "apply", "-f", "-", given="kind: Pod\n"))
    assert [one["stdin"] for one in ran] == ["kind: Pod\n"] * 3


@pytest.mark.parametrize("word", ["--context", "--kubeconfig=x", "--server=https://x", "-s", "-shttps://x", "--token=x"])
def test_words_that_lead_elsewhere_are_refused(hub: GatewayHub, word: str) -> None:
    flag = word.partition("=")[0] if word.startswith("--") else "-s"
    assert f"{flag}: the gateway sets the cluster" in hub.fails("gateway", "exec", "--all", "--", "get", "pods", word)
    assert "the gateway sets" in hub.fails("proxy", "kubectl", "--cluster", "good-one", "--", "get", word, code=2)
    assert hub.ok("gateway", "exec", "--all", "--", "exec", "web", "--", "curl", word), "what runs in a pod is its own"


def test_without_kubectl_it_is_said_so(hub: GatewayHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for words in (("gateway", "exec", "--all", "version"), ("proxy", "kubectl", "--cluster", "good-one", "--args", "version")):
        assert "there is no kubectl in PATH; install it" in hub.fails(*words)


def test_a_dry_run_runs_nothing(hub: GatewayHub) -> None:
    done = hub.run("gateway", "exec", "--all", "--dry-run", "--", "delete", "ns", "web")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "would run kubectl delete ns web on bad-one, good-one, good-two" in done.stderr


# proxy -----------------------------------------------------------------------------------------------------------------------


def test_ocms_own_command_runs_kubectl_and_ends_as_it_does(hub: GatewayHub, capfd: pytest.CaptureFixture[str]) -> None:
    done = hub.run("proxy", "kubectl", "--cluster=good-one", "--sa=test", "--args=get pods -l 'a in (b, c)'")
    assert done.exit_code == 0, done.output
    (ran,) = told(capfd.readouterr().out)
    assert (ran["cluster"], ran["words"]) == ("good-one", ["get", "pods", "-l", "a in (b, c)"])
    assert "--sa test: not needed" in done.stderr
    assert hub.run("proxy", "kubectl", "--cluster", "bad-one", "--", "fail").exit_code == 3
    assert "--args" in hub.fails("proxy", "kubectl", "--cluster", "good-one", code=2)
    assert "--args" in hub.fails("proxy", "kubectl", "--cluster", "good-one", "--args", "get 'x", code=2)
    assert "gateway exec" in hub.fails("proxy", "kubectl", "--cluster", "good-one,bad-one", "--args", "version", code=2)
    assert (
        "would run kubectl version on good-one"
        in hub.run("proxy", "kubectl", "-c", "good-one", "--args", "version", "--dry-run").stderr
    )


def test_health_shows_every_cluster_and_who_is_to_blame(hub: GatewayHub) -> None:
    hub.answers = {
        "bad-one": Answer(status(503, causes=[{"reason": "CredentialExpired"}]).body, 503, {"Retry-After": "5"}),
        "good-two": status(403, causes=[{"reason": "VirtualVerbForbidden"}]),
    }
    began = time.monotonic()
    done = hub.run("proxy", "health")
    assert time.monotonic() - began < 5, "asked once"
    assert done.exit_code == 1
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()[1:]}
    assert rows["good-one"][1:3] == ["true", "ok"]
    assert rows["bad-one"][1:4] == ["false", "ClusterUnreachable", "CredentialExpired"]
    assert rows["good-two"][3] == "VirtualVerbForbidden"
    hub.answers = {}
    found = json.loads(hub.ok("proxy", "health", "--clusters", "good-one", "-o", "json"))
    assert [(one["metadata"]["name"], one["probe"]["answer"]) for one in found["items"]] == [("good-one", "ok")]
    assert "good-two" in hub.ok("proxy", "health", "-l", "env=prod", "--timeout", "5s")


# grant, without a server's help ----------------------------------------------------------------------------------------------


def granted(output: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in yaml.safe_load_all(output):
        found.setdefault(one["kind"], []).append(one)
    return found


def test_a_viewer_may_read_one_cluster_by_get_alone(hub: GatewayHub) -> None:
    found = granted(hub.ok("gateway", "grant", "alice", "--role", "viewer", "--cluster", "good-one"))
    assert set(found) == {"ClusterRole", "ClusterRoleBinding"}
    (role,), (bound,) = found["ClusterRole"], found["ClusterRoleBinding"]
    assert role["rules"][0] == {
        "apiGroups": [GROUP],
        "resources": ["clustergateways/proxy"],
        "resourceNames": ["good-one"],
        "verbs": ["get"],
    }
    verbs = {verb for rule in role["rules"][1:] for verb in rule["verbs"]}
    assert verbs == {"good-one/get", "good-one/list", "good-one/watch"}
    resources = {resource for rule in role["rules"] for resource in rule.get("resources", ())}
    assert "pods" in resources
    assert not resources & {"secrets", "pods/exec", "*"}
    assert bound["roleRef"]["name"] == role["metadata"]["name"]
    assert bound["subjects"] == [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]


def test_an_editor_of_namespaces_has_roles_there(hub: GatewayHub) -> None:
    words = ("--group", "devs", "--role", "editor", "-c", "good-one,good-two", "-n", "web,db", "--create-namespace")
    found = granted(hub.ok("gateway", "grant", *words, "--resource", "widgets.example.com"))
    assert [one["metadata"]["name"] for one in found["Namespace"]] == ["web", "db"]
    assert len(found["Role"]) == len(found["RoleBinding"]) == 4
    assert {one["metadata"]["namespace"] for one in found["Role"]} == {"web", "db"}
    for role in found["ClusterRole"]:
        (way,) = role["rules"]
        assert way["verbs"] == ["get", "create", "update", "patch", "delete"], "and nothing outside of namespaces"
    rules = [rule for rule in found["Role"][0]["rules"] if "pods/exec" in rule["resources"]]
    assert [rule["verbs"] for rule in rules] == [["good-one/create"]]
    widgets = {verb for rule in found["Role"][0]["rules"] if rule["resources"] == ["widgets"] for verb in rule["verbs"]}
    assert {"good-one/list", "good-one/patch"} <= widgets


def test_an_admin_has_every_verb_of_one_cluster_and_no_wildcard_verb(hub: GatewayHub) -> None:
    found = json.loads(hub.ok("gateway", "grant", "--serviceaccount", "ci:bot", "--role", "admin", "-c", "good-one", "-o", "json"))
    role, bound = found["items"]
    assert {"kind": "ServiceAccount", "namespace": "ci", "name": "bot"} in bound["subjects"]
    for rule in role["rules"][1:]:
        assert all(verb.startswith("good-one/") and "*" not in verb for verb in rule["verbs"])
    assert role["rules"][1]["resources"] == ["*"]
    assert "good-one/deletecollection" in role["rules"][1]["verbs"]


def test_roles_are_named_after_what_they_grant(hub: GatewayHub) -> None:
    def names(*words: str) -> list[str]:
        everything = granted(hub.ok("gateway", "grant", *words, "-c", "good-one"))
        return [one["metadata"]["name"] for ones in everything.values() for one in ones]

    plain, again = names("alice", "--role", "viewer"), names("alice", "--role", "viewer")
    other, wider = names("bob", "--role", "viewer"), names("alice", "--role", "viewer", "--resource", "secrets")
    assert plain == again
    assert (plain[0], plain[1]) == (other[0], plain[1])
    assert other[1] != plain[1]
    assert not set(wider) & set(plain), "a wider role is another one"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--role", "viewer", "-c", "good-one"), "USER, --group, --serviceaccount"),
        (("alice", "--group", "g", "--role", "viewer", "-c", "good-one"), "USER, --group, --serviceaccount"),
        (("alice", "--role", "viewer"), "--cluster"),
        (("alice", "-c", "good-one"), "--role"),
        (("--serviceaccount", "bot", "--role", "viewer", "-c", "good-one"), "namespace:name"),
        (("alice", "--role", "viewer", "-c", "good-one", "--create-namespace"), "--create-namespace"),
        ((" ", "--role", "viewer", "-c", "good-one"), "USER: must not be empty"),
    ],
)
def test_grants_that_are_unclear_are_wrong_usage(hub: GatewayHub, words: tuple[str, ...], complaint: str) -> None:
    assert complaint in hub.fails("gateway", "grant", *words, code=2)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-c", "Good"), "--cluster: 'Good'"),
        (("-c", "good-one", "-n", "a.b"), "--namespace: 'a.b'"),
        (("-c", "good-one", "--resource", "a b"), "--resource: 'a b'"),
    ],
)
def test_grants_of_what_cannot_be_name_the_flag(hub: GatewayHub, words: tuple[str, ...], complaint: str) -> None:
    assert complaint in hub.fails("gateway", "grant", "alice", "--role", "viewer", *words)


# completion ------------------------------------------------------------------------------------------------------------------


def test_shells_complete_names_of_clusters(hub: GatewayHub) -> None:
    from click.shell_completion import ShellComplete

    from muster.cli.clusteradm import main

    completion = ShellComplete(main, {}, "clusteradm", "_CLUSTERADM_COMPLETE")
    before = ["--kubeconfig", str(hub.kubeconfig), "gateway"]
    assert [one.value for one in completion.get_completions([*before, "kubeconfig"], "good")] == ["good-one", "good-two"]
    found = completion.get_completions([*before, "exec", "--clusters"], "good-one,")
    assert [one.value for one in found] == ["good-one,bad-one", "good-one,good-two"]
    nowhere = ["--kubeconfig", "/nowhere", "gateway", "kubeconfig"]
    assert completion.get_completions(nowhere, "good") == []
