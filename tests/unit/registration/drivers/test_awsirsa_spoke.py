"""The agent's side of AWS registration by itself: its options, its marks, its kubeconfig, and what it makes of a stored one."""

from __future__ import annotations

from typing import Any

import pytest

from muster.aws.process_env import ProcessEnv
from muster.kube import yaml
from muster.machinery.metrics import Metrics
from muster.registration.drivers.awsirsa.spoke import AwsIrsaSpoke
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.errors import DriverConfigError
from muster.registration.drivers.interfaces import SpokeContext, is_derived
from muster.registration.names import DRIVER_ANNOTATION, AgentIdentity
from tests.support.fake_clock import FakeClock

HUB = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
ARN = "arn:aws:eks:eu-west-1:222222222222:cluster/managed-0"
SUFFIX = "a21fefa5047b57e2e7876e799a5595de"
ROLE = f"arn:aws:iam::111111111111:role/ocm-hub-{SUFFIX}"
OPTIONS = {"hub-cluster-arn": [HUB], "managed-cluster-arn": [ARN]}
ADDRESS = HubAddress("hub", "https://hub.example", b"ca")


def spoke(**options: Any) -> AwsIrsaSpoke:
    given = {**OPTIONS, **{name.replace("_", "-"): [value] for name, value in options.items()}}
    context = SpokeContext(AgentIdentity("c1", "a"), FakeClock(), lambda: 0.5, Metrics(), given, process_env=ProcessEnv())
    return AwsIrsaSpoke(context)


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("hub-cluster-arn", "", "not given"),
        ("managed-cluster-arn", "", "not given"),
        ("hub-cluster-arn", "arn:aws:eks:us-west-2:1:cluster/hub-0", "12 digits"),
        ("managed-cluster-arn", ARN + "\n", "not the ARN"),
        ("managed-cluster-arn", ARN + "' or '1", "not the ARN"),
        ("managed-cluster-role-suffix", "0" * 32, f"expected {SUFFIX}"),
        ("token-command", "/bin/sh", "neither muster nor aws"),
    ],
)
def test_options_that_do_not_do_are_named_with_what_is_expected(option: str, value: str, complaint: str) -> None:
    with pytest.raises(DriverConfigError) as refusal:
        spoke(**{option.replace("-", "_"): value})
    assert refusal.value.option == option
    assert complaint in refusal.value.problem


def test_a_new_cluster_gets_all_marks_whatever_the_command_line_says() -> None:
    given = {"metadata": {"name": "c1", "annotations": {"agent.open-cluster-management.io/managed-cluster-arn": "x", "kept": "1"}}}
    annotations = spoke(managed_cluster_role_suffix=SUFFIX).decorate(given)["metadata"]["annotations"]
    assert annotations == {
        "kept": "1",
        "eks-managed-cluster-arn": ARN,
        "agent.open-cluster-management.io/managed-cluster-arn": ARN,
        "agent.open-cluster-management.io/managed-cluster-iam-role-suffix": SUFFIX,
    }


def test_an_existing_cluster_gets_what_is_missing_and_nobody_elses_mark_is_changed() -> None:
    mine = {"metadata": {"name": "c1", "uid": "u", "annotations": {"eks-managed-cluster-arn": ARN, DRIVER_ANNOTATION: "grpc"}}}
    annotations = spoke().decorate(mine)["metadata"]["annotations"]
    assert len(annotations) == 3
    assert DRIVER_ANNOTATION not in annotations
    foreign = {"metadata": {"name": "c1", "uid": "u", "annotations": {"eks-managed-cluster-arn": "another"}}}
    assert spoke().decorate(foreign) == foreign
    complete = {"metadata": {"name": "c1", "uid": "u", "annotations": annotations}}
    assert spoke().decorate(complete) == complete


def test_the_way_to_the_hub_is_the_same_each_time_and_the_driver_is_content_with_it() -> None:
    one = spoke()
    way = one.way_to(ADDRESS)
    assert way == spoke().way_to(ADDRESS)
    assert one.problem(way) == ""
    assert is_derived(one)
    document = yaml.load(way["kubeconfig"])
    assert document["clusters"][0]["cluster"]["server"] == "https://hub.example"


@pytest.mark.parametrize(
    "args",
    [
        ["--region", "us-west-2", "eks", "get-token", "--cluster-name", "hub-0", "--output", "json", "--role", ROLE],
        ["eks", "get-token", "--cluster-name", "hub-0", "--role-arn", ROLE, "--region", "us-west-2"],
    ],
)
def test_a_kubeconfig_for_the_same_role_is_as_good_whoever_wrote_it(args: list[str]) -> None:
    assert spoke().problem({"kubeconfig": kubeconfig({"exec": {"command": "/awscli/dist/aws", "args": args}})}) == ""


@pytest.mark.parametrize(
    "user",
    [
        {"client-certificate": "tls.crt", "client-key": "tls.key"},
        {"exec": {"command": "muster", "args": []}},
        {"exec": {"command": "muster", "args": "--role-arn"}},
        {"exec": {"command": "muster", "args": ["--region", "us-west-2", "--cluster-name", "hub-0", "--role-arn", ROLE + "x"]}},
        {"exec": {"command": "muster", "args": ["--region", "us-west-2", "--cluster-name", "hub-1", "--role-arn", ROLE]}},
        {"exec": {"command": "muster", "args": ["--region", "us-east-1", "--cluster-name", "hub-0", "--role-arn", ROLE]}},
        None,
    ],
)
def test_any_other_kubeconfig_is_no_credential_of_ours(user: Any) -> None:
    assert ROLE in spoke().problem({"kubeconfig": kubeconfig(user)})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"users: 1"])
def test_what_is_no_kubeconfig_is_said_and_nothing_worse_happens(content: bytes) -> None:
    assert spoke().problem({"kubeconfig": content})


def test_nothing_stored_is_a_cluster_that_was_not_accepted_yet() -> None:
    assert spoke().problem({}) == "the hub has not accepted this cluster yet"


def kubeconfig(user: Any) -> bytes:
    return yaml.dump({"users": [{"name": "default-auth", "user": user}]}).encode()
