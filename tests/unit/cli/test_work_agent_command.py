"""`muster work-agent`: upstream's spellings are understood, and wrong values are refused by the flag that named them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli.work_agent import Settings, command, settings
from muster.work.agent.source import hash_of

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, namespace: somewhere}}]
clusters: [{name: c, cluster: {server: "https://%s.example/", certificate-authority-data: Y2E=}}]
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("hub", "spoke"):
        (tmp_path / name).write_text(KUBECONFIG % name)
    return tmp_path


def parsed(files: Path, *arguments: str) -> Settings:
    given = ["--kubeconfig", str(files / "spoke"), "--hub-kubeconfig", str(files / "hub"), *arguments]
    return settings(command.make_context("work-agent", given).params)


def test_a_name_is_all_that_is_needed_and_the_rest_is_as_upstream_has_it(files: Path) -> None:
    found = parsed(files, "--spoke-cluster-name", "c1")
    options = found.options
    assert (options.cluster_name, options.agent_id, options.eviction_grace, options.poll_seconds) == ("c1", "", 3600, 10)
    assert (options.workers, options.raw_json, options.max_json_raw_length) == (16, False, 1024)
    assert (options.executor.strict, options.executor.review_all, options.executor.every_verb) == (True, False, False)
    assert (found.namespace, found.elect, found.health) == ("open-cluster-management-agent", False, ("127.0.0.1", 8000))


def test_a_record_is_named_by_the_hubs_address_letter_by_letter(files: Path) -> None:
    url = parsed(files, "--spoke-cluster-name", "c1").options.hub_url
    assert url == "https://hub.example/"
    assert hash_of(url) == hashlib.sha256(b"https://hub.example/").hexdigest()


def test_the_cluster_is_called_what_the_registration_agent_says(files: Path) -> None:
    (files / "cluster-name").write_text("c2\n")
    assert parsed(files).options.cluster_name == "c2"
    assert parsed(files, "--cluster-name", "c3").options.cluster_name == "c3"


def test_upstreams_spellings_are_understood(files: Path) -> None:
    options = parsed(
        files,
        "--spoke-cluster-name=c1",
        "--agent-id=me",
        "--workload-source-driver=kube",
        "--appliedmanifestwork-eviction-grace-period=30m",
        "--status-sync-interval=20s",
        "--workload-agent-workers=5",
        "--max-json-raw-length=100",
        "--max-feedback-watch=7",
        "--feature-gates=RawFeedbackJsonString=true,ExecutorValidatingCaches=true",
        "--disable-leader-election",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
        "--hub-kube-api-qps=50",
        "--hub-kube-api-burst=100",
    ).options
    assert (options.agent_id, options.eviction_grace, options.poll_seconds, options.workers) == ("me", 1800, 20, 5)
    assert (options.raw_json, options.max_json_raw_length) == (True, 100)


def test_executors_are_judged_as_one_wishes(files: Path) -> None:
    flags = ("--executor-mode=per-manifest", "--executor-reviews=always", "--executor-verbs=all")
    executor = parsed(files, "--spoke-cluster-name=c1", *flags).options.executor
    assert (executor.strict, executor.review_all, executor.every_verb) == (False, True, True)


def test_executors_are_judged_as_gates_say_where_flags_cannot_be_given(files: Path) -> None:
    gates = "--feature-gates=ExecutorPerManifest=true,ExecutorReviewsAlways=true,ExecutorVerbsAll=true"
    executor = parsed(files, "--spoke-cluster-name=c1", gates).options.executor
    assert (executor.strict, executor.review_all, executor.every_verb) == (False, True, True)
    executor = parsed(files, "--spoke-cluster-name=c1", gates.replace("true", "false")).options.executor
    assert (executor.strict, executor.review_all, executor.every_verb) == (True, False, False)


def over_grpc(files: Path, config: str, *arguments: str) -> list[str]:
    (files / "config.yaml").write_text(config)
    grpc = ["--workload-source-driver=grpc", "--workload-source-config", str(files / "config.yaml")]
    return ["--kubeconfig", str(files / "spoke"), *grpc, "--spoke-cluster-name=c1", *arguments]


def test_works_may_come_over_grpc(files: Path) -> None:
    config = "{url: 'hub.example:8090', caData: Y2E=, token: t}"
    found = settings(command.make_context("work-agent", over_grpc(files, config)).params)
    assert (found.options.hub_url, found.client_id) == ("hub.example:8090", "c1-work-agent")
    given = over_grpc(files, config, "--cloudevents-client-id=me")
    assert settings(command.make_context("work-agent", given).params).client_id == "me"


@pytest.mark.parametrize(
    ("config", "words"),
    [("{url: 'hub:1', caData: Y2E=}", "token: not set"), ("{url: 'hub:1', token: t}", "caFile: not set"), ("{}", "url: not set")],
)
def test_a_grpc_configuration_that_cannot_be_used_is_refused_by_its_key(files: Path, config: str, words: str) -> None:
    result = CliRunner().invoke(command, over_grpc(files, config))
    assert result.exit_code != 0
    assert words in result.output
    assert "config.yaml" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--spoke-cluster-name NAME"),
        (["--spoke-cluster-name=No_Name"], "'No_Name' cannot name a cluster"),
        (["--spoke-cluster-name=c", "--status-sync-interval=0"], "--status-sync-interval"),
        (["--spoke-cluster-name=c", "--workload-source-driver=mqtt"], "'mqtt' is not supported"),
        (["--spoke-cluster-name=c", "--workers=0"], "--workers"),
        (["--spoke-cluster-name=c", "--executor-mode=lax"], "--executor-mode"),
        (["--spoke-cluster-name=c", "--feature-gates=Nothing=true"], "Nothing is no feature gate"),
        (["--spoke-cluster-name=c", "--appliedmanifestwork-eviction-grace-period=soon"], "'soon' is no duration"),
    ],
)
def test_a_wrong_value_is_refused_by_its_flag(files: Path, arguments: list[str], words: str) -> None:
    given = ["--kubeconfig", str(files / "spoke"), "--hub-kubeconfig", str(files / "hub"), *arguments]
    result = CliRunner().invoke(command, given)
    assert result.exit_code != 0
    assert words in result.output


def test_without_a_hub_it_says_what_it_needs(files: Path) -> None:
    result = CliRunner().invoke(command, ["--kubeconfig", str(files / "spoke"), "--spoke-cluster-name=c"])
    assert result.exit_code != 0
    assert "--hub-kubeconfig FILE" in result.output
