"""`muster policy`: what its options, variables and files become, and the command lines of upstream's addon controller."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from muster.cli import policy, policy_uninstall, programs
from muster.cli.muster import main
from muster.cli.process import FoundCluster, ProcessEnv
from muster.machinery.objects import ObjectKey
from muster.policy.names import POLICIES_NAMESPACE
from muster.runtime.client import ClientConfig

UPSTREAM = (
    "--enable-lease=true",
    "--cluster-name=cluster1",
    "--leader-elect=false",
    "--log-encoder=console",
    "--log-level=error",
    "--v=-1",
    "--evaluation-concurrency=5",
    "--client-max-qps=75",
    "--client-burst=111",
    "--tls-min-version=VersionTLS13",
    "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "--health-probe-bind-address=:8081",
    "--secure-metrics=true",
    "--metrics-bind-address=0.0.0.0:8443",
    "--enable-operator-policy=true",
    "--operator-policy-default-namespace=openshift-operators",
    "--standalone-hub-templates-kubeconfig-path=/var/run/standalone-hub-templating/kubeconfig",
)
"""What governance-policy-addon-controller renders on OpenShift with both addons enabled."""


def environment(**environ: str) -> ProcessEnv:
    found = FoundCluster(ClientConfig("https://managed.example", namespace="agents"), in_pod=True)
    return ProcessEnv(environ=environ, cluster=found)


def settings(*arguments: str, here: ProcessEnv | None = None, **environ: str) -> policy.Settings:
    context = policy.command.make_context("controller", list(arguments))
    return policy.settings(context.params, here or environment(**{"WATCH_NAMESPACE": "cluster1"} | environ))


def test_the_command_line_of_upstreams_addon_controller_is_understood() -> None:
    found = settings(*UPSTREAM, OPERATOR_NAME="config-policy-controller", POD_NAME="x")
    options = found.options
    assert options.cluster_name == "cluster1"
    assert options.configuration.namespaces == ("cluster1", POLICIES_NAMESPACE)
    assert options.configuration.concurrency == 5
    assert options.operators is not None
    assert options.operators.default_namespace == "openshift-operators"
    assert options.deployment == ObjectKey("agents", "config-policy-controller")
    assert options.lease_namespace == found.namespace == "agents"
    assert not found.elect
    assert found.hub == Path("/var/run/standalone-hub-templating/kubeconfig")
    assert (found.health, found.metrics, found.secure) == (("0.0.0.0", 8081), ("0.0.0.0", 8443), True)
    assert found.certificate == Path("/var/run/metrics-cert")


def test_without_flags_it_is_as_upstreams() -> None:
    found = settings()
    assert found.options.cluster_name == "acm-managed-cluster"
    assert found.options.configuration.evaluation_backoff == 5
    assert found.options.configuration.concurrency == 2
    assert found.options.operators is None
    assert found.options.lease_namespace == ""
    assert found.elect
    assert (found.health, found.metrics, found.secure) == (("0.0.0.0", 8081), ("localhost", 8383), False)
    assert found.hub is None
    assert found.target is None


@pytest.mark.parametrize(
    ("arguments", "watched", "expected"),
    [
        ((), "cluster1", ("cluster1", POLICIES_NAMESPACE)),
        ((), "", ("",)),
        ((), POLICIES_NAMESPACE, (POLICIES_NAMESPACE,)),
        (("--enable-ocm-policy-namespace=false",), "cluster1", ("cluster1",)),
    ],
)
def test_where_policies_are(arguments: tuple[str, ...], watched: str, expected: tuple[str, ...]) -> None:
    assert settings(*arguments, WATCH_NAMESPACE=watched).options.configuration.namespaces == expected


def test_in_hosted_mode_only_the_namespace_of_the_cluster_is_read(kubeconfig: Path) -> None:
    found = settings(f"--target-kubeconfig-path={kubeconfig}")
    assert found.options.configuration.namespaces == ("cluster1",)
    assert found.target is not None
    assert found.target.config.server == "https://127.0.0.1:1"


def test_the_namespace_of_policies_has_to_be_named() -> None:
    context = policy.command.make_context("controller", [])
    with pytest.raises(click.UsageError, match="WATCH_NAMESPACE"):
        policy.settings(context.params, environment())
    with pytest.raises(click.UsageError, match="only one namespace"):
        settings(WATCH_NAMESPACE="a,b")


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--health-probe-bind-address=8081", "--health-probe-bind-address"),
        ("--metrics-bind-address=localhost", "--metrics-bind-address"),
        ("--tls-min-version=1.3", "VersionTLS13"),
        ("--tls-cipher-suites=ROT13", "no such cipher suite"),
        ("--evaluation-concurrency=0", "--evaluation-concurrency"),
        ("--leader-elect=perhaps", "--leader-elect"),
        ("--default-terminating-namespace-inclusion=Maybe", "--default-terminating-namespace-inclusion"),
    ],
)
def test_a_flag_that_is_wrong_is_named(flag: str, problem: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        settings(flag)
    assert problem in refused.value.format_message()


def test_metrics_may_be_served_nowhere() -> None:
    assert settings("--metrics-bind-address=0").metrics is None


def test_denied_functions_add_up() -> None:
    found = settings("--template-function-denylist=env,getHostByName", "--template-function-denylist=lookup")
    assert found.options.configuration.denylist == {"env", "getHostByName", "lookup"}


@pytest.mark.parametrize(
    ("written", "expected"), [("--leader-elect", True), ("--leader-elect=true", True), ("--leader-elect=false", False)]
)
def test_booleans_are_written_as_in_go(written: str, expected: bool) -> None:
    assert settings(written).elect is expected


def test_outside_a_cluster_nobody_waits_for_a_lease(kubeconfig: Path) -> None:
    here = replace(environment(), environ={"WATCH_NAMESPACE": "c", "OPERATOR_NAME": "x"}, cluster=None)
    found = settings(f"--kubeconfig={kubeconfig}", "--enable-lease", here=here)
    assert found.options.lease_namespace == ""
    assert found.options.deployment is None


@pytest.mark.parametrize(
    "words",
    [
        ("policy",),
        ("policy", "trigger-uninstall"),
        ("config-policy-controller", "controller"),
        ("config-policy-controller", "trigger-uninstall"),
    ],
)
def test_a_container_may_call_it_by_either_name(words: tuple[str, ...]) -> None:
    assert words in programs.programs()


def test_commands_below_it_do_not_start_a_controller() -> None:
    result = CliRunner().invoke(main, ["policy", "trigger-uninstall", "--help"])
    assert result.exit_code == 0
    assert "--policy-namespace" in result.output
    assert CliRunner().invoke(policy.config_policy_controller, ["controller", "--help"]).exit_code == 0


def test_the_uninstall_command_of_upstreams_addon_controller_is_understood() -> None:
    arguments = [
        "--deployment-name=config-policy-controller",
        "--deployment-namespace=agents",
        "--policy-namespace=cluster1",
        "--additional-namespace=open-cluster-management-policies",
        "--v=0",
    ]
    context = policy_uninstall.command.make_context("trigger-uninstall", arguments)
    found: Any = policy_uninstall.settings(context.params, environment())
    assert found.deployment == ObjectKey("agents", "config-policy-controller")
    assert found.namespaces == ("cluster1", POLICIES_NAMESPACE)
    assert found.timeout == 300
