"""`muster aws-token`: prints a token by which EKS authenticates an AWS identity, as `aws eks get-token` does.

It is the exec plugin in kubeconfigs of agents that register with AWS identities. In a process of its own it calls AWS each time. On
a Muster node the programs of pods are tasks, and their exec plugins run in process too (`credential_programs`): `muster aws-token`,
and `aws` for kubeconfigs that upstream's agents or the AWS CLI wrote. Each pod has its own AWS session there, which is used for
many tokens and discarded with the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.loop import run_loop

if TYPE_CHECKING:
    from muster.aws.client import Threads
    from muster.aws.process_env import ProcessEnv
    from muster.aws.token_issuer import TokenIssuer, TokenRequest
    from muster.machinery.confinement import CredentialProgram

NAME: Final = "aws-token"
_AWS_SUBCOMMANDS: Final = ("eks", "get-token")
MOST_ISSUERS: Final = 8
"""Limit for one pod, whose kubeconfigs may set different variables for their exec plugins."""


@click.command(
    NAME,
    short_help="Print an authentication token for an EKS cluster.",
    epilog=examples(
        "muster aws-token --region us-west-2 --cluster-name hub",
        "muster aws-token --region us-west-2 --cluster-name hub --role-arn arn:aws:iam::123456789012:role/reader",
    ),
)
@click.option("--region", default="", help="AWS region of the EKS cluster.  [default: $AWS_REGION]")
@click.option("--cluster-name", "--cluster-id", "cluster", required=True, help="Name of the EKS cluster.")
@click.option("--role-arn", "--role", "role_arn", default="", help="ARN of an IAM role to assume before the token is signed.")
@click.option(
    "--output",
    type=click.Choice(["json"]),
    default="json",
    show_default=True,
    help="Output format; accepted for compatibility with the AWS CLI.",
)
def command(**options: Any) -> None:
    """Print an authentication token for an EKS cluster, for use as the exec plug-in of a kubeconfig.

    The AWS credentials come from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_ROLE_ARN and
    AWS_WEB_IDENTITY_TOKEN_FILE, or a profile.
    """
    echo(run_loop(_print(options)).decode().rstrip())


async def _print(options: dict[str, Any]) -> bytes:
    from muster.aws.client import Threads
    from muster.aws.errors import AwsError
    from muster.aws.process_env import found
    from muster.aws.token_issuer import TokenIssuer

    process_env, threads = found(), Threads(1)
    try:
        return await _printed(TokenIssuer(process_env, threads), process_env, options)
    except AwsError as error:
        raise click.ClickException(str(error)) from None
    finally:
        threads.close()


async def _printed(issuer: TokenIssuer, process_env: ProcessEnv, options: dict[str, Any]) -> bytes:
    from muster.aws.tokens import exec_credential, exec_version

    token = await issuer.issue(_request(options, process_env))
    return exec_credential(token, exec_version(process_env.environ))


def _request(options: dict[str, Any], process_env: ProcessEnv) -> TokenRequest:
    from muster.aws.arns import BadArn, parse_role_arn
    from muster.aws.token_issuer import TokenRequest

    region = options["region"] or process_env.region
    if not region:
        raise click.UsageError("--region: not given, and AWS_REGION is not set")
    try:
        parse_role_arn(options["role_arn"]) if options["role_arn"] else None
    except BadArn as error:
        raise click.UsageError(f"--role-arn: {error}") from None
    return TokenRequest(region, options["cluster"], options["role_arn"])


def credential_programs() -> dict[str, CredentialProgram]:
    """The exec plugins that a node offers to the kubeconfigs of its pods, by command."""
    tokens = PodTokens()
    return {"muster": tokens.muster, "aws": tokens.aws}


class PodTokens:
    """The output of pods' exec plugins. Threads are shared by the pods of a node, sessions are not."""

    def __init__(self) -> None:
        self._threads: Threads | None = None

    async def muster(self, arguments: Sequence[str], environ: Mapping[str, str]) -> bytes:
        from muster.machinery.confinement import ProgramFailed

        if not arguments or arguments[0] != NAME:
            raise ProgramFailed(f"of muster's commands only {NAME} is a credential program")
        return await self._run(arguments[1:], environ)

    async def aws(self, arguments: Sequence[str], environ: Mapping[str, str]) -> bytes:
        """`aws --region R eks get-token …`: the same options around two words."""
        from muster.machinery.confinement import ProgramFailed

        at = next((at for at in range(len(arguments)) if tuple(arguments[at : at + 2]) == _AWS_SUBCOMMANDS), None)
        if at is None:
            raise ProgramFailed("of aws' commands only eks get-token is there")
        return await self._run([*arguments[:at], *arguments[at + 2 :]], environ)

    async def _run(self, arguments: Sequence[str], environ: Mapping[str, str]) -> bytes:
        from dataclasses import replace

        from muster.aws.errors import AwsError
        from muster.aws.process_env import found
        from muster.machinery.confinement import ProgramFailed

        process_env = replace(found(), environ=dict(environ))
        try:
            options = command.make_context(NAME, list(arguments)).params
            return await _printed(self._issuer(process_env), process_env, options)
        except click.ClickException as error:
            raise ProgramFailed(error.format_message()) from None
        except click.exceptions.Exit:
            raise ProgramFailed("prints no credential when it is asked for help") from None
        except AwsError as error:
            raise ProgramFailed(str(error)) from error

    def _issuer(self, process_env: ProcessEnv) -> TokenIssuer:
        from muster.aws.client import Threads
        from muster.aws.token_issuer import TokenIssuer
        from muster.machinery.confinement import current

        if self._threads is None:
            self._threads = Threads()
        pod = current()
        if pod is None:
            return TokenIssuer(process_env, self._threads)
        issuers: dict[tuple[tuple[str, str], ...], TokenIssuer] = pod.held.setdefault(NAME, {})
        # A kubeconfig may set another identity or other endpoints of AWS for its exec plugin.
        who = tuple(sorted((name, value) for name, value in process_env.environ.items() if _matters(name)))
        if who not in issuers:
            if len(issuers) >= MOST_ISSUERS:
                issuers.clear()
            issuers[who] = TokenIssuer(process_env, self._threads)
        return issuers[who]


def _matters(variable: str) -> bool:
    return variable.startswith("AWS_") or variable.lower() in ("http_proxy", "https_proxy", "no_proxy")
