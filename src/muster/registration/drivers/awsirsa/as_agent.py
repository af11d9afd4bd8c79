"""A kubeconfig with the agents' AWS identity, for an administrator of the managed cluster outside of its pods.

An agent's pod has a token of its service account for AWS. A user who may request such tokens from the managed cluster can assume
the same roles: first the managed cluster's role, with it the hub's. AWS sees no difference, and no AWS permissions are needed. The
resulting kubeconfig has a token that is valid for some minutes, in place of the exec plugin that makes tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.aws.client import Threads
from muster.aws.errors import AwsError
from muster.aws.policies import AUDIENCE
from muster.aws.process_env import CA_BUNDLE, ENDPOINT_URL, REGION, ROLE_ARN, TOKEN_FILE, ProcessEnv
from muster.aws.token_issuer import TokenIssuer, TokenRequest
from muster.kube import yaml
from muster.registration.drivers.errors import Unfit

if TYPE_CHECKING:
    from muster.aws.role_names import RoleNames
    from muster.aws.tokens import Token
    from muster.registration.drivers.interfaces import AccountToken

_TOKEN: Final = Path("/agents-token")
"""Not a file: the token that the variable points to is passed by the caller."""


async def agents_token(pair: RoleNames, account_token: AccountToken, process_env: ProcessEnv) -> Token:
    """A token for the hub, as a cluster's agents would sign it.

    Raises AwsError, whose operation names the role that failed, and KubeError.
    """
    token = (await account_token(AUDIENCE)).encode()
    where = {name: value for name, value in process_env.environ.items() if name == CA_BUNDLE or name.startswith(ENDPOINT_URL)}
    agents = {ROLE_ARN: pair.managed_role_arn, TOKEN_FILE: str(_TOKEN), REGION: pair.managed.region}
    as_agent = ProcessEnv({**where, **agents}, lambda path: token if path == _TOKEN else process_env.read(path))
    threads = Threads()
    try:
        return await TokenIssuer(as_agent, threads).issue(TokenRequest(pair.hub.region, pair.hub.name, pair.hub_role_arn))
    finally:
        threads.close()


def with_token(kubeconfig: bytes, token: Token) -> bytes:
    """The agents' kubeconfig with a token instead of the exec plugin. Raises Unfit."""
    try:
        document = yaml.load(kubeconfig)
        document["users"][0]["user"] = {"token": token.text}
    except (yaml.YAMLError, LookupError, TypeError):
        raise Unfit("the agents' kubeconfig cannot be read") from None
    return yaml.dump(document).encode()


async def signed_kubeconfig(kubeconfig: bytes, pair: RoleNames, account_token: AccountToken, process_env: ProcessEnv) -> bytes:
    """The agents' kubeconfig with a fresh token. Raises Unfit and KubeError."""
    try:
        return with_token(kubeconfig, await agents_token(pair, account_token, process_env))
    except AwsError as error:
        raise Unfit(f"AWS refused the agents: {error}") from None
