"""`muster policy dryrun`: files in, diffs and messages out, and an exit code that tells compliance from failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.cli.policy_dryrun import command
from muster.kube.yaml import dump, load
from muster.machinery.objects import Object
from tests.support.policy_site import config_map, policy, template

WANTED = template(config_map("settings", color="red"), recordDiff="InStatus")


Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def invoke(document: Object, *args: str, objects: tuple[Object, ...] = ()) -> Result:
        (tmp_path / "policy.yaml").write_text(dump(document))
        (tmp_path / "objects.yaml").write_text("---\n".join(map(dump, objects)))
        given = ["--policy", str(tmp_path / "policy.yaml"), "--no-colors", *args, str(tmp_path / "objects.yaml")]
        return CliRunner().invoke(command, given)

    return invoke


def test_a_compliant_policy_exits_with_0(run: Run) -> None:
    done = run(policy("p", WANTED), objects=(config_map("settings", color="red"),))
    assert done.exit_code == 0
    assert done.stdout == (
        "# Diffs:\nv1 ConfigMap app/settings:\n\n# Compliance messages:\n"
        "Compliant; notification - configmaps [settings] found as specified in namespace app\n"
    )


def test_a_policy_that_is_not_compliant_exits_with_2_and_shows_the_diff(run: Run) -> None:
    done = run(policy("p", WANTED), objects=(config_map("settings", color="blue"),))
    assert done.exit_code == 2
    assert "-  color: blue\n+  color: red\n" in done.stdout
    assert done.stderr == "Error: policy is NonCompliant\n"


def test_what_cannot_be_evaluated_exits_with_1(run: Run) -> None:
    broken = config_map("settings", color="{{ .None }}")
    done = run(policy("p", template(broken)))
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: unable to complete the dryrun reconcile: failed to resolve the template")
    unknown = run(policy("p", WANTED), objects=({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}},))
    assert unknown.exit_code == 1
    assert "it may need an entry in the mappings file" in unknown.stderr


def test_messages_and_status_go_to_files(run: Run, tmp_path: Path) -> None:
    messages, status = tmp_path / "messages", tmp_path / "status"
    done = run(policy("p", WANTED), "--messages-path", str(messages), "--status-path", str(status), "--print-diffs=false")
    assert (done.exit_code, done.stdout) == (2, "")
    assert messages.read_text() == "NonCompliant; violation - configmaps [settings] not found in namespace app\n"
    assert load(status.read_text())["compliant"] == "NonCompliant"


def test_kinds_of_ones_own_come_from_a_mappings_file(run: Run, tmp_path: Path) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "app"}}
    mappings = [{"group": "example.com", "version": "v1", "kind": "Widget", "plural": "widgets", "scope": "namespace"}]
    (tmp_path / "mappings").write_text(dump(mappings))
    done = run(policy("p", template(widget)), "--mappings-file", str(tmp_path / "mappings"), objects=(widget,))
    assert done.exit_code == 0
    assert "widgets [w] found as specified in namespace app" in done.stdout


def test_an_expected_status_is_compared(run: Run, tmp_path: Path) -> None:
    expected = tmp_path / "expected"
    expected.write_text("compliant: Compliant\nrelatedObjects:\n- compliant: NonCompliant\n")
    done = run(policy("p", WANTED), "--desired-status", str(expected))
    assert done.stdout.startswith("# Status compare:\n.compliant: 'Compliant' does not match 'NonCompliant'\n")
    assert ".relatedObjects[0] matches\n.relatedObjects matches\n Expected status does not match" in done.stdout


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"object-templates": 7}, "got `int` - at `$.spec.object-templates`"),
        ({"object-templates": [{"objectDefinition": {}}]}, "missing required field `complianceType`"),
        ("foo", "ConfigurationPolicySpec must be an object"),
    ],
)
def test_a_policy_of_another_shape_is_refused_with_the_reason(run: Run, spec: object, problem: str) -> None:
    done = run({**policy("p", WANTED), "spec": spec})
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: unable to read input policy: could not unmarshal input to a ConfigurationPolicy: ")
    assert problem in done.stderr


@pytest.mark.parametrize("templates", [7, None, "x"])
def test_a_policy_around_nothing_is_refused(run: Run, templates: object) -> None:
    outer = {"apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy", "spec": {"policy-templates": templates}}
    assert "invalid input Policy: no policy-templates found" in run(outer).stderr


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--status-path", "unable to write the status: "),
        ("--messages-path", "unable to write the messages: "),
        ("--log-path", "unable to setup the logging configuration: "),
        ("--mappings-file", "unable to setup the dryrun reconciler: "),
        ("--desired-status", "unable to compare desired status: "),
    ],
)
def test_a_file_that_cannot_be_had_is_named(run: Run, tmp_path: Path, flag: str, problem: str) -> None:
    path = str(tmp_path / "nowhere" / "file")
    done = run(policy("p", WANTED), flag, path)
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert f"Error: {problem}" in done.stderr
    assert path in done.stderr


def test_a_mappings_file_that_is_no_yaml_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mappings").write_text("a: [")
    done = run(policy("p", WANTED), "--mappings-file", str(tmp_path / "mappings"))
    assert "Error: unable to setup the dryrun reconciler: the mappings file cannot be read: yaml: " in done.stderr


@pytest.mark.parametrize("words", [("generate",), ("--policy", "policy.yaml", "--from-cluster")], ids=["generate", "from-cluster"])
def test_a_cluster_that_cannot_be_reached_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    cluster, user = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}, {"token": "x"}
    (tmp_path / "config").write_text(
        dump(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    encrypted = policy("p", WANTED)
    encrypted["metadata"]["annotations"] = {"policy.open-cluster-management.io/encryption-iv": "AAAAAAAAAAAAAAAAAAAAAA=="}
    run(encrypted)
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert "127.0.0.1:1" in done.stderr


def test_a_policy_without_a_path_is_wrong_usage() -> None:
    done = CliRunner().invoke(command, [])
    assert done.exit_code == 2
    assert "--policy FILE" in done.output
