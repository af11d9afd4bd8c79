"""AWS' own command line program: its tokens and kubeconfigs are ours, and our local AWS is AWS to it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.aws.arns import parse_cluster_arn
from muster.aws.interfaces import ClusterDescription
from muster.aws.role_names import RoleNames
from muster.fleet.aws import LocalAws
from muster.kube import yaml
from muster.machinery.clock import SYSTEM
from muster.machinery.metrics import Metrics
from muster.registration.drivers.awsirsa.spoke import AwsIrsaSpoke
from muster.registration.drivers.interfaces import SpokeContext
from muster.registration.names import AgentIdentity
from tests.support import peers
from tests.support.local_aws import local_aws
from tests.support.registration import MUSTER

PAIR = RoleNames(
    parse_cluster_arn("arn:aws:eks:us-west-2:111111111111:cluster/hub-0"),
    parse_cluster_arn("arn:aws:eks:us-west-2:222222222222:cluster/managed-0"),
)
GET_TOKEN = ("eks", "get-token", "--cluster-name", "hub-0", "--output", "json")


def aws_cli() -> Path:
    return peers.python_program("awscli", "aws")


class Person:
    """Somebody with keys, at a machine without profiles."""

    def __init__(self, home: Path, **variables: str) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.variables = {"HOME": str(home), "PATH": os.environ["PATH"], "AWS_EC2_METADATA_DISABLED": "true", **variables}

    async def run(self, *command: str | Path) -> str:
        done = await asyncio.to_thread(
            subprocess.run, list(map(str, command)), capture_output=True, text=True, env=self.variables, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def aws(self, *arguments: str) -> str:
        return await self.run(aws_cli(), "--region", "us-west-2", *arguments)


def url_in(printed: str) -> str:
    text = json.loads(printed)["status"]["token"].removeprefix("k8s-aws-v1.")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


def timeless(url: str) -> str:
    return re.sub(r"(X-Amz-(?:Date|Signature))=[^&]*", r"\1=", url)


def user_by(program: str) -> Any:
    """The user entry of an agent's kubeconfig."""
    arns = {"hub-cluster-arn": [str(PAIR.hub)], "managed-cluster-arn": [str(PAIR.managed)]}
    context = SpokeContext(AgentIdentity("c1", "a"), SYSTEM, lambda: 0.5, Metrics(), {**arns, "token-command": [program]})
    return AwsIrsaSpoke(context).kubeconfig_user()


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalAws]:
    async with local_aws(tmp_path / "aws") as running:
        yield running


@pytest.fixture
async def administrator(local: LocalAws, tmp_path: Path) -> Person:
    keys = await local.administrator(PAIR.hub.account)
    return Person(
        tmp_path / "home",
        AWS_ACCESS_KEY_ID=keys.access_key_id,
        AWS_SECRET_ACCESS_KEY=keys.secret_access_key,
        AWS_ENDPOINT_URL=local.url,
        AWS_CA_BUNDLE=str(local.ca_file),
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_token_is_printed_as_aws_prints_it(tmp_path: Path, version: str) -> None:
    """But for the time, and what follows from it: signatures of one moment are compared elsewhere."""
    info = json.dumps({"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "spec": {}})
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "tok/en+=="}
    person = Person(tmp_path / "home", KUBERNETES_EXEC_INFO=info, **keys)
    theirs = await person.aws(*GET_TOKEN)
    ours = await person.run(MUSTER, "aws-token", "--region", "us-west-2", *GET_TOKEN[2:])
    assert timeless(url_in(ours)) == timeless(url_in(theirs))
    unset = re.compile(r'"(expirationTimestamp|token)": "[^"]*"')
    assert unset.sub("", ours).strip() == unset.sub("", theirs).strip()


async def test_a_kubeconfig_is_written_as_aws_writes_it_and_a_role_is_taken_on(local: LocalAws, administrator: Person) -> None:
    described = ClusterDescription(str(PAIR.hub), "https://hub.example", local.ca_pem, "API", "https://issuer.example")
    await local.register_cluster(described)
    written = await administrator.aws("eks", "update-kubeconfig", "--name", "hub-0", "--role-arn", PAIR.hub_role_arn, "--dry-run")
    theirs = yaml.load(written)["users"][0]["user"]
    assert user_by("aws") == theirs
    own = json.loads(await administrator.aws("sts", "get-caller-identity"))["Arn"]
    trust = {"Effect": "Allow", "Principal": {"AWS": own}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    made = json.loads(
        await administrator.aws("iam", "create-role", "--role-name", PAIR.hub_role, "--assume-role-policy-document", document)
    )
    assert made["Role"]["Arn"] == PAIR.hub_role_arn
    tokens = [
        url_in(await administrator.run(aws_cli(), *theirs["exec"]["args"])),
        url_in(await administrator.run(MUSTER, *user_by("muster")["exec"]["args"])),
    ]
    assert all(url.startswith(f"{local.url}/?Action=GetCallerIdentity") for url in tokens)
    assert local.calls.count("sts:AssumeRole") == 2
