"""`muster aws-token`, as a command and as the program that kubeconfigs of pods name."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli.aws_token import credential_programs
from muster.cli.muster import main
from muster.machinery.confinement import Confinement, Network, ProgramFailed, confined
from tests.unit.aws.played import played_aws, refusal, result, session

ROLE = "arn:aws:iam::111111111111:role/ocm-hub-1"
OWN = "arn:aws:iam::222222222222:role/ocm-managed-cluster-1"
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "hush"}
ARGUMENTS = ["--region", "us-west-2", "--cluster-name", "hub-0", "--output", "json"]


class Open(Network):
    def may_dial(self, name, address, port) -> bool:
        return True

    def remedy(self, name, port) -> str:
        return ""

    def opened(self, address, port) -> None: ...

    def closed(self, address, port) -> None: ...


def answering(asked):
    action = asked.form["Action"]
    key = "ASIAHUB" if action == "AssumeRole" else "ASIAOWN"
    return 200, result(action, session("2099-01-01T00:00:00Z", key))


def pod_of(tmp_path: Path, environ: dict[str, str], name: str = "agent") -> Confinement:
    volume = tmp_path / name
    volume.mkdir()
    (volume / "token").write_text(f"token of {name}")
    mounts = {"/var/run/secrets/eks.amazonaws.com/serviceaccount": volume}
    variables = {
        "AWS_ROLE_ARN": OWN,
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
        **environ,
    }
    return Confinement(
        pod=f"ns/{name}", ip="127.1.1.1", environ=variables, mounts=mounts, scratch=tmp_path / "scratch", network=Open()
    )


def signer_of(printed: bytes) -> str:
    text = json.loads(printed)["status"]["token"].removeprefix("k8s-aws-v1.")
    url = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    return url.partition("X-Amz-Credential=")[2].partition("%2F")[0]


def test_the_command_prints_a_credential_for_whoever_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    info = json.dumps({"apiVersion": "client.authentication.k8s.io/v1"})
    done = CliRunner(env={**KEYS, "KUBERNETES_EXEC_INFO": info}).invoke(main, ["aws-token", *ARGUMENTS])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.output)
    assert (printed["kind"], printed["apiVersion"]) == ("ExecCredential", "client.authentication.k8s.io/v1")
    assert signer_of(done.output.encode()) == "AKID"
    assert "hush" not in done.output


def test_the_command_takes_on_a_role_and_says_what_aws_says_against_it() -> None:
    with played_aws(answering) as aws:
        runner = CliRunner(env={**KEYS, **aws.environ})
        done = runner.invoke(main, ["aws-token", *ARGUMENTS, "--role-arn", ROLE])
        assert (done.exit_code, signer_of(done.output.encode())) == (0, "ASIAHUB")
        aws.answer = lambda asked: (403, refusal("AccessDenied", "not yours"))
        done = runner.invoke(main, ["aws-token", *ARGUMENTS, "--role", ROLE])
    assert done.exit_code == 1
    assert "Error: assume_role: AccessDenied: not yours" in done.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--cluster-name", "hub-0"], "--region"),
        (["--region", "us-west-2"], "--cluster-name"),
        ([*ARGUMENTS, "--role-arn", "ocm-hub-1"], "--role-arn"),
        ([*ARGUMENTS[:4], "--output", "text"], "--output"),
    ],
)
def test_what_is_missing_or_wrong_is_named(arguments: list[str], complaint: str) -> None:
    done = CliRunner(env={**KEYS, "AWS_REGION": "", "AWS_DEFAULT_REGION": ""}).invoke(main, ["aws-token", *arguments])
    assert done.exit_code == 2
    assert complaint in done.output


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("muster", ["aws-token", *ARGUMENTS, "--role-arn", ROLE]),
        ("aws", ["--region", "us-west-2", "eks", "get-token", "--cluster-name", "hub-0", "--output", "json", "--role", ROLE]),
    ],
)
async def test_a_pods_tokens_are_the_roles_and_cost_one_session(command: str, arguments: list[str], tmp_path: Path) -> None:
    with played_aws(answering) as aws, confined(pod_of(tmp_path, aws.environ)) as _:
        program = credential_programs()[command]
        variables = {**pod_of(tmp_path, aws.environ, "other").environ}
        for _ in range(3):
            assert signer_of(await program(arguments, variables)) == "ASIAHUB"
    asked = [one.form for one in aws.asked]
    assert [one["Action"] for one in asked] == ["AssumeRoleWithWebIdentity", "AssumeRole"]
    assert (asked[0]["WebIdentityToken"], asked[0]["RoleArn"]) == ("token of agent", OWN)
    assert (asked[1]["RoleArn"], asked[1]["RoleSessionName"]) == (ROLE, "EKSGetTokenAuth")


async def test_pods_share_no_session_though_they_share_a_node(tmp_path: Path) -> None:
    with played_aws(answering) as aws:
        program = credential_programs()["muster"]
        for name in ("one", "two"):
            pod = pod_of(tmp_path, aws.environ, name)
            with confined(pod):
                await program(["aws-token", *ARGUMENTS], pod.environ)
    assert [one.form["WebIdentityToken"] for one in aws.asked] == ["token of one", "token of two"]


async def test_a_kubeconfig_that_says_its_program_is_somebody_else_gets_another_session(tmp_path: Path) -> None:
    with played_aws(answering) as aws:
        program, pod = credential_programs()["muster"], pod_of(tmp_path, aws.environ)
        with confined(pod):
            await program(["aws-token", *ARGUMENTS], pod.environ)
            printed = await program(["aws-token", *ARGUMENTS], {**pod.environ, **KEYS})
    assert signer_of(printed) == "AKID"


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("muster", ["hub"]),
        ("muster", []),
        ("muster", ["aws-token", "--cluster-name", "hub-0", "--region", ""]),
        ("muster", ["aws-token", "--help"]),
        ("aws", ["s3", "ls"]),
        ("aws", ["eks", "get-token", "--profile", "admin"]),
    ],
)
async def test_nothing_else_is_offered_to_pods(command: str, arguments: list[str], tmp_path: Path) -> None:
    with confined(pod_of(tmp_path, {})), pytest.raises(ProgramFailed):
        await credential_programs()[command](arguments, {})
