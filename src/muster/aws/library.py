"""botocore, isolated from the process's environment. Importing this module imports it, which takes a fifth of a second: for
threads.

botocore only encodes AWS' requests and decodes responses: a client here has no credentials, signs nothing, retries nothing, and
sends by the given function only. A session of botocore reads many variables and files of the process; here every variable of a
session has its default instead.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import botocore
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.httpsession import get_cert_path
from botocore.loaders import create_loader
from botocore.session import Session

from muster.aws.transport import HttpAnswer

__all__ = ["BUNDLE", "BotoCoreError", "ClientError", "Send", "profile_session", "service_client"]

Send = Callable[[str, str, Mapping[str, str], bytes], HttpAnswer]
"""(method, URL, headers, body). Raises NoAnswer."""

BUNDLE: Final[str] = get_cert_path(True)
"""The CAs that AWS' own programs trust."""
_FILES: Final = ("config_file", "credentials_file")
_MODELS: Final = create_loader()
"""Shared by all clients of the process, possibly of many pods: the service models are parsed once."""


def service_client(service: str, region: str, endpoint: str, send: Send) -> Any:
    """A client of a service whose requests are sent by `send`, unsigned; `endpoint` replaces AWS' own."""
    defaults = {name: (None, None, default, None) for name, (_, _, default, _) in Session.SESSION_VARIABLES.items()}
    session = Session(session_vars={**defaults, **dict.fromkeys(_FILES, (None, None, None, None))})
    session.register_component("data_loader", _MODELS)
    config = Config(
        signature_version=botocore.UNSIGNED,
        retries={"mode": "standard", "total_max_attempts": 1},
        ignore_configured_endpoint_urls=True,
        proxies={},
        user_agent_appid="muster",
    )
    client = session.create_client(service, region_name=region, endpoint_url=endpoint or None, verify=True, config=config)

    def sent(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        body = request.body or b""
        headers = {name: value.decode() if isinstance(value, bytes) else str(value) for name, value in request.headers.items()}
        answer = send(request.method, request.url, headers, body.encode() if isinstance(body, str) else bytes(body))
        return AWSResponse(request.url, answer.status, answer.headers, _Content(answer.content))

    client.meta.events.register("before-send", sent)
    return client


def profile_session(environ: Mapping[str, str]) -> Session:
    """A user's profiles, with their programs and logins; metadata services of instances and containers are not used."""
    variables = {
        name: (setting, None, _first_set(variable, environ) or default, conversion)
        for name, (setting, variable, default, conversion) in Session.SESSION_VARIABLES.items()
    }
    session = Session(session_vars=variables)
    resolver = session.get_component("credential_provider")
    for provider in ("env", "assume-role-with-web-identity", "ec2-credentials-file", "boto-config", "container-role", "iam-role"):
        resolver.remove(provider)
    return session


def _first_set(variables: str | list[str] | None, environ: Mapping[str, str]) -> str:
    names = [variables] if isinstance(variables, str) else variables or []
    return next((environ[name] for name in names if environ.get(name)), "")


class _Content(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()
