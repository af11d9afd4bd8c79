"""What is installed around operators: up to date in `deploy/`, restricted pods, no more rights than are handed on."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.addon.framework.rules import AGGREGATED_ROLE
from muster.api import Document
from muster.operator.bundle import (
    CLUSTER_MANAGER_OPERATOR,
    KLUSTERLET_OPERATOR,
    BundleOptions,
    Operator,
    bundle,
    files,
    main,
    operator_deployment,
)
from muster.operator.names import PULL_SECRET, chosen_image, image
from muster.runtime.client.builtin import SECRETS
from muster.work.agent.install import CLUSTER_RULES

DEPLOY = Path(__file__).parents[3] / "deploy"
BOTH = pytest.mark.parametrize("operator", [CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR], ids=lambda one: one.name)


def test_the_files_in_deploy_are_up_to_date() -> None:
    assert main(["--check", str(DEPLOY)]) == 0


def test_a_stale_file_is_named_and_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    stale = tmp_path / "cluster-manager/operator.yaml"
    stale.write_text("old")
    assert main(["--check", str(tmp_path)]) == 1
    assert str(stale) in capsys.readouterr().err
    assert stale.read_text() == "old", "a check changes nothing"
    assert main([str(tmp_path)]) == 0
    assert stale.read_text() == files()["cluster-manager/operator.yaml"]


def test_without_a_directory_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--check"])
    assert end.value.code == 2
    assert "usage: python -m muster.operator.bundle" in capsys.readouterr().err


@BOTH
def test_no_operator_may_everything(operator: Operator) -> None:
    assert "*" not in {part for rule in operator.rules for part in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])}


def test_nothing_lets_the_operator_of_hubs_rise_above_itself() -> None:
    """It may bind the one role that has what administrators label for addons: whoever runs as the addon manager has that anyway."""
    rising = [rule for rule in CLUSTER_MANAGER_OPERATOR.rules if {"escalate", "bind", "impersonate"} & set(rule["verbs"])]
    assert [(rule["verbs"], rule["resourceNames"]) for rule in rising] == [(["bind"], [AGGREGATED_ROLE])]


def test_the_operator_of_managed_clusters_can_rise_only_as_the_work_agent_that_it_makes_can() -> None:
    rising = [rule for rule in KLUSTERLET_OPERATOR.rules if {"escalate", "bind", "impersonate"} & set(rule["verbs"])]
    assert rising == [rule for rule in CLUSTER_RULES if {"escalate", "bind", "impersonate"} & set(rule["verbs"])]
    assert {resource for rule in rising for resource in rule["resources"]} == {"roles", "clusterroles", "serviceaccounts"}


def test_the_operator_of_hubs_reads_secrets_by_name_only() -> None:
    reading = [rule for rule in CLUSTER_MANAGER_OPERATOR.rules if "secrets" in rule["resources"] and "get" in rule["verbs"]]
    assert reading
    assert all(rule["resourceNames"] for rule in reading)


@BOTH
def test_pods_are_restricted(operator: Operator) -> None:
    pod = operator_deployment(operator, BundleOptions())["spec"]["template"]["spec"]
    container: Document = pod["containers"][0]
    assert pod["securityContext"] == {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {"POD_NAME", "POD_NAMESPACE", "POD_IP"} <= {one["name"] for one in container["env"]}


def test_a_pull_credential_becomes_a_secret_that_pods_use() -> None:
    documents = bundle(CLUSTER_MANAGER_OPERATOR, BundleOptions(pull_credential=b"{}"))
    secrets = [document for resource, document in documents if resource is SECRETS]
    assert [one["metadata"]["name"] for one in secrets] == [PULL_SECRET]
    assert "pull_credential" not in repr(BundleOptions(pull_credential=b"{}"))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", "own"),
        ("quay.io/open-cluster-management/registration", "own"),
        ("quay.io/open-cluster-management/registration:v1.1.0", "own"),
        ("mirror.example/muster:1", "mirror.example/muster:1"),
    ],
)
def test_upstreams_images_stand_for_ours(given: str, meant: str) -> None:
    assert chosen_image(given, "own") == meant


def test_an_image_may_come_from_elsewhere_and_be_of_another_version() -> None:
    assert image("mirror.example/ocm/", "2.0") == "mirror.example/ocm/muster:2.0"
    assert image().startswith("muster:")
